package migrations_test

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io/fs"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"

	"ariga.io/atlas/sql/migrate"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/internal/pgtest"
	"github.com/seed4391e180/runlane/lane"
	"github.com/seed4391e180/runlane/migrations"
	"github.com/seed4391e180/runlane/run"
	"github.com/seed4391e180/runlane/storage/postgres"
)

// The size of the store that is migrated while it works. `make migration-live` asks
// for a hundred thousand runs.
var liveRuns = flag.Int("live", 3_000, "how many runs the store has that is migrated while workers run")

// nextFiles is the released directory with a file that adds a column to the runs, and
// one that builds an index of it.
func nextFiles(t *testing.T) fs.FS {
	t.Helper()
	texts := map[string]string{
		"99990101000000_note.sql": "-- Old workers may run while this file is applied: the column may be null.\n\n" +
			"ALTER TABLE \"runlane_runs\" ADD COLUMN \"note\" text NULL COLLATE \"C\";\n",
		"99990101000001_by_note.sql": "-- Old workers may run while this file is applied: the index is not unique.\n-- atlas:txmode none\n\n" +
			"CREATE INDEX CONCURRENTLY \"runlane_runs_by_note\" ON \"runlane_runs\" (\"environment_key\", \"note\", \"created_at\", \"run_id\");\n",
	}
	released, err := fs.Glob(migrations.Files, "*.sql")
	require.NoError(t, err)
	for _, name := range released {
		text, err := migrations.Files.ReadFile(name)
		require.NoError(t, err)
		texts[name] = string(text)
	}
	all, dir := fstest.MapFS{}, &migrate.MemDir{}
	for name, text := range texts {
		all[name] = &fstest.MapFile{Data: []byte(text)}
		require.NoError(t, dir.WriteFile(name, []byte(text)))
	}
	sum, err := dir.Checksum()
	require.NoError(t, err)
	text, err := sum.MarshalText()
	require.NoError(t, err)
	all[migrate.HashFileName] = &fstest.MapFile{Data: text}
	return all
}

// TestLiveMigration adds a column and an index to the runs while eight workers work on
// them and a session that has forgotten its transaction holds the table. The workers go
// on as if nothing happened: they log nothing, no attempt is repeated, and none of
// them waits for a table for longer than a try of the migration takes.
func TestLiveMigration(t *testing.T) {
	db := pgtest.New(t)
	works := newLiveWorks(t, db)
	works.trigger(*liveRuns)
	works.start()
	works.awaitMore(100)

	holder := connect(t, db.URL)
	sql(t, holder, "BEGIN; SELECT count(*) FROM (SELECT FROM runlane.runlane_runs LIMIT 1) AS r")
	waits := newLockWaits(t, db)
	waiting, done := make(chan struct{}), make(chan error, 1)
	conn, began := connect(t, db.URL), time.Now()
	o := migrations.Options{Dir: nextFiles(t), LockWait: 5 * time.Minute, Progress: func(e migrations.Event) {
		t.Logf("%6.3f s: %s %s", time.Since(began).Seconds(), e.Stage, e.File.Name)
		if e.Stage == migrations.Waiting {
			close(waiting)
		}
	}}
	go func() {
		_, err := migrations.Apply(t.Context(), conn, o)
		done <- err
	}()
	select {
	case <-waiting:
	case err := <-done:
		require.Fail(t, "the migration did not try again", "%v", err)
	}
	works.awaitMore(200) // while the migration tries in vain
	require.Empty(t, done)
	sql(t, holder, "ROLLBACK")
	require.NoError(t, <-done)
	took := time.Since(began)
	works.awaitMore(200)
	longest, samples := waits.stop()
	require.NoError(t, migrations.Verify(t.Context(), conn, o))

	total := works.finish()
	require.Empty(t, works.log(), "workers met errors")
	require.EqualValues(t, total, works.attempts.Load(), "attempts were repeated")
	rows := column(t, conn, "SELECT status || ' ' || count(*) FROM runlane.runlane_runs GROUP BY status")
	require.Equal(t, []string{fmt.Sprintf("%s %d", run.StatusSucceeded, total)}, rows)
	t.Logf("%d runs, migrated in %s; the longest wait for a table: %s (%d looks)", total, took.Round(time.Millisecond), longest.Round(time.Millisecond), samples)
	require.Positive(t, longest, "nobody ever waited, so nothing was measured")
	require.Less(t, longest, 2*time.Second, "a try of a migration lasts 100 ms, and the machine may be busy")
}

// liveWorks are workers and what they have done.
type liveWorks struct {
	*testing.T
	task     *lane.Task[int, int]
	lanes    []*lane.Lane
	ctx      context.Context
	stop     context.CancelFunc
	producer context.CancelFunc
	workers  sync.WaitGroup
	produced sync.WaitGroup

	triggered, succeeded, attempts atomic.Int64
	ended                          chan struct{} // a signal for whoever waits for succeeded

	mu   sync.Mutex
	text bytes.Buffer
}

func newLiveWorks(t *testing.T, db *pgtest.DB) *liveWorks {
	t.Helper()
	w := &liveWorks{T: t, ended: make(chan struct{}, 1)}
	for range 4 {
		store, err := postgres.New(db.Pool(t), postgres.Config{})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, store.Close()) })
		l, err := lane.New(store, lane.Config{
			Environment: "live",
			Logger:      slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: slog.LevelDebug})),
			Hooks:       lane.Hooks{Finished: w.finished},
		})
		require.NoError(t, err)
		w.task = lane.Define(l, "double", func(_ context.Context, _ *lane.Attempt, n int) (int, error) { return 2 * n, nil }, lane.TaskOptions{})
		w.lanes = append(w.lanes, l)
	}
	return w
}

// Write takes what the workers log.
func (w *liveWorks) Write(line []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.Write(line)
}

func (w *liveWorks) log() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.String()
}

func (w *liveWorks) finished(f lane.Finish) {
	w.attempts.Add(1)
	if f.Outcome == lane.OutcomeSucceeded {
		w.succeeded.Add(1)
	}
	select {
	case w.ended <- struct{}{}:
	default:
	}
}

func (w *liveWorks) trigger(n int) {
	w.Helper()
	items := make([]lane.Item[int], n)
	for i := range items {
		items[i].Payload = i
	}
	_, err := w.task.TriggerMany(w.Context(), items)
	require.NoError(w, err)
	w.triggered.Add(int64(n))
}

// start starts two workers on each lane, and a producer that keeps them busy.
func (w *liveWorks) start() {
	w.ctx, w.stop = context.WithCancel(context.WithoutCancel(w.Context()))
	w.Cleanup(func() {
		w.stop()
		w.workers.Wait()
	})
	for _, l := range w.lanes {
		for range 2 {
			w.workers.Go(func() {
				if err := l.Work(w.ctx, lane.WorkerConfig{Concurrency: 4, PollInterval: 50 * time.Millisecond}); err != nil {
					w.Errorf("Work: %v", err)
				}
			})
		}
	}
	producing, stop := context.WithCancel(w.ctx)
	w.producer = stop
	w.produced.Go(func() {
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-producing.Done():
				return
			case <-tick.C:
			}
			if _, err := w.task.Trigger(w.ctx, 1); err != nil {
				w.Errorf("Trigger: %v", err)
				return
			}
			w.triggered.Add(1)
		}
	})
}

// awaitMore waits until so many more runs have succeeded.
func (w *liveWorks) awaitMore(n int64) { w.await(w.succeeded.Load() + n) }

func (w *liveWorks) await(n int64) {
	w.Helper()
	stuck := time.NewTimer(10 * time.Minute)
	defer stuck.Stop()
	for w.succeeded.Load() < n {
		select {
		case <-w.ended:
		case <-stuck.C:
			require.Fail(w, "the workers are stuck", w.log())
		}
	}
}

// finish waits for all runs and stops the workers.
func (w *liveWorks) finish() int64 {
	w.Helper()
	w.producer()
	w.produced.Wait()
	w.await(w.triggered.Load())
	w.stop()
	w.workers.Wait()
	return w.triggered.Load()
}

// lockWaits looks every few milliseconds for how long somebody has waited for a table.
type lockWaits struct {
	cancel  context.CancelFunc
	done    chan error
	longest time.Duration
	samples int
	t       *testing.T
}

const longestWait = `SELECT coalesce(max(extract(epoch FROM clock_timestamp() - waitstart)), 0)::float8
FROM pg_locks WHERE NOT granted AND locktype = 'relation'
AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`

func newLockWaits(t *testing.T, db *pgtest.DB) *lockWaits {
	t.Helper()
	conn := connect(t, db.URL)
	ctx, cancel := context.WithCancel(t.Context())
	w := &lockWaits{cancel: cancel, done: make(chan error, 1), t: t}
	go func() { w.done <- w.look(ctx, conn) }()
	return w
}

func (w *lockWaits) look(ctx context.Context, conn *pgx.Conn) error {
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		var seconds float64
		if err := conn.QueryRow(context.WithoutCancel(ctx), longestWait).Scan(&seconds); err != nil {
			return err
		}
		w.longest = max(w.longest, time.Duration(seconds*float64(time.Second)))
		w.samples++
	}
}

func (w *lockWaits) stop() (longest time.Duration, samples int) {
	w.t.Helper()
	w.cancel()
	require.NoError(w.t, <-w.done)
	return w.longest, w.samples
}
