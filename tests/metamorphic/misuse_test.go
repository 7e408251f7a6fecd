package metamorphic_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/keys"
)

// misuse is a call that every store refuses and that leaves the transaction as it was.
type misuse struct {
	name string
	call func(a *attempt, key storage.Key) error
}

var misuses = []misuse{
	creating("a NUL", func(rec *storage.Record) { rec.Document = json.RawMessage(`{"a": "\u0000"}`) }),
	creating("a lone surrogate", func(rec *storage.Record) { rec.Document = json.RawMessage(`{"a": "\ud800"}`) }),
	creating("no JSON", func(rec *storage.Record) { rec.Document = json.RawMessage(`{"a": }`) }),
	creating("a huge number", func(rec *storage.Record) { rec.Document = json.RawMessage(`[1e200000]`) }),
	creating("a deep document", func(rec *storage.Record) {
		rec.Document = json.RawMessage(strings.Repeat("[", 600) + strings.Repeat("]", 600))
	}),
	creating("a negative delay", func(rec *storage.Record) { rec.Later = -time.Second }),
	creating("an empty id", func(rec *storage.Record) { rec.Key.ID = "" }),
	creating("a space in a partition", func(rec *storage.Record) { rec.Key.Partition += " " }),
	creating("a long id", func(rec *storage.Record) { rec.Key.ID = strings.Repeat("x", 2000) }),
	creating("an entry of another environment", func(rec *storage.Record) {
		rec.Entries = []storage.Entry{{Index: storage.IndexesOn(storage.QueueSlots)[0], Partition: keys.EncodeInt(1), Sort: keys.EncodeInt(1)}}
	}),
	creating("an entry of another collection", func(rec *storage.Record) {
		rec.Entries = []storage.Entry{{Index: storage.RunsByDue, Partition: rec.Key.Partition, Sort: keys.EncodeInt(1)}}
	}),
	{"a read of no key", func(a *attempt, key storage.Key) error {
		_, err := a.tx.GetMany(a.ctx, []storage.Key{{}, key})
		return err
	}},
	{"a peek at no key", func(a *attempt, _ storage.Key) error {
		_, err := a.tx.Peek(a.ctx, []storage.Key{{}})
		return err
	}},
	{"an assumption without a version", func(a *attempt, key storage.Key) error {
		_, _, err := a.tx.Assume(a.ctx, storage.Record{Key: key, Document: json.RawMessage(`{}`)})
		return err
	}},
	{"a page of no index", func(a *attempt, key storage.Key) error {
		_, err := a.tx.Query(a.ctx, storage.Query{Partition: key.Partition})
		return err
	}},
	{"a page of 501", func(a *attempt, key storage.Key) error {
		_, err := a.tx.Query(a.ctx, storage.Query{Index: storage.RunsByDue, Partition: key.Partition, Limit: 501})
		return err
	}},
	{"half a resume point", func(a *attempt, key storage.Key) error {
		_, err := a.tx.Query(a.ctx, storage.Query{Index: storage.RunsByDue, Partition: key.Partition, Resume: storage.Resume{ID: key.ID}})
		return err
	}},
	{"a wake of nothing", func(a *attempt, _ storage.Key) error { return a.tx.Wake("") }},
	{"a long topic", func(a *attempt, _ storage.Key) error { return a.tx.Wake(strings.Repeat("x", 513)) }},
	{"an append to what is no head", func(a *attempt, key storage.Key) error { return a.tx.Append(a.ctx, key, json.RawMessage(`1`)) }},
	{"an item that is no JSON", func(a *attempt, _ storage.Key) error {
		return a.tx.Append(a.ctx, a.p.world.keys["A/head/0"], json.RawMessage(`{`))
	}},
	{"a mark in an item", func(a *attempt, _ storage.Key) error {
		return a.tx.Append(a.ctx, a.p.world.keys["A/head/0"], json.RawMessage("\"\x01\""))
	}},
	{"a transaction within", func(a *attempt, _ storage.Key) error {
		_, err := a.transactor.Transact(a.ctx, "within", func(context.Context, storage.Tx) error { return errOwn })
		if errors.Is(err, storage.ErrNestedTransaction) {
			return &storage.InputError{Kind: storage.ErrInvalidQuery, Reason: "as expected"}
		}
		return err
	}},
}

// creating is the misuse of creating a slot of the queue that something is wrong with.
func creating(name string, change func(rec *storage.Record)) misuse {
	return misuse{name, func(a *attempt, key storage.Key) error {
		rec := storage.Record{Key: key, Document: json.RawMessage(`{}`)}
		change(&rec)
		return a.tx.Create(a.ctx, rec)
	}}
}

func (a *attempt) misuse(o op) error {
	for _, m := range misuses {
		if m.name == o.As {
			return a.settle(m.name, m.call(a, a.p.world.keys["A/slot/0"]))
		}
	}
	panic("no such misuse: " + o.As)
}
