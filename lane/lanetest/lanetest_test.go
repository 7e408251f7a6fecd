package lanetest_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/lane"
	"github.com/seed4391e180/runlane/lane/lanetest"
	"github.com/seed4391e180/runlane/run"
	"github.com/seed4391e180/runlane/storage"
)

type order struct{ Number int }

func types(events []run.Event) (all []run.EventType) {
	for _, e := range events {
		all = append(all, e.Type())
	}
	return all
}

// A day passes in no time.
func TestAdvance(t *testing.T) {
	store := lanetest.New(t)
	l := store.Lane(lane.Config{})
	var reminded []time.Time
	reminder := lane.Define(l, "reminder", func(_ context.Context, a *lane.Attempt, _ order) (int, error) {
		reminded = append(reminded, store.Now())
		if a.Number == 1 {
			return 0, errors.New("the mail server is busy")
		}
		return len(reminded), nil
	}, lane.TaskOptions{Backoff: lane.Fixed(time.Hour)})
	res, err := reminder.Trigger(t.Context(), order{7}, lane.TriggerOptions{Delay: 24 * time.Hour})
	require.NoError(t, err)

	store.Run(l)
	require.Empty(t, reminded)
	store.Advance(24 * time.Hour)
	store.Run(l)
	require.Equal(t, run.StatusRetrying, store.Get(res.RunID).Status)
	store.Advance(time.Hour)
	store.Run(l)
	require.Equal(t, []time.Time{lanetest.Start.Add(24 * time.Hour), lanetest.Start.Add(25 * time.Hour)}, reminded)
	n, err := reminder.Result(t.Context(), res.RunID)
	require.NoError(t, err)
	require.Equal(t, 2, n)
	require.Equal(t, []run.EventType{run.TypeCreated, run.TypeStarted, run.TypeRetryScheduled, run.TypeStarted, run.TypeSucceeded}, types(store.History(res.RunID)))
}

// Run goes on while runs make others due: what they trigger, also for a time that
// has passed, what they give back, and what waits for them.
func TestRunUntilNothingIsDue(t *testing.T) {
	store := lanetest.New(t)
	l := store.Lane(lane.Config{})
	var child *lane.Task[order, int]
	child = lane.Define(l, "child", func(ctx context.Context, a *lane.Attempt, o order) (int, error) {
		if o.Number > 0 {
			_, err := child.Trigger(ctx, order{o.Number - 1}, lane.TriggerOptions{RunAt: store.Now().Add(-time.Duration(o.Number) * time.Hour)})
			return 0, err
		}
		if a.Number < 5 {
			return 0, a.Release(0)
		}
		return a.Number, nil
	}, lane.TaskOptions{})
	parent := lane.Define(l, "parent", func(ctx context.Context, a *lane.Attempt, _ order) (int, error) {
		id := "child of " + a.RunID
		n, err := child.Result(ctx, id)
		if errors.Is(err, lane.ErrNoRun) {
			if _, err = child.Trigger(ctx, order{}, lane.TriggerOptions{RunID: id}); err == nil {
				err = a.WaitFor(id)
			}
		}
		return n, err
	}, lane.TaskOptions{Queue: "parents"})
	_, err := child.Trigger(t.Context(), order{50})
	require.NoError(t, err)
	res, err := parent.Trigger(t.Context(), order{})
	require.NoError(t, err)
	store.Run(l)
	n, err := parent.Result(t.Context(), res.RunID)
	require.NoError(t, err)
	require.Equal(t, 5, n)
	counts, err := store.CountRuns(t.Context(), storage.RunFilter{Environment: lanetest.Environment}, 0)
	require.NoError(t, err)
	for _, c := range counts {
		require.True(t, c.Status == run.StatusSucceeded && c.Runs == 53 || c.Runs == 0, "%+v", counts)
	}
}

func TestFaults(t *testing.T) {
	store := lanetest.New(t)
	l := store.Lane(lane.Config{})
	worked := 0
	task := lane.Define(l, "task", func(context.Context, *lane.Attempt, order) (int, error) {
		worked++
		return worked, nil
	}, lane.TaskOptions{})
	store.FailCommit("run.trigger", storage.ErrUnavailable)
	_, err := task.Trigger(t.Context(), order{})
	require.ErrorIs(t, err, storage.ErrUnavailable)
	store.LoseAnswer("run.trigger")
	res, err := task.Trigger(t.Context(), order{})
	require.ErrorIs(t, err, storage.ErrCommitUnknown)
	store.FailCommit("run.finish", storage.ErrUnavailable)
	store.LoseAnswer("run.finish")
	store.Run(l)
	require.Equal(t, run.StatusSucceeded, store.Get(res.RunID).Status)
	require.Equal(t, 1, worked)
}
