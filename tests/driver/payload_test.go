package driver_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

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
	w.create(recs...)
	return r, recs[0].Key, recs[1].Key
}

// create stores records in one transaction, without looking.
func (w *world) create(recs ...storage.Record) storage.Commit {
	w.t.Helper()
	return w.must(func(ctx context.Context, tx storage.Tx) error {
		for _, rec := range recs {
			if err := tx.Create(ctx, rec); err != nil {
				return err
			}
		}
		return nil
	})
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

// shares reports whether an event that is there takes its payload from its run.
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

// TestWhatDoesNotShare: only an exact canonical run and its first event that are
// inserted by one transaction share. Everything else has a payload of its own.
func TestWhatDoesNotShare(t *testing.T) {
	w := newWorld(t)
	_, recs := newRun(t, "later", `{"n": 1}`)
	w.create(recs[0])
	w.create(recs[1])
	require.False(t, w.shares(recs[1].Key), "another batch")

	// edited stores a run and its event as change leaves them.
	edited := func(id string, change func(run, event *storage.Record)) storage.Key {
		_, recs := newRun(t, id, `{"n": 1}`)
		change(&recs[0], &recs[1])
		w.create(recs...)
		for _, rec := range recs {
			got, found := w.read(rec.Key)
			require.True(t, found)
			if !strings.ContainsAny(string(rec.Document), storage.CommitTime+storage.CommitTimeLater) {
				require.JSONEq(t, string(rec.Document), string(got.Document), id)
			}
		}
		return recs[1].Key
	}
	in := func(rec *storage.Record, old, replacement string) {
		require.Contains(t, string(rec.Document), old)
		rec.Document = []byte(strings.Replace(string(rec.Document), old, replacement, 1))
	}
	for name, change := range map[string]func(run, event *storage.Record){
		"another payload":             func(_, event *storage.Record) { in(event, `{"n": 1}`, `{"n": 2}`) },
		"the same digits, more zeros": func(_, event *storage.Record) { in(event, `{"n": 1}`, `{"n": 1.0}`) },
		"another sequence":            func(_, event *storage.Record) { in(event, `"sequence":1`, `"sequence":2`); event.Entries = nil },
		"another run": func(_, event *storage.Record) {
			in(event, `"run_id":"another run"`, `"run_id":"nobody"`)
			event.Entries = nil
		},
		"no entry":          func(_, event *storage.Record) { event.Entries = nil },
		"an opaque run":     func(run, _ *storage.Record) { in(run, `"v":1`, `"v":2`); run.Entries = nil },
		"an opaque event":   func(_, event *storage.Record) { in(event, `"v":1`, `"v":2`); event.Entries = nil },
		"a malformed event": func(_, event *storage.Record) { in(event, `"task":"mail"`, `"task":""`); event.Entries = nil },
		"an event of another type": func(_, event *storage.Record) {
			in(event, `"type":"run.created"`, `"type":"run.resumed"`)
			event.Entries = nil
		},
		"a time in the payload": func(run, event *storage.Record) {
			in(run, `{"n": 1}`, `"`+storage.CommitTimeLater+`"`)
			in(event, `{"n": 1}`, `"`+storage.CommitTimeLater+`"`)
			run.Later, event.Later = time.Hour, time.Minute
		},
	} {
		require.False(t, w.shares(edited(name, change)), name)
	}
	_, _, none := w.trigger("none", "")
	require.False(t, w.shares(none), "no payload")
	require.Empty(t, w.eventPayload(none))
	_, _, null := w.trigger("null", "null")
	require.True(t, w.shares(null), "JSON null is a payload")
	require.Equal(t, "null", w.eventPayload(null))
}

// TestNoPayloadAndNull: SQL NULL is no payload, JSON null is one like any other. A
// run goes from every small payload to every other, and its event keeps its own.
func TestNoPayloadAndNull(t *testing.T) {
	w := newWorld(t)
	payloads := []string{"", "null", "{}", "[]", "0", "false", `""`, `"null"`, `{"payload": null}`}
	for i, from := range payloads {
		for j, to := range payloads {
			id := fmt.Sprintf("%d to %d", i, j)
			_, runKey, eventKey := w.trigger(id, from)
			require.Equal(t, from != "", w.shares(eventKey))
			w.holdsPayload(id, runKey, from)
			w.must(func(ctx context.Context, tx storage.Tx) error {
				return replaceRun(ctx, tx, runKey, func(r *run.Run) {
					if r.Payload = []byte(to); to == "" {
						r.Payload = nil
					}
				})
			})
			w.holdsPayload(id, runKey, to)
			require.Equal(t, from == to && from != "", w.shares(eventKey), "%q to %q", from, to)
			require.Equal(t, from, w.eventPayload(eventKey))
			events, err := w.d.ListEvents(t.Context(), storage.EventFilter{Environment: "prod", RunID: id})
			require.NoError(t, err)
			require.Equal(t, from, string(events.Events[0].Data.(run.Created).Payload))
		}
	}
}

// holdsPayload requires a payload in the column and in what is read; "" is none.
func (w *world) holdsPayload(id string, key storage.Key, payload string) {
	w.t.Helper()
	var stored *string
	require.NoError(w.t, w.pool.QueryRow(w.t.Context(), "SELECT record_payload::text FROM runlane.runlane_runs WHERE run_id = $1", key.ID).Scan(&stored))
	r, found, err := w.d.GetRun(w.t.Context(), "prod", id)
	require.NoError(w.t, err)
	require.True(w.t, found)
	rec, _ := w.read(key)
	raw, kind := codec.DecodeRun(rec)
	require.Equal(w.t, codec.Canonical, kind)
	if payload == "" {
		require.Nil(w.t, stored)
		require.Nil(w.t, r.Payload)
		require.Nil(w.t, raw.Payload)
		return
	}
	require.NotNil(w.t, stored)
	require.Equal(w.t, []string{payload, payload, payload}, []string{*stored, string(r.Payload), string(raw.Payload)})
}

// TestTimesInPayloads: a payload may hold commit times. Whoever writes such a payload
// again writes another one, and what shares it would read the time of somebody else.
func TestTimesInPayloads(t *testing.T) {
	w := newWorld(t)
	key, err := codec.RunKey("prod", "r")
	require.NoError(t, err)
	rec := storage.Record{Key: key, Document: []byte(`{"value":{"payload":{"at":"` + storage.CommitTime + `"}}}`)}
	holds := func(commit storage.Commit) {
		t.Helper()
		got, _ := w.read(key)
		require.JSONEq(t, `{"value":{"payload":{"at":"`+commit.Time.Format(storage.TimeFormat)+`"}}}`, string(got.Document))
		rec.Version = commit.Versions[key]
	}
	holds(w.create(rec))
	for range 2 { // as it was written, and as it is read
		holds(w.must(func(ctx context.Context, tx storage.Tx) error {
			if _, _, err := tx.Assume(ctx, rec); err != nil {
				return err
			}
			return tx.Replace(ctx, rec)
		}))
	}
	holds(w.must(func(ctx context.Context, tx storage.Tx) error {
		if _, _, err := tx.Get(ctx, key); err != nil {
			return err
		}
		return tx.Replace(ctx, rec)
	}))

	_, recs := newRun(t, "two distances", `"later"`)
	for i, later := range []time.Duration{time.Hour, time.Minute} {
		recs[i].Document = []byte(strings.Replace(string(recs[i].Document), "later", storage.CommitTimeLater, 1))
		recs[i].Later = later
	}
	at := w.create(recs...).Time
	require.Equal(t, `"`+at.Add(time.Minute).Format(storage.TimeFormat)+`"`, w.eventPayload(recs[1].Key))
	r, _, err := w.d.GetRun(t.Context(), "prod", "two distances")
	require.NoError(t, err)
	require.Equal(t, `"`+at.Add(time.Hour).Format(storage.TimeFormat)+`"`, string(r.Payload))
}
