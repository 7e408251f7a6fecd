package storage

import (
	"slices"

	"github.com/seed4391e180/runlane/run"
)

// Cost says how much of a store an operator read looks at.
type Cost uint8

// The costs.
const (
	// Served reads are answered from an index that has their order: a page of n looks
	// at no more than 5n + 50 rows, whatever the store holds; a count at no more than
	// its cap, for each status.
	Served Cost = iota
	// Scanned reads look at whatever lies in a range that the filter carries: a range of
	// time, or the history of one run.
	Scanned
)

func (c Cost) String() string {
	if c == Scanned {
		return "scans a range"
	}
	return "served"
}

// Path is the order in which an operator read walks through a store.
type Path uint8

// The paths.
const (
	ByCreated  Path = iota // runs by creation time
	ByStatus               // runs of one status, by creation time
	ByUpdated              // runs by the time of the last change
	ByDue                  // runs by due time
	ByHistory              // events of one run, by sequence
	ByOccurred             // events by time of occurrence
	ByType                 // events of each wanted type, by time of occurrence
)

// Plan is how a driver answers an operator read. All drivers decide alike, whatever
// they would be able to do, so that a program that works with one works with all.
type Plan struct {
	Path Path
	Cost Cost
}

// PlanRuns decides how a page of runs is read. A filter that nothing but a look at
// every run could answer is an *InputError of kind ErrUnsupportedFilter, which says
// what to add.
//
// The range of the time by which runs are sorted costs nothing, nor does one status
// when they are sorted by creation. All else is looked for within a range of the time
// by which runs are sorted. Such a range needs a beginning, since nothing has been
// created or changed after now; one of due times needs both ends.
func PlanRuns(f RunFilter) (Plan, error) {
	field := f.extra()
	plan := Plan{Path: ByCreated, Cost: Served}
	sorted, bounded := "created", !f.Created.From.IsZero()
	switch f.Sort {
	case SortUpdated:
		plan.Path, sorted, bounded = ByUpdated, "updated", !f.Updated.From.IsZero()
	case SortDue:
		plan.Path, sorted, bounded = ByDue, "due", !f.Due.From.IsZero() && !f.Due.Until.IsZero()
	}
	if n := len(distinct(f.Statuses)); n > 0 && field == "" {
		if n == 1 && f.Sort == SortCreated {
			return Plan{Path: ByStatus, Cost: Served}, nil
		}
		field = "statuses"
	}
	if field == "" {
		return plan, nil
	}
	if !bounded {
		return Plan{}, unsupported(field, sorted, f.Sort == SortDue)
	}
	plan.Cost = Scanned
	return plan, nil
}

// PlanCounts decides how runs are counted; see [PlanRuns]. Statuses and a range of
// creation times cost nothing beyond the cap; all else is looked for within a range of
// creation times, which needs a beginning.
func PlanCounts(f RunFilter) (Plan, error) {
	f.Sort = SortCreated
	field := f.extra()
	if field == "" {
		return Plan{Path: ByStatus, Cost: Served}, nil
	}
	if f.Created.From.IsZero() {
		return Plan{}, unsupported(field, "created", false)
	}
	return Plan{Path: ByStatus, Cost: Scanned}, nil
}

// PlanEvents decides how a page of events is read; see [PlanRuns]. Events of an
// environment are sorted by time. Those of one run are served by sequence; any other
// order or filter looks at its whole history.
func PlanEvents(f EventFilter) (Plan, error) {
	switch {
	case f.RunID != "" && f.Sort == SortSequence && len(f.Types) == 0 && f.Occurred.IsZero():
		return Plan{Path: ByHistory, Cost: Served}, nil
	case f.RunID != "":
		return Plan{Path: ByHistory, Cost: Scanned}, nil
	case f.Sort == SortSequence:
		return Plan{}, &InputError{Kind: ErrUnsupportedFilter, Field: "sort", Reason: "is by sequence, which needs a run id: add one, or sort by time of occurrence"}
	case len(f.Types) > 0:
		return Plan{Path: ByType, Cost: Served}, nil
	}
	return Plan{Path: ByOccurred, Cost: Served}, nil
}

// extra names a field that no order of runs serves, statuses aside; "" is none.
func (f RunFilter) extra() string {
	fields := []struct {
		name string
		set  bool
	}{
		{"tasks", len(f.Tasks) > 0}, {"queues", len(f.Queues) > 0}, {"source types", len(f.SourceTypes) > 0},
		{"source run", f.SourceRun != ""}, {"schedule", f.Schedule != ""},
		{"idempotency key", f.IdempotencyKey != ""}, {"singleton key", f.SingletonKey != ""}, {"concurrency key", f.ConcurrencyKey != ""},
		{"created", f.Sort != SortCreated && !f.Created.IsZero()},
		{"updated", f.Sort != SortUpdated && !f.Updated.IsZero()},
		{"due", f.Sort != SortDue && !f.Due.IsZero()},
		{"lease expiry", !f.LeaseExpiry.IsZero()},
	}
	for _, field := range fields {
		if field.set {
			return field.name
		}
	}
	return ""
}

func distinct(statuses []run.Status) []run.Status {
	sorted := slices.Clone(statuses)
	slices.Sort(sorted)
	return slices.Compact(sorted)
}

func unsupported(field, sorted string, bothEnds bool) error {
	reason := "has no index of its own: add the beginning of a range of the time " + sorted + ", within which it is looked for"
	if bothEnds {
		reason = "has no index of its own: add both ends of a range of the time " + sorted + ", within which it is looked for"
	}
	return &InputError{Kind: ErrUnsupportedFilter, Field: field, Reason: reason}
}
