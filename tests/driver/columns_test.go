package driver_test

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/lane"
	"github.com/seed4391e180/runlane/run"
	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/codec"
	"github.com/seed4391e180/runlane/storage/keys"
	"github.com/seed4391e180/runlane/storage/postgres"
)

// TestRunColumns writes a run in every guise and finds in its typed columns what
// the last document says, and nothing of an earlier one.
func TestRunColumns(t *testing.T) {
	l := newLab(t, postgres.Config{})
	at := time.Date(2030, 1, 2, 3, 4, 5, 678901000, time.UTC)
	full := run.Run{
		ID: "r", Environment: "prod", Task: "mail", Queue: "default", Priority: 2, Status: run.StatusQueued, Sequence: 1,
		Due: at, Created: at, Updated: at, Payload: []byte(`{"n":1}`),
		IdempotencyKey: "i", SingletonKey: "s", ConcurrencyKey: "c", Source: run.Source{Type: run.SourceRerun, RunID: "source"},
	}
	bare := run.Run{
		ID: "r", Environment: "prod", Task: "other", Queue: "slow", Priority: 3, Status: run.StatusQueued, Sequence: 2,
		Due: at, Created: at, Updated: at.Add(time.Second), Source: run.Source{Type: run.SourceTrigger},
	}
	key, err := codec.RunKey("prod", "r")
	require.NoError(t, err)
	encoded := func(r run.Run) storage.Record {
		rec, err := codec.EncodeRun(r)
		require.NoError(t, err)
		return rec
	}
	tombstone, err := codec.EncodeTombstone("prod", "r")
	require.NoError(t, err)
	opaque := storage.Record{Key: key, Document: []byte(`{"codec":"run","v":99,"value":{"task":"mail","status":"queued"}}`)}
	elsewhere := encoded(full)
	elsewhere.Key.ID = tuple("another")

	const (
		none      = "{NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL}"
		fullTexts = `{mail,default,queued,2,2030-01-02T03:04:05.678901,2030-01-02T03:04:05.678901,2030-01-02T03:04:05.678901,NULL,i,s,c,rerun,source,NULL}`
		bareTexts = `{other,slow,queued,3,2030-01-02T03:04:05.678901,2030-01-02T03:04:06.678901,2030-01-02T03:04:05.678901,NULL,NULL,NULL,NULL,trigger,NULL,NULL}`
	)
	columns := func(key storage.Key) string {
		return scalar[string](l, `SELECT ARRAY[task, queue, status, priority::text,
  to_char(created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US'), to_char(updated_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US'),
  to_char(due_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US'), lease_expires_at::text,
  idempotency_key, singleton_key, concurrency_key, source_type, source_run_id, schedule_id]::text FROM runlane.runlane_runs WHERE run_id = $1`, key.ID)
	}
	l.transact(creates(encoded(full), elsewhere))
	require.Equal(t, fullTexts, columns(key), "created")
	require.Equal(t, none, columns(elsewhere.Key), "a document whose identity is not its key's is opaque")
	for _, step := range []struct {
		name string
		rec  storage.Record
		want string
	}{
		{"optional fields go", encoded(bare), bareTexts},
		{"and come", encoded(full), fullTexts},
		{"tombstone", tombstone, none},
		{"back", encoded(full), fullTexts},
		{"opaque", opaque, none},
		{"back again", encoded(bare), bareTexts},
	} {
		l.transact(replaces(step.rec))
		require.Equal(t, step.want, columns(key), step.name)
	}
}

// TestEventColumns: a canonical event is found by its typed columns and leaves the
// generic pair null; an opaque one has the whole pair and no typed columns.
func TestEventColumns(t *testing.T) {
	l := newLab(t, postgres.Config{})
	event := run.Event{ID: uuid.New(), Environment: "prod", RunID: "r", Sequence: 7, At: time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC),
		Data: run.Failed{Token: uuid.New(), Failure: run.Failure{Code: "x", Message: "y"}}}
	canonical, err := codec.EncodeEvent(event)
	require.NoError(t, err)
	opaque := canonical
	opaque.Key.ID = tuple("opaque")
	columns := func(key storage.Key) string {
		return scalar[string](l, `SELECT concat_ws(' ', sequence_index_native, coalesce(run_id, '-'), coalesce(sequence::text, '-'), coalesce(event_type, '-'),
  occurred_at IS NULL, coalesce(run_events_by_sequence_partition, '-'), coalesce(run_events_by_sequence_sort, '-'))
FROM runlane.runlane_record_run_events WHERE record_id = $1`, key.ID)
	}
	typed := "t $r! 7 run.failed f - -"
	generic := "f - - - t " + tuple("prod", "r") + " " + keys.EncodeInt(7)
	l.transact(creates(canonical, opaque))
	require.Equal(t, typed, columns(canonical.Key))
	require.Equal(t, generic, columns(opaque.Key))

	id, err := keys.New().UUID(event.ID).Text()
	require.NoError(t, err)
	require.Equal(t, id, canonical.Key.ID, "the event's UUID is the record's id")

	unknown := storage.Record{Key: canonical.Key, Document: []byte(`{"codec":"event","v":99}`), Entries: canonical.Entries}
	l.transact(replaces(unknown))
	require.Equal(t, generic, columns(canonical.Key), "replaced by a document that nobody knows")
	l.transact(replaces(canonical))
	require.Equal(t, typed, columns(canonical.Key))
}

// TestPayloadColumn tells no payload from the payload null, and leaves documents
// alone that have no object at value.
func TestPayloadColumn(t *testing.T) {
	l := newLab(t, postgres.Config{})
	for i, c := range []struct{ document, stored, payload string }{
		{`{"value": {"a": 1}}`, `{"value": {"a": 1}}`, "none"},
		{`{"value": {"payload": null}}`, `{"value": {}}`, "null"},
		{`{"value": {"payload": {"n": 1}}, "codec": "x"}`, `{"codec": "x", "value": {}}`, `{"n": 1}`},
		{`{"value": [{"payload": 1}]}`, `{"value": [{"payload": 1}]}`, "none"},
		{`{"value": "payload"}`, `{"value": "payload"}`, "none"},
		{`{"payload": 1}`, `{"payload": 1}`, "none"},
		{`[1]`, `[1]`, "none"},
	} {
		key := item(storage.Runs, string(rune('a'+i)))
		l.transact(creates(storage.Record{Key: key, Document: []byte(c.document)}))
		require.Equal(t, c.stored, scalar[string](l, "SELECT record_document::text FROM runlane.runlane_runs WHERE run_id = $1", key.ID))
		require.Equal(t, c.payload, scalar[string](l, "SELECT coalesce(record_payload::text, 'none') FROM runlane.runlane_runs WHERE run_id = $1", key.ID))
		rec, found, err := get(t.Context(), l.d, key)
		require.NoError(t, err)
		require.True(t, found)
		require.JSONEq(t, c.document, string(rec.Document))
	}
}

// TestVersions: one sequence serves all tables, a rollback leaves a gap, and
// versions are 64 bits wide.
func TestVersions(t *testing.T) {
	l := newLab(t, postgres.Config{})
	all := func() (list []int64) {
		for _, c := range storage.Collections() {
			list = append(list, column[int64](l, "SELECT record_version FROM runlane."+postgres.TableName(c))...)
		}
		return list
	}
	everywhere := func(id string) (list []storage.Record) {
		for _, c := range storage.Collections() {
			list = append(list, plain(item(c, id)))
		}
		return list
	}
	last := "SELECT last_value FROM runlane.runlane_record_versions"
	commit := l.transact(creates(everywhere("a")...))
	seen := map[int64]bool{}
	for _, v := range all() {
		require.False(t, seen[v], "two records have the version %d", v)
		require.LessOrEqual(t, v, scalar[int64](l, last), "not drawn from the sequence")
		seen[v] = true
	}
	require.Len(t, seen, len(storage.Collections()))
	require.Len(t, commit.Versions, len(seen))

	// What a commit that fails was given is never given again.
	l.fails(1, "40001")
	commit = l.transact(creates(everywhere("b")...))
	require.Equal(t, 2, commit.Attempts)
	highest, lowest := int64(0), int64(math.MaxInt64)
	for _, v := range all() {
		highest, lowest = max(highest, v), min(lowest, v)
	}
	require.Greater(t, highest-lowest+1, int64(2*len(seen)), "a gap")

	// Beyond 2^53 a float64 would mix versions up.
	l.exec("SELECT setval('runlane.runlane_record_versions', 9007199254740993)")
	other, err := postgres.New(l.side, postgres.Config{}) // has drawn nothing yet
	require.NoError(t, err)
	for range 3 {
		_, err = other.Transact(t.Context(), "lab", replaces(everywhere("a")...))
		require.NoError(t, err)
	}
	for _, v := range column[int64](l, "SELECT record_version FROM runlane.runlane_record_queue_slots WHERE record_id = $1", tuple("a")) {
		require.Greater(t, v, int64(9007199254740993))
	}
}

// TestProfile: the driver promises everything that a profile can say.
func TestProfile(t *testing.T) {
	l := newLab(t, postgres.Config{})
	require.Equal(t, storage.Profile{Durable: true, StrongIndexes: true, AuthoritativeClock: true, Shared: true}, l.d.Profile())
}

// TestReservedCollection lives the life of a run and finds the table of event id
// owners empty: the event's own key is the reservation of its UUID.
func TestReservedCollection(t *testing.T) {
	l := newLab(t, postgres.Config{})
	lanes, err := lane.New(l.d, lane.Config{Environment: "prod"})
	require.NoError(t, err)
	task := lane.Define(lanes, "mail", func(context.Context, *lane.Attempt, string) (string, error) { return "sent", nil }, lane.TaskOptions{})
	ctx, stop := context.WithCancel(t.Context())
	worked := make(chan error, 1)
	go func() { worked <- lanes.Work(ctx, lane.WorkerConfig{Queues: []string{"default"}}) }()
	triggered, err := task.Trigger(ctx, "x")
	require.NoError(t, err)
	result, err := task.Wait(ctx, triggered.RunID)
	require.NoError(t, err)
	require.Equal(t, "sent", result)
	stop()
	require.NoError(t, <-worked)
	require.Equal(t, 3, scalar[int](l, "SELECT count(*) FROM runlane.runlane_record_run_events"))
	require.Zero(t, scalar[int](l, "SELECT count(*) FROM runlane.runlane_record_run_event_id_owners"))
	require.Zero(t, scalar[int](l, "SELECT count(*) FROM runlane.runlane_record_run_completion_wait_presence"), "nobody waited for it durably")
}

// TestEventIDIsReserved: an event's UUID can be used once, also when its run is
// gone, until the event itself is deleted.
func TestEventIDIsReserved(t *testing.T) {
	l := newLab(t, postgres.Config{})
	_, recs := newRun(t, "r", `{"n":1}`)
	remove := func(key storage.Key) callbackFunc {
		return func(ctx context.Context, tx storage.Tx) error {
			if _, _, err := tx.Get(ctx, key); err != nil {
				return err
			}
			return tx.Delete(ctx, key)
		}
	}
	l.transact(creates(recs...))
	l.transact(remove(recs[0].Key))
	kept, found, err := get(t.Context(), l.d, recs[1].Key)
	require.NoError(t, err)
	require.True(t, found, "deleting a run deletes its events")
	require.Contains(t, string(kept.Document), `"n": 1`)
	page, err := l.d.ListEvents(t.Context(), storage.EventFilter{Environment: "prod", Sort: storage.SortOccurred})
	require.NoError(t, err)
	require.Empty(t, page.Events, "operators see events of a run that is gone")

	_, err = l.d.Transact(t.Context(), "lab", creates(recs[1]))
	require.ErrorIs(t, err, storage.ErrRecordExists)
	l.transact(remove(recs[1].Key))
	l.transact(creates(recs[1]))
	require.Zero(t, scalar[int](l, "SELECT count(*) FROM pg_constraint WHERE contype = 'f'"), "foreign keys")
}
