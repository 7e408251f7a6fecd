package lane_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/internal/pgtest"
	"github.com/seed4391e180/runlane/lane"
	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/postgres"
)

// metered counts, for each label, the round trips of the last transaction that
// wrote, and the records that it wrote.
type metered struct {
	*postgres.Driver
	mu   sync.Mutex
	last map[string]cost
}

type cost struct{ trips, written int }

func (m *metered) Transact(ctx context.Context, label string, fn func(context.Context, storage.Tx) error) (storage.Commit, error) {
	commit, err := m.Driver.Transact(ctx, label, fn)
	if err == nil && commit.Attempts == 1 && len(commit.Versions) > 0 {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.last[label] = cost{commit.RoundTrips, len(commit.Versions)}
	}
	return commit, err
}

// take returns what was counted and forgets it.
func (m *metered) take() map[string]cost {
	m.mu.Lock()
	defer m.mu.Unlock()
	last := m.last
	m.last = map[string]cost{}
	return last
}

// TestWhatOptionsCost holds the table of docs/lane.md.
func TestWhatOptionsCost(t *testing.T) {
	store, err := postgres.New(pgtest.New(t).Pool(t), postgres.Config{SeparateCommits: true})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	m := &metered{Driver: store, last: map[string]cost{}}
	l, err := lane.New(m, lane.Config{Environment: "test", Limits: map[string]lane.QueueLimits{"limited": {Running: 4, PerKey: 2}}})
	require.NoError(t, err)
	works := func(_ context.Context, a *lane.Attempt, id string) (string, error) {
		if id != "" && a.Number == 1 {
			return "", a.WaitFor(id)
		}
		return "", nil
	}
	plain := lane.Define(l, "plain", works, lane.TaskOptions{})
	limited := lane.Define(l, "limited", works, lane.TaskOptions{Queue: "limited"})
	lane.Schedule(l, "every second", plain, lane.Every(time.Second, 0), func(time.Time) string { return "" }, lane.ScheduleOptions{})
	life := func(task *lane.Task[string, string], opts lane.TriggerOptions) map[string]cost {
		t.Helper()
		m.take()
		opts.Priority = 1
		_, err := task.Trigger(t.Context(), "", opts)
		require.NoError(t, err)
		require.NoError(t, l.Drain(t.Context(), lane.WorkerConfig{Concurrency: 1, Queues: []string{task.Queue()}}))
		return m.take()
	}
	life(plain, lane.TriggerOptions{SingletonKey: "k"}) // statements are prepared
	life(limited, lane.TriggerOptions{ConcurrencyKey: "c"})
	// A claim asks for the due runs of one priority after the other: here for those of the first.
	require.Equal(t, map[string]cost{"run.trigger": {1, 2}, "run.claim": {2, 2}, "run.finish": {1, 2}}, life(plain, lane.TriggerOptions{}))
	options := lane.TriggerOptions{
		RunAt: time.Now().Add(-time.Hour), LatestStart: time.Now().Add(time.Hour), Timeout: time.Minute, Priority: 1,
		Metadata: map[string]string{"a": "b"}, ConcurrencyKey: "unlimited here",
	}
	require.Equal(t, map[string]cost{"run.trigger": {1, 2}, "run.claim": {2, 2}, "run.finish": {1, 2}}, life(plain, options))
	require.Equal(t, map[string]cost{"run.trigger": {2, 3}, "run.claim": {2, 2}, "run.finish": {1, 2}}, life(plain, lane.TriggerOptions{IdempotencyKey: "k2"}))
	require.Equal(t, map[string]cost{"run.trigger": {2, 3}, "run.claim": {2, 2}, "run.finish": {2, 2}}, life(plain, lane.TriggerOptions{SingletonKey: "k"}))
	require.Equal(t, map[string]cost{"run.trigger": {1, 2}, "run.claim": {3, 4}, "run.finish": {2, 2}}, life(limited, lane.TriggerOptions{ConcurrencyKey: "c"}))

	source, err := plain.Trigger(t.Context(), "", lane.TriggerOptions{Delay: time.Hour})
	require.NoError(t, err)
	m.take()
	_, err = plain.Trigger(t.Context(), source.RunID)
	require.NoError(t, err)
	require.NoError(t, l.Drain(t.Context(), lane.WorkerConfig{Concurrency: 1}))
	require.Equal(t, cost{2, 3}, m.take()["run.finish"])
	_, err = l.Cancel(t.Context(), source.RunID, "")
	require.NoError(t, err)
	require.Equal(t, cost{2, 2}, m.take()["run.resume"])

	_, err = l.Tick(t.Context())
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		done, err := l.Tick(t.Context())
		require.NoError(t, err)
		return done.Fired > 0
	}, 10*time.Second, 100*time.Millisecond)
	require.Equal(t, cost{2, 4}, m.take()["schedule.fire"])
}
