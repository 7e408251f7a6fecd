package runs

import (
	"context"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/seed4391e180/runlane/cmd/runlane/internal/filter"
	"github.com/seed4391e180/runlane/cmd/runlane/internal/show"
	"github.com/seed4391e180/runlane/cmd/runlane/internal/usage"
	"github.com/seed4391e180/runlane/run"
	"github.com/seed4391e180/runlane/storage"
)

func (c *command) newEvents() *cobra.Command {
	var flags filter.Events
	cmd := &cobra.Command{
		Use:   "events [RUN]",
		Short: "List the events of a run, or of the whole environment",
		Long: `List the events of a run, or of the whole environment.

` + filter.TimeHelp + `

With --watch new events follow those that are there: all of a run, the newest page of an
environment, or what --occurred-after names. Events of an environment are in order of
time, but for one whose commit was late, which is still seen within a minute.`,
		Example: `  runlane runs events -e prod 0199…
  runlane runs events -e prod --type run.failed --watch`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			runID := ""
			if len(args) == 1 {
				if runID = args[0]; runID == "" {
					return usage.Errorf("the run id is empty")
				}
			}
			return c.events(cmd, &flags, runID)
		},
	}
	flags.Bind(cmd)
	c.watches(cmd, "follow new events")
	return cmd
}

func (c *command) events(cmd *cobra.Command, flags *filter.Events, runID string) error {
	if err := c.check(cmd); err != nil {
		return err
	}
	f, err := flags.Filter(cmd, c.environment, runID, c.Now())
	if err != nil {
		return err
	}
	if c.watch {
		for _, flag := range []string{"sort", "direction", "asc", "occurred-before"} {
			if cmd.Flags().Changed(flag) {
				return usage.Errorf("--%s and --watch exclude each other", flag)
			}
		}
	}
	return c.with(cmd, func(ctx context.Context, store storage.Operator) error {
		pages := pager[run.Event]{
			read: func(ctx context.Context, cursor string) ([]run.Event, string, error) {
				f.Cursor = cursor
				page, err := store.ListEvents(ctx, f)
				return page.Events, page.Next, err
			},
			item: func(e run.Event) any { return show.EventOf(e) }, table: show.EventTable, row: show.EventRow,
		}
		if !c.watch {
			return pages.once(ctx, cmd, c, f.Cursor, flags.All, flags.Exact)
		}
		follow := &follower{store: store, filter: f, seen: make(map[uuid.UUID]time.Time)}
		table, titled := show.EventTable(), true
		return c.repeat(ctx, func() error {
			events, err := follow.next(ctx)
			if err != nil || len(events) == 0 && !titled {
				return err
			}
			if c.output == asTable {
				text := pages.rows(c, table, titled, events)
				titled = false
				return write(cmd, text)
			}
			text, err := pages.text(c, events, document{}, "")
			if err != nil {
				return err
			}
			titled = false
			return write(cmd, text)
		})
	})
}

// follower reads events that nobody has been shown. Those of a run are told by their
// sequence. Those of an environment have times that the server gave them before they
// were committed, so what may still come late is looked at again.
type follower struct {
	store  storage.Operator
	filter storage.EventFilter
	cursor string // of the last page of a run
	last   int64  // sequence of a run
	seen   map[uuid.UUID]time.Time
	newest time.Time
	begun  bool
}

// lateness is how long after its time an event may become visible.
const lateness = time.Minute

// next returns what is new, in order.
func (l *follower) next(ctx context.Context) ([]run.Event, error) {
	if l.filter.RunID != "" {
		return l.ofRun(ctx)
	}
	if !l.begun {
		return l.first(ctx)
	}
	return l.ofEnvironment(ctx)
}

// ofRun reads the last page again, and those that have come behind it.
func (l *follower) ofRun(ctx context.Context) (fresh []run.Event, err error) {
	f := l.filter
	f.Limit = storage.DefaultLimits().MaxPage
	for {
		f.Cursor = l.cursor
		page, err := l.store.ListEvents(ctx, f)
		if err != nil {
			return nil, err
		}
		for _, e := range page.Events {
			if e.Sequence > l.last {
				fresh, l.last = append(fresh, e), e.Sequence
			}
		}
		if page.Next == "" {
			return fresh, nil
		}
		l.cursor = page.Next
	}
}

// first reads the newest page, unless the command line says where to begin.
func (l *follower) first(ctx context.Context) ([]run.Event, error) {
	if !l.filter.Occurred.From.IsZero() {
		l.begun = true
		return l.ofEnvironment(ctx)
	}
	f := l.filter
	for {
		page, err := l.store.ListEvents(ctx, f)
		if err != nil {
			return nil, err
		}
		if len(page.Events) == 0 && page.Next != "" {
			f.Cursor = page.Next // all were hidden
			continue
		}
		l.begun = true
		slices.Reverse(page.Events)
		if len(page.Events) > 0 {
			l.filter.Occurred.From = page.Events[0].At
		}
		if page.Next != "" && len(page.Events) > 0 {
			// Ties of the oldest that the page had no room for stay out.
			l.filter.Occurred.From = page.Events[0].At.Add(time.Microsecond)
		}
		return l.unseen(page.Events), nil
	}
}

func (l *follower) ofEnvironment(ctx context.Context) (fresh []run.Event, err error) {
	f := l.filter
	f.Direction, f.Limit = storage.Ascending, storage.DefaultLimits().MaxPage
	if late := l.newest.Add(-lateness); !l.newest.IsZero() && late.After(f.Occurred.From) {
		f.Occurred.From = late
	}
	for {
		page, err := l.store.ListEvents(ctx, f)
		if err != nil {
			return nil, err
		}
		fresh = append(fresh, l.unseen(page.Events)...)
		if page.Next == "" {
			l.forget()
			return fresh, nil
		}
		f.Cursor = page.Next
	}
}

func (l *follower) unseen(events []run.Event) (fresh []run.Event) {
	for _, e := range events {
		if _, known := l.seen[e.ID]; known {
			continue
		}
		l.seen[e.ID] = e.At
		fresh = append(fresh, e)
		if e.At.After(l.newest) {
			l.newest = e.At
		}
	}
	return fresh
}

// forget drops what will not be looked at again.
func (l *follower) forget() {
	for id, at := range l.seen {
		if at.Before(l.newest.Add(-lateness)) {
			delete(l.seen, id)
		}
	}
}
