package migrations_test

import (
	"context"
	"fmt"
	"io/fs"
	"sync"
	"testing"
	"time"

	"ariga.io/atlas/sql/postgres"
	atlas "ariga.io/atlas/sql/schema"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/migrations"
)

// grown adds a column and then an index to a table that may be populated by then.
var grown = three.
	with("4_column.sql", "ALTER TABLE \"runlane_one\" ADD COLUMN \"size\" bigint;\n").
	with("5_index.sql", "-- Old workers may run while this file is applied: a test says so.\n-- atlas:txmode none\n\n"+
		"-- Create \"runlane_one_size\".\nCREATE INDEX CONCURRENTLY \"runlane_one_size\" ON \"runlane_one\" (\"size\");\n").
	with("6_after.sql", "CREATE TABLE \"runlane_six\" (\"id\" bigint);\n")

// populated returns a connection to a database that has the first four files and a
// few rows, and another for whoever works on them.
func populated(t *testing.T) (conn, worker *pgx.Conn) {
	t.Helper()
	conn = empty(t)
	apply(t, conn, grown.without("5_index.sql").without("6_after.sql").fs(t))
	exec(t, conn, "INSERT INTO runlane.runlane_one SELECT n, n %% 10 FROM generate_series(1, 1000) AS n")
	worker = connect(t, conn.Config().ConnString(), func(c *pgx.ConnConfig) { c.RuntimeParams["application_name"] = "worker-3" })
	return conn, worker
}

// indexes lists the indexes of a table, and whether they are valid.
func indexes(t *testing.T, conn *pgx.Conn) map[string]bool {
	t.Helper()
	rows, err := conn.Query(t.Context(), "SELECT relname::text, indisvalid FROM pg_index JOIN pg_class c ON c.oid = indexrelid WHERE indrelid = 'runlane.runlane_one'::regclass")
	require.NoError(t, err)
	all := map[string]bool{}
	var (
		name  string
		valid bool
	)
	_, err = pgx.ForEachRow(rows, []any{&name, &valid}, func() error {
		all[name] = valid
		return nil
	})
	require.NoError(t, err)
	return all
}

var whole = map[string]bool{"runlane_one_id": true, "runlane_one_size": true}

// requireWhole requires that nothing is left to do, or lying about.
func requireWhole(t *testing.T, conn *pgx.Conn) {
	t.Helper()
	require.NoError(t, migrations.Verify(t.Context(), conn, migrations.Options{Dir: grown.fs(t)}))
	state, err := migrations.Status(t.Context(), conn, migrations.Options{Dir: grown.fs(t)})
	require.NoError(t, err)
	require.Len(t, state.Applied, 6)
	require.Empty(t, state.Pending)
	require.Empty(t, state.Invalid)
	require.False(t, state.Started)
	require.Equal(t, whole, indexes(t, conn))
	require.Zero(t, value[int](t, conn, "SELECT count(*) FROM runlane.atlas_schema_revisions WHERE applied <> total OR error <> '' OR error_stmt <> '' OR partial_hashes <> 'null'"))
	require.Zero(t, value[int](t, conn, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"))
}

func TestIndexOnAPopulatedTable(t *testing.T) {
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeCacheStatement, pgx.QueryExecModeSimpleProtocol} {
		t.Run(mode.String(), func(t *testing.T) {
			first, _ := populated(t)
			conn := connect(t, first.Config().ConnString(), func(c *pgx.ConnConfig) { c.DefaultQueryExecMode = mode })
			settings := map[string]string{"search_path": `"a'b", public`, "lock_timeout": "7s", "statement_timeout": "1min", "default_transaction_read_only": "on",
				"default_transaction_isolation": "serializable", "client_connection_check_interval": "0"}
			for name, setting := range settings {
				require.Equal(t, setting, value[string](t, conn, "SELECT set_config($1, $2, false)", name, setting))
			}
			var stages []string
			o := migrations.Options{Dir: grown.fs(t), Progress: func(e migrations.Event) {
				stages = append(stages, fmt.Sprintf("%s %s %d", e.Stage, e.File.Version, e.Statement))
			}}
			plan, err := migrations.Plan(t.Context(), conn, o)
			require.NoError(t, err)
			require.Equal(t, []string{"5_index.sql", "6_after.sql"}, names(plan))
			result, err := migrations.Apply(t.Context(), conn, o)
			require.NoError(t, err)
			require.Equal(t, migrations.Result{Schema: "runlane", Applied: plan, Version: "6"}, result)
			require.Equal(t, []string{"applying 5 1", "applied 5 0", "applying 6 1", "applied 6 0"}, stages)
			for name, setting := range settings {
				require.Equal(t, setting, value[string](t, conn, "SELECT current_setting($1)", name))
			}
			requireWhole(t, again(t, conn))
			again, err := migrations.Apply(t.Context(), conn, o)
			require.NoError(t, err)
			require.Empty(t, again.Applied)
		})
	}
}

// The files before an index commit, the index does, and what fails after it leaves
// them in place and says so.
func TestFailureAfterAnIndex(t *testing.T) {
	conn := empty(t)
	result, err := migrations.Apply(t.Context(), conn, migrations.Options{Dir: grown.with("6_after.sql", "CREATE TABLE \"runlane_six\" (\"id\" bigint);\nSELECT 1/0;\n").fs(t)})
	require.ErrorContains(t, err, "6_after.sql: statement 2")
	require.True(t, result.Created)
	require.Equal(t, "5", result.Version)
	require.Equal(t, []string{"1_one.sql", "2_two.sql", "3_three.sql", "4_column.sql", "5_index.sql"}, names(result.Applied))
	require.NotContains(t, objects(t, conn), "runlane.runlane_six")
	require.Equal(t, whole, indexes(t, conn))
	result = apply(t, conn, grown.fs(t))
	require.Equal(t, []string{"6_after.sql"}, names(result.Applied))
	requireWhole(t, conn)
}

// A build waits for transactions that are older than it, within bounds. What it
// leaves behind goes if it can; if not, Verify says so until Apply has mended it.
func TestIndexBuildWaitIsBounded(t *testing.T) {
	for name, c := range map[string]struct {
		holds    string
		leftover bool
	}{
		"a snapshot":           {"BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1", false},
		"a lock of the table":  {"BEGIN; UPDATE runlane.runlane_one SET size = 1 WHERE id = 1", true},
		"a lock that excludes": {"BEGIN; LOCK TABLE runlane.runlane_one", false},
	} {
		t.Run(name, func(t *testing.T) {
			conn, worker := populated(t)
			exec(t, worker, "%s", c.holds)
			o := migrations.Options{Dir: grown.fs(t), IndexWait: 150 * time.Millisecond}
			if !c.leftover { // the session's own timeout is no bound
				exec(t, conn, "SET statement_timeout = '2s'")
				o.IndexWait = 2500 * time.Millisecond
			}
			result, err := migrations.Apply(t.Context(), conn, o)
			refused(t, err, migrations.ErrLocked, "5_index.sql")
			require.ErrorContains(t, err, "worker-3")
			require.ErrorContains(t, err, "IndexWait")
			require.Empty(t, result.Applied)
			require.Zero(t, value[int](t, conn, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()"))

			state, err := migrations.Status(t.Context(), conn, o)
			require.NoError(t, err)
			require.True(t, state.Started)
			require.Len(t, state.Applied, 4)
			require.Equal(t, []string{"5_index.sql", "6_after.sql"}, names(state.Pending))
			err = migrations.Verify(t.Context(), conn, o)
			if c.leftover {
				require.Equal(t, []string{"runlane_one_size"}, state.Invalid)
				refused(t, err, migrations.ErrInvalidIndex, "runlane_one_size")
				require.ErrorContains(t, err, "5_index.sql")
			} else {
				require.Empty(t, state.Invalid)
				refused(t, err, migrations.ErrPending, "5_index.sql")
			}
			require.Contains(t, value[string](t, conn, "SELECT error FROM runlane.atlas_schema_revisions WHERE version = '5'"), "lock timeout")

			exec(t, worker, "ROLLBACK")
			apply(t, conn, grown.fs(t))
			requireWhole(t, conn)
		})
	}
}

// What the rows refuse is undone and can be tried again.
func TestUniqueIndexThatFails(t *testing.T) {
	conn, _ := populated(t)
	dir := grown.with("5_index.sql", "-- atlas:txmode none\n\nCREATE UNIQUE INDEX CONCURRENTLY \"runlane_one_size\" ON \"runlane_one\" (\"size\");\n").fs(t)
	_, err := migrations.Apply(t.Context(), conn, migrations.Options{Dir: dir})
	var pg *pgconn.PgError
	require.ErrorAs(t, err, &pg)
	require.Equal(t, "23505", pg.Code)
	refused(t, err, pg, "5_index.sql")
	require.NotContains(t, indexes(t, conn), "runlane_one_size")
	exec(t, conn, "DELETE FROM runlane.runlane_one WHERE id > 10")
	apply(t, conn, dir)
	require.Equal(t, whole, indexes(t, conn))
}

// build starts Apply on a session of its own while the worker keeps it waiting, and
// returns when the build has begun.
func build(t *testing.T, conn, worker *pgx.Conn) (pid uint32, done chan error) {
	t.Helper()
	exec(t, worker, "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1")
	runner, dir := again(t, conn), grown.fs(t)
	done = make(chan error, 1)
	go func() {
		_, err := migrations.Apply(t.Context(), runner, migrations.Options{Dir: dir})
		done <- err
	}()
	awaitBuild(t, conn)
	return runner.PgConn().PID(), done
}

// awaitBuild waits until a build waits for the transactions of others.
func awaitBuild(t *testing.T, conn *pgx.Conn) {
	t.Helper()
	await(t, conn, `SELECT EXISTS (SELECT 1 FROM pg_stat_activity WHERE query LIKE 'CREATE INDEX CONCURRENTLY%' AND datname = current_database()
AND state = 'active' AND wait_event = 'virtualxid')`)
}

func TestKilledBuild(t *testing.T) {
	conn, worker := populated(t)
	pid, done := build(t, conn, worker)
	exec(t, conn, "SELECT pg_terminate_backend(%d)", pid)
	require.Error(t, <-done)
	o := migrations.Options{Dir: grown.fs(t)}
	refused(t, migrations.Verify(t.Context(), conn, o), migrations.ErrInvalidIndex, "runlane_one_size")
	exec(t, worker, "ROLLBACK")
	apply(t, conn, grown.fs(t))
	requireWhole(t, conn)
}

// A runner that is told to stop in the middle of a build closes its session, which
// ends the build.
func TestCancelledBuild(t *testing.T) {
	conn, worker := populated(t)
	exec(t, worker, "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	runner, dir, done := again(t, conn), grown.fs(t), make(chan error, 1)
	go func() {
		_, err := migrations.Apply(ctx, runner, migrations.Options{Dir: dir})
		done <- err
	}()
	awaitBuild(t, conn)
	cancel()
	require.ErrorIs(t, <-done, context.Canceled)
	exec(t, worker, "ROLLBACK")
	apply(t, conn, dir)
	requireWhole(t, conn)
}

// Others neither disturb a build nor build as well, and none of them is what the
// build waits for.
func TestTwentyRunnersBuildOneIndex(t *testing.T) {
	conn, worker := populated(t)
	_, done := build(t, conn, worker)
	var (
		wg      sync.WaitGroup
		dir     = grown.fs(t)
		applied = make(chan int, 20)
		waiting = make(chan struct{}, 20)
	)
	for range 20 {
		runner := again(t, conn)
		wg.Go(func() {
			result, err := migrations.Apply(t.Context(), runner, migrations.Options{Dir: dir, LockWait: time.Minute, Progress: func(e migrations.Event) {
				if e.Stage == migrations.Waiting {
					waiting <- struct{}{}
				}
			}})
			if err != nil {
				t.Error(err)
			}
			applied <- len(result.Applied)
		})
	}
	for range 20 {
		select {
		case <-waiting:
		case <-time.After(10 * soon):
			require.Fail(t, "a runner does not wait")
		}
	}
	_, err := migrations.Apply(t.Context(), conn, migrations.Options{Dir: dir, LockWait: -1})
	require.ErrorIs(t, err, migrations.ErrLocked)
	refused(t, migrations.Verify(t.Context(), conn, migrations.Options{Dir: dir}), migrations.ErrInvalidIndex, "runlane_one_size")
	driver, err := postgres.Open(openDB(t, conn))
	require.NoError(t, err)
	_, err = driver.(atlas.Locker).Lock(t.Context(), "atlas_migrate_execute", 50*time.Millisecond)
	require.ErrorIs(t, err, atlas.ErrLocked)

	exec(t, worker, "ROLLBACK")
	require.NoError(t, <-done)
	wg.Wait()
	close(applied)
	total := 0
	for n := range applied {
		total += n
	}
	require.LessOrEqual(t, total, 1, "only the file after the index was left to others")
	requireWhole(t, conn)
}

// A runner that was killed between the end of its build and its row has left a
// good index.
func TestBuiltButNotWrittenDown(t *testing.T) {
	conn, _ := populated(t)
	apply(t, conn, grown.without("6_after.sql").fs(t))
	exec(t, conn, "UPDATE runlane.atlas_schema_revisions SET applied = 0 WHERE version = '5'")
	before := value[uint32](t, conn, "SELECT 'runlane.runlane_one_size'::regclass::oid")
	state, err := migrations.Status(t.Context(), conn, migrations.Options{Dir: grown.fs(t)})
	require.NoError(t, err)
	require.True(t, state.Started)
	apply(t, conn, grown.fs(t))
	require.Equal(t, before, value[uint32](t, conn, "SELECT 'runlane.runlane_one_size'::regclass::oid"), "it was built again")
	requireWhole(t, conn)
}

func TestIndexesThatNoMigrationMade(t *testing.T) {
	conn, _ := populated(t)
	o := migrations.Options{Dir: grown.fs(t)}
	exec(t, conn, "CREATE INDEX runlane_one_size ON runlane.runlane_one (id)")
	_, err := migrations.Apply(t.Context(), conn, o)
	refused(t, err, migrations.ErrForeign, "5_index.sql")
	state, err := migrations.Status(t.Context(), conn, o)
	require.NoError(t, err)
	require.False(t, state.Started)
	exec(t, conn, "DROP INDEX runlane.runlane_one_size")

	// One that a person's build left behind, under the name of ours and under its own.
	for _, name := range []string{"runlane_one_size", "by_hand"} {
		_, err = conn.Exec(t.Context(), "CREATE UNIQUE INDEX CONCURRENTLY "+name+" ON runlane.runlane_one (size)")
		require.Error(t, err)
	}
	apply(t, conn, grown.fs(t))
	err = migrations.Verify(t.Context(), conn, o)
	refused(t, err, migrations.ErrInvalidIndex, "by_hand")
	require.ErrorContains(t, err, `REINDEX INDEX CONCURRENTLY "runlane"."by_hand"`)
	exec(t, conn, "DROP INDEX runlane.by_hand")
	requireWhole(t, conn)

	// Tables that are not ours are none of our business.
	exec(t, conn, "CREATE TABLE runlane.mine AS SELECT 1 AS n UNION ALL SELECT 1")
	_, err = conn.Exec(t.Context(), "CREATE UNIQUE INDEX CONCURRENTLY ON runlane.mine (n)")
	require.Error(t, err)
	require.NoError(t, migrations.Verify(t.Context(), conn, o))
}

// An index whose file was begun counts as begun only if it is the file that it was.
func TestStartedIsProved(t *testing.T) {
	conn, worker := populated(t)
	exec(t, worker, "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1")
	o := migrations.Options{Dir: grown.fs(t), IndexWait: 20 * time.Millisecond}
	_, err := migrations.Apply(t.Context(), conn, o)
	require.ErrorIs(t, err, migrations.ErrLocked)
	exec(t, worker, "ROLLBACK")
	for name, c := range map[string]struct {
		ledger string
		dir    func(*testing.T) fs.FS
		kind   error
	}{
		"edited and rehashed":      {dir: grown.with("5_index.sql", grown["5_index.sql"]+"-- changed\n").fs, kind: migrations.ErrIncomplete},
		"a file before it, edited": {dir: grown.with("2_two.sql", edited("2_two.sql")).fs, kind: migrations.ErrChanged},
		"only marked":              {ledger: "SET type = 4 WHERE version = '5'", dir: grown.fs, kind: migrations.ErrIncomplete},
		"more than it has":         {ledger: "SET applied = 2 WHERE version = '5'", dir: grown.fs, kind: migrations.ErrIncomplete},
		"gone":                     {dir: grown.without("5_index.sql").fs, kind: migrations.ErrMissing},
		"not alone any more":       {dir: grown.with("5_index.sql", "SELECT 1;\n").fs, kind: migrations.ErrIncomplete},
	} {
		t.Run(name, func(t *testing.T) {
			if c.ledger != "" {
				saved := value[string](t, conn, "SELECT type || ', applied = ' || applied FROM runlane.atlas_schema_revisions WHERE version = '5'")
				exec(t, conn, "UPDATE runlane.atlas_schema_revisions %s", c.ledger)
				defer exec(t, conn, "UPDATE runlane.atlas_schema_revisions SET type = %s WHERE version = '5'", saved)
			}
			_, err := migrations.Apply(t.Context(), conn, migrations.Options{Dir: c.dir(t)})
			require.ErrorIs(t, err, c.kind)
		})
	}
	apply(t, conn, grown.fs(t))
	requireWhole(t, conn)
}
