package storage

import (
	"time"

	"github.com/google/uuid"

	"github.com/seed4391e180/runlane/run"
)

// TimeRange is the half-open range [From, Until); a zero end is open.
type TimeRange struct{ From, Until time.Time }

// IsZero reports whether the range excludes nothing.
func (r TimeRange) IsZero() bool { return r.From.IsZero() && r.Until.IsZero() }

// RunSort is the time by which runs are listed.
type RunSort uint8

// The sorts of runs. A run without a due time is not listed by SortDue.
const (
	SortCreated RunSort = iota
	SortUpdated
	SortDue
)

// RunFilter selects and pages runs of one environment. Empty fields exclude nothing.
// Not every filter is served in every order: see [PlanRuns] and [PlanCounts].
type RunFilter struct {
	Environment    string // required
	Statuses       []run.Status
	Tasks          []string
	Queues         []string
	SourceTypes    []run.SourceType
	SourceRun      string
	Schedule       string
	IdempotencyKey string
	SingletonKey   string
	ConcurrencyKey string
	Created        TimeRange
	Updated        TimeRange
	Due            TimeRange
	LeaseExpiry    TimeRange

	Sort      RunSort
	Direction Direction
	Full      bool   // fill RunItem.Run; otherwise only the summary is read
	Limit     int    // 1 to MaxPage; 0 means DefaultPage
	Cursor    string // RunPage.Next of the page before; "" is the first page
}

// RunPage is one page of runs.
type RunPage struct {
	Runs []RunItem
	Next string // the cursor of the next page; "" at the end
}

// RunItem is a listed run.
type RunItem struct {
	RunSummary
	Run *run.Run // nil unless RunFilter.Full
}

// RunSummary is what a list shows of a run without reading its document.
type RunSummary struct {
	Environment    string
	ID             string
	Task           string
	Queue          string
	Status         run.Status
	Priority       int
	Created        time.Time
	Updated        time.Time
	Due            time.Time // zero: none
	LeaseExpires   time.Time // zero: none
	IdempotencyKey string
	SingletonKey   string
	ConcurrencyKey string
	SourceType     run.SourceType
	SourceRun      string
	Schedule       string
}

// StatusCount is how many runs have a status.
type StatusCount struct {
	Status  run.Status
	Runs    int  // exact unless AtLeast
	AtLeast bool // there are more than Runs, which is the cap
}

// EventSort is the order in which events are listed.
type EventSort uint8

// The sorts of events. SortSequence needs a run id.
const (
	SortSequence EventSort = iota
	SortOccurred
)

// EventFilter selects and pages events of one run, or of a whole environment. See
// [PlanEvents] for what each filter costs.
type EventFilter struct {
	Environment string // required
	RunID       string // "" is the whole environment
	Types       []run.EventType
	Occurred    TimeRange

	Sort      EventSort
	Direction Direction
	Limit     int    // 1 to MaxPage; 0 means DefaultPage
	Cursor    string // EventPage.Next of the page before; "" is the first page
}

// EventPage is one page of events.
type EventPage struct {
	Events []run.Event
	Next   string // the cursor of the next page; "" at the end
}

// RunColumns is what drivers keep of a canonical run in typed columns. Package
// codec derives it from documents; its times may be relative to the commit, see
// [run.AtCommit].
type RunColumns = RunSummary

// EventColumns is what drivers keep of a canonical event in typed columns. Package
// codec derives it from documents; its time may be relative to the commit.
type EventColumns struct {
	Environment string
	RunID       string
	EventID     uuid.UUID
	Sequence    int64
	Type        run.EventType
	At          time.Time
}
