package record

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/tests/histories/history"
)

// Tx is one attempt of a recorded transaction.
type Tx struct {
	tx       storage.Tx
	recorder *Recorder
	attempt  *history.Attempt
	call     Call
	number   int // of the attempt, from 1
	values   int
	view     map[storage.Key]*Seen
}

// Seen is what an attempt knows of a key.
type Seen struct {
	Record   storage.Record // as it was read, or as it was staged
	Present  bool
	ReadOnly bool
	Written  bool
}

// Seen returns what the attempt knows of a key; nil is nothing.
func (t *Tx) Seen(key storage.Key) *Seen { return t.view[key] }

// do records one operation.
func (t *Tx) do(op *history.Operation, run func() error) error {
	op.Call = t.recorder.now()
	err := run()
	op.Return = t.recorder.now()
	if err != nil {
		op.Error = err.Error()
		op.Exists = op.Kind == history.Create && errors.Is(err, storage.ErrRecordExists)
	}
	t.attempt.Ops = append(t.attempt.Ops, op)
	return err
}

// value makes a value that no other write has.
func (t *Tx) value() string {
	t.values++
	return fmt.Sprintf("%d.%d.%d.%d", t.call.Client, t.call.Op, t.number, t.values)
}

// Get reads keys, with Get if there is only one and with GetMany otherwise.
func (t *Tx) Get(ctx context.Context, readOnly bool, keys ...storage.Key) error {
	op := &history.Operation{Kind: history.Get, ReadOnly: readOnly}
	var mode []storage.ReadMode
	if readOnly {
		mode = append(mode, storage.ReadOnly)
	}
	return t.do(op, func() error {
		var (
			found map[storage.Key]storage.Record
			err   error
		)
		if len(keys) == 1 {
			rec, present, geterr := t.tx.Get(ctx, keys[0], mode...)
			if err = geterr; present {
				found = map[storage.Key]storage.Record{keys[0]: rec}
			}
		} else {
			found, err = t.tx.GetMany(ctx, keys, mode...)
		}
		if err != nil {
			return err
		}
		for _, key := range keys {
			rec, present := found[key]
			t.see(op, key, rec, present, readOnly)
		}
		return nil
	})
}

// see enters a point read into the operation and the view.
func (t *Tx) see(op *history.Operation, key storage.Key, rec storage.Record, present, readOnly bool) {
	r := history.Read{Key: Name(key)}
	if present {
		r = read(rec)
	}
	op.Reads = append(op.Reads, r)
	s := t.view[key]
	if s == nil {
		s = &Seen{Record: rec, Present: present}
		t.view[key] = s
	}
	s.ReadOnly = s.ReadOnly || readOnly
}

// Peek reads keys without depending on them.
func (t *Tx) Peek(ctx context.Context, keys ...storage.Key) error {
	op := &history.Operation{Kind: history.Peek}
	return t.do(op, func() error {
		found, err := t.tx.Peek(ctx, keys)
		if err != nil {
			return err
		}
		for _, key := range keys {
			r := history.Read{Key: Name(key)}
			if rec, present := found[key]; present {
				r = read(rec)
			}
			op.Reads = append(op.Reads, r)
		}
		return nil
	})
}

// Assume offers a record, or its absence if its version is zero.
func (t *Tx) Assume(ctx context.Context, rec storage.Record) error {
	op := &history.Operation{Kind: history.Assume}
	return t.do(op, func() error {
		var (
			now     storage.Record
			present bool
			err     error
		)
		if rec.Version.IsZero() {
			now, present, err = t.tx.AssumeAbsent(ctx, rec.Key)
		} else {
			now, present, err = t.tx.Assume(ctx, rec)
		}
		if err == nil {
			t.see(op, rec.Key, now, present, false)
		}
		return err
	})
}

// Query reads a page and returns its keys. index is the name of the index, or of the
// part of it, in the history.
func (t *Tx) Query(ctx context.Context, index string, q storage.Query) ([]storage.Key, error) {
	op := &history.Operation{Kind: history.Query, Index: index}
	if q.Lock == storage.Exclusive {
		op.Kind = history.Exclusive
	}
	var keys []storage.Key
	err := t.do(op, func() error {
		page, err := t.tx.Query(ctx, q)
		if err != nil {
			return err
		}
		op.Whole = page.Resume.IsZero() && q.Resume.IsZero() && q.From.IsZero() && q.Until.IsZero()
		for _, rec := range page.Records {
			keys = append(keys, rec.Key)
			if q.Lock == storage.Exclusive {
				t.claim(op, rec)
			} else {
				op.Reads = append(op.Reads, read(rec))
			}
		}
		return nil
	})
	return keys, err
}

// claim enters a record that a query locked. What is staged wins over it.
func (t *Tx) claim(op *history.Operation, rec storage.Record) {
	if s := t.view[rec.Key]; s != nil && s.Written {
		op.Reads = append(op.Reads, read(rec))
		return
	}
	t.see(op, rec.Key, rec, true, false)
}

// Now seals the transaction.
func (t *Tx) Now(ctx context.Context) error {
	op := &history.Operation{Kind: history.Now}
	return t.do(op, func() error {
		at, err := t.tx.Now(ctx)
		op.Time = history.Clock(at.UnixMicro())
		return err
	})
}

// Create creates a record under a key, with its entries in indexes. If the attempt has
// created the twin of a pair, the two get the same payload.
func (t *Tx) Create(ctx context.Context, key storage.Key, entries ...storage.Entry) error {
	payload := ""
	if p := t.recorder.pairs[key]; p != nil {
		if twin := t.view[p.Twin(key)]; twin != nil && twin.Written && twin.Present {
			payload = payloadOf(twin.Record)
		}
	}
	return t.write(history.Create, key, payload, entries, func(rec storage.Record) error { return t.tx.Create(ctx, rec) })
}

// Replace replaces a record that the attempt has read. The payload stays what it is if
// keep says so.
func (t *Tx) Replace(ctx context.Context, key storage.Key, keep bool, entries ...storage.Entry) error {
	payload := ""
	if s := t.view[key]; keep && s != nil && s.Present {
		payload = payloadOf(s.Record)
	}
	return t.write(history.Replace, key, payload, entries, func(rec storage.Record) error { return t.tx.Replace(ctx, rec) })
}

// write writes a record with the payload of that name, or with a new one.
func (t *Tx) write(kind history.Kind, key storage.Key, payload string, entries []storage.Entry, run func(storage.Record) error) error {
	value := t.value()
	if payload == "" {
		payload = value
	}
	op := &history.Operation{Kind: kind, Key: Name(key), Value: value}
	rec := storage.Record{Key: key, Document: plain(key, value, payload), Entries: entries}
	p := t.recorder.pairs[key]
	if p != nil {
		var err error
		if rec, err = p.encode(key, value, payload); err != nil {
			return err
		}
	}
	for _, e := range rec.Entries {
		op.Index = e.Index.String()
		if e.Index == storage.RunEventsBySequence {
			op.Index = p.HistoryIndex()
		}
	}
	return t.do(op, func() error {
		err := run(rec)
		if err == nil {
			t.view[key] = &Seen{Record: rec, Present: true, Written: true}
		}
		return err
	})
}

// Delete deletes a record that the attempt has read.
func (t *Tx) Delete(ctx context.Context, key storage.Key) error {
	op := &history.Operation{Kind: history.Delete, Key: Name(key)}
	return t.do(op, func() error {
		err := t.tx.Delete(ctx, key)
		if err == nil {
			t.view[key] = &Seen{Record: storage.Record{Key: key}, Written: true}
		}
		return err
	})
}

// Append appends items to the stream of a head.
func (t *Tx) Append(ctx context.Context, head storage.Key, items int) error {
	op := &history.Operation{Kind: history.Append, Key: Name(head)}
	var data []json.RawMessage
	for range items {
		value := t.value()
		op.Items = append(op.Items, value)
		data = append(data, json.RawMessage(`{"w":`+strconv.Quote(value)+`}`))
	}
	return t.do(op, func() error { return t.tx.Append(ctx, head, data...) })
}

// Wake sends a hint.
func (t *Tx) Wake(topic string) error {
	return t.do(&history.Operation{Kind: history.Wake}, func() error { return t.tx.Wake(topic) })
}

// Remember is what can be assumed of the keys of a committed transaction: records as
// they were read or, with the marks filled in, as they were written; those of version
// zero were absent.
func Remember(view map[storage.Key]*Seen, commit storage.Commit) []storage.Record {
	var known []storage.Record
	for key, s := range view {
		switch {
		case !s.Present:
			known = append(known, storage.Record{Key: key})
		case !s.Written:
			known = append(known, s.Record)
		case !commit.Time.IsZero() && !commit.Versions[key].IsZero():
			at := commit.Time.UTC().Format(storage.TimeFormat)
			text := strings.ReplaceAll(string(s.Record.Document), storage.CommitTime, at)
			known = append(known, storage.Record{Key: key, Version: commit.Versions[key], Document: json.RawMessage(text)})
		}
	}
	return known
}
