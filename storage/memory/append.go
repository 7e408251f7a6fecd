package memory

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/codec"
)

// tail is what an attempt wants at the end of one stream.
type tail struct {
	head                storage.Key
	environment, stream string
	items               []json.RawMessage
}

// Append implements [storage.Tx].
func (a *attempt) Append(ctx context.Context, head storage.Key, items ...json.RawMessage) (err error) {
	defer a.note(&err)
	if err := a.usable(ctx); err != nil {
		return err
	}
	if err := a.driver.limits.CheckItems(head, items); err != nil {
		return err
	}
	environment, stream, err := codec.StreamOf(head)
	if err != nil {
		return err
	}
	if k := a.keys[head]; k != nil && k.readOnly {
		return fmt.Errorf("%w: %s", storage.ErrReadOnlyKey, head)
	}
	if len(items) == 0 {
		return nil
	}
	if err := a.countItems(head, items); err != nil {
		return err
	}
	t := a.tailOf(head)
	if t == nil {
		t = &tail{head: head, environment: environment, stream: stream}
		a.tails = append(a.tails, t)
	}
	t.items = append(t.items, items...)
	return nil
}

// tailOf is what the attempt appends to the stream of a head; nil is nothing.
func (a *attempt) tailOf(head storage.Key) *tail {
	at := slices.IndexFunc(a.tails, func(t *tail) bool { return t.head == head })
	if at < 0 {
		return nil
	}
	return a.tails[at]
}

// countItems adds items to what is appended, within the limits.
func (a *attempt) countItems(head storage.Key, items []json.RawMessage) error {
	limits := a.driver.limits
	bytes := a.bytes
	for _, item := range items {
		bytes += len(item)
	}
	keys := len(items)
	if a.tailOf(head) == nil {
		keys++
	}
	switch {
	case a.items+len(items) > limits.MaxItems:
		return &storage.InputError{Kind: storage.ErrTooMany, Key: head, Field: "items", Limit: limits.MaxItems}
	case bytes > limits.MaxTransaction:
		return &storage.InputError{Kind: storage.ErrTooLarge, Key: head, Field: "documents of the transaction", Limit: limits.MaxTransaction}
	}
	if err := a.room(keys); err != nil {
		return err
	}
	a.items, a.bytes, a.used = a.items+len(items), bytes, true
	return nil
}

// headLocks lists the heads of the streams that the attempt appends to, in
// canonical order.
func (a *attempt) headLocks() []lockRequest {
	requests := make([]lockRequest, 0, len(a.tails))
	for _, t := range a.tails {
		requests = append(requests, lockRequest{t.head, exclusive})
	}
	slices.SortFunc(requests, func(x, y lockRequest) int { return x.key.Compare(y.key) })
	return requests
}

// batch is what a commit changes, key by key.
type batch struct {
	state   *state
	changes []change
	at      map[storage.Key]int // of a key in changes
}

func newBatch(s *state, changes []change) *batch {
	b := &batch{state: s, changes: changes, at: make(map[storage.Key]int, len(changes))}
	for i, c := range changes {
		b.at[c.key] = i
	}
	return b
}

// get returns the record of a key as the changes leave it, or nil.
func (b *batch) get(key storage.Key) *stored {
	if i, changed := b.at[key]; changed {
		return b.changes[i].record
	}
	return b.state.get(key)
}

func (b *batch) put(key storage.Key, r *stored) {
	if i, changed := b.at[key]; changed {
		b.changes[i].record = r
		return
	}
	b.at[key] = len(b.changes)
	b.changes = append(b.changes, change{key, r})
}

// extend adds to a batch what the attempt appends. The caller holds the mutex of
// the driver, and the attempt the locks of the heads. An error is a [*replay] if
// the attempt may be repeated.
func (a *attempt) extend(b *batch, now time.Time) ([]storage.Appended, error) {
	var appended []storage.Appended
	for _, t := range a.tails {
		last, err := b.position(t)
		if err != nil {
			return nil, err
		}
		for i, item := range t.items {
			o := codec.Observation{Environment: t.environment, Stream: t.stream, Position: last + int64(i) + 1, At: now, Data: item}
			if err := a.place(b, o, now); err != nil {
				return nil, err
			}
		}
		first, last := last+1, last+int64(len(t.items))
		rec, err := codec.EncodeObservationHead(codec.ObservationHead{Environment: t.environment, Stream: t.stream, Position: last})
		if err != nil {
			return nil, err
		}
		b.put(t.head, complete(rec, now))
		appended = append(appended, storage.Appended{Head: t.head, First: first, Last: last})
	}
	return appended, nil
}

// position is how far a stream has come, with room for what is to be appended.
func (b *batch) position(t *tail) (int64, error) {
	r := b.get(t.head)
	if r == nil {
		return 0, nil
	}
	refused := &storage.InputError{Kind: storage.ErrInvalidDocument, Key: t.head, Field: "head"}
	head, kind := codec.DecodeObservationHead(r.record(t.head))
	switch {
	case kind != codec.Canonical:
		refused.Reason = "is a document that this version does not know"
		return 0, refused
	case head.Position > math.MaxInt64-int64(len(t.items)):
		refused.Reason = "leaves no positions for the items"
		return 0, refused
	}
	return head.Position, nil
}

// place adds one observation. Its key is locked by trying: who waited for it out of
// order could wait in a circle.
func (a *attempt) place(b *batch, o codec.Observation, now time.Time) error {
	rec, err := codec.EncodeObservation(o)
	if err != nil {
		return err
	}
	if rec.Document, err = canonical(rec); err != nil {
		return err
	}
	switch {
	case !a.driver.locks.try(a, rec.Key, exclusive):
		return &replay{reason: storage.ReasonLocked, key: rec.Key}
	case b.get(rec.Key) != nil:
		return &replay{reason: storage.ReasonExists, key: rec.Key}
	}
	b.put(rec.Key, complete(rec, now))
	return nil
}
