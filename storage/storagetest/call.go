package storagetest

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/seed4391e180/runlane/storage"
)

// call is a callback at work. Its methods are those of the transaction, but an
// error that the test does not ask for ends the callback, which returns it.
type call struct {
	context.Context
	tx      storage.Tx
	attempt int // from 1
}

// stopped carries an error out of a callback.
type stopped struct{ err error }

// stop ends the callback with an error.
func (c *call) stop(err error) { panic(stopped{err}) }

func (c *call) must(err error) {
	if err != nil {
		c.stop(err)
	}
}

// want ends the callback with an error unless ok.
func (c *call) want(ok bool, format string, args ...any) {
	if !ok {
		c.stop(fmt.Errorf("in attempt %d: %s", c.attempt, fmt.Sprintf(format, args...)))
	}
}

func (c *call) get(key storage.Key, mode ...storage.ReadMode) (storage.Record, bool) {
	rec, found, err := c.tx.Get(c, key, mode...)
	c.must(err)
	return rec, found
}

func (c *call) getMany(keys ...storage.Key) map[storage.Key]storage.Record {
	found, err := c.tx.GetMany(c, keys)
	c.must(err)
	return found
}

func (c *call) peek(keys ...storage.Key) map[storage.Key]storage.Record {
	found, err := c.tx.Peek(c, keys)
	c.must(err)
	return found
}

func (c *call) assume(rec storage.Record) (storage.Record, bool) {
	now, found, err := c.tx.Assume(c, rec)
	c.must(err)
	return now, found
}

func (c *call) assumeAbsent(key storage.Key) (storage.Record, bool) {
	now, found, err := c.tx.AssumeAbsent(c, key)
	c.must(err)
	return now, found
}

func (c *call) query(q storage.Query) storage.Page {
	page, err := c.tx.Query(c, q)
	c.must(err)
	return page
}

func (c *call) now() time.Time {
	now, err := c.tx.Now(c)
	c.must(err)
	return now
}

func (c *call) create(rec storage.Record)  { c.must(c.tx.Create(c, rec)) }
func (c *call) replace(rec storage.Record) { c.must(c.tx.Replace(c, rec)) }
func (c *call) delete(key storage.Key)     { c.must(c.tx.Delete(c, key)) }
func (c *call) wake(topic string)          { c.must(c.tx.Wake(topic)) }

// append appends to a stream of the environment env.
func (c *call) append(stream string, items ...string) {
	c.must(c.tx.Append(c, headOf(stream), rawItems(items)...))
}

func rawItems(items []string) []json.RawMessage {
	var all []json.RawMessage
	for _, item := range items {
		all = append(all, json.RawMessage(item))
	}
	return all
}

// put reads the record's key and then creates or replaces it.
func (c *call) put(rec storage.Record) {
	if _, found := c.get(rec.Key); found {
		c.replace(rec)
	} else {
		c.create(rec)
	}
}

// remove reads a key and then deletes it.
func (c *call) remove(key storage.Key) {
	c.get(key)
	c.delete(key)
}

// number reads the number of a record that must be present.
func (c *call) number(key storage.Key, mode ...storage.ReadMode) int {
	rec, found := c.get(key, mode...)
	c.want(found, "%s is absent", key)
	return numberIn(rec)
}

// add reads the number of a record and replaces it by another.
func (c *call) add(key storage.Key, n int) { c.replace(number(key, c.number(key)+n)) }
