package actions

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/seed4391e180/runlane/cmd/runlane/internal/filter"
	"github.com/seed4391e180/runlane/cmd/runlane/internal/usage"
	"github.com/seed4391e180/runlane/lane"
	"github.com/seed4391e180/runlane/run"
	"github.com/seed4391e180/runlane/storage"
)

// bindFilters gives the command the flags that select runs, and returns their names.
func bindFilters(cmd *cobra.Command, runs *filter.Runs) map[string]bool {
	before := map[string]bool{}
	cmd.Flags().VisitAll(func(f *pflag.Flag) { before[f.Name] = true })
	runs.Bind(cmd, false)
	names := map[string]bool{}
	cmd.Flags().VisitAll(func(f *pflag.Flag) { names[f.Name] = !before[f.Name] })
	for name, ours := range names {
		if !ours {
			delete(names, name)
		}
	}
	return names
}

func (c *command) newCancel() *cobra.Command {
	var (
		runs   filter.Runs
		reason string
	)
	cmd := &cobra.Command{
		Use:   "cancel [ID …]",
		Short: "Cancel runs: at once those that wait, and ask the workers of the others to stop",
	}
	names := bindFilters(cmd, &runs)
	cmd.Flags().StringVar(&reason, "reason", "", "kept in the history of each run")
	c.confirms(cmd)
	cmd.RunE = func(cmd *cobra.Command, ids []string) error {
		if err := selected(cmd, ids, filtered(cmd, names)); err != nil {
			return err
		}
		return c.with(cmd, func(ctx context.Context, l *lane.Lane) error {
			if len(ids) > 0 {
				return c.cancelEach(ctx, cmd, l, ids, reason)
			}
			f, err := runs.Filter(cmd, "", c.Now())
			if err != nil {
				return err
			}
			if err := c.confirm(cmd, "Cancel all runs that the filter selects?"); err != nil {
				return err
			}
			return c.cancelMany(ctx, cmd, l, f, reason)
		})
	}
	return cmd
}

func (c *command) cancelEach(ctx context.Context, cmd *cobra.Command, l *lane.Lane, ids []string, reason string) error {
	done := cancellations{Items: []cancellation{}}
	for _, id := range ids {
		if c.dryRun {
			r, err := l.Get(ctx, id)
			done.add(lane.CancelItem{Cancellation: lane.Cancellation{RunID: id, Outcome: outcomeFor(r.Status), Status: r.Status}, Err: err})
			continue
		}
		got, err := l.Cancel(ctx, id, reason)
		if got.RunID = id; err != nil && !ofOne(err) {
			return c.close(cmd, done, err)
		}
		done.add(lane.CancelItem{Cancellation: got, Err: err})
	}
	return c.close(cmd, done, nil)
}

func outcomeFor(s run.Status) lane.CancelOutcome {
	switch {
	case s.Terminal():
		return lane.CancelTooLate
	case s.Leased():
		return lane.CancelRequested
	}
	return lane.CancelDone
}

// ofOne says whether an error is about one run and not about the store.
func ofOne(err error) bool {
	var status *lane.StatusError
	var exists *lane.RunExistsError
	return errors.Is(err, lane.ErrNoRun) || errors.As(err, &status) || errors.As(err, &exists) || errors.Is(err, lane.ErrOpaqueOwner)
}

func (c *command) cancelMany(ctx context.Context, cmd *cobra.Command, l *lane.Lane, f storage.RunFilter, reason string) error {
	done := cancellations{Items: []cancellation{}}
	o := lane.BulkOptions{Filter: f, Reason: reason, DryRun: c.dryRun}
	for {
		got, err := l.CancelMany(ctx, o)
		for _, item := range got.Runs {
			done.add(item)
		}
		if o.Resume = got.Resume; err != nil || o.Resume.IsZero() {
			return c.close(cmd, done, err)
		}
	}
}

func (c *command) newRetry() *cobra.Command {
	var runs filter.Runs
	cmd := &cobra.Command{
		Use:   "retry [ID …]",
		Short: "Make new runs that do the work of failed ones again",
	}
	names := bindFilters(cmd, &runs)
	runID := cmd.Flags().String("run-id", "", "id of the new run, for one retry that can be repeated")
	c.confirms(cmd)
	cmd.RunE = func(cmd *cobra.Command, ids []string) error {
		if err := selected(cmd, ids, filtered(cmd, names)); err != nil {
			return err
		}
		return c.with(cmd, func(ctx context.Context, l *lane.Lane) error {
			if len(ids) > 0 {
				return c.againEach(ctx, cmd, ids, *runID, l, "retry")
			}
			f, err := runs.Filter(cmd, "", c.Now())
			if err != nil {
				return err
			}
			if err := c.confirm(cmd, "Retry all failed runs that the filter selects?"); err != nil {
				return err
			}
			return c.retryMany(ctx, cmd, l, f)
		})
	}
	return cmd
}

func (c *command) newRerun() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "rerun ID …",
		Short: "Make new runs like those that have ended, however they ended",
		Args:  cobra.MinimumNArgs(1),
	}
	runID := cmd.Flags().String("run-id", "", "id of the new run, for one rerun that can be repeated")
	c.confirms(cmd)
	cmd.RunE = func(cmd *cobra.Command, ids []string) error {
		return c.with(cmd, func(ctx context.Context, l *lane.Lane) error {
			return c.againEach(ctx, cmd, ids, *runID, l, "rerun")
		})
	}
	return cmd
}

func (c *command) againEach(ctx context.Context, cmd *cobra.Command, ids []string, runID string, l *lane.Lane, action string) error {
	if runID != "" && len(ids) > 1 {
		return usage.Errorf("--run-id is for one run, not for %d", len(ids))
	}
	done := remade{Items: []remadeRun{}}
	for _, id := range ids {
		if c.dryRun {
			r, err := l.Get(ctx, id)
			if err == nil && r.Status != run.StatusFailed && (action == "retry" || !r.Status.Terminal()) {
				err = &lane.StatusError{RunID: id, Status: r.Status, Action: action}
			}
			done.add(lane.RetryItem{Origin: id, Triggered: lane.Triggered{RunID: runID}, Err: err})
			continue
		}
		do := l.Retry
		if action == "rerun" {
			do = l.Rerun
		}
		got, err := do(ctx, id, lane.AgainOptions{RunID: runID})
		if err != nil && !ofOne(err) {
			return c.close(cmd, done, err)
		}
		done.add(lane.RetryItem{Origin: id, Triggered: got, Err: err})
	}
	return c.close(cmd, done, nil)
}

func (c *command) retryMany(ctx context.Context, cmd *cobra.Command, l *lane.Lane, f storage.RunFilter) error {
	done := remade{Items: []remadeRun{}}
	o := lane.BulkOptions{Filter: f, DryRun: c.dryRun}
	for {
		got, err := l.RetryMany(ctx, o)
		for _, item := range got.Runs {
			done.add(item)
		}
		if o.Resume = got.Resume; err != nil || o.Resume.IsZero() {
			return c.close(cmd, done, err)
		}
	}
}

func (c *command) newPrune() *cobra.Command {
	var (
		olderThan time.Duration
		statuses  []string
	)
	cmd := &cobra.Command{
		Use:   "prune --older-than DURATION",
		Short: "Delete runs that ended long ago, with their events and keys",
		Args:  cobra.NoArgs,
	}
	cmd.Flags().DurationVar(&olderThan, "older-than", 0, "how long ago a run ended at least, such as 720h; needed")
	cmd.Flags().StringSliceVar(&statuses, "status", nil, "succeeded, failed or cancelled; all three if it is missing")
	filter.Complete(cmd, "status", []string{string(run.StatusSucceeded), string(run.StatusFailed), string(run.StatusCancelled)})
	c.confirms(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		o := lane.PruneOptions{OlderThan: olderThan, DryRun: c.dryRun}
		for _, s := range statuses {
			if !run.Status(s).Terminal() {
				return usage.Errorf("--status: %q is not the status of a run that has ended", s)
			}
			o.Statuses = append(o.Statuses, run.Status(s))
		}
		if olderThan <= 0 {
			return usage.Errorf("--older-than is needed, and longer than nothing")
		}
		return c.with(cmd, func(ctx context.Context, l *lane.Lane) error {
			if err := c.confirm(cmd, "Delete all runs that ended more than "+olderThan.String()+" ago?"); err != nil {
				return err
			}
			var done pruned
			for {
				got, err := l.Prune(ctx, o)
				done.Runs += got.Runs
				done.Events += got.Events
				done.Awaited += got.Awaited
				done.Opaque += got.Opaque
				if o.Resume = got.Resume; err != nil || o.Resume.IsZero() {
					return errors.Join(c.print(cmd, done), err)
				}
			}
		})
	}
	return cmd
}
