package operator_test

import (
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/internal/pgtest"
	"github.com/seed4391e180/runlane/run"
	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/postgres"
)

// handPage is what one would write for this page alone: the same columns of the same
// table, and one row more than the page has, to know whether another follows. The
// condition on single values lets the server choose the index by creation time;
// handPageByStatus does not.
const (
	handPage = `
SELECT run_id, task, queue, status, priority, created_at, updated_at, due_at, lease_expires_at,
	idempotency_key, singleton_key, concurrency_key, source_type, source_run_id, schedule_id
FROM runlane.runlane_runs
WHERE environment_key = $1 AND status = $2 AND created_at < '2030-01-01Z' AND (created_at, run_id) < ($3, $4)
ORDER BY created_at DESC, run_id DESC
LIMIT 51`
	handPageByStatus = `
SELECT run_id, task, queue, status, priority, created_at, updated_at, due_at, lease_expires_at,
	idempotency_key, singleton_key, concurrency_key, source_type, source_run_id, schedule_id
FROM runlane.runlane_runs
WHERE environment_key = $1 AND status = $2 AND (created_at, run_id) < ($3, $4)
ORDER BY created_at DESC, run_id DESC
LIMIT 51`
)

// listed is a run as handPage returns it.
type listed struct {
	RunID, Task, Queue, Status                                              string
	Priority                                                                int
	Created, Updated                                                        time.Time
	Due, LeaseExpires                                                       *time.Time
	IdempotencyKey, SingletonKey, ConcurrencyKey, SourceType, Run, Schedule *string
}

// BenchmarkPage turns pages of one status backwards, through the driver and with SQL
// by hand through pgx. The processor time of this process is told apart, since that of
// the machine is shared.
func BenchmarkPage(b *testing.B) {
	db := pgtest.New(b)
	pool := db.Pool(b)
	for _, sql := range []string{fill(fillRuns, *runCount, 0, 0), "VACUUM ANALYZE runlane.runlane_runs"} {
		_, err := pool.Exec(b.Context(), sql)
		require.NoError(b, err)
	}
	until := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	for name, sql := range map[string]string{"by hand": handPage, "by hand, by status": handPageByStatus} {
		b.Run(name, func(b *testing.B) {
			measured(b, func() {
				at, id := until, ""
				for i := range b.N {
					if i%100 == 0 {
						at, id = until, ""
					}
					rows, err := pool.Query(b.Context(), sql, "$prod!", "succeeded", at, id)
					require.NoError(b, err)
					page, err := pgx.CollectRows(rows, pgx.RowToStructByPos[listed])
					require.NoError(b, err)
					if len(page) != 51 {
						b.Fatalf("the page has %d runs", len(page))
					}
					at, id = page[49].Created, page[49].RunID
				}
			})
		})
	}
	d, err := postgres.New(pool, postgres.Config{})
	require.NoError(b, err)
	b.Run("runlane", func(b *testing.B) {
		measured(b, func() {
			f := storage.RunFilter{Environment: "prod", Statuses: []run.Status{run.StatusSucceeded}, Created: storage.TimeRange{Until: until}, Direction: storage.Descending, Limit: 50}
			for i := range b.N {
				if i%100 == 0 {
					f.Cursor = ""
				}
				page, err := d.ListRuns(b.Context(), f)
				require.NoError(b, err)
				if len(page.Runs) != 50 || page.Next == "" {
					b.Fatalf("the page has %d runs", len(page.Runs))
				}
				f.Cursor = page.Next
			}
		})
	})
}

// measured also reports the processor time of this process.
func measured(b *testing.B, work func()) {
	b.Helper()
	b.ReportAllocs()
	before := processor(b)
	b.ResetTimer()
	work()
	b.ReportMetric(float64(processor(b)-before)/float64(b.N)/1000, "cpu-us/op")
}

func processor(b *testing.B) time.Duration {
	b.Helper()
	var usage syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
