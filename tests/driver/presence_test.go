package driver_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/run"
	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/codec"
	"github.com/seed4391e180/runlane/storage/postgres"
)

// wait is the protocol of a durable completion wait: the run "waiter" waits for the
// end of the run "source", whose presence row says that somebody ever did.
type wait struct {
	*lab
	source, waiter, presence storage.Key
	queried                  int // times that a completion asked the waiters' index
}

func newWait(t *testing.T) *wait {
	w := &wait{lab: newLab(t, postgres.Config{})}
	var err error
	w.presence, err = codec.WaitPresenceKey("prod", "source")
	require.NoError(t, err)
	_, source := newRun(t, "source", "")
	_, waiter := newRun(t, "waiter", "")
	w.source, w.waiter = source[0].Key, waiter[0].Key
	w.transact(creates(source[0], waiter[0]))
	w.tap.take()
	return w
}

func decode(rec storage.Record) run.Run {
	r, kind := codec.DecodeRun(rec)
	if kind != codec.Canonical {
		panic(string(rec.Document))
	}
	return r
}

// register makes the waiter wait, unless the source is over. between runs once,
// after the reads of the first attempt.
func (w *wait) register(between func()) (commit storage.Commit, waits bool) {
	w.Helper()
	commit = w.transact(func(ctx context.Context, tx storage.Tx) error {
		found, err := tx.GetMany(ctx, []storage.Key{w.source, w.waiter, w.presence})
		if err != nil {
			return err
		}
		if f := between; f != nil {
			between = nil
			f()
		}
		if waits = !decode(found[w.source]).Status.Terminal(); !waits {
			return nil
		}
		r := decode(found[w.waiter])
		r.Status, r.WaitingFor, r.Due = run.StatusWaiting, "source", time.Time{}
		rec, err := codec.EncodeRun(r)
		if err != nil {
			return err
		}
		if _, ok := found[w.presence]; !ok {
			if err := tx.Create(ctx, storage.Record{Key: w.presence, Document: []byte(`{}`)}); err != nil {
				return err
			}
		}
		return tx.Replace(ctx, rec)
	})
	return commit, waits
}

// complete ends the source, and releases who waits for it. A worker expects no
// presence row, and asks the index only if there is one.
func (w *wait) complete(between func()) (commit storage.Commit) {
	w.Helper()
	source, found, err := get(w.Context(), w.d, w.source)
	require.NoError(w, err)
	require.True(w, found)
	w.tap.take()
	present := false
	commit = w.transact(func(ctx context.Context, tx storage.Tx) error {
		rec, _, err := tx.Assume(ctx, source)
		if err != nil {
			return err
		}
		if _, present, err = tx.AssumeAbsent(ctx, w.presence); err != nil {
			return err
		}
		if f := between; f != nil {
			between = nil
			f()
		}
		r := decode(rec)
		r.Status, r.Due, r.Finished = run.StatusSucceeded, time.Time{}, r.Created
		if rec, err = codec.EncodeRun(r); err != nil {
			return err
		}
		return tx.Replace(ctx, rec)
	})
	if present {
		w.queried++
		partition, err := codec.WaitingPartition("prod", "source")
		require.NoError(w, err)
		w.transact(func(ctx context.Context, tx storage.Tx) error {
			page, err := tx.Query(ctx, storage.Query{Index: storage.RunsWaitingForCompletion, Partition: partition, Lock: storage.Exclusive})
			if err != nil {
				return err
			}
			for _, rec := range page.Records {
				r := decode(rec)
				r.Status, r.WaitingFor, r.Due = run.StatusQueued, "", r.Created
				if rec, err = codec.EncodeRun(r); err != nil {
					return err
				}
				if err := tx.Replace(ctx, rec); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return commit
}

func (w *wait) waiterStatus() string {
	w.Helper()
	return scalar[string](w.lab, "SELECT status FROM runlane.runlane_runs WHERE run_id = $1", w.waiter.ID)
}

func (w *wait) presenceRows() int {
	w.Helper()
	return scalar[int](w.lab, "SELECT count(*) FROM runlane.runlane_record_run_completion_wait_presence")
}

// TestWaitPresence proves what makes durable completion waits cheap and safe: that a
// presence row is absent is as good as a look into the waiters' index, whatever
// happens at the same time, and costs nothing.
func TestWaitPresence(t *testing.T) {
	t.Run("a run that nobody waits for leaves no row and asks no index", func(t *testing.T) {
		w := newWait(t)
		commit := w.complete(nil)
		require.Equal(t, 1, commit.RoundTrips)
		require.Zero(t, w.queried)
		require.Zero(t, w.presenceRows())
		for _, s := range w.tap.take() {
			require.NotContains(t, s.sql, "r.runs_waiting_for_completion_partition = ")
		}
	})
	t.Run("an absent row is a dependency of the completion", func(t *testing.T) {
		w := newWait(t)
		commit := w.complete(func() {
			_, waits := w.register(nil)
			require.True(t, waits)
		})
		require.Equal(t, 2, commit.Attempts)
		require.Equal(t, 1, w.queried)
		require.Equal(t, "queued", w.waiterStatus(), "a waiter is lost")
	})
	t.Run("the source's end is a dependency of the registration", func(t *testing.T) {
		w := newWait(t)
		commit, waits := w.register(func() { w.complete(nil) })
		require.Equal(t, 2, commit.Attempts)
		require.False(t, waits)
		require.Equal(t, "queued", w.waiterStatus(), "a waiter is lost")
		require.Zero(t, w.presenceRows())
	})
	t.Run("the row stays when nobody waits any more and the run is gone", func(t *testing.T) {
		w := newWait(t)
		w.register(nil)
		require.Equal(t, "waiting", w.waiterStatus())
		w.complete(nil)
		require.Equal(t, []any{1, "queued", 1}, []any{w.queried, w.waiterStatus(), w.presenceRows()})
		w.transact(func(ctx context.Context, tx storage.Tx) error {
			if _, _, err := tx.Get(ctx, w.source); err != nil {
				return err
			}
			return tx.Delete(ctx, w.source)
		})
		require.Equal(t, 1, w.presenceRows())
	})
	t.Run("a present row says no more than that the index must be asked", func(t *testing.T) {
		w := newWait(t)
		w.transact(creates(storage.Record{Key: w.presence, Document: []byte(`{}`)}))
		w.complete(nil)
		require.Equal(t, []any{1, "queued"}, []any{w.queried, w.waiterStatus()})
	})
}
