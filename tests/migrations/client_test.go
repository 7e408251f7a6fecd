package migrations_test

import (
	"testing"
	"time"

	"entgo.io/ent/dialect"
	entsql "entgo.io/ent/dialect/sql"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/ent"
	"github.com/seed4391e180/runlane/ent/run"
	"github.com/seed4391e180/runlane/ent/runevent"
	"github.com/seed4391e180/runlane/internal/pgtest"
)

// The generated client reads what the migrated tables hold, and tells an absent
// payload from a payload that is null.
func TestGeneratedClient(t *testing.T) {
	conn := connect(t, pgtest.New(t).URL)
	sql(t, conn, `INSERT INTO runlane.runlane_runs (environment_key, run_id, record_version, record_document, record_payload,
  task, queue, status, priority, created_at, updated_at) VALUES
('e', 'a', 1, '{"v": 1}', NULL, NULL, NULL, NULL, NULL, NULL, NULL),
('e', 'b', 2, '{"v": 0.1000}', 'null', 't', 'q', 'queued', -3, '2030-01-02 03:04:05.678901+00', '2030-01-02 03:04:05.678901+00')`)
	sql(t, conn, `INSERT INTO runlane.runlane_record_run_events (environment_key, record_id, record_version, record_document,
  sequence_index_native, run_id, sequence, event_type, occurred_at) VALUES
('e', 'x', 3, '[]', true, 'b', 9007199254740993, 'created', '2030-01-02 03:04:05.678901+00')`)

	config := conn.Config().Copy()
	config.RuntimeParams["search_path"] = "runlane"
	db := stdlib.OpenDB(*config)
	defer db.Close()
	client := ent.NewClient(ent.Driver(entsql.OpenDB(dialect.Postgres, db)))

	runs, err := client.Run.Query().Where(run.EnvironmentKey("e")).Order(run.ByRunID()).All(t.Context())
	require.NoError(t, err)
	require.Len(t, runs, 2)
	require.Nil(t, runs[0].RecordPayload)
	require.Nil(t, runs[0].Status)
	require.Equal(t, "null", string(runs[1].RecordPayload))
	require.Equal(t, `{"v": 0.1000}`, string(runs[1].RecordDocument))
	require.Equal(t, int16(-3), *runs[1].Priority)
	at := time.Date(2030, 1, 2, 3, 4, 5, 678901000, time.UTC)
	require.True(t, at.Equal(*runs[1].CreatedAt))

	event, err := client.RunEvent.Query().Where(runevent.RunID("b"), runevent.SequenceIndexNative(true)).Only(t.Context())
	require.NoError(t, err)
	require.Equal(t, int64(9007199254740993), *event.Sequence)
	require.False(t, event.PayloadFromRun)
}
