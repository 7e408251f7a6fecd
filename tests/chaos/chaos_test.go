// Package chaos_test lets worker processes be killed, stopped for longer than their
// leases and continued, and the server crash, while runs are triggered; and then looks
// whether each run ended once, and whether a process that came back late did anything
// outside.
package chaos_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/internal/pgtest"
	"github.com/seed4391e180/runlane/lane"
	"github.com/seed4391e180/runlane/run"
	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/postgres"
)

var (
	length = flag.Duration("chaos", 15*time.Second, "for how long things break")
	seed   = flag.Uint64("seed", uint64(time.Now().UnixNano()), "of what breaks when")
)

const (
	workers  = 3
	patience = 2 * time.Minute // for everything to come to rest
	url      = "RUNLANE_CHAOS_URL"
)

func TestMain(m *testing.M) {
	if database := os.Getenv(url); database != "" {
		work(database)
		return
	}
	os.Exit(m.Run())
}

// A worker's process may come back from a stop when another one has its run. The
// effect takes the number of the attempt as a fence: what an older attempt asks for
// after a newer one is refused. Every request that is granted is remembered, in order.
const effects = `
CREATE TABLE fence (run_id text PRIMARY KEY, attempt int NOT NULL);
CREATE TABLE effects (place bigint GENERATED ALWAYS AS IDENTITY, run_id text NOT NULL, attempt int NOT NULL, UNIQUE (run_id, attempt))`

const effect = `
WITH passed AS (
  INSERT INTO fence AS f (run_id, attempt) VALUES ($1, $2)
  ON CONFLICT (run_id) DO UPDATE SET attempt = excluded.attempt WHERE f.attempt < excluded.attempt RETURNING run_id
)
INSERT INTO effects (run_id, attempt) SELECT run_id, $2 FROM passed`

func newLane(ctx context.Context, database string) (*pgxpool.Pool, *postgres.Driver, *lane.Lane, *lane.Task[int, int], error) {
	pool, err := pgxpool.New(ctx, database)
	if err != nil {
		return nil, nil, nil, nil, err
	}
	store, err := postgres.New(pool, postgres.Config{})
	if err != nil {
		return nil, nil, nil, nil, err
	}
	l, err := lane.New(store, lane.Config{Environment: "chaos", Limits: map[string]lane.QueueLimits{lane.DefaultQueue: {PerKey: 2}}})
	if err != nil {
		return nil, nil, nil, nil, err
	}
	task := lane.Define(l, "task", func(ctx context.Context, a *lane.Attempt, n int) (int, error) {
		select {
		case <-time.After(time.Duration(rand.IntN(100)) * time.Millisecond):
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
		// Not under ctx: a process that was stopped asks when it comes back, whatever its lease.
		if _, err := pool.Exec(context.WithoutCancel(ctx), effect, a.RunID, a.Number); err != nil {
			return 0, err
		}
		if (n+a.Number)%7 == 0 {
			return 0, errors.New("not this time")
		}
		return a.Number, nil
	}, lane.TaskOptions{MaxAttempts: lane.Unlimited, Backoff: lane.Fixed(50 * time.Millisecond)})
	return pool, store, l, task, nil
}

// work is a worker's process. It ends with its standard input, so that none is left
// behind by a test that fails.
func work(database string) {
	ctx, stop := context.WithCancel(context.Background())
	go func() {
		_, _ = os.Stdin.Read(make([]byte, 1))
		stop()
	}()
	_, _, l, _, err := newLane(ctx, database)
	if err == nil {
		err = l.Work(ctx, lane.WorkerConfig{
			Concurrency: 20, Lease: time.Second, PollInterval: 100 * time.Millisecond, TickInterval: 500 * time.Millisecond, Grace: time.Second,
		})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// process is a worker's process, or its next one.
type process struct {
	t        *testing.T
	database string
	cmd      *exec.Cmd
	in       *os.File
}

func (p *process) start() {
	in, out, err := os.Pipe()
	require.NoError(p.t, err)
	p.cmd = exec.Command(os.Args[0])
	p.cmd.Env = append(os.Environ(), url+"="+p.database)
	p.cmd.Stdin, p.cmd.Stderr = in, os.Stderr
	require.NoError(p.t, p.cmd.Start())
	require.NoError(p.t, in.Close())
	p.in = out
}

func (p *process) signal(s syscall.Signal) { require.NoError(p.t, p.cmd.Process.Signal(s)) }

func (p *process) kill() {
	p.signal(syscall.SIGKILL)
	_ = p.cmd.Wait() // it was killed
	require.NoError(p.t, p.in.Close())
}

// end ends the process as it is meant to end.
func (p *process) end() {
	require.NoError(p.t, p.in.Close())
	require.NoError(p.t, p.cmd.Wait())
}

func TestChaos(t *testing.T) {
	t.Logf("-seed %d", *seed)
	rng := rand.New(rand.NewPCG(*seed, 1))
	cluster := pgtest.Private(t, pgtest.Options{})
	db := pgtest.New(t, pgtest.On(cluster))
	pool, store, l, task, err := newLane(t.Context(), db.URL)
	require.NoError(t, err)
	defer pool.Close()
	defer func() { require.NoError(t, store.Close()) }()
	_, err = pool.Exec(t.Context(), effects)
	require.NoError(t, err)
	var crew []*process
	for range workers {
		p := &process{t: t, database: db.URL}
		p.start()
		crew = append(crew, p)
	}

	ctx, stop := context.WithTimeout(t.Context(), *length)
	defer stop()
	var triggering sync.WaitGroup
	made := 0
	triggering.Go(func() { made = trigger(ctx, t, task) })
	counts := map[string]int{}
	for ctx.Err() == nil {
		what := mishap(t, rng, cluster, crew)
		counts[what]++
		select {
		case <-time.After(time.Duration(rng.IntN(500)) * time.Millisecond): // how long all is well
		case <-ctx.Done():
		}
	}
	triggering.Wait()
	awaitRest(t, l, store, made)
	for _, p := range crew {
		p.end()
	}
	judge(t, pool, store, made)
	t.Logf("%d runs; %v", made, counts)
}

// trigger triggers runs until ctx ends, each until the store has it.
func trigger(ctx context.Context, t *testing.T, task *lane.Task[int, int]) (made int) {
	for ctx.Err() == nil {
		o := lane.TriggerOptions{RunID: fmt.Sprint("run ", made), IdempotencyKey: fmt.Sprint("key ", made), ConcurrencyKey: fmt.Sprint(made % 10)}
		for tries := 0; ; tries++ {
			_, err := task.Trigger(context.WithoutCancel(ctx), made, o)
			if err == nil {
				break
			}
			if !storage.Retryable(err) && !errors.Is(err, storage.ErrCommitUnknown) || tries > 10_000 {
				t.Errorf("run %d: %v", made, err)
				return made
			}
			time.Sleep(5 * time.Millisecond) // the server is away
		}
		made++
	}
	return made
}

// mishap makes one thing go wrong, and right again.
func mishap(t *testing.T, rng *rand.Rand, cluster *pgtest.Cluster, crew []*process) string {
	p := crew[rng.IntN(len(crew))]
	switch n := rng.IntN(10); {
	case n < 5:
		p.kill()
		p.start()
		return "killed"
	case n < 9:
		p.signal(syscall.SIGSTOP)
		time.Sleep(2500 * time.Millisecond) // longer than a lease, and than it takes to find that it has ended
		p.signal(syscall.SIGCONT)
		return "stopped"
	default:
		require.NoError(t, cluster.Restart(context.Background(), pgtest.Immediate))
		return "server crashed"
	}
}

// awaitRest waits until every run has ended.
func awaitRest(t *testing.T, l *lane.Lane, store *postgres.Driver, made int) {
	t.Helper()
	require.Eventually(t, func() bool {
		counts, err := store.CountRuns(t.Context(), storage.RunFilter{Environment: "chaos"}, 100_000)
		if err != nil {
			return false
		}
		for _, c := range counts {
			if c.Status == run.StatusSucceeded {
				return c.Runs == made
			}
		}
		return made == 0
	}, patience, 50*time.Millisecond, "not all runs have ended")
	_, err := l.Tick(t.Context())
	require.NoError(t, err)
}

// judge reads everything: each run ended once, with the result of an attempt whose
// effect was granted; no effect was granted to an attempt after a newer one; and no slot is held.
func judge(t *testing.T, pool *pgxpool.Pool, store *postgres.Driver, made int) {
	t.Helper()
	rows, err := pool.Query(t.Context(), `SELECT run_id, attempt FROM effects ORDER BY place`)
	require.NoError(t, err)
	defer rows.Close()
	granted := map[string][]int{}
	for rows.Next() {
		var id string
		var attempt int
		require.NoError(t, rows.Scan(&id, &attempt))
		if all := granted[id]; len(all) > 0 {
			require.Greater(t, attempt, all[len(all)-1], "an effect of an older attempt of %s", id)
		}
		granted[id] = append(granted[id], attempt)
	}
	require.NoError(t, rows.Err())
	seen := 0
	for f := (storage.RunFilter{Environment: "chaos", Full: true, Limit: 500}); ; {
		page, err := store.ListRuns(t.Context(), f)
		require.NoError(t, err)
		for _, item := range page.Runs {
			seen++
			judgeRun(t, store, item.Run, granted[item.ID])
		}
		if f.Cursor = page.Next; f.Cursor == "" {
			break
		}
	}
	require.Equal(t, made, seen)
	var slots int
	require.NoError(t, pool.QueryRow(t.Context(), `SELECT count(*) FROM runlane.runlane_record_queue_slots`).Scan(&slots))
	require.Zero(t, slots, "slots are held")
}

func judgeRun(t *testing.T, store *postgres.Driver, r *run.Run, granted []int) {
	t.Helper()
	history, err := store.ListEvents(t.Context(), storage.EventFilter{Environment: "chaos", RunID: r.ID, Limit: 500})
	require.NoError(t, err)
	require.Empty(t, history.Next)
	made, err := run.Reduce(nil, 1, history.Events...) // which refuses a second end, and a gap
	require.NoError(t, err, r.ID)
	require.Equal(t, *r, made)
	require.Equal(t, run.StatusSucceeded, r.Status)
	var attempt int
	_, err = fmt.Sscan(string(r.Result), &attempt)
	require.NoError(t, err)
	require.Contains(t, granted, attempt, "the result of %s is of an attempt without an effect", r.ID)
}
