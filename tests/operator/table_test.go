package operator_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/run"
	"github.com/seed4391e180/runlane/storage"
)

// runRow is a row of the table of filters of runs, with values that many runs have, few
// have, and none has.
type runRow struct {
	name   string
	values []func(f *storage.RunFilter)
}

type runEdit = func(f *storage.RunFilter)

func runRows() []runRow {
	return []runRow{
		{"none, or a range of the time sorted by", []runEdit{
			func(*storage.RunFilter) {},
			func(f *storage.RunFilter) { *sortRange(f) = part(0.2, 0.9) },
			func(f *storage.RunFilter) { *sortRange(f) = part(0.5, 0.5001) },
		}},
		{"one status", []runEdit{
			func(f *storage.RunFilter) { f.Statuses = []run.Status{run.StatusSucceeded} },
			func(f *storage.RunFilter) { f.Statuses = []run.Status{run.StatusCancelled, run.StatusCancelled} },
			func(f *storage.RunFilter) { f.Statuses = []run.Status{run.StatusWaiting} },
			func(f *storage.RunFilter) { f.Statuses = []run.Status{run.StatusQueued} },
		}},
		{"several statuses", []runEdit{
			func(f *storage.RunFilter) {
				f.Statuses = []run.Status{run.StatusSucceeded, run.StatusQueued, run.StatusFailed}
			},
			func(f *storage.RunFilter) { f.Statuses = []run.Status{run.StatusWaiting, run.StatusCancelled} },
		}},
		{"tasks", []runEdit{
			func(f *storage.RunFilter) { f.Tasks = []string{"mail"} },
			func(f *storage.RunFilter) { f.Tasks = []string{"rare", "none"} },
			func(f *storage.RunFilter) { f.Tasks, f.Statuses = []string{"rare"}, []run.Status{run.StatusFailed} },
		}},
		{"queues", []runEdit{
			func(f *storage.RunFilter) { f.Queues = []string{"default"} },
			func(f *storage.RunFilter) { f.Queues = []string{"none"} },
		}},
		{"source types", []runEdit{
			func(f *storage.RunFilter) { f.SourceTypes = []run.SourceType{run.SourceTrigger} },
			func(f *storage.RunFilter) { f.SourceTypes = []run.SourceType{run.SourceRerun} },
		}},
		{"source run", []runEdit{func(f *storage.RunFilter) { f.SourceRun = "source" }, func(f *storage.RunFilter) { f.SourceRun = "none" }}},
		{"schedule", []runEdit{func(f *storage.RunFilter) { f.Schedule = "nightly" }}},
		{"idempotency key", []runEdit{func(f *storage.RunFilter) { f.IdempotencyKey = "key:9001" }}},
		{"singleton key", []runEdit{func(f *storage.RunFilter) { f.SingletonKey = "none" }}},
		{"concurrency key", []runEdit{func(f *storage.RunFilter) { f.ConcurrencyKey = "account" }}},
		{"a range of another time", []runEdit{
			func(f *storage.RunFilter) { *otherRange(f) = part(0, 1) },
			func(f *storage.RunFilter) { *otherRange(f) = part(0.3, 0.3001) },
		}},
		{"lease expiry", []runEdit{func(f *storage.RunFilter) { f.LeaseExpiry = part(0, 1) }}},
	}
}

// part is a part of the time in which the runs of the large store were created.
func part(from, until float64) storage.TimeRange {
	return storage.TimeRange{From: moment(from), Until: moment(until)}
}

func moment(share float64) time.Time {
	whole := time.Duration(*runCount/500) * 13000007 * time.Microsecond
	return time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(share * float64(whole)).Truncate(time.Microsecond))
}

func sortRange(f *storage.RunFilter) *storage.TimeRange {
	return [...]*storage.TimeRange{&f.Created, &f.Updated, &f.Due}[f.Sort]
}

func otherRange(f *storage.RunFilter) *storage.TimeRange {
	return [...]*storage.TimeRange{&f.Updated, &f.Created, &f.Updated}[f.Sort]
}

// eventRow is a row of the table of filters of events.
type eventRow struct {
	name   string
	values []func(f *storage.EventFilter)
}

type eventEdit = func(f *storage.EventFilter)

func eventRows() []eventRow {
	long := func(f *storage.EventFilter) { f.RunID = longRunID }
	both := func(edits ...eventEdit) eventEdit {
		return func(f *storage.EventFilter) {
			for _, edit := range edits {
				edit(f)
			}
		}
	}
	types := func(types ...run.EventType) eventEdit { return func(f *storage.EventFilter) { f.Types = types } }
	within := func(from, until float64) eventEdit {
		return func(f *storage.EventFilter) { f.Occurred = eventPart(from, until) }
	}
	short := func(f *storage.EventFilter) { f.RunID = shortRunID }
	return []eventRow{
		{"a run", []eventEdit{long, short}},
		{"a run, and types", []eventEdit{both(long, types(run.TypeStarted)), both(long, types(run.TypeWaiting)), both(short, types(run.TypeStarted))}},
		{"a run, and a range of occurrence", []eventEdit{both(long, within(0, 0.001)), both(long, within(0.9, 1))}},
		{"none, or a range of occurrence", []eventEdit{func(*storage.EventFilter) {}, within(0.2, 0.9), within(0.5, 0.5001)}},
		{"types, and perhaps a range of occurrence", []eventEdit{
			types(run.TypeStarted), types(run.TypeWaiting), types(run.TypeCancelled), types(run.TypeSucceeded, run.TypeWaiting), types(run.EventTypes()...),
			both(types(run.TypeFailed, run.TypeWaiting), within(0.1, 0.5)), both(types(run.TypeCreated), within(0, 0.99)),
		}},
	}
}

// The runs of the large store with a long and with a short history.
const (
	longRunID  = "c81e728d9d4c2f636f067f89cc14862c" // md5 of 2
	shortRunID = "eccbc87e4b5ce2fe28308fd9f2a7baf3" // md5 of 3
)

func eventPart(from, until float64) storage.TimeRange {
	whole := float64(*eventCount/300) * float64(1000003*time.Microsecond)
	at := func(share float64) time.Time {
		return time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(share * whole).Truncate(time.Microsecond))
	}
	return storage.TimeRange{From: at(from), Until: at(until)}
}

var (
	runSorts   = []string{"created", "updated", "due"}
	eventSorts = []string{"sequence", "occurred"}
)

// runCell is what a filter costs in an order: all values of a row must cost the same.
func runCell(t *testing.T, row runRow, sort storage.RunSort) string {
	t.Helper()
	cell := ""
	for _, edit := range row.values {
		f := storage.RunFilter{Environment: "prod", Sort: sort}
		edit(&f)
		plan, err := storage.PlanRuns(f)
		is := plan.Cost.String()
		if err != nil {
			require.ErrorIs(t, err, storage.ErrUnsupportedFilter)
			sortRange(&f).From = moment(0)
			is = "refused; scans a range of " + runSorts[sort] + " that begins"
			if _, err := storage.PlanRuns(f); err != nil {
				sortRange(&f).Until = moment(1)
				is = "refused; scans a range of " + runSorts[sort] + " with both ends"
			}
			_, err = storage.PlanRuns(f)
			require.NoError(t, err)
		}
		require.Contains(t, []string{"", is}, cell, "%s by %s", row.name, runSorts[sort])
		cell = is
	}
	return cell
}

func countCell(t *testing.T, row runRow) string {
	t.Helper()
	f := storage.RunFilter{Environment: "prod", Sort: storage.SortCreated}
	row.values[len(row.values)-1](&f)
	plan, err := storage.PlanCounts(f)
	if err == nil {
		return plan.Cost.String()
	}
	require.ErrorIs(t, err, storage.ErrUnsupportedFilter)
	f.Created.From = moment(0)
	plan, err = storage.PlanCounts(f)
	require.NoError(t, err)
	require.Equal(t, storage.Scanned, plan.Cost)
	return "refused; scans a range of created that begins"
}

func eventCell(t *testing.T, row eventRow, sort storage.EventSort) string {
	t.Helper()
	cell := ""
	for _, edit := range row.values {
		f := storage.EventFilter{Environment: "prod", Sort: sort}
		edit(&f)
		plan, err := storage.PlanEvents(f)
		is := plan.Cost.String()
		switch {
		case err != nil:
			require.ErrorIs(t, err, storage.ErrUnsupportedFilter)
			is = "refused; needs a run"
		case plan.Cost == storage.Scanned:
			is = "scans the history of the run"
		}
		require.Contains(t, []string{"", is}, cell, "%s by %s", row.name, eventSorts[sort])
		cell = is
	}
	return cell
}

// TestTables holds the tables of docs/operator-reads.md to what package storage decides.
// After a change that is meant, run it with -update.
func TestTables(t *testing.T) {
	const path = "../../docs/operator-reads.md"
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	page := string(text)
	runs := "| runs by | created | updated | due | counts |\n| --- | --- | --- | --- | --- |\n"
	for _, row := range runRows() {
		cells := []string{row.name}
		for sort := range runSorts {
			cells = append(cells, runCell(t, row, storage.RunSort(sort)))
		}
		runs += "| " + strings.Join(append(cells, countCell(t, row)), " | ") + " |\n"
	}
	events := "| events by | sequence | occurred |\n| --- | --- | --- |\n"
	for _, row := range eventRows() {
		events += "| " + row.name + " | " + eventCell(t, row, storage.SortSequence) + " | " + eventCell(t, row, storage.SortOccurred) + " |\n"
	}
	for name, table := range map[string]string{"runs": runs, "events": events} {
		before, rest, found := strings.Cut(page, "<!-- "+name+" -->\n")
		require.True(t, found, "there is no place for the table of %s", name)
		is, after, found := strings.Cut(rest, "<!-- end -->\n")
		require.True(t, found)
		if *update {
			page = before + "<!-- " + name + " -->\n" + table + "<!-- end -->\n" + after
			require.NoError(t, os.WriteFile(path, []byte(page), 0o644))
			continue
		}
		require.Equal(t, table, is, "run go test ./tests/operator -run TestTables -update if that is meant")
	}
}
