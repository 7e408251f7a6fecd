package filter

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/seed4391e180/runlane/run"
	"github.com/seed4391e180/runlane/storage"
)

// Runs holds the flags that select runs.
type Runs struct {
	// All asks for all pages.
	All bool
	// Exact is what relative times came to, by the name of the flag, once Filter has
	// returned.
	Exact map[string]time.Time

	statuses, tasks, queues, sources             []string
	sourceRun, schedule                          string
	idempotencyKey, singletonKey, concurrencyKey string
	created, updated, due, lease                 span
	sort                                         string
	full                                         bool
	paging                                       paging
	paged                                        bool
}

// Bind gives the command the flags that select runs and, if it is paged, those that
// say in which order and which page.
func (r *Runs) Bind(cmd *cobra.Command, paged bool) {
	r.paged = paged
	flags := cmd.Flags()
	flags.StringSliceVar(&r.statuses, "status", nil, "only runs of these statuses, separated by commas")
	flags.StringArrayVar(&r.tasks, "task", nil, "only runs of this task; may be repeated")
	flags.StringArrayVar(&r.queues, "queue", nil, "only runs of this queue; may be repeated")
	flags.StringSliceVar(&r.sources, "source-type", nil, "only runs that these made, separated by commas")
	flags.StringVar(&r.sourceRun, "source-run", "", "only reruns and retries of this run")
	flags.StringVar(&r.schedule, "schedule", "", "only runs of this schedule")
	flags.StringVar(&r.idempotencyKey, "idempotency-key", "", "only runs with this idempotency key")
	flags.StringVar(&r.singletonKey, "singleton-key", "", "only runs with this singleton key")
	flags.StringVar(&r.concurrencyKey, "concurrency-key", "", "only runs with this concurrency key")
	r.created.bind(cmd, "created", "runs created")
	r.updated.bind(cmd, "updated", "runs last changed")
	r.due.bind(cmd, "due", "runs that are due")
	r.lease.bind(cmd, "lease-expires", "runs whose lease expires")
	Complete(cmd, "status", Names(run.Statuses()))
	Complete(cmd, "source-type", Names(sources))
	if !paged {
		return
	}
	flags.StringVar(&r.sort, "sort", runSorts[0], "created, updated or due")
	flags.BoolVar(&r.full, "full", false, "read whole runs, with payload and result; tables stay as they are")
	r.paging.bind(cmd, "desc")
	Complete(cmd, "sort", runSorts)
}

// Filter is what the flags say. A refusal is a *usage.Error; what the store itself
// refuses passes.
func (r *Runs) Filter(cmd *cobra.Command, environment string, now time.Time) (f storage.RunFilter, err error) {
	if err := filled(cmd, "status", "task", "queue", "source-type", "source-run", "schedule", "idempotency-key", "singleton-key", "concurrency-key"); err != nil {
		return f, err
	}
	f = storage.RunFilter{
		Environment: environment, Tasks: r.tasks, Queues: r.queues, SourceRun: r.sourceRun, Schedule: r.schedule,
		IdempotencyKey: r.idempotencyKey, SingletonKey: r.singletonKey, ConcurrencyKey: r.concurrencyKey,
		Full: r.full, Cursor: r.paging.cursor,
	}
	if f.Statuses, err = among("status", r.statuses, run.Statuses()); err != nil {
		return f, err
	}
	if f.SourceTypes, err = among("source-type", r.sources, sources); err != nil {
		return f, err
	}
	r.Exact = make(map[string]time.Time)
	for _, s := range []struct {
		from *span
		to   *storage.TimeRange
	}{{&r.created, &f.Created}, {&r.updated, &f.Updated}, {&r.due, &f.Due}, {&r.lease, &f.LeaseExpiry}} {
		if err := s.from.read(cmd, now, s.to, r.Exact); err != nil {
			return f, err
		}
	}
	if !r.paged {
		return f, nil
	}
	sort, err := one("sort", r.sort, runSorts)
	if err != nil {
		return f, err
	}
	f.Sort, r.All = storage.RunSort(sort), r.paging.all
	f.Direction, f.Limit, err = r.paging.read(cmd)
	return f, err
}
