package driver_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/run"
	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/codec"
	"github.com/seed4391e180/runlane/storage/postgres"
)

// world is one driver and direct SQL beside it.
type world struct {
	t    *testing.T
	d    *postgres.Driver
	pool *pgxpool.Pool
}

func newWorld(t *testing.T) *world {
	d, db := open(t, postgres.Config{})
	return &world{t, d, db.Pool(t)}
}

func (w *world) transact(fn func(ctx context.Context, tx storage.Tx) error) (storage.Commit, error) {
	return w.d.Transact(w.t.Context(), "test", fn)
}

func (w *world) must(fn func(ctx context.Context, tx storage.Tx) error) storage.Commit {
	w.t.Helper()
	commit, err := w.transact(fn)
	require.NoError(w.t, err)
	return commit
}

// trigger stores a run with its Created event.
func (w *world) trigger(id, payload string) (r run.Run, runKey, eventKey storage.Key) {
	w.t.Helper()
	r, recs := newRun(w.t, id, payload)
	w.must(func(ctx context.Context, tx storage.Tx) error {
		for _, rec := range recs {
			if err := tx.Create(ctx, rec); err != nil {
				return err
			}
		}
		return nil
	})
	return r, recs[0].Key, recs[1].Key
}

// replaceRun replaces a run by what change makes of it.
func replaceRun(ctx context.Context, tx storage.Tx, key storage.Key, change func(*run.Run)) error {
	rec, found, err := tx.Get(ctx, key)
	if err != nil || !found {
		return fmt.Errorf("get %v: found %v, %w", key, found, err)
	}
	r, kind := codec.DecodeRun(rec)
	if kind != codec.Canonical {
		return fmt.Errorf("%v is %v", key, kind)
	}
	change(&r)
	if rec, err = codec.EncodeRun(r); err != nil {
		return err
	}
	return tx.Replace(ctx, rec)
}

func (w *world) read(key storage.Key) (storage.Record, bool) {
	w.t.Helper()
	rec, found, err := get(w.t.Context(), w.d, key)
	require.NoError(w.t, err)
	return rec, found
}

func get(ctx context.Context, d storage.Transactor, key storage.Key) (rec storage.Record, found bool, err error) {
	_, err = d.Transact(ctx, "read", func(ctx context.Context, tx storage.Tx) (err error) {
		rec, found, err = tx.Get(ctx, key)
		return err
	})
	return rec, found, err
}

// eventPayload is the payload of a Created event as a raw read gives it.
func (w *world) eventPayload(key storage.Key) string {
	w.t.Helper()
	rec, found := w.read(key)
	require.True(w.t, found)
	event, kind := codec.DecodeEvent(rec)
	require.Equal(w.t, codec.Canonical, kind)
	return string(event.Data.(run.Created).Payload)
}

func (w *world) shares(key storage.Key) (shared bool) {
	w.t.Helper()
	require.NoError(w.t, w.pool.QueryRow(w.t.Context(),
		"SELECT payload_from_run FROM runlane.runlane_record_run_events WHERE environment_key = $1 AND record_id = $2", key.Partition, key.ID).Scan(&shared))
	return shared
}

func TestCreatedEventSharesThePayload(t *testing.T) {
	w := newWorld(t)
	payload := `{"text": "` + strings.Repeat("x", 100) + `"}`
	_, runKey, eventKey := w.trigger("r", payload)
	require.True(t, w.shares(eventKey))
	require.JSONEq(t, payload, w.eventPayload(eventKey))

	var document, stored string
	require.NoError(t, w.pool.QueryRow(t.Context(), "SELECT record_document::text FROM runlane.runlane_record_run_events WHERE record_id = $1", eventKey.ID).Scan(&document))
	require.NotContains(t, document, "xxxx", "the event's own document has no payload")
	require.NoError(t, w.pool.QueryRow(t.Context(), "SELECT record_document::text, record_payload::text FROM runlane.runlane_runs").Scan(&document, &stored))
	require.NotContains(t, document, "xxxx", "nor has the run's")
	require.JSONEq(t, payload, stored)

	w.must(func(ctx context.Context, tx storage.Tx) error {
		return replaceRun(ctx, tx, runKey, func(r *run.Run) { r.Metadata = map[string]string{"k": "v"} })
	})
	require.True(t, w.shares(eventKey), "a change that keeps the payload keeps the sharing")
}

// TestCopyOnWrite takes the payload away from a shared event in every way and
// finds the event unchanged, or replaced, and independent.
func TestCopyOnWrite(t *testing.T) {
	transferred := func(t *testing.T, w *world, eventKey storage.Key, to string) storage.Record {
		rec, found := w.read(eventKey)
		require.True(t, found)
		event, kind := codec.DecodeEvent(rec)
		require.Equal(t, codec.Canonical, kind)
		event.RunID = to
		rec, err := codec.EncodeEvent(event)
		require.NoError(t, err)
		return rec
	}
	tests := []struct {
		name    string
		payload string // of the event afterwards; "" is deleted
		do      func(w *world, runKey, eventKey storage.Key) func(ctx context.Context, tx storage.Tx) error
	}{
		{"the run's payload changes", `{"n": 1}`, func(_ *world, runKey, _ storage.Key) func(context.Context, storage.Tx) error {
			return func(ctx context.Context, tx storage.Tx) error {
				return replaceRun(ctx, tx, runKey, func(r *run.Run) { r.Payload = []byte(`{"n": 2}`) })
			}
		}},
		{"the run's payload goes", `{"n": 1}`, func(_ *world, runKey, _ storage.Key) func(context.Context, storage.Tx) error {
			return func(ctx context.Context, tx storage.Tx) error {
				return replaceRun(ctx, tx, runKey, func(r *run.Run) { r.Payload = nil })
			}
		}},
		{"the run is deleted", `{"n": 1}`, func(_ *world, runKey, _ storage.Key) func(context.Context, storage.Tx) error {
			return func(ctx context.Context, tx storage.Tx) error {
				if _, _, err := tx.Get(ctx, runKey); err != nil {
					return err
				}
				return tx.Delete(ctx, runKey)
			}
		}},
		{"the run is tombstoned", `{"n": 1}`, func(w *world, runKey, _ storage.Key) func(context.Context, storage.Tx) error {
			return func(ctx context.Context, tx storage.Tx) error {
				if _, _, err := tx.Get(ctx, runKey); err != nil {
					return err
				}
				rec, err := codec.EncodeTombstone("prod", "r")
				if err != nil {
					return err
				}
				return tx.Replace(ctx, rec)
			}
		}},
		{"the run becomes opaque", `{"n": 1}`, func(_ *world, runKey, _ storage.Key) func(context.Context, storage.Tx) error {
			return func(ctx context.Context, tx storage.Tx) error {
				if _, _, err := tx.Get(ctx, runKey); err != nil {
					return err
				}
				return tx.Replace(ctx, storage.Record{Key: runKey, Document: []byte(`{"codec":"run","v":99,"value":{"payload":{"n":3}}}`)})
			}
		}},
		{"the event is replaced by itself", `{"n": 1}`, func(w *world, _, eventKey storage.Key) func(context.Context, storage.Tx) error {
			rec := transferred(w.t, w, eventKey, "r")
			return func(ctx context.Context, tx storage.Tx) error {
				if _, _, err := tx.Get(ctx, eventKey); err != nil {
					return err
				}
				return tx.Replace(ctx, rec)
			}
		}},
		{"the event is transferred to another run", `{"n": 1}`, func(w *world, _, eventKey storage.Key) func(context.Context, storage.Tx) error {
			rec := transferred(w.t, w, eventKey, "another")
			return func(ctx context.Context, tx storage.Tx) error {
				if _, _, err := tx.Get(ctx, eventKey); err != nil {
					return err
				}
				return tx.Replace(ctx, rec)
			}
		}},
		{"run deleted and event transferred at once", `{"n": 1}`, func(w *world, runKey, eventKey storage.Key) func(context.Context, storage.Tx) error {
			rec := transferred(w.t, w, eventKey, "another")
			return func(ctx context.Context, tx storage.Tx) error {
				if _, err := tx.GetMany(ctx, []storage.Key{runKey, eventKey}); err != nil {
					return err
				}
				if err := tx.Delete(ctx, runKey); err != nil {
					return err
				}
				return tx.Replace(ctx, rec)
			}
		}},
		{"run and event deleted at once", "", func(_ *world, runKey, eventKey storage.Key) func(context.Context, storage.Tx) error {
			return func(ctx context.Context, tx storage.Tx) error {
				if _, err := tx.GetMany(ctx, []storage.Key{runKey, eventKey}); err != nil {
					return err
				}
				if err := tx.Delete(ctx, runKey); err != nil {
					return err
				}
				return tx.Delete(ctx, eventKey)
			}
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t)
			_, runKey, eventKey := w.trigger("r", `{"n": 1}`)
			require.True(t, w.shares(eventKey))
			before, _ := w.read(eventKey)
			do := test.do(w, runKey, eventKey)

			// First in a transaction that fails: the copy goes with it.
			refused := fmt.Errorf("refused")
			_, err := w.transact(func(ctx context.Context, tx storage.Tx) error {
				if err := do(ctx, tx); err != nil {
					return err
				}
				return refused
			})
			require.ErrorIs(t, err, refused)
			require.True(t, w.shares(eventKey))

			w.must(do)
			after, found := w.read(eventKey)
			if test.payload == "" {
				require.False(t, found)
				return
			}
			require.True(t, found)
			require.False(t, w.shares(eventKey))
			require.JSONEq(t, test.payload, w.eventPayload(eventKey))
			if !strings.Contains(test.name, "event") {
				require.Equal(t, before.Version, after.Version, "a copy does not change the logical event")
				require.JSONEq(t, string(before.Document), string(after.Document))
			}
		})
	}
}

// TestCopyRollsBack lets the statement that makes the copy fail as a whole.
func TestCopyRollsBack(t *testing.T) {
	w := newWorld(t)
	_, runKey, eventKey := w.trigger("r", `{"n": 1}`)
	_, blocker, _ := w.trigger("blocker", `1`)
	attempts := 0
	_, err := w.transact(func(ctx context.Context, tx storage.Tx) error {
		attempts++
		if attempts == 1 {
			if err := tx.Create(ctx, storage.Record{Key: blocker, Document: []byte(`{}`)}); err != nil {
				return err
			}
		}
		if err := replaceRun(ctx, tx, runKey, func(r *run.Run) { r.Payload = []byte(`2`) }); err != nil {
			return err
		}
		if attempts > 1 {
			return fmt.Errorf("the blind create failed the commit, as it should")
		}
		return nil
	})
	require.ErrorContains(t, err, "as it should")
	require.True(t, w.shares(eventKey))
	require.JSONEq(t, `{"n": 1}`, w.eventPayload(eventKey))
}

func TestWhatDoesNotShare(t *testing.T) {
	w := newWorld(t)
	_, recs := newRun(t, "later", `{"n": 1}`)
	w.must(func(ctx context.Context, tx storage.Tx) error { return tx.Create(ctx, recs[0]) })
	w.must(func(ctx context.Context, tx storage.Tx) error { return tx.Create(ctx, recs[1]) })
	require.False(t, w.shares(recs[1].Key), "another batch")

	_, recs = newRun(t, "different", `{"n": 1}`)
	event, _ := codec.DecodeEvent(recs[1])
	created := event.Data.(run.Created)
	created.Payload = []byte(`{"n": 2}`)
	event.Data = created
	other, err := codec.EncodeEvent(event)
	require.NoError(t, err)
	w.must(func(ctx context.Context, tx storage.Tx) error {
		if err := tx.Create(ctx, recs[0]); err != nil {
			return err
		}
		return tx.Create(ctx, other)
	})
	require.False(t, w.shares(other.Key), "another payload")
	require.JSONEq(t, `{"n": 2}`, w.eventPayload(other.Key))

	_, _, none := w.trigger("none", "")
	require.False(t, w.shares(none), "no payload")
	require.Empty(t, w.eventPayload(none))
	_, runKey, null := w.trigger("null", "null")
	require.True(t, w.shares(null), "JSON null is a payload")
	require.Equal(t, "null", w.eventPayload(null))
	var isNull bool
	require.NoError(t, w.pool.QueryRow(t.Context(), "SELECT record_payload IS NULL FROM runlane.runlane_runs WHERE run_id = $1", runKey.ID).Scan(&isNull))
	require.False(t, isNull)
}

// TestUnchangedPayloadIsNotWrittenAgain compares the WAL of a state change of a run
// with a large payload with that of a run with a small one.
func TestUnchangedPayloadIsNotWrittenAgain(t *testing.T) {
	w := newWorld(t)
	change := func(id, payload string) (bytes int64) {
		_, key, _ := w.trigger(id, payload)
		n := 0
		touch := func(ctx context.Context, tx storage.Tx) error {
			n++
			return replaceRun(ctx, tx, key, func(r *run.Run) { r.Metadata = map[string]string{"n": fmt.Sprint(n)} })
		}
		w.must(touch) // takes the full-page images of the first change
		var before, after string
		require.NoError(t, w.pool.QueryRow(t.Context(), "SELECT pg_current_wal_insert_lsn()").Scan(&before))
		w.must(touch)
		require.NoError(t, w.pool.QueryRow(t.Context(), "SELECT pg_current_wal_insert_lsn(), pg_current_wal_insert_lsn() - $1::pg_lsn", before).Scan(&after, &bytes))
		return bytes
	}
	// Random text does not compress, so it is stored out of line whole.
	var random strings.Builder
	for random.Len() < 100_000 {
		random.WriteString(uuid.NewString())
	}
	small, large := change("small", `"x"`), change("large", `"`+random.String()+`"`)
	require.Less(t, large, small+20_000, "WAL bytes of a state change: %d with a small payload, %d with 100 kB", small, large)
	t.Logf("WAL bytes of a state change: %d with a small payload, %d with 100 kB", small, large)

	// The same value in another spelling is unchanged as well.
	_, key, eventKey := w.trigger("spelling", `{"a": 1, "b": [1e2]}`)
	w.must(func(ctx context.Context, tx storage.Tx) error {
		return replaceRun(ctx, tx, key, func(r *run.Run) { r.Payload = []byte(`{"b":[100],"a":1}`) })
	})
	require.JSONEq(t, `{"a": 1, "b": [100]}`, w.eventPayload(eventKey))
}
