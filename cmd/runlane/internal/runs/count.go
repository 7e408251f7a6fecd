package runs

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/seed4391e180/runlane/cmd/runlane/internal/filter"
	"github.com/seed4391e180/runlane/cmd/runlane/internal/show"
	"github.com/seed4391e180/runlane/cmd/runlane/internal/usage"
	"github.com/seed4391e180/runlane/storage"
)

func (c *command) newCount() *cobra.Command {
	var (
		flags filter.Runs
		limit int
	)
	cmd := &cobra.Command{
		Use:   "count",
		Short: "Count runs by status, each exactly up to a cap",
		Long: `Count runs by status, each exactly up to a cap and "at least" beyond it.

` + filter.TimeHelp,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if most := storage.DefaultLimits().MaxCount; limit < 1 || limit > most {
				return usage.Errorf("--cap is %d, which is not within 1 to %d", limit, most)
			}
			return c.count(cmd, &flags, limit)
		},
	}
	flags.Bind(cmd, false)
	cmd.Flags().IntVar(&limit, "cap", storage.DefaultLimits().DefaultCount, "how many runs of a status are counted, 1 to 100000")
	c.watches(cmd, "count again and again")
	return cmd
}

func (c *command) count(cmd *cobra.Command, flags *filter.Runs, limit int) error {
	if err := c.check(cmd); err != nil {
		return err
	}
	if _, err := flags.Filter(cmd, c.environment, c.Now()); err != nil {
		return err
	}
	return c.with(cmd, func(ctx context.Context, store storage.Operator) error {
		return c.repeat(ctx, func() error {
			f, err := flags.Filter(cmd, c.environment, c.Now())
			if err != nil {
				return err
			}
			counts, err := store.CountRuns(ctx, f, limit)
			if err != nil {
				return err
			}
			p := pager[storage.StatusCount]{
				item: func(n storage.StatusCount) any { return show.Count(n) }, table: show.CountTable,
				row: func(n storage.StatusCount, _ show.Clock) []string { return show.CountRow(n) },
			}
			text, err := p.text(c, counts, document{}, "")
			if err != nil {
				return err
			}
			return c.page(cmd, text)
		})
	})
}
