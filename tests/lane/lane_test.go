// Package lane_test runs the runtime on a real PostgreSQL.
package lane_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/internal/pgtest"
	"github.com/seed4391e180/runlane/lane"
	"github.com/seed4391e180/runlane/run"
	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/postgres"
)

type job struct {
	N    int    `json:"n"`
	Text string `json:"text"`
}

// process is what a program of its own would have: a driver, a lane, its tasks.
type process struct {
	store *postgres.Driver
	tasks map[string]*lane.Task[job, int]
}

func newProcess(t *testing.T, db *pgtest.DB, crowd *crowds) (*process, *lane.Lane) {
	t.Helper()
	store, err := postgres.New(db.Pool(t), postgres.Config{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	l, err := lane.New(store, lane.Config{Environment: "test", Limits: map[string]lane.QueueLimits{"limited": {Running: 4, PerKey: 2}}})
	require.NoError(t, err)
	p := &process{store: store, tasks: map[string]*lane.Task[job, int]{}}
	soon := lane.TaskOptions{MaxAttempts: 4, Backoff: lane.Fixed(10 * time.Millisecond)}
	define := func(name string, h lane.Handler[job, int]) { p.tasks[name] = lane.Define(l, name, h, soon) }
	define("works", func(_ context.Context, _ *lane.Attempt, j job) (int, error) { return 2 * j.N, nil })
	define("works at the third attempt", func(_ context.Context, a *lane.Attempt, j job) (int, error) {
		if a.Failures < 2 {
			return 0, errors.New("not yet: \x00 \xff")
		}
		return 2 * j.N, nil
	})
	define("panics once", func(_ context.Context, a *lane.Attempt, j job) (int, error) {
		if a.Failures == 0 {
			panic("boom")
		}
		return 2 * j.N, nil
	})
	define("waits once", func(_ context.Context, a *lane.Attempt, j job) (int, error) {
		if a.Number == 1 {
			return 0, a.Release(5 * time.Millisecond)
		}
		return 2 * j.N, nil
	})
	define("never works", func(context.Context, *lane.Attempt, job) (int, error) {
		return 0, lane.Permanent(errors.New("no"))
	})
	p.tasks["is limited"] = lane.Define(l, "is limited", func(ctx context.Context, a *lane.Attempt, j job) (int, error) {
		defer crowd.enter(a.ConcurrencyKey)()
		defer crowd.enter("")()
		select {
		case <-time.After(2 * time.Millisecond):
			return 2 * j.N, nil
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
	}, lane.TaskOptions{Queue: "limited", Timeout: time.Minute})
	p.tasks["waits for another"] = lane.Define(l, "waits for another", func(ctx context.Context, a *lane.Attempt, j job) (int, error) {
		// The run that it waits for has an id that does not change from attempt to attempt.
		id := "child of " + a.RunID
		_, err := p.tasks["works"].Trigger(ctx, job{N: j.N}, lane.TriggerOptions{RunID: id})
		var exists *lane.RunExistsError
		if err != nil && !errors.As(err, &exists) {
			return 0, err
		}
		n, err := p.tasks["works"].Result(ctx, id)
		if errors.Is(err, lane.ErrNotEnded) {
			return 0, a.WaitFor(id)
		}
		return n, err
	}, lane.TaskOptions{})
	return p, l
}

// crowds counts how many handlers run at once, by their concurrency key.
type crowds struct {
	mu        sync.Mutex
	now, most map[string]int
}

func (c *crowds) enter(key string) (leave func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now[key]++
	c.most[key] = max(c.most[key], c.now[key])
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.now[key]--
	}
}

// TestThreeProcesses lets three processes share one database: every run ends
// once, with the right result, and its history reduces to its state.
func TestThreeProcesses(t *testing.T) {
	const each = 120
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	db := pgtest.New(t)
	var (
		processes []*process
		workers   sync.WaitGroup
	)
	working, stop := context.WithCancel(ctx)
	defer workers.Wait()
	defer stop()
	crowd := &crowds{now: map[string]int{}, most: map[string]int{}}
	for range 3 {
		p, l := newProcess(t, db, crowd)
		processes = append(processes, p)
		workers.Go(func() {
			if err := l.Work(working, lane.WorkerConfig{Concurrency: 20, PollInterval: 100 * time.Millisecond}); err != nil {
				t.Errorf("Work: %v", err)
			}
		})
	}

	runs := map[string]job{}
	for name, task := range processes[0].tasks {
		var items []lane.Item[job]
		for n := range each {
			j := job{N: n, Text: `$1 '; -- a"b %_\ ` + "\u2028\U0001F600"}
			items = append(items, lane.Item[job]{Payload: j, Options: lane.TriggerOptions{IdempotencyKey: fmt.Sprint("key:", n), Priority: 1 + n%4, ConcurrencyKey: fmt.Sprint("group ", n%5)}})
		}
		first, err := task.TriggerMany(ctx, items)
		require.NoError(t, err)
		again, err := processes[1].tasks[name].TriggerMany(ctx, items)
		require.NoError(t, err)
		for n := range first {
			require.False(t, first[n].Existing)
			runs[first[n].RunID] = items[n].Payload
			if name != "never works" { // a run that failed has freed its key
				require.True(t, again[n].Existing, "%s %d", name, n)
				require.Equal(t, first[n].RunID, again[n].RunID)
			} else if !again[n].Existing {
				runs[again[n].RunID] = items[n].Payload
			}
		}
	}
	for id, j := range runs {
		r := awaitRun(ctx, t, processes[2], id)
		if r.Status == run.StatusSucceeded {
			require.Equal(t, fmt.Sprint(2*j.N), string(r.Result))
		} else {
			require.Equal(t, "never works", r.Task)
			require.Equal(t, run.StatusFailed, r.Status)
		}
	}
	stop()
	workers.Wait()
	require.LessOrEqual(t, crowd.most[""], 4)
	for n := range 5 {
		require.LessOrEqual(t, crowd.most[fmt.Sprint("group ", n)], 2)
	}
	checkHistories(t, processes[0].store, len(runs)+each)
}

func awaitRun(ctx context.Context, t *testing.T, p *process, id string) run.Run {
	t.Helper()
	for _, task := range p.tasks {
		_, err := task.Wait(ctx, id) // of another task it is ErrNoRun, once it has ended
		var failed *lane.RunError
		if err == nil || errors.As(err, &failed) || errors.Is(err, lane.ErrNoRun) {
			break
		}
		require.NoError(t, err)
	}
	r, found, err := p.store.GetRun(ctx, "test", id)
	require.NoError(t, err)
	require.True(t, found)
	return r
}

// checkHistories reduces every history and compares it with the stored run.
func checkHistories(t *testing.T, store storage.Operator, want int) {
	t.Helper()
	seen := 0
	for filter := (storage.RunFilter{Environment: "test", Full: true, Limit: 100}); ; {
		page, err := store.ListRuns(t.Context(), filter)
		require.NoError(t, err)
		for _, item := range page.Runs {
			seen++
			history, err := store.ListEvents(t.Context(), storage.EventFilter{Environment: "test", RunID: item.ID, Limit: 500})
			require.NoError(t, err)
			require.Empty(t, history.Next)
			reduced, err := run.Reduce(nil, 1, history.Events...)
			require.NoError(t, err)
			require.True(t, reduced.Status.Terminal())
			require.JSONEq(t, string(item.Run.Payload), string(reduced.Payload))
			reduced.Payload, item.Run.Payload = nil, nil
			require.Equal(t, *item.Run, reduced)
		}
		if page.Next == "" {
			break
		}
		filter.Cursor = page.Next
	}
	require.Equal(t, want, seen)
}
