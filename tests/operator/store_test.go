// Package operator_test holds what docs/operator-reads.md says of operator reads: what
// they cost at a size at which it matters, that both drivers give the same pages, and
// that the columns which they read say what the documents say.
package operator_test

import (
	"context"
	"flag"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/internal/pgtest"
	"github.com/seed4391e180/runlane/storage/postgres"
)

// The size of the store whose plans are looked at. `make operator-scale` asks for a
// million runs.
var (
	runCount   = flag.Int("runs", 20_000, "how many runs the large store has")
	eventCount = flag.Int("events", 60_000, "how many events it has")
	longRun    = flag.Int("history", 3_000, "how many of them one run has")
	update     = flag.Bool("update", false, "write the tables of docs/operator-reads.md anew")
)

// store is a driver whose statements are recorded, and a client beside it.
type store struct {
	*testing.T
	driver *postgres.Driver
	pool   *pgxpool.Pool // the driver's
	side   *pgxpool.Pool
	tap    *tap
}

func newStore(t *testing.T) *store {
	t.Helper()
	db := pgtest.New(t)
	s := &store{T: t, side: db.Pool(t), tap: &tap{}}
	config := db.Config(t)
	config.ConnConfig.Tracer = s.tap
	var err error
	s.pool, err = pgxpool.NewWithConfig(context.Background(), config)
	require.NoError(t, err)
	t.Cleanup(s.pool.Close)
	s.driver, err = postgres.New(s.pool, postgres.Config{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.driver.Close()) })
	return s
}

// in is the store within a subtest.
func (s *store) in(t *testing.T) *store {
	within := *s
	within.T = t
	return &within
}

func (s *store) exec(sql string, args ...any) {
	s.Helper()
	_, err := s.side.Exec(s.Context(), sql, args...)
	require.NoError(s, err, sql)
}

// scalar is the one value that a query beside the driver returns.
func scalar[T any](s *store, sql string, args ...any) (v T) {
	s.Helper()
	require.NoError(s, s.side.QueryRow(s.Context(), sql, args...).Scan(&v), sql)
	return v
}

// column is the one column that a query beside the driver returns.
func column[T any](s *store, sql string, args ...any) []T {
	s.Helper()
	rows, err := s.side.Query(s.Context(), sql, args...)
	require.NoError(s, err, sql)
	list, err := pgx.CollectRows(rows, pgx.RowTo[T])
	require.NoError(s, err, sql)
	return list
}

// tap records the statements that the driver sends.
type tap struct {
	mu   sync.Mutex
	sent []sent
}

type sent struct {
	sql  string
	args []any
}

func (t *tap) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sent = append(t.sent, sent{data.SQL, data.Args})
	return ctx
}

func (*tap) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// take returns what was sent since the last call.
func (t *tap) take() []sent {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := t.sent
	t.sent = nil
	return all
}

// withoutIndexes drops the secondary indexes of a table while fill fills it, which is
// several times faster, and makes them again as the migration did.
func (s *store) withoutIndexes(table string, fill func()) {
	s.Helper()
	definitions := column[string](s, `SELECT pg_get_indexdef(indexrelid) FROM pg_index
WHERE indrelid = $1::regclass AND NOT indisprimary`, "runlane."+table)
	require.NotEmpty(s, definitions)
	for _, name := range column[string](s, `SELECT c.relname::text FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
WHERE i.indrelid = $1::regclass AND NOT i.indisprimary`, "runlane."+table) {
		s.exec("DROP INDEX runlane." + name)
	}
	fill()
	for _, definition := range definitions {
		s.exec(definition)
	}
}

// large fills the tables by SQL: two runs in three are in one environment, and nearly all
// have succeeded, but the newest twentieth waits; times come in ties of 500. Three
// runs are cancelled, five tasks are rare; one run has a long history, and every fiftieth
// event is an orphan. One run in a hundred has a document that is stored out of line.
// Nothing makes a scan of the table dearer than it is: rows are in no order of keys or
// times, environments are mixed, and the server has analyzed the tables, not cleaned them.
func (s *store) large() {
	s.Helper()
	for _, table := range []string{"runlane_runs", "runlane_record_run_events"} {
		s.exec("ALTER TABLE runlane." + table + " SET (autovacuum_enabled = false)")
	}
	runs, events, history := *runCount, *eventCount, *longRun
	s.withoutIndexes("runlane_runs", func() {
		s.exec(fill(fillRuns, runs, events, history))
	})
	s.withoutIndexes("runlane_record_run_events", func() {
		s.exec(fill(fillEvents, runs, events, history))
	})
	s.exec("ANALYZE runlane.runlane_runs")
	s.exec("ANALYZE runlane.runlane_record_run_events")
}

func fill(sql string, runs, events, history int) string {
	return strings.NewReplacer("{runs}", fmt.Sprint(runs), "{events}", fmt.Sprint(events), "{history}", fmt.Sprint(history)).Replace(sql)
}

const fillRuns = `
INSERT INTO runlane.runlane_runs (environment_key, run_id, record_version, record_document, task, queue, status, priority,
  created_at, updated_at, due_at, lease_expires_at, idempotency_key, singleton_key, concurrency_key, source_type, source_run_id, schedule_id,
  runs_by_due_partition, runs_by_due_sort, runs_by_retention_partition, runs_by_retention_sort)
SELECT e, '$' || md5(i::text) || '!', i,
  CASE WHEN i % 100 = 7 THEN jsonb_build_object('text', (SELECT string_agg(md5(i::text || j), '') FROM generate_series(1, 200) j))
       ELSE jsonb_build_object('codec', 'run', 'text', repeat('x', 200)) END,
  CASE WHEN i % ({runs} / 5) = 3 THEN 'rare' ELSE 'mail' END, 'default', st, 2,
  at, at + (i::bigint * 7919 % 86400) * interval '1 second', CASE WHEN st = 'queued' THEN at + interval '1 hour' END, CASE WHEN st = 'running' THEN at END,
  CASE WHEN i % 1000 = 1 THEN 'key:' || i END, NULL, CASE WHEN i % 3 = 0 THEN 'account' END,
  CASE WHEN i % 50 = 0 THEN 'rerun' ELSE 'trigger' END, CASE WHEN i % 50 = 0 THEN 'source' END, CASE WHEN i % ({runs} / 4) = 5 THEN 'nightly' END,
  CASE WHEN st = 'queued' THEN e || '$default!' END, CASE WHEN st = 'queued' THEN '@' || i END,
  CASE WHEN st IN ('succeeded', 'failed', 'cancelled') THEN e END, CASE WHEN st IN ('succeeded', 'failed', 'cancelled') THEN '@' || i END
FROM generate_series(1, {runs}) i, LATERAL (SELECT
  CASE WHEN substr(md5('e' || i), 1, 1) > 'a' THEN '$staging' || substr(md5('e' || i), 1, 1) || '!' WHEN i % 400 = 1 THEN '$tiny-' || i % 97 || '!' ELSE '$prod!' END AS e,
  timestamptz '2026-01-01 00:00:00Z' + (i / 500) * interval '13.000007 seconds' AS at,
  CASE WHEN i IN ({runs} / 2, {runs} / 3, {runs} / 5) THEN 'cancelled' WHEN i > {runs} * 0.95 THEN 'queued' WHEN i > {runs} * 0.93 AND i % 10 = 0 THEN 'running'
       WHEN i % 90 = 0 THEN 'failed' ELSE 'succeeded' END AS st) x
ORDER BY md5(i::text)`

const fillEvents = `
INSERT INTO runlane.runlane_record_run_events (environment_key, record_id, record_version, record_document, payload_from_run, sequence_index_native,
  run_id, sequence, event_type, occurred_at)
SELECT '$prod!', '%' || md5('e' || i), i, '{"codec": "event", "value": {"event": {}}}', false, true,
  CASE WHEN i <= {history} THEN '$' || md5('2') || '!' WHEN i % 50 = 0 THEN '$gone-' || i || '!' ELSE '$' || md5((i % {runs} + 1)::text) || '!' END,
  CASE WHEN i <= {history} THEN i ELSE i / {runs} + 100000 END,
  CASE WHEN i % ({events} / 5) = 11 THEN 'run.waiting' WHEN i > {events} * 0.9 THEN 'run.created' WHEN i % 70 = 0 THEN 'run.failed'
       WHEN i % 2 = 0 THEN 'run.started' ELSE 'run.succeeded' END,
  timestamptz '2026-01-01 00:00:00Z' + (i / 300) * interval '1.000003 seconds'
FROM generate_series(1, {events}) i
ORDER BY md5((i / 50)::text)`
