package storagetest

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/run"
	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/codec"
)

var documents = topic{"Documents", []test{
	{name: "KeepTheirValue", run: documentsKeepTheirValue},
	{name: "KeepTheirValueInsideAPayload", run: documentsKeepTheirValueInsideAPayload},
	{name: "AnyShapeIsKept", run: anyShapeIsKept},
	{name: "WhatCannotBeStoredIsRefused", run: whatCannotBeStoredIsRefused},
	{name: "SizeHasALimit", run: sizeHasALimit},
	{name: "TheLargestCanBeWrittenAgain", run: theLargestCanBeWrittenAgain},
	{name: "PayloadsAreIndependent", run: payloadsAreIndependent},
	{name: "AnEventKeepsItsPayload", run: anEventKeepsItsPayload},
	{name: "EventsChangeHands", run: eventsChangeHands},
}}

// values are JSON values that something on the way to a disk may spoil.
var values = []string{
	`null`, `true`, `false`, `0`, `-0`, `1`, `-1`, `""`, `[]`, `{}`, `[null]`, `{"a":null}`,
	`9007199254740991`, `9007199254740993`, `-9007199254740993`, `18446744073709551617`, `123456789012345678901234567890`,
	`0.1000`, `0.1`, `0.30000000000000004`, `3.141592653589793238462643383279`, `1e2`, `1E+2`, `1e-2`, `1e400`, `-1.5e-400`, `100000000000000000000000000000000000000000`,
	`"ä€😀"`, `"\u00e4\u20ac\ud83d\ude00"`, `"\"\\\/\b\f\n\r\t"`, `"\u0001\u001f\u007f\u2028\ufeff"`,
	`"$1"`, `"$$"`, `"'; -- "`, `"a\"b"`, `"%_\\"`, `"{}"`, `"\\u0000"`, `"NaN"`, `"2026-01-02T03:04:05.000006Z"`,
	`{"b":1,"a":2,"":3,"ä":4,"longer key":5,"B":6}`, `{"a":1,"b":2,"a":3}`, `{"a":{"x":1},"a":{"y":2}}`,
	`[1,[2,[3,{"a":[4]}]]]`, `[{"codec":"run"},{"v":1},{"value":{"payload":1}}]`, ` { "a" : [ 1 , 2 ] } `,
}

func documentsKeepTheirValue(f *fixture) {
	for _, collection := range storage.Collections() {
		var records []storage.Record
		for i, value := range values {
			for j, document := range []string{value, fmt.Sprintf(`{"deep":[{"er":%s}]}`, value)} {
				records = append(records, storage.Record{Key: keyOf(collection, fmt.Sprint(i, j)), Document: json.RawMessage(document)})
			}
		}
		f.putAll(records)
		f.keepsAll(records)
	}
}

// keepsAll requires that the records are read back with their value, by every way of reading.
func (f *fixture) keepsAll(records []storage.Record) {
	f.Helper()
	f.transact(func(c *call) {
		var keys []storage.Key
		for _, rec := range records {
			keys = append(keys, rec.Key)
		}
		peeked, read := c.peek(keys...), c.getMany(keys...)
		for _, rec := range records {
			for how, got := range map[string]storage.Record{"read": read[rec.Key], "peek": peeked[rec.Key]} {
				c.want(sameValue(string(rec.Document), got.Document), "%s of %s: %s became %s", how, rec.Key, rec.Document, got.Document)
			}
		}
	})
}

// shapes are documents around a value, in places that a driver may treat apart.
var shapes = []string{
	`{"codec":"run","v":1,"value":{"payload":%s}}`,
	`{"codec":"run","v":1,"value":{"payload":%s,"id":"x"},"other":1}`,
	`{"codec":"other","v":9,"value":{"payload":%s,"result":1}}`,
	`{"value":{"payload":%s}}`,
	`{"value":{"payload":{"payload":%s}}}`,
	`{"value":[{"payload":%s}]}`,
	`{"payload":%s}`,
	`{"codec":"event","v":1,"value":{"event":{"payload":%s}}}`,
	`{"value":{"event":{"payload":%s},"payload":2}}`,
}

func documentsKeepTheirValueInsideAPayload(f *fixture) {
	for _, collection := range []storage.Collection{storage.Runs, storage.RunEvents, storage.QueueSlots} {
		for i, shape := range shapes[:f.rounds(len(shapes))] {
			var records, changed []storage.Record
			for j, value := range values {
				key := keyOf(collection, fmt.Sprint(i, "/", j))
				records = append(records, storage.Record{Key: key, Document: json.RawMessage(fmt.Sprintf(shape, value))})
				next := values[(j+1)%len(values)]
				changed = append(changed, storage.Record{Key: key, Document: json.RawMessage(fmt.Sprintf(shape, next))})
			}
			f.putAll(records)
			f.keepsAll(records)
			// The same again, then another payload: what was read is what was written.
			for _, next := range [][]storage.Record{records, changed} {
				f.transact(func(c *call) {
					for _, rec := range next {
						c.put(rec)
					}
				})
				f.keepsAll(next)
			}
		}
	}
}

func anyShapeIsKept(f *fixture) {
	documents := []string{
		`{}`, `[]`, `1`, `"x"`, `null`, `{"value":null}`, `{"value":{}}`, `{"value":{"payload":null}}`, `{"value":"x"}`,
		`{"codec":"run","v":1}`, `{"codec":"run","v":1,"value":{}}`, `{"codec":"run","v":1,"tombstone":true,"value":{}}`,
		`{"value":{"a":1},"value":{"payload":1}}`, `{"value":{"payload":1},"value":{"a":1}}`, `{"value":{"payload":1,"payload":2}}`,
		strings.Repeat("[", 512) + strings.Repeat("]", 512),
		strings.Repeat(`{"a":`, 511) + `{}` + strings.Repeat("}", 511),
	}
	for _, collection := range []storage.Collection{storage.Runs, storage.RunEvents, storage.QueueSlots} {
		var records []storage.Record
		for i, document := range documents {
			records = append(records, storage.Record{Key: keyOf(collection, fmt.Sprint(i)), Document: json.RawMessage(document)})
		}
		f.putAll(records)
		f.keepsAll(records)
	}
}

func whatCannotBeStoredIsRefused(f *fixture) {
	bad := map[string]string{
		"nothing": ``, "space": ` `, "half an object": `{"a":1`, "two values": `1 2`, "a comma too much": `[1,]`,
		"single quotes": `{'a':1}`, "NaN": `NaN`, "a leading zero": `01`, "a plus": `+1`, "hexadecimal": `0x1`,
		"NUL": `{"a":"x\u0000y"}`, "NUL in a key": `{"\u0000":1}`, "a raw NUL": "{\"a\":\"\x00\"}",
		"a raw control character": "{\"a\":\"x\ny\"}", "a mark within a string": "{\"a\":\"x\x01\"}", "a mark as a key": "{\"\x01\":1}",
		"a high surrogate": `"\ud83d"`, "a low surrogate": `"\ude00"`, "surrogates swapped": `"\ude00\ud83d"`, "a surrogate in a key": `{"\ud83d":1}`,
		"invalid UTF-8": "\"\xff\"", "overlong UTF-8": "\"\xc0\x80\"", "a surrogate in UTF-8": "\"\xed\xa0\x80\"",
		"a number out of range": `1e200000`, "a tiny number": `1e-20000`, "another one": `{"a":[-1e999999999999]}`,
		"too deep": strings.Repeat("[", 513) + strings.Repeat("]", 513),
	}
	f.put(number(slot("present"), 1))
	for name, document := range bad {
		for _, collection := range []storage.Collection{storage.QueueSlots, storage.Runs, storage.RunEvents} {
			key := keyOf(collection, "x")
			commit := f.transact(func(c *call) {
				c.number(slot("present"))
				for method, err := range map[string]error{
					"Create":  c.tx.Create(c, storage.Record{Key: key, Document: json.RawMessage(document)}),
					"Replace": c.tx.Replace(c, storage.Record{Key: slot("present"), Document: json.RawMessage(document)}),
				} {
					c.want(isRefused(err, storage.ErrInvalidDocument), "%s with %s: %v", method, name, err)
				}
			})
			assert.Empty(f, commit.Versions)
		}
	}
	f.holds(slot("present"), `{"n":1}`)

	var refused *storage.InputError
	err := f.fails(func(c *call) {
		c.create(storage.Record{Key: slot("x"), Document: json.RawMessage(`{"a":{"b":[1,"\u0000"]}}`)})
	})
	require.ErrorAs(f, err, &refused)
	assert.Equal(f, slot("x"), refused.Key)
	assert.Contains(f, refused.Field, "a.b[1]", "the error does not say where")
}

// A database may print more than it was given: space between the members. It takes
// seconds to read half a million of them, so a brief run writes fewer.
func theLargestCanBeWrittenAgain(f *fixture) {
	limit := f.rounds(storage.DefaultLimits().MaxDocument)
	members := strings.Repeat("1,", (limit-4)/2)
	rec := storage.Record{Key: slot("x"), Document: json.RawMessage("[" + members + "1]")}
	require.Less(f, limit-2, len(rec.Document))
	f.put(rec)
	f.transact(func(c *call) {
		again, found := c.get(rec.Key)
		require.True(f, found)
		c.replace(storage.Record{Key: rec.Key, Document: again.Document})
	})
	f.keepsAll([]storage.Record{rec})
}

func sizeHasALimit(f *fixture) {
	limits := storage.DefaultLimits()
	document := func(size int) json.RawMessage {
		const around = `{"a":""}`
		return json.RawMessage(`{"a":"` + strings.Repeat("x", size-len(around)) + `"}`)
	}
	for _, collection := range []storage.Collection{storage.QueueSlots, storage.Runs} {
		whole := storage.Record{Key: keyOf(collection, "whole"), Document: document(limits.MaxDocument)}
		f.put(whole)
		f.keepsAll([]storage.Record{whole})
		err := f.fails(func(c *call) {
			c.create(storage.Record{Key: keyOf(collection, "more"), Document: document(limits.MaxDocument + 1)})
		})
		assert.True(f, isRefused(err, storage.ErrTooLarge), "%v", err)
	}
	if f.brief {
		return // the rest is refused, or replaced, before it reaches the store
	}
	// One more than what all documents of a transaction may have.
	err := f.fails(func(c *call) {
		for i := range limits.MaxTransaction/limits.MaxDocument + 1 {
			c.create(storage.Record{Key: slot(fmt.Sprint(i)), Document: document(limits.MaxDocument)})
		}
	})
	assert.True(f, isRefused(err, storage.ErrTooLarge), "%v", err)
	// What is staged over and over counts once.
	f.transact(func(c *call) {
		key := slot("again")
		c.create(storage.Record{Key: key, Document: document(limits.MaxDocument)})
		for range limits.MaxTransaction / limits.MaxDocument {
			c.replace(storage.Record{Key: key, Document: document(limits.MaxDocument)})
		}
	})
}

// payloadsAreIndependent: a run and its Created event are written with one payload,
// and from then on neither changes with the other.
func payloadsAreIndependent(f *fixture) {
	const large = 100_000
	for i, text := range []string{`{"user":"u_1"}`, `null`, `[]`, `"` + strings.Repeat("x", large) + `"`, ``} {
		id := fmt.Sprint("run", i)
		r := sampleRun(id, run.StatusQueued)
		if text != "" {
			r.Payload = json.RawMessage(text)
		}
		event := createdEvent(r, numbered(i+1))
		rec, created := f.runRecord(r), f.eventRecord(event)
		f.putAll([]storage.Record{rec, created})
		both := func(run, event storage.Record) {
			f.Helper()
			f.keepsAll([]storage.Record{run, event})
		}
		both(rec, created)

		r.Sequence, r.Priority = 2, run.PriorityFirst
		rec = f.runRecord(r)
		f.put(rec)
		both(rec, created)

		r.Payload = json.RawMessage(`{"another":true}`)
		rec = f.runRecord(r)
		f.put(rec)
		both(rec, created)

		r.Payload = nil
		rec = f.runRecord(r)
		f.put(rec)
		both(rec, created)

		f.put(f.tombstone(id))
		both(f.tombstone(id), created)
		f.transact(func(c *call) { c.remove(rec.Key) })
		f.keepsAll([]storage.Record{created})
		f.put(rec)
		both(rec, created)
	}
}

// anEventKeepsItsPayload through every single thing that can happen to its run, also
// if the transaction that does it fails.
func anEventKeepsItsPayload(f *fixture) {
	things := map[string]func(c *call, r run.Run){
		"another payload": func(c *call, r run.Run) {
			r.Payload = json.RawMessage(`"other"`)
			c.put(f.runRecord(r))
		},
		"no payload": func(c *call, r run.Run) { r.Payload = nil; c.put(f.runRecord(r)) },
		"tombstone":  func(c *call, r run.Run) { c.put(f.tombstone(r.ID)) },
		"opaque": func(c *call, r run.Run) {
			c.put(storage.Record{Key: f.runRecord(r).Key, Document: []byte(`{"value":{"payload":"opaque"}}`)})
		},
		"deleted":             func(c *call, r run.Run) { c.remove(f.runRecord(r).Key) },
		"deleted and created": func(c *call, r run.Run) { c.remove(f.runRecord(r).Key); r.Payload = nil; c.create(f.runRecord(r)) },
	}
	n := 0
	for name, thing := range things {
		for _, end := range []error{errStop, nil} {
			n++
			r := sampleRun(fmt.Sprint("run", n), run.StatusQueued)
			r.Payload = json.RawMessage(`{"the":"payload"}`)
			created := f.eventRecord(createdEvent(r, numbered(n)))
			f.putAll([]storage.Record{f.runRecord(r), created})
			_, err := f.try(func(c *call) { thing(c, r); c.must(end) })
			require.True(f, err == end, "%s: %v", name, err)
			f.keepsAll([]storage.Record{created})
			if end != nil {
				f.keepsAll([]storage.Record{f.runRecord(r)})
			}
		}
	}
}

// eventsChangeHands: a replacement may give an event to another run.
func eventsChangeHands(f *fixture) {
	a, b := sampleRun("a", run.StatusQueued), sampleRun("b", run.StatusQueued)
	a.Payload, b.Payload = json.RawMessage(`"of a"`), json.RawMessage(`"of b"`)
	created := f.eventRecord(createdEvent(a, numbered(1)))
	f.putAll([]storage.Record{f.runRecord(a), f.runRecord(b), created})

	moved := f.eventRecord(createdEvent(b, numbered(1)))
	f.put(moved)
	f.keepsAll([]storage.Record{moved, f.runRecord(a), f.runRecord(b)})
	f.transact(func(c *call) { c.remove(f.runRecord(a).Key) })
	f.keepsAll([]storage.Record{moved, f.runRecord(b)})
	f.transact(func(c *call) {
		c.remove(f.runRecord(b).Key)
		c.put(created)
	})
	f.keepsAll([]storage.Record{created})

	e, kind := codec.DecodeEvent(*f.read(created.Key))
	require.Equal(f, codec.Canonical, kind)
	data, ok := e.Data.(run.Created)
	require.True(f, ok)
	sameJSON(f, `"of a"`, data.Payload)
}
