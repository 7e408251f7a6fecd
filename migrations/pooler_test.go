package migrations_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/internal/pgtest"
	"github.com/seed4391e180/runlane/migrations"
)

// Twenty runners take turns on one connection of a pooler in transaction mode, and
// leave nothing in its session.
func TestThroughPgBouncer(t *testing.T) {
	for name, connections := range map[string]int{"one connection": 1, "several": 4} {
		t.Run(name, func(t *testing.T) {
			db := pgtest.New(t, pgtest.Empty())
			through := pgtest.Bounce(t, db, connections)
			var (
				wg      sync.WaitGroup
				created atomic.Int64
			)
			for range 20 {
				conn := connect(t, through.URL)
				wg.Go(func() {
					result, err := migrations.Apply(t.Context(), conn, migrations.Options{LockWait: time.Minute})
					if err != nil {
						t.Error(err)
					}
					if result.Created {
						created.Add(1)
					}
					if err := migrations.Verify(t.Context(), conn, migrations.Options{}); err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
			require.EqualValues(t, 1, created.Load())
			requireClean(t, connect(t, db.URL), connect(t, through.URL))
		})
	}
}

// requireClean looks for what a runner must not leave in sessions that are somebody
// else's next.
func requireClean(t *testing.T, direct, pooled *pgx.Conn) {
	t.Helper()
	require.Zero(t, value[int](t, direct, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"))
	for _, sql := range []string{
		"SELECT count(*) FROM pg_prepared_statements",
		`SELECT count(*) FROM pg_settings WHERE source = 'session'
AND name NOT IN ('client_encoding', 'DateStyle', 'TimeZone', 'standard_conforming_strings', 'application_name')`,
	} {
		var n int
		require.NoError(t, pooled.QueryRow(t.Context(), sql, pgx.QueryExecModeSimpleProtocol).Scan(&n))
		require.Zero(t, n, sql)
	}
}

// An index needs a session of its own. Behind a pooler there is none, however many
// connections it has: with one, every statement meets the session of the one before,
// until another program comes. It is refused before anything is applied.
func TestIndexesAreRefusedThroughPgBouncer(t *testing.T) {
	for name, connections := range map[string]int{"one connection": 1, "several": 4} {
		t.Run(name, func(t *testing.T) {
			direct, _ := populated(t)
			through := pgtest.Bounce(t, &pgtest.DB{URL: direct.Config().ConnString()}, connections)
			pooled := connect(t, through.URL)
			before := objects(t, direct)
			for _, dir := range []files{
				grown,
				grown.with("4a_before.sql", added), // a file that could be applied
			} {
				o := migrations.Options{Dir: dir.fs(t)}
				for range 3 {
					result, err := migrations.Apply(t.Context(), pooled, o)
					refused(t, err, migrations.ErrPooled, "5_index.sql")
					require.Empty(t, result.Applied)
				}
				require.Equal(t, before, objects(t, direct))
				plan, err := migrations.Plan(t.Context(), pooled, o)
				require.NoError(t, err)
				require.Contains(t, names(plan), "5_index.sql")
			}
			state, err := migrations.Status(t.Context(), direct, migrations.Options{Dir: grown.fs(t)})
			require.NoError(t, err)
			require.False(t, state.Started)
			requireClean(t, direct, pooled)

			apply(t, direct, grown.fs(t))
			require.Empty(t, apply(t, pooled, grown.fs(t)).Applied)
			requireWhole(t, direct)
			requireClean(t, direct, pooled)
		})
	}
}
