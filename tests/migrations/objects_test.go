package migrations_test

import (
	"errors"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/internal/pgtest"
)

func TestRecordVersionsNeverComeBack(t *testing.T) {
	conn := connect(t, pgtest.New(t).URL)
	require.Equal(t, []string{"bigint 1 1 1 f"}, column(t, conn, `SELECT format('%s %s %s %s %s', format_type(seqtypid, NULL), seqstart, seqmin, seqincrement, seqcycle)
FROM pg_sequence WHERE seqrelid = 'runlane.runlane_record_versions'::regclass`))
	require.Equal(t, []string{"1"}, column(t, conn, `SELECT nextval('runlane.runlane_record_versions')::text`))
}

func TestAssertRecordWrite(t *testing.T) {
	conn := connect(t, pgtest.New(t).URL)
	// Owner's rights, a search path of the caller's, or a lesser volatility would each
	// weaken it.
	require.Equal(t, []string{`plpgsql v definer=f strict=f {"search_path=\"\""}`}, column(t, conn,
		`SELECT format('%s %s definer=%s strict=%s %s', lanname, provolatile, prosecdef, proisstrict, proconfig)
FROM pg_proc JOIN pg_language l ON l.oid = prolang WHERE proname = 'runlane_assert_record_write'`))

	require.Equal(t, []string{"true"}, column(t, conn, "SELECT runlane.runlane_assert_record_write(true, 'x')::text"))
	for _, call := range []string{"(false, 'lost update')", "(NULL, 'lost update')", "(1 = 2, 'lost update')"} {
		_, err := conn.Exec(t.Context(), "SELECT runlane.runlane_assert_record_write"+call)
		var pg *pgconn.PgError
		require.True(t, errors.As(err, &pg), "%s: %v", call, err)
		require.Equal(t, []string{"40001", "runlane: record write check failed", "lost update"}, []string{pg.Code, pg.Message, pg.Detail}, call)
	}
	_, err := conn.Exec(t.Context(), "SELECT runlane.runlane_assert_record_write(NULL, NULL)")
	var pg *pgconn.PgError
	require.ErrorAs(t, err, &pg)
	require.Equal(t, "40001", pg.Code)

	// Debugging assertions can be turned off; the checks cannot.
	sql(t, conn, "SET plpgsql.check_asserts = off")
	_, err = conn.Exec(t.Context(), "SELECT runlane.runlane_assert_record_write(false, 'x')")
	require.ErrorAs(t, err, &pg)
	require.Equal(t, "40001", pg.Code)
}

// Each row is one that a check or a unique index must refuse, or must let pass.
func TestChecks(t *testing.T) {
	conn := connect(t, pgtest.New(t).URL)
	const (
		aRun  = "INSERT INTO runlane.runlane_runs (environment_key, run_id, record_version, record_document, "
		event = "INSERT INTO runlane.runlane_record_run_events (environment_key, record_id, record_version, record_document, "
		slot  = "INSERT INTO runlane.runlane_record_queue_slots (partition_key, record_id, record_version, record_document, "
		six   = "task, queue, status, priority, created_at, updated_at"
	)
	for name, c := range map[string]struct{ sql, refusedBy string }{
		"half a pair": {slot + "queue_slots_by_expiry_partition) VALUES ('e', 'r', 1, '{}', 'p')", "queue_slots_by_expiry_pair"},
		"other half":  {slot + "queue_slots_by_expiry_sort) VALUES ('e', 'r', 1, '{}', 's')", "queue_slots_by_expiry_pair"},
		"whole pair":  {slot + "queue_slots_by_expiry_partition, queue_slots_by_expiry_sort) VALUES ('e', 'r', 1, '{}', 'p', 's')", ""},

		"operator columns":       {aRun + six + ", due_at, singleton_key) VALUES ('e', 'r', 1, '{}', 't', 'q', 'queued', 0, now(), now(), now(), 's')", ""},
		"opaque":                 {aRun + "record_payload) VALUES ('e', 'r', 1, '{}', 'null')", ""},
		"some operator columns":  {aRun + "task, status) VALUES ('e', 'r', 1, '{}', 't', 'queued')", "runlane_runs_operator_columns"},
		"optional, opaque":       {aRun + "schedule_id) VALUES ('e', 'r', 1, '{}', 's')", "runlane_runs_operator_columns"},
		"five of six":            {aRun + six + ") VALUES ('e', 'r', 1, '{}', 't', 'q', 'queued', 0, now(), NULL)", "runlane_runs_operator_columns"},
		"second active":          {aRun + six + ", singleton_key) VALUES ('e', 'a', 1, '{}', 't', 'q', 'queued', 0, now(), now(), 's'), ('e', 'b', 1, '{}', 't', 'q', 'waiting', 0, now(), now(), 's')", "runlane_runs_active_singleton"},
		"second after the first": {aRun + six + ", singleton_key) VALUES ('e', 'a', 1, '{}', 't', 'q', 'succeeded', 0, now(), now(), 's'), ('e', 'b', 1, '{}', 't', 'q', 'waiting', 0, now(), now(), 's')", ""},
		"other environment":      {aRun + six + ", singleton_key) VALUES ('e', 'a', 1, '{}', 't', 'q', 'queued', 0, now(), now(), 's'), ('f', 'a', 1, '{}', 't', 'q', 'queued', 0, now(), now(), 's')", ""},

		"canonical event":            {event + "sequence_index_native, payload_from_run, run_id, sequence, event_type, occurred_at) VALUES ('e', 'r', 1, '{}', true, true, 'run', 1, 'created', now())", ""},
		"opaque event":               {event + "run_events_by_sequence_partition, run_events_by_sequence_sort) VALUES ('e', 'r', 1, '{}', 'p', 's')", ""},
		"some event columns":         {event + "run_id, sequence) VALUES ('e', 'r', 1, '{}', 'run', 1)", "runlane_run_events_operator_columns"},
		"native without a run":       {event + "sequence_index_native) VALUES ('e', 'r', 1, '{}', true)", "runlane_run_events_one_path"},
		"both paths":                 {event + "sequence_index_native, run_id, sequence, event_type, occurred_at, run_events_by_sequence_partition, run_events_by_sequence_sort) VALUES ('e', 'r', 1, '{}', true, 'run', 1, 'created', now(), 'p', 's')", "runlane_run_events_one_path"},
		"shared payload, not native": {event + "payload_from_run) VALUES ('e', 'r', 1, '{}', true)", "runlane_run_events_shared_payload"},
		"one sequence number, twice": {event + "sequence_index_native, run_id, sequence, event_type, occurred_at) VALUES ('e', 'a', 1, '{}', true, 'run', 1, 'created', now()), ('e', 'b', 1, '{}', true, 'run', 1, 'created', now())", ""},
	} {
		t.Run(name, func(t *testing.T) {
			sql(t, conn, "BEGIN")
			defer sql(t, conn, "ROLLBACK")
			_, err := conn.Exec(t.Context(), c.sql)
			if c.refusedBy == "" {
				require.NoError(t, err)
				return
			}
			var pg *pgconn.PgError
			require.ErrorAs(t, err, &pg)
			require.Equal(t, c.refusedBy, pg.ConstraintName)
		})
	}
}
