// Package actions is what the command line does to runs: cancel, retry, rerun, prune
// and tick.
package actions

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed4391e180/runlane/cmd/runlane/internal/filter"
	"github.com/seed4391e180/runlane/cmd/runlane/internal/show"
	"github.com/seed4391e180/runlane/cmd/runlane/internal/usage"
	"github.com/seed4391e180/runlane/lane"
)

// ErrFailed means that something was done and something could not be; the output
// says what.
var ErrFailed = errors.New("not all could be done")

// World is what the commands need from outside.
type World struct {
	// Open opens the lane of a command line; closed is called at the end.
	Open func(ctx context.Context, cfg lane.Config) (l *lane.Lane, closed func() error, err error)
	Now  func() time.Time
	// In is asked for confirmations; nil: nobody is there to ask.
	In io.Reader
	// Screen is asked for before each table.
	Screen func() show.Screen
}

const (
	asTable = "table"
	asJSON  = "json"
)

var forms = []string{asTable, asJSON}

// command is what the commands have in common.
type command struct {
	*World
	retention   time.Duration
	yes, dryRun bool
}

// Add gives the group of runs the commands that change them. The flags environment and
// output are the group's.
func Add(group *cobra.Command, world *World) {
	c := &command{World: world}
	group.AddCommand(c.newCancel(), c.newRetry(), c.newRerun(), c.newPrune())
}

// NewTick makes the command tick, which is about no run in particular.
func NewTick(world *World) *cobra.Command {
	c := &command{World: world}
	cmd := &cobra.Command{
		Use:   "tick",
		Short: "Do what time brings: end lost leases, resume waits, forget keys, and prune if told to",
		Long: `Do what time brings: end leases that nobody renews, resume runs whose wait is over,
forget expired keys and, with --retention, prune some of what has been kept longer.
Workers do so by themselves, with the retention of their program, and they fire
schedules, which this command knows nothing of.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.with(cmd, func(ctx context.Context, l *lane.Lane) error {
				done, err := l.Tick(ctx)
				return errors.Join(c.print(cmd, ticked(done)), err)
			})
		},
	}
	cmd.Flags().StringP("environment", "e", "", "environment that the runs belong to; needed")
	cmd.Flags().StringP("output", "o", asTable, "table or json")
	cmd.Flags().DurationVar(&c.retention, "retention", lane.KeepForever, "how long runs are kept after they have ended; below zero: for ever")
	filter.Complete(cmd, "output", forms)
	return cmd
}

// report is what a command prints.
type report interface {
	// table is for people.
	table(s show.Screen) string
}

// list is a report with an item for each run.
type list interface {
	report
	tally() (bad, all int)
}

// close prints what was done and says how it went. A failure before anything was done
// stands alone.
func (c *command) close(cmd *cobra.Command, done list, err error) error {
	bad, all := done.tally()
	if err != nil && all == 0 {
		return err
	}
	if bad > 0 {
		err = errors.Join(err, fmt.Errorf("%w: %d of %d", ErrFailed, bad, all))
	}
	return errors.Join(c.print(cmd, done), err)
}

func (c *command) print(cmd *cobra.Command, r report) error {
	if cmd.Flag("output").Value.String() != asJSON {
		_, err := io.WriteString(cmd.OutOrStdout(), r.table(c.Screen()))
		return err
	}
	text, err := show.Document(r)
	if err != nil {
		return err
	}
	_, err = io.WriteString(cmd.OutOrStdout(), text)
	return err
}

// with opens the lane, does something with it, and closes it.
func (c *command) with(cmd *cobra.Command, do func(ctx context.Context, l *lane.Lane) error) (err error) {
	environment := cmd.Flag("environment").Value.String()
	output := cmd.Flag("output").Value.String()
	switch {
	case environment == "":
		return usage.Errorf("--environment is needed")
	case !slices.Contains(forms, output):
		return usage.Errorf("--output: %q is none of %s", output, strings.Join(forms, ", "))
	}
	cfg := lane.Config{Environment: environment, Retention: lane.KeepForever}
	if c.retention > 0 {
		cfg.Retention = c.retention
	}
	l, closed, err := c.Open(cmd.Context(), cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closed()) }()
	return usage.OfStore(do(cmd.Context(), l))
}

// confirms gives a command --yes and --dry-run.
func (c *command) confirms(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&c.yes, "yes", false, "do not ask")
	cmd.Flags().BoolVar(&c.dryRun, "dry-run", false, "change nothing, say what would be done")
}

// confirm asks whether to go on; without anybody to ask it refuses.
func (c *command) confirm(cmd *cobra.Command, question string) error {
	switch {
	case c.yes || c.dryRun:
		return nil
	case c.In == nil:
		return usage.Errorf("nobody is there to confirm: give --yes, or --dry-run to see what would be done")
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "%s [y/N] ", question)
	answer, err := bufio.NewReader(c.In).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if answer = strings.ToLower(strings.TrimSpace(answer)); answer != "y" && answer != "yes" {
		return usage.Errorf("not confirmed; nothing is done")
	}
	return nil
}

// selected refuses a command line that names runs and a filter, or neither.
func selected(cmd *cobra.Command, ids []string, filters bool) error {
	switch {
	case len(ids) > 0 && filters:
		return usage.Errorf("runs are selected by their ids or by filters, not by both")
	case len(ids) == 0 && !filters:
		return usage.Errorf("which runs? give their ids, or a filter such as --status; %s --help has them all", cmd.CommandPath())
	}
	return nil
}

// filtered says whether the command line has one of the filters that Runs.Bind gave it.
func filtered(cmd *cobra.Command, known map[string]bool) (some bool) {
	for name := range known {
		some = some || cmd.Flags().Changed(name)
	}
	return some
}
