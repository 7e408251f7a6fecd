package runs

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed4391e180/runlane/cmd/runlane/internal/filter"
	"github.com/seed4391e180/runlane/cmd/runlane/internal/show"
	"github.com/seed4391e180/runlane/cmd/runlane/internal/usage"
	"github.com/seed4391e180/runlane/storage"
)

func (c *command) newList() *cobra.Command {
	var flags filter.Runs
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List runs, the newest first",
		Long: `List runs, the newest first.

` + filter.TimeHelp + `

Some filters need a range of the time that runs are sorted by; the refusal says which.`,
		Example: `  runlane runs list -e prod --status failed
  runlane runs list -e prod --task mail --created-after 2h
  runlane runs list -e prod --all -o ndjson`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return c.list(cmd, &flags) },
	}
	flags.Bind(cmd, true)
	c.watches(cmd, "show the page again and again")
	return cmd
}

func (c *command) list(cmd *cobra.Command, flags *filter.Runs) error {
	if err := c.check(cmd); err != nil {
		return err
	}
	if _, err := flags.Filter(cmd, c.environment, c.Now()); err != nil {
		return err
	}
	return c.with(cmd, func(ctx context.Context, store storage.Operator) error {
		return c.repeat(ctx, func() error {
			// Relative times move along while somebody watches.
			f, err := flags.Filter(cmd, c.environment, c.Now())
			if err != nil {
				return err
			}
			return c.listOnce(ctx, cmd, store, f, flags)
		})
	})
}

func (c *command) listOnce(ctx context.Context, cmd *cobra.Command, store storage.Operator, f storage.RunFilter, flags *filter.Runs) (err error) {
	pages := pager[storage.RunItem]{
		read: func(ctx context.Context, cursor string) ([]storage.RunItem, string, error) {
			f.Cursor = cursor
			page, err := store.ListRuns(ctx, f)
			return page.Runs, page.Next, err
		},
		item: show.ItemOf, table: show.RunTable,
		row: func(item storage.RunItem, clock show.Clock) []string { return show.RunRow(item.RunSummary, clock) },
	}
	return pages.once(ctx, cmd, c, f.Cursor, flags.All, flags.Exact)
}

// once writes one page, or all of them.
func (p *pager[T]) once(ctx context.Context, cmd *cobra.Command, c *command, cursor string, all bool, times map[string]time.Time) (err error) {
	var (
		items []T
		next  string
	)
	if all {
		items, err = p.everything(ctx, cmd, c, cursor)
	} else {
		items, next, err = p.read(ctx, cursor)
	}
	if err != nil {
		return err
	}
	text, err := p.text(c, items, document{Next: next, Times: exactTimes(times)}, more(next, times))
	if err != nil {
		return err
	}
	return c.page(cmd, text)
}

func (c *command) newGet() *cobra.Command {
	return &cobra.Command{
		Use:   "get RUN",
		Short: "Show a whole run; exit code 3 if there is none",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := c.check(cmd); err != nil {
				return err
			}
			if args[0] == "" {
				return usage.Errorf("the run id is empty")
			}
			return c.with(cmd, func(ctx context.Context, store storage.Operator) error { return c.get(ctx, cmd, store, args[0]) })
		},
	}
}

func (c *command) get(ctx context.Context, cmd *cobra.Command, store storage.Operator, id string) error {
	r, found, err := store.GetRun(ctx, c.environment, id)
	if err != nil {
		return err
	}
	if !found {
		return ErrNotFound
	}
	var text string
	switch c.output {
	case asTable:
		screen := c.Screen()
		screen.Width = 0 // what somebody asked for by name is not cut
		table := show.Table{Columns: []show.Column{{}, {}}}
		text = table.Text(screen, false, show.RunDetails(&r, c.clock()))
	case asNDJSON:
		text, err = show.Line(show.RunOf(&r))
	default:
		text, err = show.Document(show.RunOf(&r))
	}
	if err != nil {
		return err
	}
	return write(cmd, text)
}
