package driver_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/run"
	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/codec"
	"github.com/seed4391e180/runlane/storage/postgres"
)

// TestPayloadKeyIsOneForBothSides lets the writer of a run stop in the middle of its
// commit, where it is about to copy the payload into the event. Whoever writes the
// event meanwhile is turned away by the private key and waits for it; so it is the
// other way round. Their records have no key in common.
func TestPayloadKeyIsOneForBothSides(t *testing.T) {
	d, db := open(t, postgres.Config{LockTimeout: time.Minute, StatementTimeout: time.Minute})
	w := &world{t, d, db.Pool(t)}
	some := []string{"the run's payload changes", "the run is deleted", "the event is transferred to another run"}
	for _, onRun := range runActs() {
		for _, onEvent := range eventActs() {
			if !onRun.copies || !onEvent.copies || !slices.Contains(some, onRun.name) && !slices.Contains(some, onEvent.name) {
				continue
			}
			for _, order := range []string{"run first", "event first"} {
				if t.Failed() {
					return // each of them waits long for what does not happen
				}
				t.Run(order+": "+together(onRun, onEvent), func(t *testing.T) {
					w := &world{t, w.d, w.pool}
					f, _ := w.newFamily(t.Name())
					first, second := w.acting(f.run.Key, onRun, f), w.acting(f.event.Key, onEvent, f)
					if order == "event first" {
						first, second = second, first
					}
					require.Equal(t, [2]int{1, 2}, w.oneBehindTheOther(f.event.Key, first, second))
					w.holds(f.run.Key, onRun.want(f))
					w.holds(f.event.Key, onEvent.want(f))
				})
			}
		}
	}
	w.sharingIsSound()
}

// TestTransferTakesBothKeys: an event that goes from one run to another is kept from
// both of them while their payloads change.
func TestTransferTakesBothKeys(t *testing.T) {
	d, db := open(t, postgres.Config{LockTimeout: time.Minute, StatementTimeout: time.Minute})
	w := &world{t, d, db.Pool(t)}
	changed := runActs()[2]
	require.Equal(t, "the run's payload changes", changed.name)
	for _, busy := range []string{"from", "to"} {
		t.Run(busy, func(t *testing.T) {
			w := &world{t, w.d, w.pool}
			from, _ := w.newFamily("from " + busy)
			to, _ := w.newFamily("to " + busy)
			moved := editedEvent(from, func(e *run.Event) { e.RunID = "to " + busy })
			transfer := act{do: func(ctx context.Context, tx storage.Tx, _ family) error { return tx.Replace(ctx, moved) }}
			changing := from
			if busy == "to" {
				changing = to
			}
			attempts := w.oneBehindTheOther(changing.event.Key, w.acting(changing.run.Key, changed, changing), w.acting(from.event.Key, transfer, from))
			require.Equal(t, [2]int{1, 2}, attempts)
			w.holds(from.event.Key, &moved)
			w.holds(to.event.Key, &to.event)
			w.holds(changing.run.Key, changed.want(changing))
		})
	}
	w.sharingIsSound()
}

// acting is a transaction that does something to one record of a family.
func (w *world) acting(key storage.Key, a act, f family) func() (storage.Commit, error) {
	return func() (storage.Commit, error) {
		return w.transact(func(ctx context.Context, tx storage.Tx) error {
			if _, _, err := tx.Get(ctx, key); err != nil {
				return err
			}
			return a.do(ctx, tx, f)
		})
	}
}

// oneBehindTheOther holds the event's row while the first transaction commits, until
// the second has been turned away, and returns how many attempts each took.
func (w *world) oneBehindTheOther(event storage.Key, first, second func() (storage.Commit, error)) (attempts [2]int) {
	w.t.Helper()
	tx, err := w.pool.Begin(w.t.Context())
	require.NoError(w.t, err)
	defer tx.Rollback(w.t.Context()) //nolint:errcheck // it is over then
	_, err = tx.Exec(w.t.Context(), "SELECT FROM runlane.runlane_record_run_events WHERE environment_key = $1 AND record_id = $2 FOR UPDATE", event.Partition, event.ID)
	require.NoError(w.t, err)

	var commits [2]storage.Commit
	var errs [2]error
	var both sync.WaitGroup
	both.Go(func() { commits[0], errs[0] = first() })
	w.awaitWaiting("a row", "transactionid", "tuple")
	both.Go(func() { commits[1], errs[1] = second() })
	w.awaitWaiting("the private key", "advisory")
	require.NoError(w.t, tx.Commit(w.t.Context()))
	both.Wait()
	require.NoError(w.t, errors.Join(errs[:]...))
	return [2]int{commits[0].Attempts, commits[1].Attempts}
}

// awaitWaiting waits until some backend of the database waits for a lock of that type.
func (w *world) awaitWaiting(what string, types ...string) {
	w.t.Helper()
	deadline := time.Now().Add(15 * time.Second)
	for {
		var n int
		require.NoError(w.t, w.pool.QueryRow(w.t.Context(), `
			SELECT count(*) FROM pg_locks l JOIN pg_stat_activity a USING (pid)
			WHERE NOT l.granted AND l.locktype = ANY ($1) AND a.datname = current_database()`, types).Scan(&n))
		if n > 0 {
			return
		}
		require.True(w.t, time.Now().Before(deadline), "nobody waits for %s", what)
		time.Sleep(time.Millisecond)
	}
}

// TestRunAndEventWrittenAtOnce lets writers of runs, writers of their events and
// readers go at each other. An event never shows another payload than its own, at no
// moment and to nobody.
func TestRunAndEventWrittenAtOnce(t *testing.T) {
	w := newWorld(t)
	const families = 4
	const rounds = 9
	for round := range rounds {
		var all []family
		for i := range families {
			f, _ := w.newFamily(fmt.Sprintf("%d %d", round, i))
			all = append(all, f)
		}
		ctx, stop := context.WithCancel(t.Context())
		var writers, readers sync.WaitGroup
		for _, f := range all {
			readers.Go(func() { w.watches(ctx, f) })
			for _, do := range writersOf(f, round) {
				writers.Go(func() {
					if _, err := w.d.Transact(t.Context(), "write", do); err != nil {
						t.Errorf("a writer: %v", err)
					}
				})
			}
		}
		writers.Wait()
		stop()
		readers.Wait()
		for _, f := range all {
			require.JSONEq(t, `{"n": 1}`, w.eventPayload(f.event.Key))
		}
	}
	w.sharingIsSound()
}

// writersOf are transactions that go at one family at once. None of them changes the
// payload of the event.
func writersOf(f family, round int) []func(ctx context.Context, tx storage.Tx) error {
	change := func(change func(*run.Run)) func(ctx context.Context, tx storage.Tx) error {
		return func(ctx context.Context, tx storage.Tx) error {
			rec, found, err := tx.Get(ctx, f.run.Key)
			if err != nil || !found {
				return err // another writer has deleted it
			}
			r, _ := codec.DecodeRun(rec)
			change(&r)
			return tx.Replace(ctx, encoded(codec.EncodeRun(r)))
		}
	}
	event := func(change func(*run.Event)) func(ctx context.Context, tx storage.Tx) error {
		return func(ctx context.Context, tx storage.Tx) error {
			rec, _, err := tx.Get(ctx, f.event.Key)
			if err != nil {
				return err
			}
			e, _ := codec.DecodeEvent(rec)
			change(&e)
			return tx.Replace(ctx, encoded(codec.EncodeEvent(e)))
		}
	}
	all := []func(ctx context.Context, tx storage.Tx) error{
		change(func(r *run.Run) { r.Payload = []byte(`{"n": 2}`) }),
		change(func(r *run.Run) { r.Metadata = map[string]string{"round": fmt.Sprint(round)} }),
		event(func(e *run.Event) { e.Sequence = 1 + e.Sequence%2 }),
		event(func(e *run.Event) { e.At = e.At.Add(time.Second) }),
	}
	if round%3 == 0 {
		all = append(all, func(ctx context.Context, tx storage.Tx) error {
			if _, found, err := tx.Get(ctx, f.run.Key); err != nil || !found {
				return err
			}
			return tx.Delete(ctx, f.run.Key)
		})
	}
	return all
}

// watches reads the event in every way until ctx ends.
func (w *world) watches(ctx context.Context, f family) {
	e, _ := codec.DecodeEvent(f.event)
	partition, _ := codec.EventsPartition(e.Environment, e.RunID)
	check := func(how string, payload []byte) {
		if valueText(payload) != `{"n":1}` {
			w.t.Errorf("%s shows the payload %s", how, payload)
		}
	}
	payloadOf := func(rec storage.Record) []byte {
		e, kind := codec.DecodeEvent(rec)
		if c, ok := e.Data.(run.Created); ok && kind == codec.Canonical {
			return c.Payload
		}
		return rec.Document
	}
	for lock := storage.Candidates; ctx.Err() == nil; lock = storage.Exclusive - lock {
		_, err := w.d.Transact(ctx, "watch", func(ctx context.Context, tx storage.Tx) error {
			page, err := tx.Query(ctx, storage.Query{Index: storage.RunEventsBySequence, Partition: partition, Lock: lock})
			if err != nil {
				return err
			}
			for _, rec := range page.Records {
				check("a query", payloadOf(rec))
			}
			rec, found, err := tx.Get(ctx, f.event.Key)
			if err == nil && found {
				check("a read", payloadOf(rec))
			}
			return err
		})
		if err != nil && ctx.Err() == nil {
			w.t.Errorf("a reader: %v", err)
		}
		page, err := w.d.ListEvents(ctx, storage.EventFilter{Environment: e.Environment, RunID: e.RunID})
		if err != nil && ctx.Err() == nil {
			w.t.Errorf("a reader: %v", err)
		}
		for _, e := range page.Events {
			check("ListEvents", e.Data.(run.Created).Payload)
		}
	}
}
