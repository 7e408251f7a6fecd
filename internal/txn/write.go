package txn

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/codec"
)

// Create is [storage.Tx.Create].
func (a *attempt) Create(ctx context.Context, rec storage.Record) (err error) {
	defer a.note(&err)
	if err := a.usable(); err != nil {
		return err
	}
	if err := a.engine.Limits.CheckRecord(rec); err != nil {
		return err
	}
	if err := a.revisit(ctx, rec.Key); err != nil {
		return err
	}
	blind := true
	if s := a.staged[rec.Key]; s != nil {
		if !s.deleted {
			return existsError(rec.Key)
		}
		blind = s.blind
	} else if a.known(rec.Key) {
		if r := a.reads[rec.Key]; !r.rec.Version.IsZero() {
			return existsError(rec.Key)
		} else if r.readOnly {
			return readOnlyError(rec.Key)
		}
		blind = false
	}
	return a.stage(rec, &stage{rec: rec, blind: blind})
}

// revisit makes sure that a replay does not create blindly what the attempt before
// created: it reads all of those keys, once, under the locks that
// the replay began with. They may be read after Now as well, since they are locked.
func (a *attempt) revisit(ctx context.Context, key storage.Key) error {
	if a.before == nil || !a.before.created(key) || a.staged[key] != nil || a.known(key) {
		return nil
	}
	if a.blind == nil {
		var keys []storage.Key
		for k := range a.before.staged {
			if a.before.created(k) && !a.known(k) {
				keys = append(keys, k)
			}
		}
		recs, err := a.lookup(ctx, keys)
		if err != nil {
			return err
		}
		a.blind = make(map[storage.Key]*storage.Record, len(recs))
		for i := range recs {
			a.blind[recs[i].Key] = &recs[i]
		}
	}
	r := &read{}
	if rec := a.blind[key]; rec != nil {
		r.rec = *rec
	}
	a.reads[key] = r
	return nil
}

// created reports whether the attempt created key, blindly or after a revisit.
func (a *attempt) created(key storage.Key) bool {
	s, r := a.staged[key], a.reads[key]
	return s != nil && (s.blind || r != nil && r.rec.Version.IsZero())
}

// Replace is [storage.Tx.Replace].
func (a *attempt) Replace(_ context.Context, rec storage.Record) (err error) {
	defer a.note(&err)
	if err := a.usable(); err != nil {
		return err
	}
	if err := a.engine.Limits.CheckRecord(rec); err != nil {
		return err
	}
	blind, err := a.writable(rec.Key)
	if err != nil {
		return err
	}
	return a.stage(rec, &stage{rec: rec, blind: blind})
}

// Delete is [storage.Tx.Delete].
func (a *attempt) Delete(_ context.Context, key storage.Key) (err error) {
	defer a.note(&err)
	if err := a.usable(); err != nil {
		return err
	}
	if err := a.engine.Limits.CheckKey(key); err != nil {
		return err
	}
	blind, err := a.writable(key)
	if err != nil {
		return err
	}
	return a.stage(storage.Record{Key: key}, &stage{rec: storage.Record{Key: key}, deleted: true, blind: blind})
}

// writable checks that the transaction sees key present and may write it.
func (a *attempt) writable(key storage.Key) (blind bool, err error) {
	if s := a.staged[key]; s != nil {
		if s.deleted {
			return false, notReadError(key, "the transaction has deleted it")
		}
		return s.blind, nil
	}
	if !a.known(key) {
		return false, notReadError(key, "the transaction has not read it")
	}
	r := a.reads[key]
	if r.rec.Version.IsZero() {
		return false, notReadError(key, "the transaction has seen it absent")
	}
	if r.readOnly {
		return false, readOnlyError(key)
	}
	return false, nil
}

// stage stages one write within the transaction's limits.
func (a *attempt) stage(rec storage.Record, s *stage) error {
	limits := a.engine.Limits
	old := a.staged[rec.Key]
	bytes := a.bytes + len(rec.Document)
	if old != nil {
		bytes -= len(old.rec.Document)
	} else if len(a.staged) >= limits.MaxMutations {
		return &storage.InputError{Kind: storage.ErrTooMany, Key: rec.Key, Field: "mutations of the transaction", Limit: limits.MaxMutations}
	}
	if bytes > limits.MaxTransaction {
		return &storage.InputError{Kind: storage.ErrTooLarge, Key: rec.Key, Field: "documents of the transaction", Limit: limits.MaxTransaction}
	}
	a.bytes = bytes
	a.staged[rec.Key] = s
	return nil
}

// Append is [storage.Tx.Append].
func (a *attempt) Append(_ context.Context, head storage.Key, items ...json.RawMessage) (err error) {
	defer a.note(&err)
	if err := a.usable(); err != nil {
		return err
	}
	limits := a.engine.Limits
	if err := limits.CheckItems(head, items); err != nil {
		return err
	}
	environment, stream, err := codec.StreamOf(head)
	if err != nil {
		return err
	}
	if a.engine.Joined {
		return &storage.InputError{Kind: storage.ErrAppendJoined, Key: head, Reason: "the stream would stay locked until the caller commits; append in a transaction of its own"}
	}
	if r := a.reads[head]; r != nil && r.readOnly {
		return readOnlyError(head)
	}
	return a.stageItems(Append{Head: head, Environment: environment, Stream: stream, Items: items})
}

// stageItems adds items to what the attempt appends, within the transaction's limits.
func (a *attempt) stageItems(more Append) error {
	bytes, items := a.bytes, len(more.Items)
	for _, item := range more.Items {
		bytes += len(item)
	}
	place := -1
	for i := range a.appends {
		items += len(a.appends[i].Items)
		if a.appends[i].Head == more.Head {
			place = i
		}
	}
	switch {
	case items > a.engine.Limits.MaxItems:
		return &storage.InputError{Kind: storage.ErrTooMany, Key: more.Head, Field: "items of the transaction", Limit: a.engine.Limits.MaxItems}
	case bytes > a.engine.Limits.MaxTransaction:
		return &storage.InputError{Kind: storage.ErrTooLarge, Key: more.Head, Field: "documents and items of the transaction", Limit: a.engine.Limits.MaxTransaction}
	case len(more.Items) == 0:
		return nil
	}
	a.bytes = bytes
	if place < 0 {
		more.Items = slices.Clone(more.Items) // the array is the caller's
		a.appends = append(a.appends, more)
		return nil
	}
	a.appends[place].Items = append(a.appends[place].Items, more.Items...)
	return nil
}

// appendsTo reports whether the attempt appends to the stream with the head key.
func (a *attempt) appendsTo(key storage.Key) bool {
	return slices.ContainsFunc(a.appends, func(p Append) bool { return p.Head == key })
}

// Wake is [storage.Tx.Wake].
func (a *attempt) Wake(topic string) (err error) {
	defer a.note(&err)
	if err := a.usable(); err != nil {
		return err
	}
	if err := a.engine.Limits.CheckTopic(topic); err != nil {
		return err
	}
	for _, t := range a.topics {
		if t == topic {
			return nil
		}
	}
	if len(a.topics) >= a.engine.Limits.MaxTopics {
		return &storage.InputError{Kind: storage.ErrTooMany, Field: "topics of the transaction", Limit: a.engine.Limits.MaxTopics}
	}
	a.topics = append(a.topics, topic)
	return nil
}

func existsError(key storage.Key) error {
	return &storage.InputError{Kind: storage.ErrRecordExists, Key: key}
}

func notReadError(key storage.Key, reason string) error {
	return &storage.InputError{Kind: storage.ErrRecordNotRead, Key: key, Reason: reason}
}

func readOnlyError(key storage.Key) error {
	return &storage.InputError{Kind: storage.ErrReadOnlyKey, Key: key}
}
