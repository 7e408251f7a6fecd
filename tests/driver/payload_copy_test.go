package driver_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/run"
	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/codec"
)

var firstOfMarch = time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)

// family is a run that shares its payload with its Created event, as both were
// written.
type family struct {
	run, event storage.Record
}

// act is what a transaction does to one side of a family.
type act struct {
	name   string // "" is the act of leaving it alone
	copies bool   // it takes the payload from under the event, or writes the event
	do     func(ctx context.Context, tx storage.Tx, f family) error
	want   func(f family) *storage.Record // the record afterwards; nil: it is gone
}

// putting is the act of replacing a record that was read.
func putting(name string, copies bool, edit func(f family) storage.Record) act {
	return act{name, copies, func(ctx context.Context, tx storage.Tx, f family) error {
		return tx.Replace(ctx, edit(f))
	}, func(f family) *storage.Record {
		rec := edit(f)
		return &rec
	}}
}

// editedRun is the family's run as change leaves it.
func editedRun(f family, change func(r *run.Run)) storage.Record {
	r, _ := codec.DecodeRun(f.run)
	change(&r)
	return encoded(codec.EncodeRun(r))
}

func editedEvent(f family, change func(e *run.Event)) storage.Record {
	e, _ := codec.DecodeEvent(f.event)
	change(&e)
	return encoded(codec.EncodeEvent(e))
}

// encoded is for records that are legal by construction.
func encoded(rec storage.Record, err error) storage.Record {
	if err != nil {
		panic(err)
	}
	return rec
}

func raw(key storage.Key, doc string) storage.Record {
	return storage.Record{Key: key, Document: []byte(doc)}
}

// runActs are all that can happen to the run.
func runActs() []act {
	return []act{
		{"", false, func(context.Context, storage.Tx, family) error { return nil }, func(f family) *storage.Record { return &f.run }},
		putting("the run's metadata change", false, func(f family) storage.Record {
			return editedRun(f, func(r *run.Run) { r.Metadata = map[string]string{"k": "v"} })
		}),
		putting("the run's payload changes", true, func(f family) storage.Record {
			return editedRun(f, func(r *run.Run) { r.Payload = []byte(`{"n": 2}`) })
		}),
		putting("the run's payload becomes null", true, func(f family) storage.Record {
			return editedRun(f, func(r *run.Run) { r.Payload = []byte(`null`) })
		}),
		putting("the run's payload goes", true, func(f family) storage.Record {
			return editedRun(f, func(r *run.Run) { r.Payload = nil })
		}),
		{"the run is deleted", true, func(ctx context.Context, tx storage.Tx, f family) error { return tx.Delete(ctx, f.run.Key) },
			func(family) *storage.Record { return nil }},
		putting("the run is tombstoned", true, func(f family) storage.Record {
			r, _ := codec.DecodeRun(f.run)
			return encoded(codec.EncodeTombstone(r.Environment, r.ID))
		}),
		putting("the run becomes opaque", true, func(f family) storage.Record {
			return raw(f.run.Key, `{"codec":"run","v":9,"value":{"payload":{"n":3}}}`)
		}),
		putting("the run loses its value", true, func(f family) storage.Record { return raw(f.run.Key, `{"value":[{"payload":{"n":1}}]}`) }),
		{"the run is deleted and created", true, func(ctx context.Context, tx storage.Tx, f family) error {
			return errors.Join(tx.Delete(ctx, f.run.Key), tx.Create(ctx, raw(f.run.Key, `{"value":{"payload":4}}`)))
		}, func(f family) *storage.Record {
			rec := raw(f.run.Key, `{"value":{"payload":4}}`)
			return &rec
		}},
	}
}

// eventActs are all that can happen to the event.
func eventActs() []act {
	return []act{
		{"", false, func(context.Context, storage.Tx, family) error { return nil }, func(f family) *storage.Record { return &f.event }},
		putting("the event is replaced by itself", true, func(f family) storage.Record { return f.event }),
		putting("the event gets another payload", true, func(f family) storage.Record {
			return editedEvent(f, func(e *run.Event) {
				created := e.Data.(run.Created)
				created.Payload = []byte(`{"n": 5}`)
				e.Data = created
			})
		}),
		putting("the event is transferred to another run", true, func(f family) storage.Record {
			return editedEvent(f, func(e *run.Event) { e.RunID = "another" })
		}),
		putting("the event is transferred to another sequence", true, func(f family) storage.Record {
			return editedEvent(f, func(e *run.Event) { e.Sequence = 7 })
		}),
		putting("the event becomes opaque", true, func(f family) storage.Record { return raw(f.event.Key, `{"value":{"event":{"payload":6}}}`) }),
		{"the event is deleted", true, func(ctx context.Context, tx storage.Tx, f family) error { return tx.Delete(ctx, f.event.Key) },
			func(family) *storage.Record { return nil }},
		{"the event is deleted and created", true, func(ctx context.Context, tx storage.Tx, f family) error {
			return errors.Join(tx.Delete(ctx, f.event.Key), tx.Create(ctx, f.event))
		}, func(f family) *storage.Record { return &f.event }},
	}
}

// newFamily stores a run with its event, in one transaction with a family of another
// environment that has the same names, and returns both.
func (w *world) newFamily(id string) (f, twin family) {
	w.t.Helper()
	at := uuid.New()
	written := func(environment, payload string) family {
		event := run.Event{ID: at, Environment: environment, RunID: id, Sequence: 1, At: firstOfMarch, Data: run.Created{
			Task: "mail", Queue: "default", Priority: 2, Source: run.Source{Type: run.SourceTrigger}, Payload: []byte(payload),
		}}
		r, err := run.Reduce(nil, 1, event)
		require.NoError(w.t, err)
		return family{encoded(codec.EncodeRun(r)), encoded(codec.EncodeEvent(event))}
	}
	f, twin = written("prod", `{"n": 1}`), written("staging", `{"of": "the twin"}`)
	w.create(f.run, f.event, twin.run, twin.event)
	require.True(w.t, w.shares(f.event.Key) && w.shares(twin.event.Key))
	return f, twin
}

// failure makes a transaction fail: before it is sent, or in the statement that makes
// the copies.
type failure struct {
	name string
	with error
	do   func(ctx context.Context, tx storage.Tx, attempt int) error
}

func (w *world) failures() []failure {
	w.t.Helper()
	taken := raw(storage.Key{Collection: storage.QueueSlots, Partition: "$prod!", ID: "$taken!"}, `{}`)
	held := func(id string) storage.Record {
		_, recs := newRun(w.t, id, "")
		r, _ := codec.DecodeRun(recs[0])
		r.SingletonKey = "held"
		return encoded(codec.EncodeRun(r))
	}
	w.create(taken, held("holder"))
	second := held("not the holder")
	refused := errors.New("refused by the callback")
	return []failure{
		{"callback", refused, func(context.Context, storage.Tx, int) error { return refused }},
		{"conflicting create", storage.ErrRecordExists, func(ctx context.Context, tx storage.Tx, _ int) error {
			return tx.Create(ctx, taken)
		}},
		{"singleton", storage.ErrDuplicateActive, func(ctx context.Context, tx storage.Tx, _ int) error {
			return tx.Create(ctx, second)
		}},
		{"stale dependency", refused, func(ctx context.Context, tx storage.Tx, attempt int) error {
			stale := taken
			stale.Version = storage.MakeVersion(1 << 60)
			if _, _, err := tx.Assume(ctx, stale); err != nil || attempt > 1 {
				return errors.Join(err, refused)
			}
			return nil
		}},
	}
}

// together names what happens to a run and to its event in one transaction.
func together(onRun, onEvent act) string {
	switch [2]string{onRun.name, onEvent.name} {
	case [2]string{"", ""}:
		return "nothing"
	case [2]string{"the run is deleted", "the event is deleted"}:
		return "run and event deleted at once"
	case [2]string{"the run is deleted", "the event is transferred to another run"}:
		return "run deleted and event transferred at once"
	}
	return strings.Trim(onRun.name+", "+onEvent.name, ", ")
}

// everyPair runs a test for everything that can happen to a run together with
// everything that can happen to its event.
func (w *world) everyPair(test func(w *world, onRun, onEvent act)) {
	for _, onRun := range runActs() {
		for _, onEvent := range eventActs() {
			w.t.Run(together(onRun, onEvent), func(t *testing.T) { test(&world{t, w.d, w.pool}, onRun, onEvent) })
		}
	}
	w.sharingIsSound()
}

// both is the transaction that does both to a family, reading more records besides.
func both(f family, onRun, onEvent act, more ...storage.Key) func(ctx context.Context, tx storage.Tx) error {
	return func(ctx context.Context, tx storage.Tx) error {
		if _, err := tx.GetMany(ctx, append(more, f.run.Key, f.event.Key)); err != nil {
			return err
		}
		return errors.Join(onEvent.do(ctx, tx, f), onRun.do(ctx, tx, f))
	}
}

// TestCopyOnWrite does everything to the run together with everything to the event.
// Afterwards each record reads as it was written last, and nothing happened to the
// family of the same names in another environment.
func TestCopyOnWrite(t *testing.T) {
	newWorld(t).everyPair(func(w *world, onRun, onEvent act) {
		f, twin := w.newFamily(w.t.Name())
		before, _ := w.read(f.event.Key)
		others := w.rowVersions(twin)
		w.must(both(f, onRun, onEvent, twin.run.Key, twin.event.Key))
		w.holds(f.run.Key, onRun.want(f))
		w.holds(f.event.Key, onEvent.want(f))
		require.Equal(w.t, others, w.rowVersions(twin))
		if onEvent.want(f) == nil {
			return
		}
		require.Equal(w.t, !onRun.copies && !onEvent.copies, w.shares(f.event.Key))
		if onEvent.name == "" {
			after, _ := w.read(f.event.Key)
			require.Equal(w.t, before.Version, after.Version, "a copy does not change the logical event")
		}
	})
}

// TestCopyRollsBack does the same in transactions that fail: no row is touched, so
// the event still shares.
func TestCopyRollsBack(t *testing.T) {
	w := newWorld(t)
	failures := w.failures()
	n := 0
	w.everyPair(func(w *world, onRun, onEvent act) {
		f, twin := w.newFamily(w.t.Name())
		before := w.rowVersions(f, twin)
		n++
		for i, failure := range failures {
			if onRun.name != "" && onEvent.name != "" && i != n%len(failures) {
				continue // the acts alone fail in every way, together in one
			}
			attempt := 0
			_, err := w.transact(func(ctx context.Context, tx storage.Tx) error {
				attempt++
				if err := both(f, onRun, onEvent)(ctx, tx); err != nil {
					return err
				}
				return failure.do(ctx, tx, attempt)
			})
			require.ErrorIs(w.t, err, failure.with, failure.name)
			require.Equal(w.t, before, w.rowVersions(f, twin), failure.name)
		}
		require.True(w.t, w.shares(f.event.Key) && w.shares(twin.event.Key))
		w.holds(f.event.Key, &f.event)
	})
}

// TestCopiesInTwoEnvironments changes two families with the same names in one
// transaction: what happens to the one does not count for the other.
func TestCopiesInTwoEnvironments(t *testing.T) {
	newWorld(t).everyPair(func(w *world, onRun, onEvent act) {
		f, twin := w.newFamily(w.t.Name())
		w.must(func(ctx context.Context, tx storage.Tx) error {
			if _, err := tx.GetMany(ctx, []storage.Key{f.run.Key, twin.event.Key}); err != nil {
				return err
			}
			return errors.Join(onRun.do(ctx, tx, f), onEvent.do(ctx, tx, twin))
		})
		w.holds(f.run.Key, onRun.want(f))
		w.holds(f.event.Key, &f.event)
		w.holds(twin.run.Key, &twin.run)
		w.holds(twin.event.Key, onEvent.want(twin))
		require.Equal(w.t, !onRun.copies, w.shares(f.event.Key))
	})
}

// TestCopiesOfMany takes the payloads from under many events in one transaction, in
// which others are written themselves.
func TestCopiesOfMany(t *testing.T) {
	w := newWorld(t)
	runs, events := runActs(), eventActs()
	type pair struct {
		f       family
		onRun   act
		onEvent act
	}
	var pairs []pair
	var keys []storage.Key
	for i := range 200 {
		f, _ := w.newFamily(fmt.Sprint("r", i))
		pairs = append(pairs, pair{f, runs[i%len(runs)], events[i/len(runs)%len(events)]})
		keys = append(keys, f.run.Key, f.event.Key)
	}
	w.must(func(ctx context.Context, tx storage.Tx) error {
		if _, err := tx.GetMany(ctx, keys); err != nil {
			return err
		}
		for _, p := range pairs {
			if err := errors.Join(p.onRun.do(ctx, tx, p.f), p.onEvent.do(ctx, tx, p.f)); err != nil {
				return err
			}
		}
		return nil
	})
	for _, p := range pairs {
		w.holds(p.f.run.Key, p.onRun.want(p.f))
		w.holds(p.f.event.Key, p.onEvent.want(p.f))
	}
	w.sharingIsSound()
}

// holds requires that a record reads as it was written, or is gone.
func (w *world) holds(key storage.Key, want *storage.Record) {
	w.t.Helper()
	got, found := w.read(key)
	require.Equal(w.t, want != nil, found, "%v", key)
	if want != nil {
		require.JSONEq(w.t, string(want.Document), string(got.Document))
	}
}

// rowVersions are the transactions that wrote the rows of families last, whose marks
// say whether anything was done to the rows at all.
func (w *world) rowVersions(families ...family) (versions []string) {
	w.t.Helper()
	for _, f := range families {
		var version string
		require.NoError(w.t, w.pool.QueryRow(w.t.Context(), `
			SELECT concat_ws(' ', r.xmin, r.ctid, r.record_version, e.xmin, e.ctid, e.record_version, e.payload_from_run)
			FROM runlane.runlane_runs r, runlane.runlane_record_run_events e
			WHERE r.environment_key = $1 AND r.run_id = $2 AND e.environment_key = $1 AND e.record_id = $3`,
			f.run.Key.Partition, f.run.Key.ID, f.event.Key.ID).Scan(&version))
		versions = append(versions, version)
	}
	return versions
}

// sharingIsSound requires of every event that shares that its run is there and has a
// payload, and that no payload is stored in two places.
func (w *world) sharingIsSound() {
	w.t.Helper()
	var unsound int
	require.NoError(w.t, w.pool.QueryRow(w.t.Context(), `
		SELECT count(*) FROM runlane.runlane_record_run_events e
		LEFT JOIN runlane.runlane_runs r USING (environment_key, run_id)
		WHERE e.payload_from_run AND (r.record_payload IS NULL OR e.record_document #> '{value,event}' ? 'payload' OR NOT e.sequence_index_native)`).Scan(&unsound))
	require.Zero(w.t, unsound)
	require.NoError(w.t, w.pool.QueryRow(w.t.Context(), `
		SELECT count(*) FROM runlane.runlane_runs WHERE jsonb_typeof(record_document -> 'value') = 'object' AND record_document -> 'value' ? 'payload'`).Scan(&unsound))
	require.Zero(w.t, unsound)
}
