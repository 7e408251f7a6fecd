package doctor_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/internal/doctor"
	"github.com/seed4391e180/runlane/internal/pgtest"
	"github.com/seed4391e180/runlane/lane"
	"github.com/seed4391e180/runlane/storage/postgres"
)

const (
	wait = 30 * time.Second
	tick = 20 * time.Millisecond
)

func replaceSchema(sql, schema string) string { return strings.ReplaceAll(sql, "{schema}", schema) }

func requireSays(t *testing.T, findings map[string]doctor.Finding, texts []string) {
	t.Helper()
	var all strings.Builder
	for _, f := range findings {
		fmt.Fprintf(&all, "%s\n%s\n", f.Message, f.Mend)
	}
	for _, text := range texts {
		require.Contains(t, all.String(), text)
	}
}

func TestDeadRows(t *testing.T) {
	p := newWorld(t, map[string]string{"autovacuum_naptime": "1h"}).patient(t)
	p.insertRuns(t, 11_000)
	sql(t, p.conn, "DELETE FROM runlane.runlane_runs")
	require.NoError(t, p.conn.Close(t.Context())) // which reports its statistics
	var f doctor.Finding
	require.Eventually(t, func() bool {
		f = examine(t, p.URL, doctor.Options{DeadRows: 500})["vacuum"]
		return f.Status == doctor.Warn
	}, wait, tick)
	require.Regexp(t, `^runlane_runs has 11000 dead rows and 0 live ones, never vacuumed$`, f.Message)
	require.Contains(t, f.Mend, `VACUUM (ANALYZE) "runlane"."runlane_runs"`)
	require.Equal(t, doctor.OK, examine(t, p.URL, doctor.Options{DeadRows: 20_000})["vacuum"].Status)

	again := connect(t, p.URL)
	sql(t, again, `VACUUM runlane.runlane_runs`)
	require.NoError(t, again.Close(t.Context()))
	require.Eventually(t, func() bool {
		f = examine(t, p.URL, doctor.Options{DeadRows: 500})["vacuum"]
		return f.Status == doctor.OK
	}, wait, tick)
	runs := f.Figures["tables"].(map[string]any)["runlane_runs"].(map[string]any)
	require.EqualValues(t, 0, runs["dead"])
	require.Contains(t, runs, "vacuumed_seconds_ago")
}

// A session that reads, one that only wrote, and a prepared transaction each hold dead
// rows back; ended as the mend says, they do not.
func TestHeldSnapshots(t *testing.T) {
	p := newWorld(t, map[string]string{"max_prepared_transactions": "5"}).patient(t)
	now := doctor.Options{OldSnapshot: time.Nanosecond}
	for name, c := range map[string]struct{ begin, says string }{
		"a reader":               {"BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1", "session "},
		"a writer":               {"BEGIN; SELECT pg_current_xact_id()", "session "},
		"a prepared transaction": {"BEGIN; SELECT pg_current_xact_id(); PREPARE TRANSACTION 'it''s'", "prepared transaction it's"},
	} {
		t.Run(name, func(t *testing.T) {
			holder := connect(t, p.URL)
			sql(t, holder, c.begin)
			findings := examine(t, p.URL, now)
			requireOnly(t, findings, map[string]doctor.Status{"snapshots": doctor.Warn})
			f := findings["snapshots"]
			require.Contains(t, f.Message, c.says)
			require.Equal(t, doctor.OK, examine(t, p.URL, doctor.Options{})["snapshots"].Status, "it is not old")

			_, mend, ok := strings.Cut(f.Mend, "or: ")
			require.True(t, ok)
			sql(t, p.conn, mend)
			require.Eventually(t, func() bool {
				return examine(t, p.URL, now)["snapshots"].Status == doctor.OK
			}, wait, tick)
		})
	}
}

// A replica that is gone, and whose slot remembers what it read last.
func TestReplicationSlot(t *testing.T) {
	p := newWorld(t, map[string]string{"max_replication_slots": "1"}).patient(t)
	sql(t, p.conn, "SELECT pg_create_physical_replication_slot('gone', true)")
	var xmin uint32
	require.NoError(t, p.conn.QueryRow(t.Context(), "SELECT (pg_current_xact_id()::text::bigint % (1::bigint << 32))::bigint").Scan(&xmin))
	config, err := pgconn.ParseConfig(p.URL)
	require.NoError(t, err)
	config.RuntimeParams["replication"] = "true"
	replica, err := pgconn.ConnectConfig(t.Context(), config)
	require.NoError(t, err)
	defer replica.Close(context.Background())
	replica.Frontend().SendQuery(&pgproto3.Query{String: "START_REPLICATION SLOT gone PHYSICAL 0/1000000"})
	require.NoError(t, replica.Frontend().Flush())
	for {
		message, err := replica.ReceiveMessage(t.Context())
		require.NoError(t, err)
		if _, streaming := message.(*pgproto3.CopyBothResponse); streaming {
			break
		}
	}
	feedback := []byte{'h'}
	feedback = binary.BigEndian.AppendUint64(feedback, 0)
	feedback = binary.BigEndian.AppendUint32(feedback, xmin)
	feedback = append(feedback, make([]byte, 12)...)
	replica.Frontend().Send(&pgproto3.CopyData{Data: feedback})
	require.NoError(t, replica.Frontend().Flush())
	require.Eventually(t, func() (set bool) {
		err := p.conn.QueryRow(t.Context(), "SELECT xmin IS NOT NULL FROM pg_replication_slots").Scan(&set)
		return err == nil && set
	}, wait, tick)
	for range 3 {
		sql(t, p.conn, "SELECT pg_current_xact_id()")
	}
	require.NoError(t, replica.Close(t.Context()))
	require.Eventually(t, func() bool {
		f := examine(t, p.URL, doctor.Options{OldSlot: 1})["snapshots"]
		return f.Status == doctor.Warn && strings.Contains(f.Message, "replication slot gone (not active)")
	}, wait, tick)
	requireOnly(t, examine(t, p.URL, doctor.Options{}), nil)
	sql(t, p.conn, "SELECT pg_drop_replication_slot('gone')")
	requireOnly(t, examine(t, p.URL, doctor.Options{OldSlot: 1}), nil)
}

// Before PostgreSQL 17 the queue holds 8 GB, of which the test fills a ten thousandth.
func TestNotificationQueue(t *testing.T) {
	settings, limit := map[string]string{}, 0.00001
	if pgtest.Major(t) >= 17 {
		settings["max_notify_queue_pages"], limit = "64", 0
	}
	p := newWorld(t, settings).patient(t)
	listener := connect(t, p.URL)
	sql(t, listener, "LISTEN nobody_sends_here") // which takes effect at its commit
	sql(t, listener, "BEGIN")
	for i := range 48 {
		_, err := p.conn.Exec(t.Context(), "SELECT pg_notify('filler', $1)", fmt.Sprint(i)+strings.Repeat("x", 7000))
		require.NoError(t, err)
	}
	findings := examine(t, p.URL, doctor.Options{QueueUsage: limit})
	requireOnly(t, findings, map[string]doctor.Status{"notifications": doctor.Warn})
	require.Greater(t, findings["notifications"].Figures["usage"], limit)
	sql(t, listener, "COMMIT")
	requireOnly(t, examine(t, p.URL, doctor.Options{QueueUsage: limit}), nil)
}

func TestLockTable(t *testing.T) {
	for capacity, c := range map[int]struct {
		connections int
		status      doctor.Status
	}{
		10 * 20:  {20, doctor.Fail},
		40 * 100: {100, doctor.Warn},
		64 * 100: {100, doctor.OK},
	} {
		p := newWorld(t, map[string]string{"max_connections": fmt.Sprint(c.connections), "max_locks_per_transaction": fmt.Sprint(capacity / c.connections)}).patient(t)
		findings := examine(t, p.URL, doctor.Options{})
		requireOnly(t, findings, map[string]doctor.Status{"locks": c.status})
		require.EqualValues(t, capacity, findings["locks"].Figures["capacity"])
		if c.status == doctor.OK {
			sql(t, p.conn, "BEGIN; SELECT count(pg_advisory_xact_lock(i)) FROM generate_series(1, 5000) AS i")
			findings = examine(t, p.URL, doctor.Options{})
			requireOnly(t, findings, map[string]doctor.Status{"locks": doctor.Warn})
			require.Contains(t, findings["locks"].Message, "little is left")
		}
	}
}

func TestClock(t *testing.T) {
	p := newWorld(t, nil).patient(t)
	for _, off := range []time.Duration{-time.Hour, time.Hour} {
		findings := examine(t, p.URL, doctor.Options{Now: func() time.Time { return time.Now().Add(off) }})
		requireOnly(t, findings, map[string]doctor.Status{"clock": doctor.Warn})
		require.InDelta(t, -float64(off.Milliseconds()), findings["clock"].Figures["server_ahead_ms"], 5000)
		word := map[bool]string{true: "ahead of", false: "behind"}[off < 0]
		require.Contains(t, findings["clock"].Message, word+" this machine's")
	}
	// A slow answer is not a clock that is wrong: the trip says how much is not known.
	calls := 0
	now := func() time.Time { calls++; return time.Now().Add(time.Duration(calls%2) * -time.Minute) }
	f := examine(t, p.URL, doctor.Options{Now: now})["clock"]
	require.Equal(t, doctor.OK, f.Status, f)
	require.InDelta(t, 30_000, f.Figures["uncertainty_ms"], 5000)
}

func TestDueRuns(t *testing.T) {
	p := newWorld(t, nil).patient(t)
	store, err := postgres.Open(t.Context(), p.URL, postgres.Config{})
	require.NoError(t, err)
	defer store.Close()
	trigger := func(environment, queue string, delay time.Duration) string {
		l, err := lane.New(store, lane.Config{Environment: environment})
		require.NoError(t, err)
		task := lane.Define(l, "t", func(context.Context, *lane.Attempt, int) (int, error) { return 0, nil }, lane.TaskOptions{Queue: queue})
		triggered, err := task.Trigger(t.Context(), 1, lane.TriggerOptions{Delay: delay})
		require.NoError(t, err)
		return triggered.RunID
	}
	later := trigger("prod", "b", time.Hour)
	findings := examine(t, p.URL, doctor.Options{Late: time.Nanosecond})
	requireOnly(t, findings, nil)
	require.Contains(t, findings["runs"].Message, "the next is due in 59m")
	require.Equal(t, later, findings["runs"].Figures["run"])

	due := trigger("test", "a b", 0)
	for _, queue := range []string{"c", "d"} {
		trigger("prod", queue, 0)
	}
	findings = examine(t, p.URL, doctor.Options{Late: time.Nanosecond})
	requireOnly(t, findings, map[string]doctor.Status{"runs": doctor.Warn})
	f := findings["runs"]
	require.Equal(t, due, f.Figures["run"])
	require.Equal(t, "test", f.Figures["environment"])
	require.Equal(t, "a b", f.Figures["queue"])
	require.EqualValues(t, 4, f.Figures["queues"])
	requireOnly(t, examine(t, p.URL, doctor.Options{}), nil)
}

// However many runs wait, the check reads one entry for each queue.
func TestDueRunsAreReadFromTheIndex(t *testing.T) {
	p := newWorld(t, nil).patient(t)
	sql(t, p.conn, `INSERT INTO runlane.runlane_runs (environment_key, run_id, record_version, record_document, runs_by_due_partition, runs_by_due_sort)
SELECT 'e', 'r' || i, i, '{}', '$e!$q' || i % 3 || '!', '#' || i FROM generate_series(1, 20000) AS i; ANALYZE`)
	tx, err := p.conn.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(context.Background()) }()
	for _, set := range []string{"enable_seqscan", "enable_bitmapscan", "enable_sort"} {
		_, err = tx.Exec(t.Context(), "SET LOCAL "+set+" = off")
		require.NoError(t, err)
	}
	text, err := os.ReadFile("../../internal/doctor/sql/runs.sql")
	require.NoError(t, err)
	statement := strings.ReplaceAll(string(text), "{runs}", p.in("runlane_runs"))
	rows, err := tx.Query(t.Context(), "EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF)\n"+statement, 1000)
	require.NoError(t, err)
	var plan strings.Builder
	var line string
	for rows.Next() {
		require.NoError(t, rows.Scan(&line))
		plan.WriteString(line + "\n")
	}
	require.NoError(t, rows.Err())
	require.Equal(t, 2, strings.Count(plan.String(), "using runlane_runs_by_due"), plan.String())
	require.NotContains(t, plan.String(), "Seq Scan", plan.String())
	require.NotRegexp(t, `rows=\d{3,}`, plan.String())
	require.NotContains(t, plan.String(), "Rows Removed", plan.String())
}

func TestPooler(t *testing.T) {
	p := newWorld(t, nil).patient(t)
	for connections := 1; connections <= 3; connections++ {
		findings := examine(t, pgtest.Bounce(t, p.DB, connections).URL+"&default_query_exec_mode=exec", doctor.Options{})
		requireOnly(t, findings, map[string]doctor.Status{"pooler": doctor.Warn})
		require.Contains(t, findings["pooler"].Mend, "Config.ListenURL")
	}
}

// One connection is enough, and a check that gets no answer leaves the others theirs.
func TestBoundedChecks(t *testing.T) {
	p := newWorld(t, nil).patient(t)
	config, err := pgxpool.ParseConfig(p.URL)
	require.NoError(t, err)
	config.MaxConns = 1
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	defer pool.Close()
	sql(t, p.conn, "BEGIN; LOCK TABLE runlane.runlane_runs, runlane.atlas_schema_revisions IN ACCESS EXCLUSIVE MODE")
	list, err := doctor.Examine(t.Context(), pool, doctor.Options{Timeout: 2 * time.Second})
	require.NoError(t, err)
	findings := map[string]doctor.Finding{}
	for _, f := range list {
		findings[f.Name] = f
	}
	requireOnly(t, findings, map[string]doctor.Status{"runs": doctor.Unknown, "migrations": doctor.Unknown})
	for _, name := range []string{"runs", "migrations"} {
		require.Equal(t, "there was no answer within 2s", findings[name].Message)
	}

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = doctor.Examine(ctx, pool, doctor.Options{})
	require.ErrorIs(t, err, context.Canceled)
}
