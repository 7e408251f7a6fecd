package conformance_test

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/internal/pgtest"
	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/postgres"
	"github.com/seed4391e180/runlane/storage/storagetest"
)

// bounced is the way to the database through PgBouncer in transaction mode.
func bounced(connections int) func(*testing.T, *pgtest.DB) *pgtest.DB {
	return func(t *testing.T, db *pgtest.DB) *pgtest.DB { return pgtest.Bounce(t, db, connections) }
}

// listenPast lets the listener connect to the server itself.
func listenPast(db *pgtest.DB) postgres.Config { return postgres.Config{ListenURL: db.URL} }

// TestPgBouncer runs the suite through PgBouncer, in each exec mode that every version
// of it allows. Only the listener goes past it: in transaction mode a notification
// has nobody to go to. With one connection to the server, whatever a transaction left
// behind in its session would meet every other; with several, every transaction meets
// another session than the one before. A method that needed a second connection while
// it holds one would never get it where the driver's pool has one as well.
func TestPgBouncer(t *testing.T) {
	t.Parallel()
	alone := func(c *pgxpool.Config) { c.MaxConns = 1 }
	for _, s := range []setting{
		{name: "cache_describe, one connection in all", pool: all(mode(pgx.QueryExecModeCacheDescribe), alone)},
		{name: "describe_exec", pool: mode(pgx.QueryExecModeDescribeExec)},
		{name: "exec", pool: mode(pgx.QueryExecModeExec)},
		{name: "simple protocol", pool: mode(pgx.QueryExecModeSimpleProtocol)},
	} {
		s.through, s.config = bounced(1), listenPast
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			w := s.world(t)
			storagetest.RunWith(t, w.open, storagetest.Options{Single: true, Brief: true})
			w.requireNothingLeft(t)
		})
	}
	prove(t, setting{name: "several connections, cache_describe",
		pool: mode(pgx.QueryExecModeCacheDescribe), through: bounced(8), config: listenPast}, storagetest.Options{Brief: true})
}

// requireNothingLeft looks at the one session that everything went through, for what a
// transaction must not leave to the next: another program's, as likely as not.
func (w *world) requireNothingLeft(t *testing.T) {
	t.Helper()
	for what, sql := range map[string]string{
		"prepared statements": "SELECT name || ': ' || statement FROM pg_prepared_statements",
		"advisory locks":      "SELECT mode || ' by ' || pid FROM pg_locks WHERE locktype = 'advisory' AND database = (SELECT oid FROM pg_database WHERE datname = current_database())",
		"channels":            "SELECT pg_listening_channels()",
		"temporary objects":   "SELECT relname::text FROM pg_class WHERE relnamespace = pg_my_temp_schema()",
		// PgBouncer itself sets these five, for each client anew.
		"settings": `SELECT name || ' = ' || setting FROM pg_settings WHERE source = 'session'
  AND name NOT IN ('client_encoding', 'DateStyle', 'TimeZone', 'standard_conforming_strings', 'application_name')`,
	} {
		rows, err := w.pool.Query(t.Context(), sql, pgx.QueryExecModeExec)
		require.NoError(t, err)
		left, err := pgx.CollectRows(rows, pgx.RowTo[string])
		require.NoError(t, err)
		require.Empty(t, left, what)
	}
}

// TestPreparedStatementsThroughPgBouncer: statements that clients prepare need a
// pooler that keeps them apart, as PgBouncer can from version 1.21 on. Through an
// older one those of one client meet those of the other, and the error says what to do.
func TestPreparedStatementsThroughPgBouncer(t *testing.T) {
	t.Parallel()
	var through *pgtest.DB
	first := setting{through: func(t *testing.T, db *pgtest.DB) *pgtest.DB {
		through = pgtest.Bounce(t, db, 1)
		return through
	}}.world(t)
	require.NoError(t, first.use(t, storage.Runs))
	second := *first
	second.pool = through.Pool(t)
	err := second.use(t, storage.Runs)
	if major, minor := pgtest.BouncerVersion(t); major == 1 && minor < 21 {
		require.Error(t, err)
	}
	if err != nil {
		require.ErrorIs(t, err, storage.ErrConfiguration)
		require.ErrorContains(t, err, "exec modes")
	}
}
