package driver_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/internal/pgtest"
	"github.com/seed4391e180/runlane/run"
	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/codec"
	"github.com/seed4391e180/runlane/storage/postgres"
)

// payloadSize is the size of the payloads whose way into the log is measured.
const payloadSize = 100_000

// incompressible is JSON text of that size which PostgreSQL stores whole.
func incompressible(seed uint64) string {
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
	r := rand.New(rand.NewPCG(seed, 1))
	var b strings.Builder
	b.WriteByte('"')
	for b.Len() < payloadSize-1 {
		b.WriteByte(letters[r.IntN(len(letters))])
	}
	b.WriteByte('"')
	return b.String()
}

// walLog measures what is written ahead. The server is the test's own, and nothing else
// writes there: no autovacuum, and no images of whole pages after a checkpoint, which
// have nothing to do with what a statement writes.
type walLog struct{ *world }

func newWALLog(t *testing.T) *walLog {
	t.Helper()
	cluster := pgtest.Private(t, pgtest.Options{Volatile: true, Settings: map[string]string{
		"autovacuum": "off", "full_page_writes": "off", "checkpoint_timeout": "1h", "wal_level": "replica",
	}})
	db := pgtest.New(t, pgtest.On(cluster))
	d, err := postgres.New(db.Pool(t), postgres.Config{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	w := &walLog{&world{t, d, db.Pool(t)}}
	w.trigger("warm", `1`) // versions are drawn, statements prepared
	return w
}

// bytes is how much a transaction writes into the log.
func (w *walLog) bytes(what string, fn func(ctx context.Context, tx storage.Tx) error) int64 {
	w.t.Helper()
	var before string
	var n int64
	require.NoError(w.t, w.pool.QueryRow(w.t.Context(), "SELECT pg_current_wal_insert_lsn()").Scan(&before))
	w.must(fn)
	require.NoError(w.t, w.pool.QueryRow(w.t.Context(), "SELECT pg_current_wal_insert_lsn() - $1::pg_lsn", before).Scan(&n))
	w.t.Logf("%7d bytes: %s", n, what)
	return n
}

// costs requires that a transaction writes the payload so many times, and little else.
func (w *walLog) costs(payloads int64, what string, fn func(ctx context.Context, tx storage.Tx) error) {
	w.t.Helper()
	n := w.bytes(what, fn)
	require.GreaterOrEqual(w.t, n, payloads*payloadSize, what)
	require.Less(w.t, n, payloads*payloadSize+payloadSize/4, what)
}

// changes is a transaction that replaces a run.
func changes(key storage.Key, change func(*run.Run)) func(ctx context.Context, tx storage.Tx) error {
	return func(ctx context.Context, tx storage.Tx) error { return replaceRun(ctx, tx, key, change) }
}

// TestUnchangedPayloadIsNotWrittenAgain counts how often a payload of 100 kB goes into the write-ahead
// log: once when its run is created, and not again whatever happens to the run, until
// something takes it from under the event that shares it.
func TestUnchangedPayloadIsNotWrittenAgain(t *testing.T) {
	w := newWALLog(t)
	now := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	n := uint64(0)
	fresh := func() (runKey, eventKey storage.Key) {
		n++
		_, recs := newRun(t, fmt.Sprint("r", n), incompressible(n))
		w.costs(1, "created with its event", func(ctx context.Context, tx storage.Tx) error {
			return errors.Join(tx.Create(ctx, recs[0]), tx.Create(ctx, recs[1]))
		})
		require.True(t, w.shares(recs[1].Key))
		return recs[0].Key, recs[1].Key
	}

	runKey, eventKey := fresh()
	lease := run.Lease{Token: uuid.New(), Worker: "w", Attempt: 1, Expires: now.Add(time.Minute), Duration: time.Minute}
	transition := func(what string, e run.EventData) {
		w.costs(0, what, changes(runKey, func(r *run.Run) {
			next, err := run.Reduce(r, r.Sequence+1, run.Event{ID: uuid.New(), Environment: r.Environment, RunID: r.ID, Sequence: r.Sequence + 1, At: now, Data: e})
			require.NoError(t, err)
			*r = next
		}))
	}
	transition("claimed", run.Started{Lease: lease})
	for range 3 {
		w.costs(0, "a heartbeat", changes(runKey, func(r *run.Run) {
			l := *r.Lease
			l.Expires = l.Expires.Add(time.Second)
			r.Lease = &l
		}))
	}
	transition("retried", run.RetryScheduled{Token: lease.Token, Due: now, Failure: run.Failure{Code: "error"}})
	lease.Token, lease.Attempt = uuid.New(), 2
	transition("claimed again", run.Started{Lease: lease})
	transition("succeeded", run.Succeeded{Token: lease.Token, Result: []byte(`{"ok": true}`)})
	w.costs(0, "the same value in another spelling", changes(runKey, func(r *run.Run) {
		r.Payload = []byte(fmt.Sprintf(`"\u%04x%s`, r.Payload[1], r.Payload[2:]))
	}))
	require.True(t, w.shares(eventKey))

	w.costs(2, "another payload: written, and the old one copied into the event", changes(runKey, func(r *run.Run) { r.Payload = []byte(incompressible(1001)) }))
	require.False(t, w.shares(eventKey))
	w.costs(1, "another payload again", changes(runKey, func(r *run.Run) { r.Payload = []byte(incompressible(1002)) }))
	w.costs(0, "no payload, which no event shares", changes(runKey, func(r *run.Run) { r.Payload = nil }))

	gone := func(keys ...storage.Key) func(ctx context.Context, tx storage.Tx) error {
		return func(ctx context.Context, tx storage.Tx) error {
			if _, err := tx.GetMany(ctx, keys); err != nil {
				return err
			}
			for _, key := range keys {
				if err := tx.Delete(ctx, key); err != nil {
					return err
				}
			}
			return nil
		}
	}
	runKey, _ = fresh()
	w.costs(1, "no payload: copied into the event", changes(runKey, func(r *run.Run) { r.Payload = nil }))
	runKey, eventKey = fresh()
	w.costs(1, "deleted: copied into the event", gone(runKey))
	w.costs(0, "the event deleted", gone(eventKey))
	runKey, eventKey = fresh()
	w.costs(0, "both deleted at once", gone(runKey, eventKey))
	runKey, eventKey = fresh()
	w.costs(0, "the event deleted first", gone(eventKey))
	w.costs(0, "then the run", gone(runKey))
	runKey, _ = fresh()
	w.costs(1, "tombstone: copied into the event", func(ctx context.Context, tx storage.Tx) error {
		rec, _, err := tx.Get(ctx, runKey)
		if err != nil {
			return err
		}
		r, _ := codec.DecodeRun(rec)
		return tx.Replace(ctx, encoded(codec.EncodeTombstone(r.Environment, r.ID)))
	})
	_, eventKey = fresh()
	w.costs(1, "the event replaced inline", func(ctx context.Context, tx storage.Tx) error {
		rec, _, err := tx.Get(ctx, eventKey)
		if err != nil {
			return err
		}
		return tx.Replace(ctx, rec)
	})
}
