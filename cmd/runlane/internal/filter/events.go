package filter

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/seed4391e180/runlane/run"
	"github.com/seed4391e180/runlane/storage"
)

// Events holds the flags that select events.
type Events struct {
	All   bool                 // see Runs.All
	Exact map[string]time.Time // see Runs.Exact

	types    []string
	occurred span
	sort     string
	paging   paging
}

// Bind gives the command the flags.
func (e *Events) Bind(cmd *cobra.Command) {
	cmd.Flags().StringSliceVar(&e.types, "type", nil, "only events of these types, separated by commas")
	e.occurred.bind(cmd, "occurred", "events")
	cmd.Flags().StringVar(&e.sort, "sort", "", "sequence (the default for one run) or occurred")
	e.paging.bind(cmd, "")
	Complete(cmd, "type", Names(run.EventTypes()))
	Complete(cmd, "sort", eventSorts)
}

// Filter is what the flags say of the events of a run or, if that is "", of the
// environment: by default a run's in their order, an environment's newest first. See
// [Runs.Filter] for refusals.
func (e *Events) Filter(cmd *cobra.Command, environment, runID string, now time.Time) (f storage.EventFilter, err error) {
	if err := filled(cmd, "type"); err != nil {
		return f, err
	}
	f = storage.EventFilter{Environment: environment, RunID: runID, Cursor: e.paging.cursor}
	if f.Types, err = among("type", e.types, run.EventTypes()); err != nil {
		return f, err
	}
	e.Exact = make(map[string]time.Time)
	if err := e.occurred.read(cmd, now, &f.Occurred, e.Exact); err != nil {
		return f, err
	}
	sort, direction := "sequence", "asc"
	if runID == "" {
		sort, direction = "occurred", "desc"
	}
	if !cmd.Flags().Changed("direction") {
		e.paging.direction = direction
	}
	if cmd.Flags().Changed("sort") {
		sort = e.sort
	}
	i, err := one("sort", sort, eventSorts)
	if err != nil {
		return f, err
	}
	f.Sort, e.All = storage.EventSort(i), e.paging.all
	f.Direction, f.Limit, err = e.paging.read(cmd)
	return f, err
}
