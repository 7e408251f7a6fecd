package storage

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/run"
)

// TestPlansOfRuns spells out what is served, what is looked for within a range, and
// what is refused, and with which words.
func TestPlansOfRuns(t *testing.T) {
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	since, until, both := TimeRange{From: at}, TimeRange{Until: at}, TimeRange{From: at, Until: at.Add(1)}
	failed := []run.Status{run.StatusFailed, run.StatusFailed}
	two := []run.Status{run.StatusFailed, run.StatusQueued}
	for _, c := range []struct {
		f    RunFilter
		want Plan
	}{
		{RunFilter{}, Plan{ByCreated, Served}},
		{RunFilter{Sort: SortUpdated}, Plan{ByUpdated, Served}},
		{RunFilter{Sort: SortDue}, Plan{ByDue, Served}},
		{RunFilter{Created: until}, Plan{ByCreated, Served}},
		{RunFilter{Sort: SortUpdated, Updated: both}, Plan{ByUpdated, Served}},
		{RunFilter{Sort: SortDue, Due: since}, Plan{ByDue, Served}},
		{RunFilter{Statuses: failed}, Plan{ByStatus, Served}},
		{RunFilter{Statuses: failed, Created: until}, Plan{ByStatus, Served}},
		{RunFilter{Statuses: two, Created: since}, Plan{ByCreated, Scanned}},
		{RunFilter{Statuses: failed, Tasks: []string{"t"}, Created: since}, Plan{ByCreated, Scanned}},
		{RunFilter{Statuses: failed, Sort: SortUpdated, Updated: since}, Plan{ByUpdated, Scanned}},
		{RunFilter{Statuses: failed, Sort: SortDue, Due: both}, Plan{ByDue, Scanned}},
		{RunFilter{LeaseExpiry: until, Created: since}, Plan{ByCreated, Scanned}},
	} {
		plan, err := PlanRuns(c.f)
		require.NoError(t, err, "%+v", c.f)
		require.Equal(t, c.want, plan, "%+v", c.f)
	}
	for field, f := range map[string]RunFilter{
		"statuses":        {Statuses: two},
		"tasks":           {Tasks: []string{"t"}, Created: until},
		"queues":          {Queues: []string{"q"}, Sort: SortUpdated, Created: since},
		"source types":    {SourceTypes: []run.SourceType{run.SourceRerun}, Statuses: failed},
		"source run":      {SourceRun: "r", Sort: SortDue, Due: since},
		"schedule":        {Schedule: "s", Sort: SortDue, Due: until},
		"idempotency key": {IdempotencyKey: "k"},
		"singleton key":   {SingletonKey: "k"},
		"concurrency key": {ConcurrencyKey: "k"},
		"created":         {Created: both, Sort: SortUpdated},
		"updated":         {Updated: both},
		"due":             {Due: both},
		"lease expiry":    {LeaseExpiry: both},
	} {
		_, err := PlanRuns(f)
		var input *InputError
		require.True(t, errors.As(err, &input), field)
		require.Equal(t, ErrUnsupportedFilter, input.Kind)
		require.Equal(t, field, input.Field)
		sorted, part := "created", "the beginning"
		switch f.Sort {
		case SortUpdated:
			sorted = "updated"
		case SortDue:
			sorted, part = "due", "both ends"
		}
		require.Equal(t, "has no index of its own: add "+part+" of a range of the time "+sorted+", within which it is looked for", input.Reason)
	}
}

func TestPlansOfCounts(t *testing.T) {
	since := TimeRange{From: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	for _, f := range []RunFilter{{}, {Sort: SortDue, Statuses: run.Statuses()}, {Created: TimeRange{Until: since.From}}} {
		plan, err := PlanCounts(f)
		require.NoError(t, err)
		require.Equal(t, Plan{ByStatus, Served}, plan)
	}
	plan, err := PlanCounts(RunFilter{Sort: SortUpdated, Updated: since, Created: since})
	require.NoError(t, err)
	require.Equal(t, Plan{ByStatus, Scanned}, plan, "the sort plays no part")
	_, err = PlanCounts(RunFilter{Sort: SortUpdated, Updated: since})
	require.ErrorIs(t, err, ErrUnsupportedFilter)
}

func TestPlansOfEvents(t *testing.T) {
	types := []run.EventType{run.TypeFailed}
	since := TimeRange{From: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	for _, c := range []struct {
		f    EventFilter
		want Plan
	}{
		{EventFilter{RunID: "r"}, Plan{ByHistory, Served}},
		{EventFilter{RunID: "r", Types: types}, Plan{ByHistory, Scanned}},
		{EventFilter{RunID: "r", Occurred: since}, Plan{ByHistory, Scanned}},
		{EventFilter{RunID: "r", Sort: SortOccurred}, Plan{ByHistory, Scanned}},
		{EventFilter{Sort: SortOccurred, Occurred: since}, Plan{ByOccurred, Served}},
		{EventFilter{Sort: SortOccurred, Types: types, Occurred: since}, Plan{ByType, Served}},
	} {
		plan, err := PlanEvents(c.f)
		require.NoError(t, err)
		require.Equal(t, c.want, plan, "%+v", c.f)
	}
	_, err := PlanEvents(EventFilter{Types: types, Occurred: since})
	require.ErrorIs(t, err, ErrUnsupportedFilter)
}
