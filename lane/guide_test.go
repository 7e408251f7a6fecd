package lane_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/lane"
	"github.com/seed4391e180/runlane/lane/lanetest"
	"github.com/seed4391e180/runlane/run"
)

type params struct{ Day string }

type customerOrder struct{ Customer string }

// TestGuide is docs/lane.md, in one program.
func TestGuide(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	require.NoError(t, err)
	store := lanetest.New(t)
	ctx := t.Context()
	l := store.Lane(lane.Config{Limits: map[string]lane.QueueLimits{"mail": {Running: 50, PerKey: 2}}})

	var days []string
	report := lane.Define(l, "report", func(_ context.Context, _ *lane.Attempt, p params) (int, error) {
		days = append(days, p.Day)
		return len(days), nil
	}, lane.TaskOptions{})
	lane.Schedule(l, "nightly report", report, lane.Cron("30 2 * * *", berlin),
		func(fire time.Time) params { return params{Day: fire.In(berlin).Format(time.DateOnly)} },
		lane.ScheduleOptions{SkipActive: true})

	charges := lane.Define(l, "charge", func(_ context.Context, a *lane.Attempt, o customerOrder) (string, error) {
		return "receipt for " + o.Customer, nil
	}, lane.TaskOptions{Queue: "mail"})
	ship := lane.Define(l, "ship", func(ctx context.Context, a *lane.Attempt, o customerOrder) (string, error) {
		charge := "charge of " + a.RunID // the same in every attempt
		_, err := charges.Trigger(ctx, o, lane.TriggerOptions{RunID: charge, ConcurrencyKey: o.Customer})
		if exists := (*lane.RunExistsError)(nil); err != nil && !errors.As(err, &exists) {
			return "", err
		}
		receipt, err := charges.Result(ctx, charge)
		if errors.Is(err, lane.ErrNotEnded) {
			return "", a.WaitFor(charge) // no worker is occupied meanwhile
		}
		return "shipped with " + receipt, err
	}, lane.TaskOptions{})

	late, err := report.Trigger(ctx, params{"late"}, lane.TriggerOptions{
		RunAt:       lanetest.Start.Add(6 * time.Hour),
		LatestStart: lanetest.Start.Add(9 * time.Hour),
		Timeout:     10 * time.Minute,
		Priority:    run.PriorityFirst,
	})
	require.NoError(t, err)
	shipped, err := ship.Trigger(ctx, customerOrder{"ada"})
	require.NoError(t, err)
	_, err = l.Tick(ctx)
	require.NoError(t, err)
	store.Run(l)
	text, err := ship.Result(ctx, shipped.RunID)
	require.NoError(t, err)
	require.Equal(t, "shipped with receipt for ada", text)

	store.Advance(30 * time.Hour)
	done, err := l.Tick(ctx)
	require.NoError(t, err)
	require.Equal(t, 1, done.Fired)
	store.Run(l)
	require.Equal(t, []string{"2026-01-02"}, days)
	require.Equal(t, lane.CodeTooLate, store.Get(late.RunID).Failure.Code)
	fires, err := l.Occurrences(ctx, "nightly report", 10)
	require.NoError(t, err)
	require.Len(t, fires, 1)
	require.NoError(t, l.PauseQueue(ctx, "mail", "the provider is down"))
	require.NoError(t, l.ResumeQueue(ctx, "mail"))
}
