// Package runs is `runlane runs`: it looks at runs, and changes nothing.
package runs

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed4391e180/runlane/cmd/runlane/internal/filter"
	"github.com/seed4391e180/runlane/cmd/runlane/internal/show"
	"github.com/seed4391e180/runlane/cmd/runlane/internal/usage"
	"github.com/seed4391e180/runlane/storage"
)

// ErrNotFound means that there is no such run.
var ErrNotFound = errors.New("there is no such run")

// World is what the commands need from outside.
type World struct {
	// Open opens the store of a command line; closed is called at the end.
	Open func(ctx context.Context) (store storage.Operator, closed func() error, err error)
	Now  func() time.Time
	// After is time.After.
	After func(time.Duration) <-chan time.Time
	Local *time.Location
	// Screen is asked for before each table.
	Screen func() show.Screen
	// Redraw says that the output is a terminal, which can be cleared.
	Redraw bool
}

func (w *World) clock() show.Clock { return show.Clock{Now: w.Now(), Local: w.Local} }

// The forms of output.
const (
	asTable  = "table"
	asJSON   = "json"
	asNDJSON = "ndjson"
)

var forms = []string{asTable, asJSON, asNDJSON}

// command is what the commands have in common.
type command struct {
	*World
	environment, output string
	watch               bool
	interval            time.Duration
}

// Add gives the group its commands, and the flags that they share.
func Add(group *cobra.Command, world *World) {
	c := &command{World: world}
	flags := group.PersistentFlags()
	flags.StringVarP(&c.environment, "environment", "e", "", "environment that the runs belong to; needed")
	flags.StringVarP(&c.output, "output", "o", asTable, "table, json (one document) or ndjson (an object a line)")
	filter.Complete(group, "output", forms)
	group.AddCommand(c.newList(), c.newGet(), c.newEvents(), c.newCount())
}

// watches gives a command --watch and --interval.
func (c *command) watches(cmd *cobra.Command, what string) {
	cmd.Flags().BoolVarP(&c.watch, "watch", "w", false, what)
	cmd.Flags().DurationVar(&c.interval, "interval", 2*time.Second, "how often --watch looks, at least 100ms")
}

// check refuses what no store needs to be asked about.
func (c *command) check(cmd *cobra.Command) error {
	switch {
	case c.environment == "":
		return usage.Errorf("--environment is needed")
	case !slices.Contains(forms, c.output):
		return usage.Errorf("--output: %q is none of %s", c.output, strings.Join(forms, ", "))
	case cmd.Flags().Lookup("watch") == nil:
		return nil
	case c.watch && c.interval < 100*time.Millisecond:
		return usage.Errorf("--interval is %v, less than 100ms", c.interval)
	case !c.watch && cmd.Flags().Changed("interval"):
		return usage.Errorf("--interval is for --watch")
	}
	if c.watch {
		for _, flag := range []string{"all", "cursor"} {
			if cmd.Flags().Changed(flag) {
				return usage.Errorf("--%s and --watch exclude each other", flag)
			}
		}
	}
	return nil
}

// with opens the store, does something with it, and closes it.
func (c *command) with(cmd *cobra.Command, do func(ctx context.Context, store storage.Operator) error) (err error) {
	store, closed, err := c.Open(cmd.Context())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closed()) }()
	return usage.OfStore(do(cmd.Context(), store))
}

// repeat calls draw once or, to watch, again and again until the context ends, which
// is no failure.
func (c *command) repeat(ctx context.Context, draw func() error) error {
	for {
		err := draw()
		if err != nil && c.watch && ctx.Err() != nil {
			err = nil // somebody has seen enough
		} else if err == nil && c.watch && ctx.Err() == nil {
			c.pause(ctx)
		}
		if err != nil || !c.watch || ctx.Err() != nil {
			return err
		}
	}
}

// pause waits for the next look, or the end of the context.
func (c *command) pause(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-c.After(c.interval):
	}
}

// page puts text in the place of what is on the terminal, or below what was written.
func (c *command) page(cmd *cobra.Command, text string) error {
	if c.watch && c.Redraw {
		text = "\x1b[H\x1b[2J" + text
	}
	return write(cmd, text)
}

func write(cmd *cobra.Command, text string) error {
	_, err := cmd.OutOrStdout().Write([]byte(text))
	return err
}

// document is a page as JSON.
type document struct {
	Items any               `json:"items"`
	Next  string            `json:"next"`            // "" at the end
	Times map[string]string `json:"times,omitempty"` // flags whose time was relative, for use with next
}

// exactTimes are times as flags take them.
func exactTimes(times map[string]time.Time) map[string]string {
	exact := make(map[string]string, len(times))
	for flag, t := range times {
		exact[flag] = t.Format(time.RFC3339Nano)
	}
	return exact
}

// more is the line below a table that another page follows.
func more(next string, times map[string]time.Time) string {
	if next == "" {
		return ""
	}
	line := "more: --cursor " + next
	exact := exactTimes(times)
	var flags []string
	for flag := range exact {
		flags = append(flags, flag)
	}
	slices.Sort(flags)
	for _, flag := range flags {
		line += " --" + flag + " " + exact[flag]
	}
	return line + "\n"
}

// lines is items as ndjson.
func lines[T any](items []T) (string, error) {
	var all strings.Builder
	for _, item := range items {
		line, err := show.Line(item)
		if err != nil {
			return "", err
		}
		all.WriteString(line)
	}
	return all.String(), nil
}
