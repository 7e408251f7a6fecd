package migrations_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/migrations"
)

func TestApplyMakesTheSchemaOnce(t *testing.T) {
	conn := empty(t)

	before, err := migrations.Status(t.Context(), conn, migrations.Options{})
	require.NoError(t, err)
	require.False(t, before.Exists)
	require.Empty(t, before.Applied)
	err = migrations.Verify(t.Context(), conn, migrations.Options{})
	refused(t, err, migrations.ErrPending, before.Pending[0].Name)
	require.Empty(t, objects(t, conn), "looking changed the database")

	first, err := migrations.Apply(t.Context(), conn, migrations.Options{})
	require.NoError(t, err)
	require.Equal(t, migrations.DefaultSchema, first.Schema)
	require.True(t, first.Created)
	require.Equal(t, before.Pending, first.Applied)
	require.NoError(t, migrations.Verify(t.Context(), conn, migrations.Options{}))

	made := objects(t, conn)
	second, err := migrations.Apply(t.Context(), conn, migrations.Options{})
	require.NoError(t, err)
	require.Equal(t, migrations.Result{Schema: "runlane", Version: first.Version}, second)
	require.Equal(t, made, objects(t, conn))

	after, err := migrations.Status(t.Context(), conn, migrations.Options{})
	require.NoError(t, err)
	require.Empty(t, after.Pending)
	require.Len(t, after.Applied, len(first.Applied))
	require.Equal(t, first.Applied[0], after.Applied[0].File)
	require.WithinDuration(t, time.Now(), after.Applied[0].AppliedAt, time.Minute)
	require.Equal(t, "runlane", after.Applied[0].By)
}

func TestApplyAddsWhatIsPending(t *testing.T) {
	conn := empty(t)
	apply(t, conn, three.without("3_three.sql").without("2_two.sql").fs(t))
	plan, err := migrations.Plan(t.Context(), conn, migrations.Options{Dir: three.fs(t)})
	require.NoError(t, err)
	require.Equal(t, []string{"2_two.sql", "3_three.sql"}, names(plan))

	result := apply(t, conn, three.fs(t))
	require.False(t, result.Created)
	require.Equal(t, plan, result.Applied)
	require.Equal(t, "3", result.Version)
	require.Equal(t, ";", value[string](t, conn, "SELECT runlane.runlane_three()"))
}

func TestApplyInEveryExecMode(t *testing.T) {
	for _, mode := range []pgx.QueryExecMode{
		pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec,
		pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol,
	} {
		t.Run(mode.String(), func(t *testing.T) {
			conn := connect(t, empty(t).Config().ConnString(), func(c *pgx.ConnConfig) { c.DefaultQueryExecMode = mode })
			for range 2 {
				_, err := migrations.Apply(t.Context(), conn, migrations.Options{})
				require.NoError(t, err)
				require.NoError(t, migrations.Verify(t.Context(), conn, migrations.Options{}))
			}
		})
	}
}

func TestApplyLeavesTheSessionAsItWas(t *testing.T) {
	conn := empty(t)
	exec(t, conn, "SET search_path = 'somewhere'; SET lock_timeout = '7s'; SET statement_timeout = '1min'; SET default_transaction_isolation = 'serializable'")
	apply(t, conn, three.fs(t))
	require.Equal(t, 1, value[int](t, conn, "SELECT count(*) FROM pg_prepared_statements"), "the runner prepared more than this query, which a pooler would not forgive")
	for name, want := range map[string]string{
		"search_path": "somewhere", "lock_timeout": "7s", "statement_timeout": "1min", "default_transaction_isolation": "serializable",
	} {
		require.Equal(t, want, value[string](t, conn, "SELECT current_setting($1)", name))
	}
	require.Zero(t, value[int](t, conn, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()"))
}

func TestApplyIgnoresTheSessionsTimeouts(t *testing.T) {
	conn := empty(t)
	exec(t, conn, "SET statement_timeout = '50ms'; SET default_transaction_read_only = on")
	apply(t, conn, files{"1_slow.sql": "SELECT pg_sleep(0.2);\n"}.fs(t))
}

// A temporary table must not stand in for a table of the schema.
func TestApplyIgnoresTemporaryTables(t *testing.T) {
	conn := empty(t)
	exec(t, conn, "CREATE TEMPORARY TABLE atlas_schema_revisions (x int); CREATE TEMPORARY TABLE runlane_one (x int)")
	apply(t, conn, three.fs(t))
	require.NoError(t, migrations.Verify(t.Context(), again(t, conn), migrations.Options{Dir: three.fs(t)}))
}

func TestApplyRefusesAnOpenTransaction(t *testing.T) {
	conn := empty(t)
	exec(t, conn, "BEGIN")
	_, err := migrations.Apply(t.Context(), conn, migrations.Options{})
	require.ErrorContains(t, err, "in a transaction")
	require.Equal(t, byte('T'), conn.PgConn().TxStatus(), "the caller's transaction was ended")
}

func TestProgress(t *testing.T) {
	var events []migrations.Event
	_, err := migrations.Apply(t.Context(), empty(t), migrations.Options{
		Dir: three.fs(t), Progress: func(e migrations.Event) { events = append(events, e) },
	})
	require.NoError(t, err)
	one, two := migrations.File{Version: "1", Name: "1_one.sql", Statements: 2}, migrations.File{Version: "2", Name: "2_two.sql", Statements: 1}
	require.Equal(t, []migrations.Event{
		{Stage: migrations.Applying, File: one, Statement: 1},
		{Stage: migrations.Applying, File: one, Statement: 2},
		{Stage: migrations.Applied, File: one},
		{Stage: migrations.Applying, File: two, Statement: 1},
		{Stage: migrations.Applied, File: two},
	}, events[:5])
	require.Len(t, events, 8)
}

func TestFailureLeavesNothing(t *testing.T) {
	for name, broken := range map[string]struct{ text, says string }{
		"a statement fails":                       {"CREATE TABLE \"runlane_four\" (\"id\" bigint);\n\nSELECT 1/0;\n", "4_four.sql: statement 2, line 3: "},
		"it ends its transaction":                 {"CREATE TABLE \"runlane_four\" (\"id\" bigint);\nROLLBACK;\nSELECT 1;\n", "ended the transaction"},
		"no transaction wanted":                   {"-- atlas:txmode none\n\nVACUUM;\n", "holds one statement"},
		"an index that is not there yet, perhaps": {"-- atlas:txmode none\n\nCREATE INDEX CONCURRENTLY IF NOT EXISTS \"i\" ON \"runlane_one\" (\"id\");\n", "holds one statement"},
		"no mark": {"CREATE INDEX CONCURRENTLY \"i\" ON \"runlane_one\" (\"id\");\n", "txmode none"},
	} {
		t.Run(name, func(t *testing.T) {
			conn := empty(t)
			dir := three.with("4_four.sql", broken.text).fs(t)
			_, err := migrations.Apply(t.Context(), conn, migrations.Options{Dir: dir})
			require.ErrorContains(t, err, broken.says)
			var e *migrations.Error
			require.ErrorAs(t, err, &e)
			require.Equal(t, "4_four.sql", e.File)
			require.Empty(t, objects(t, conn))
			require.False(t, conn.IsClosed())

			require.NotEmpty(t, e.Mend+e.Detail)

			apply(t, conn, three.fs(t)) // the connection and the lock are free again
			made := objects(t, conn)
			_, err = migrations.Apply(t.Context(), conn, migrations.Options{Dir: dir})
			require.ErrorAs(t, err, &e)
			require.Equal(t, made, objects(t, conn))
			require.NoError(t, migrations.Verify(t.Context(), conn, migrations.Options{Dir: three.fs(t)}))
		})
	}
}

func TestStatementErrorKeepsItsCause(t *testing.T) {
	_, err := migrations.Apply(t.Context(), empty(t), migrations.Options{Dir: files{"1_a.sql": "SELECT 1/0;\n"}.fs(t)})
	var pg *pgconn.PgError
	require.ErrorAs(t, err, &pg)
	require.Equal(t, "22012", pg.Code)
}

// slow is a directory whose second file takes long enough to be interrupted.
var slow = three.with("4_slow.sql", "SELECT pg_sleep(60);\n")

func TestKilledRunnerLeavesNothing(t *testing.T) {
	conn := empty(t)
	other := again(t, conn)
	pid := conn.PgConn().PID()
	done := make(chan error, 1)
	started := make(chan struct{})
	go func() {
		_, err := migrations.Apply(t.Context(), conn, migrations.Options{Dir: slow.fs(t), Progress: func(e migrations.Event) {
			if e.File.Version == "4" {
				close(started)
			}
		}})
		done <- err
	}()
	select {
	case <-started:
	case err := <-done:
		require.NoError(t, err, "the runner ended by itself")
	}
	exec(t, other, "SELECT pg_terminate_backend(%d)", pid)
	require.Error(t, <-done)
	require.Empty(t, objects(t, other))
	apply(t, other, three.fs(t))
}

func TestPanickingProgressLeavesNothing(t *testing.T) {
	conn := empty(t)
	require.Panics(t, func() {
		_, _ = migrations.Apply(t.Context(), conn, migrations.Options{Progress: func(migrations.Event) { panic("out") }})
	})
	require.Equal(t, byte('I'), conn.PgConn().TxStatus())
	require.Empty(t, objects(t, conn))
	apply(t, again(t, conn), three.fs(t))
}

func TestCancelledRunnerLeavesNothing(t *testing.T) {
	conn := empty(t)
	other := again(t, conn)
	ctx, cancel := context.WithCancel(t.Context())
	_, err := migrations.Apply(ctx, conn, migrations.Options{Dir: slow.fs(t), Progress: func(e migrations.Event) {
		if e.File.Version == "4" {
			time.AfterFunc(50*time.Millisecond, cancel)
		}
	}})
	require.ErrorIs(t, err, context.Canceled)
	start := time.Now()
	apply(t, other, three.fs(t)) // waits for the server to notice
	require.Less(t, time.Since(start), soon)
}
