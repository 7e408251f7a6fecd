package migrations_test

import (
	"context"
	"database/sql"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"ariga.io/atlas/sql/postgres"
	atlas "ariga.io/atlas/sql/schema"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/internal/pgtest"
	"github.com/seed4391e180/runlane/migrations"
)

// cliLock is the key of the Atlas CLI's lock.
const cliLock = 2686470616

func TestTwentyRunnersOneMigrates(t *testing.T) {
	url := pgtest.New(t, pgtest.Empty()).URL
	var (
		wg       sync.WaitGroup
		migrated atomic.Int64
		start    = make(chan struct{})
	)
	for range 20 {
		conn := connect(t, url)
		wg.Go(func() {
			<-start
			result, err := migrations.Apply(t.Context(), conn, migrations.Options{LockWait: time.Minute})
			if err != nil {
				t.Error(err)
			}
			if result.Created {
				migrated.Add(1)
			}
			if err := migrations.Verify(t.Context(), conn, migrations.Options{}); err != nil {
				t.Error(err)
			}
		})
	}
	close(start)
	wg.Wait()
	require.EqualValues(t, 1, migrated.Load())
}

func TestLockWaitIsBounded(t *testing.T) {
	for name, lock := range map[string]string{
		"the CLI's lock":    "SELECT pg_advisory_lock(2686470616)",
		"the schema's lock": "SELECT pg_advisory_lock(hashtextextended('runlane_migrations:runlane', 0))",
	} {
		t.Run(name, func(t *testing.T) {
			conn := empty(t)
			holder := connect(t, conn.Config().ConnString(), func(c *pgx.ConnConfig) { c.RuntimeParams["application_name"] = "deploy-job-7" })
			exec(t, holder, "%s", lock)

			waits := 0
			start := time.Now()
			_, err := migrations.Apply(t.Context(), conn, migrations.Options{LockWait: 300 * time.Millisecond,
				Progress: func(e migrations.Event) {
					require.Equal(t, migrations.Event{Stage: migrations.Waiting}, e)
					waits++
				}})
			refused(t, err, migrations.ErrLocked, "")
			require.ErrorContains(t, err, "deploy-job-7")
			require.Equal(t, 1, waits)
			require.GreaterOrEqual(t, time.Since(start), 300*time.Millisecond)
			require.Less(t, time.Since(start), soon)

			_, err = migrations.Apply(t.Context(), conn, migrations.Options{LockWait: -1})
			require.ErrorIs(t, err, migrations.ErrLocked)
			require.NoError(t, holder.Close(t.Context()))
			_, err = migrations.Apply(t.Context(), conn, migrations.Options{})
			require.NoError(t, err)
		})
	}
}

func TestNothingToDoNeedsNoLock(t *testing.T) {
	conn := empty(t)
	apply(t, conn, three.fs(t))
	exec(t, again(t, conn), "SELECT pg_advisory_lock(%d)", cliLock)
	_, err := migrations.Apply(t.Context(), conn, migrations.Options{Dir: three.fs(t), LockWait: -1})
	require.NoError(t, err)
}

func TestRunnerWaitsForItsTurn(t *testing.T) {
	conn := empty(t)
	holder := again(t, conn)
	exec(t, holder, "SELECT pg_advisory_lock(%d)", cliLock)
	waiting := make(chan struct{})
	done := make(chan error, 1)
	go func() {
		_, err := migrations.Apply(t.Context(), conn, migrations.Options{Progress: func(e migrations.Event) {
			if e.Stage == migrations.Waiting {
				close(waiting)
			}
		}})
		done <- err
	}()
	select {
	case <-waiting:
	case <-time.After(soon):
		require.Fail(t, "the runner waits without saying so, or does not wait")
	}

	// A waiting runner is, whenever one looks, neither in a transaction for long nor
	// in possession of a snapshot: CREATE INDEX CONCURRENTLY would wait for it.
	for range 20 {
		age := value[float64](t, holder, `SELECT coalesce(max(extract(epoch FROM clock_timestamp() - xact_start)), 0)::float8
FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()`)
		require.Less(t, age, 0.5)
		time.Sleep(20 * time.Millisecond)
	}
	exec(t, holder, "CREATE TABLE public.t (x int)")
	exec(t, holder, "CREATE INDEX CONCURRENTLY ON public.t (x)")
	select {
	case err := <-done:
		require.Fail(t, "the runner did not wait", "%v", err)
	default:
	}
	exec(t, holder, "SELECT pg_advisory_unlock(%d)", cliLock)
	require.NoError(t, <-done)
}

func TestWaitEndsWithItsContext(t *testing.T) {
	conn := empty(t)
	exec(t, again(t, conn), "SELECT pg_advisory_lock(%d)", cliLock)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err := migrations.Apply(ctx, conn, migrations.Options{LockWait: time.Minute})
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

// The lock is the one that Atlas's own driver takes, in both directions.
func TestAtlasAndTheRunnerExcludeEachOther(t *testing.T) {
	conn := empty(t)
	db := openDB(t, conn)
	driver, err := postgres.Open(db)
	require.NoError(t, err)
	unlock, err := driver.(atlas.Locker).Lock(t.Context(), "atlas_migrate_execute", time.Second)
	require.NoError(t, err)
	_, err = migrations.Apply(t.Context(), conn, migrations.Options{LockWait: 100 * time.Millisecond})
	require.ErrorIs(t, err, migrations.ErrLocked)
	require.NoError(t, unlock())

	_, err = migrations.Apply(t.Context(), conn, migrations.Options{Progress: func(e migrations.Event) {
		if e.Statement == 1 {
			_, err := driver.(atlas.Locker).Lock(t.Context(), "atlas_migrate_execute", 100*time.Millisecond)
			require.ErrorIs(t, err, atlas.ErrLocked)
		}
	}})
	require.NoError(t, err)
}

// A worker that holds a table makes the migration fail, not hang, and with it
// everybody who queues behind the migration.
func TestTableLockWaitIsBounded(t *testing.T) {
	conn := empty(t)
	apply(t, conn, three.fs(t))
	worker := again(t, conn)
	exec(t, worker, "BEGIN; SELECT * FROM runlane.runlane_two")
	next := three.with("4_alter.sql", "ALTER TABLE \"runlane_two\" ADD COLUMN \"x\" bigint;\n")
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	_, err := migrations.Apply(ctx, conn, migrations.Options{Dir: next.fs(t), LockWait: 200 * time.Millisecond})
	refused(t, err, migrations.ErrLocked, "4_alter.sql")
	exec(t, worker, "ROLLBACK")
	apply(t, conn, next.fs(t))
}

// Whoever comes after a migration in the queue of a table waits for its try, not for
// the table. A migration that gets the table at last has applied everything once.
func TestTablesAreTriedBriefly(t *testing.T) {
	conn := empty(t)
	apply(t, conn, three.fs(t))
	holder, worker := again(t, conn), again(t, conn)
	exec(t, holder, "BEGIN; SELECT * FROM runlane.runlane_two")
	next := three.with("4_more.sql", added).with("5_alter.sql", "ALTER TABLE \"runlane_two\" ADD COLUMN \"x\" bigint;\n")
	waiting, done := make(chan struct{}), make(chan error, 1)
	var result migrations.Result
	go func() {
		o := migrations.Options{Dir: next.fs(t), LockWait: time.Minute, Progress: func(e migrations.Event) {
			if e.Stage == migrations.Waiting {
				close(waiting)
			}
		}}
		var err error
		result, err = migrations.Apply(t.Context(), conn, o)
		done <- err
	}()
	<-waiting
	for range 50 {
		began := time.Now()
		exec(t, worker, "SELECT * FROM runlane.runlane_two")
		require.Less(t, time.Since(began), 2*time.Second, "a worker waits for the migration")
	}
	require.Empty(t, done)
	exec(t, holder, "ROLLBACK")
	require.NoError(t, <-done)
	require.Equal(t, []string{"4_more.sql", "5_alter.sql"}, names(result.Applied))
	require.NoError(t, migrations.Verify(t.Context(), conn, migrations.Options{Dir: next.fs(t)}))
}

func openDB(t *testing.T, conn *pgx.Conn) *sql.DB {
	t.Helper()
	return openDBWith(t, conn.Config())
}

func openDBWith(t *testing.T, config *pgx.ConnConfig) *sql.DB {
	t.Helper()
	db := stdlib.OpenDB(*config)
	t.Cleanup(func() { _ = db.Close() })
	return db
}
