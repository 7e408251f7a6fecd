package actions

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/cmd/runlane/internal/show"
	"github.com/seed4391e180/runlane/cmd/runlane/internal/usage"
	"github.com/seed4391e180/runlane/lane"
	"github.com/seed4391e180/runlane/lane/lanetest"
	"github.com/seed4391e180/runlane/run"
	"github.com/seed4391e180/runlane/storage"
)

// desk is a store in memory, a task that fails for "bad", and a command line.
type desk struct {
	*testing.T
	store *lanetest.Store
	lane  *lane.Lane
	task  *lane.Task[string, int]
	in    io.Reader
	out   bytes.Buffer
	asked bytes.Buffer
}

func newDesk(t *testing.T) *desk {
	d := &desk{T: t, store: lanetest.New(t)}
	d.lane = d.store.Lane(lane.Config{Retention: lane.KeepForever})
	d.task = lane.Define(d.lane, "task", func(_ context.Context, _ *lane.Attempt, text string) (int, error) {
		if text == "bad" {
			return 0, lane.Permanent(errors.New("bad"))
		}
		return len(text), nil
	}, lane.TaskOptions{})
	return d
}

func (d *desk) trigger(payload string, opts lane.TriggerOptions) string {
	d.Helper()
	res, err := d.task.Trigger(d.Context(), payload, opts)
	require.NoError(d, err)
	return res.RunID
}

// do runs a command line and returns what it printed.
func (d *desk) do(args ...string) (string, error) {
	d.Helper()
	d.out.Reset()
	d.asked.Reset()
	world := &World{
		Open: func(_ context.Context, cfg lane.Config) (*lane.Lane, func() error, error) {
			l, err := lane.New(d.store, cfg)
			return l, func() error { return nil }, err
		},
		Now: d.store.Now, In: d.in, Screen: func() show.Screen { return show.Screen{} },
	}
	root := &cobra.Command{Use: "runlane", SilenceErrors: true, SilenceUsage: true}
	group := &cobra.Command{Use: "runs"}
	group.PersistentFlags().StringP("environment", "e", "", "")
	group.PersistentFlags().StringP("output", "o", "table", "")
	Add(group, world)
	root.AddCommand(group, NewTick(world))
	root.SetArgs(args)
	root.SetOut(&d.out)
	root.SetErr(&d.asked)
	err := root.ExecuteContext(d.Context())
	return d.out.String(), err
}

func (d *desk) must(args ...string) string {
	d.Helper()
	out, err := d.do(args...)
	require.NoError(d, err)
	return out
}

func (d *desk) statuses() map[run.Status]int {
	d.Helper()
	counts, err := d.store.CountRuns(d.Context(), storage.RunFilter{Environment: lanetest.Environment}, 0)
	require.NoError(d, err)
	n := map[run.Status]int{}
	for _, c := range counts {
		if c.Runs > 0 {
			n[c.Status] = c.Runs
		}
	}
	return n
}

func TestCancel(t *testing.T) {
	d := newDesk(t)
	a, b := d.trigger("a", lane.TriggerOptions{RunID: "a"}), d.trigger("b", lane.TriggerOptions{RunID: "b", Delay: time.Hour})
	require.JSONEq(t, `{"items":[{"run":"a","outcome":"cancelled","status":"queued"}],"failed":0}`, d.must("runs", "cancel", a, "-e", "test", "-o", "json", "--dry-run"))
	require.Equal(t, map[run.Status]int{run.StatusQueued: 1, run.StatusScheduled: 1}, d.statuses())
	out, err := d.do("runs", "cancel", a, "nobody", b, "-e", "test", "-o", "json", "--reason", "enough")
	require.ErrorIs(t, err, ErrFailed)
	require.Contains(t, out, `"run": "a"`)
	require.Contains(t, out, `no such run`)
	require.Equal(t, map[run.Status]int{run.StatusCancelled: 2}, d.statuses())
	require.Equal(t, run.Cancelled{Reason: "enough"}, d.store.History(b)[1].Data)
	require.Contains(t, d.must("runs", "cancel", a, "-e", "test"), "ended")
}

func TestCancelMany(t *testing.T) {
	d := newDesk(t)
	for range 250 {
		d.trigger("a", lane.TriggerOptions{})
	}
	many := []string{"runs", "cancel", "--status", "queued", "-e", "test"}
	_, err := d.do(many...)
	var bad *usage.Error
	require.ErrorAs(t, err, &bad, "nobody is there to confirm")
	for _, answer := range []string{"n\n", "", "\n", "what?\n"} {
		d.in = strings.NewReader(answer)
		_, err = d.do(many...)
		require.ErrorAs(t, err, &bad)
		require.Contains(t, d.asked.String(), "Cancel all runs")
	}
	require.Equal(t, 251, strings.Count(d.must(append(many, "--dry-run")...), "\n"))
	require.Equal(t, map[run.Status]int{run.StatusQueued: 250}, d.statuses())
	d.in = strings.NewReader("Yes\n")
	require.Equal(t, 251, strings.Count(d.must(many...), "\n"))
	require.Equal(t, map[run.Status]int{run.StatusCancelled: 250}, d.statuses())
}

func TestRetryAndRerun(t *testing.T) {
	d := newDesk(t)
	bad, good := d.trigger("bad", lane.TriggerOptions{RunID: "bad"}), d.trigger("good", lane.TriggerOptions{RunID: "good"})
	d.store.Run(d.lane)
	out, err := d.do("runs", "retry", bad, good, "-e", "test", "--dry-run")
	require.ErrorIs(t, err, ErrFailed)
	require.Contains(t, out, "succeeded")
	require.Equal(t, map[run.Status]int{run.StatusSucceeded: 1, run.StatusFailed: 1}, d.statuses())
	for _, existing := range []string{``, `"existing":true,`} {
		require.JSONEq(t, `{"items":[{`+existing+`"origin":"bad","run":"again"}],"failed":0}`, d.must("runs", "retry", bad, "--run-id", "again", "-e", "test", "-o", "json"))
	}
	require.Contains(t, d.must("runs", "rerun", good, "-e", "test"), "made")
	require.Equal(t, 2, d.statuses()[run.StatusQueued])
	d.store.Run(d.lane)
	d.store.Advance(time.Second)
	require.Equal(t, 3, strings.Count(d.must("runs", "retry", "--status", "failed", "--yes", "-e", "test"), "\n"))
	require.Equal(t, map[run.Status]int{run.StatusSucceeded: 2, run.StatusFailed: 2, run.StatusQueued: 2}, d.statuses())
	require.Contains(t, d.must("runs", "retry", "--status", "failed", "--yes", "-e", "test"), "exists")
}

func TestPrune(t *testing.T) {
	d := newDesk(t)
	for range 30 {
		d.trigger("bad", lane.TriggerOptions{})
		d.trigger("good", lane.TriggerOptions{})
	}
	d.store.Run(d.lane)
	prune := []string{"runs", "prune", "--older-than", "1h", "--status", "failed", "-e", "test"}
	require.Contains(t, d.must(append(prune, "--yes")...), "0 runs")
	d.store.Advance(2 * time.Hour)
	_, err := d.do(prune...)
	require.ErrorContains(t, err, "--yes")
	require.Contains(t, d.must(append(prune, "--dry-run")...), "30 runs and 0 events")
	require.Equal(t, map[run.Status]int{run.StatusSucceeded: 30, run.StatusFailed: 30}, d.statuses())
	require.JSONEq(t, `{"runs":30,"events":90,"awaited":0,"opaque":0}`, d.must(append(prune, "--yes", "-o", "json")...))
	require.Equal(t, map[run.Status]int{run.StatusSucceeded: 30}, d.statuses())
}

// A tick prunes nothing unless it is told to: what the program wants to keep, the
// command line does not know.
func TestTick(t *testing.T) {
	d := newDesk(t)
	d.trigger("good", lane.TriggerOptions{IdempotencyKey: "k", IdempotencyTTL: time.Minute})
	d.store.Run(d.lane)
	d.store.Advance(1000 * time.Hour)
	require.JSONEq(t, `{"recovered":0,"resumed":0,"reclaimed":0,"pruned":0,"expired":1}`, d.must("tick", "-e", "test", "-o", "json"))
	require.Contains(t, d.must("tick", "-e", "test", "--retention", "24h"), "1 runs pruned")
	require.Empty(t, d.statuses())
}

func TestBadUse(t *testing.T) {
	d := newDesk(t)
	for _, line := range []string{
		"runs cancel -e test", "runs cancel a --status queued -e test", "runs cancel a", "runs cancel a -e test -o yaml", "runs retry -e test",
		"runs retry a b --run-id c -e test", "runs cancel --status nonsense --yes -e test", "runs cancel --task t --yes -e test", "runs prune -e test",
		"runs prune --older-than -1h -e test", "runs prune --older-than 1h --status queued -e test", "tick", "runs cancel " + strings.Repeat("x", 300) + " -e test",
	} {
		out, err := d.do(strings.Fields(line)...)
		var bad *usage.Error
		require.ErrorAs(t, err, &bad, line)
		require.NotContains(t, err.Error(), "\n", line)
		require.Empty(t, out, line)
	}
}
