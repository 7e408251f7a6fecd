package faults_test

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/google/uuid"

	"github.com/seed4391e180/runlane/run"
	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/codec"
	"github.com/seed4391e180/runlane/storage/keys"
)

// shape is one way of using a transaction. Its effect shows how often it took place:
// numbers are incremented, and each attempt creates an event under an identity of its
// own, so that two attempts that both commit leave two.
type shape struct {
	name string
	// before stores what the transaction finds.
	before func(w *world, env string) error
	// run is the callback; once runs what happens beside the transaction, the first time.
	run func(ctx context.Context, tx storage.Tx, env string, once func(func() error) error, w *world) error
	// replays is how many attempts are stale when nothing else fails.
	replays int
	// core are the shapes whose every message is broken in every way.
	core bool
	// silent leaves nothing of its own behind, by which its outcome could be known.
	silent bool
}

// attempts is how many attempts the shape needs when nothing else fails.
func (s *shape) attempts() int { return s.replays + 1 }

// shapes are those whose outcome a driver can always find out, and one that it can
// not: a delete alone leaves nothing.
func shapes() []shape {
	return []shape{
		{name: "blind creates", core: true, before: nothing, run: blindCreates},
		{name: "read, then replace", core: true, before: numbers, run: func(ctx context.Context, tx storage.Tx, env string, _ func(func() error) error, _ *world) error {
			return all(increment(ctx, tx, slotKey(env, 1)), mark(ctx, tx, env))
		}},
		{name: "replace alone", before: numbers, run: func(ctx context.Context, tx storage.Tx, env string, _ func(func() error) error, _ *world) error {
			return increment(ctx, tx, slotKey(env, 1))
		}},
		{name: "delete", before: numbers, run: func(ctx context.Context, tx storage.Tx, env string, _ func(func() error) error, _ *world) error {
			return all(remove(ctx, tx, slotKey(env, 1)), mark(ctx, tx, env))
		}},
		{name: "delete alone", silent: true, before: numbers, run: func(ctx context.Context, tx storage.Tx, env string, _ func(func() error) error, _ *world) error {
			return remove(ctx, tx, slotKey(env, 1))
		}},
		{name: "update and insert", before: numbers, run: updateAndInsert},
		{name: "the payload of a run", before: sharedPayload, run: changePayload},
		{name: "exclusive claim, then writes", core: true, before: numbers, run: claim},
		{name: "Now, then writes", before: numbers, run: func(ctx context.Context, tx storage.Tx, env string, _ func(func() error) error, _ *world) error {
			rec, _, err := tx.Get(ctx, slotKey(env, 1))
			if err != nil {
				return err
			}
			if _, err := tx.Now(ctx); err != nil {
				return err
			}
			return all(tx.Replace(ctx, number(rec.Key, numberIn(rec)+1)), mark(ctx, tx, env))
		}},
		{name: "a replay", replays: 1, before: numbers, run: replayed},
		{name: "with a wake", before: numbers, run: func(ctx context.Context, tx storage.Tx, env string, _ func(func() error) error, _ *world) error {
			return all(increment(ctx, tx, slotKey(env, 1)), mark(ctx, tx, env), tx.Wake("topic of "+env))
		}},
		{name: "append", core: true, before: numbers, run: appendItems},
	}
}

// all returns the first of several errors.
func all(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func nothing(*world, string) error { return nil }

// numbers stores three slots, whose index entries can be claimed.
func numbers(w *world, env string) error {
	partition, err := codec.QueueSlotExpiryPartition(env)
	if err != nil {
		return err
	}
	var recs []storage.Record
	for i := range 3 {
		rec := number(slotKey(env, i), 10*i)
		rec.Entries = []storage.Entry{{Index: storage.QueueSlotsByExpiry, Partition: partition, Sort: keys.EncodeInt(int64(i))}}
		recs = append(recs, rec)
	}
	return w.put(recs...)
}

func increment(ctx context.Context, tx storage.Tx, key storage.Key) error {
	rec, found, err := tx.Get(ctx, key)
	if err == nil && !found {
		err = fmt.Errorf("%v is absent", key)
	}
	if err != nil {
		return err
	}
	return tx.Replace(ctx, number(key, numberIn(rec)+1))
}

func remove(ctx context.Context, tx storage.Tx, key storage.Key) error {
	if _, _, err := tx.Get(ctx, key); err != nil {
		return err
	}
	return tx.Delete(ctx, key)
}

// mark creates an event under a fresh identity, with the commit time in it.
func mark(ctx context.Context, tx storage.Tx, env string) error {
	key, err := codec.EventKey(env, uuid.New())
	if err != nil {
		return err
	}
	return tx.Create(ctx, storage.Record{Key: key, Document: json.RawMessage(`{"at": "` + storage.CommitTime + `"}`)})
}

// newRun is a run with its Created event, under a fresh identity.
func newRun(env, id, payload string) ([]storage.Record, error) {
	event := run.Event{ID: uuid.New(), Environment: env, RunID: id, Sequence: 1, At: run.AtCommit, Data: run.Created{
		Task: "mail", Queue: "default", Priority: 2, Payload: json.RawMessage(payload), Source: run.Source{Type: run.SourceTrigger},
	}}
	r, err := run.Reduce(nil, 1, event)
	if err != nil {
		return nil, err
	}
	rec, err := codec.EncodeRun(r)
	if err != nil {
		return nil, err
	}
	ev, err := codec.EncodeEvent(event)
	return []storage.Record{rec, ev}, err
}

func blindCreates(ctx context.Context, tx storage.Tx, env string, _ func(func() error) error, _ *world) error {
	recs, err := newRun(env, "run", `{"n": 1}`)
	if err != nil {
		return err
	}
	for _, rec := range append(recs, number(slotKey(env, 1), 1)) {
		if err := tx.Create(ctx, rec); err != nil {
			return err
		}
	}
	return nil
}

func sharedPayload(w *world, env string) error {
	recs, err := newRun(env, "run", `{"n": 1}`)
	if err != nil {
		return err
	}
	return w.put(recs...)
}

// changePayload gives a run another payload, so that its Created event gets a copy of
// the old one.
func changePayload(ctx context.Context, tx storage.Tx, env string, _ func(func() error) error, _ *world) error {
	key, err := codec.RunKey(env, "run")
	if err != nil {
		return err
	}
	rec, _, err := tx.Get(ctx, key)
	if err != nil {
		return err
	}
	r, kind := codec.DecodeRun(rec)
	if kind != codec.Canonical {
		return fmt.Errorf("%v is %v", key, kind)
	}
	r.Payload = json.RawMessage(`{"n": 2}`)
	if rec, err = codec.EncodeRun(r); err != nil {
		return err
	}
	return all(tx.Replace(ctx, rec), mark(ctx, tx, env))
}

func updateAndInsert(ctx context.Context, tx storage.Tx, env string, _ func(func() error) error, _ *world) error {
	slot, other, absent := slotKey(env, 1), slotKey(env, 2), slotKey(env, 99)
	if _, _, err := tx.Get(ctx, other, storage.ReadOnly); err != nil {
		return err
	}
	found, err := tx.GetMany(ctx, []storage.Key{slot, absent})
	if err != nil {
		return err
	}
	return all(
		tx.Replace(ctx, number(slot, numberIn(found[slot])+1)),
		tx.Create(ctx, number(absent, 99)),
		mark(ctx, tx, env))
}

func claim(ctx context.Context, tx storage.Tx, env string, _ func(func() error) error, _ *world) error {
	partition, err := codec.QueueSlotExpiryPartition(env)
	if err != nil {
		return err
	}
	page, err := tx.Query(ctx, storage.Query{Index: storage.QueueSlotsByExpiry, Partition: partition, Lock: storage.Exclusive})
	if err != nil {
		return err
	}
	for _, rec := range page.Records {
		if err := tx.Replace(ctx, number(rec.Key, numberIn(rec)+1)); err != nil {
			return err
		}
	}
	if len(page.Records) < 3 {
		// What a lost attempt still holds is passed over. It is not there for long.
		return errClaimedByOther
	}
	return mark(ctx, tx, env)
}

// replayed is stale the first time: somebody else writes what it has read.
func replayed(ctx context.Context, tx storage.Tx, env string, once func(func() error) error, w *world) error {
	key := slotKey(env, 1)
	if err := increment(ctx, tx, key); err != nil {
		return err
	}
	err := once(func() error {
		_, err := w.driver.Transact(w.ctx, "aside", func(ctx context.Context, tx storage.Tx) error { return increment(ctx, tx, key) })
		return err
	})
	return all(err, mark(ctx, tx, env))
}

func appendItems(ctx context.Context, tx storage.Tx, env string, _ func(func() error) error, _ *world) error {
	head, err := codec.ObservationHeadKey(env, "stream")
	if err != nil {
		return err
	}
	return all(
		increment(ctx, tx, slotKey(env, 1)),
		tx.Append(ctx, head, json.RawMessage(`{"item": 1}`), json.RawMessage(`{"item": 2}`)),
		mark(ctx, tx, env))
}
