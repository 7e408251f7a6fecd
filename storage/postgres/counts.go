package postgres

import (
	"context"
	"strconv"

	"github.com/jackc/pgx/v5"

	"github.com/seed4391e180/runlane/run"
	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/codec"
)

// CountRuns is storage.Operator.CountRuns.
func (d *Driver) CountRuns(ctx context.Context, f storage.RunFilter, limit int) ([]storage.StatusCount, error) {
	limit, err := d.limits.CheckCount(f, limit)
	if err != nil {
		return nil, err
	}
	plan, err := storage.PlanCounts(f)
	if err != nil {
		return nil, err
	}
	partition, err := codec.Partition(f.Environment)
	if err != nil {
		return nil, err
	}
	counts := wantedCounts(f.Statuses)
	args := countArgs(f, plan, partition, counts, limit)
	err = d.read(ctx, func(q querier) error {
		rows, err := q.Query(ctx, d.statements.countRuns(plan), args...)
		if err != nil {
			return err
		}
		return scanAll(rows, func(rows pgx.Rows) error { return scanCount(rows, counts, limit) })
	})
	if err != nil {
		return nil, err
	}
	return counts, nil
}

// wantedCounts has one count for each status that is asked for, in the order of a
// run's life.
func wantedCounts(statuses []run.Status) (counts []storage.StatusCount) {
	wanted := make(map[run.Status]bool, len(statuses))
	for _, s := range statuses {
		wanted[s] = true
	}
	for _, s := range run.Statuses() {
		if len(statuses) == 0 || wanted[s] {
			counts = append(counts, storage.StatusCount{Status: s})
		}
	}
	return counts
}

// scanCount reads the count of one status, which goes one beyond the limit.
func scanCount(rows pgx.Rows, counts []storage.StatusCount, limit int) error {
	var (
		status string
		n      int64
	)
	if err := rows.Scan(&status, &n); err != nil {
		return err
	}
	for i := range counts {
		if c := &counts[i]; c.Status == run.Status(status) {
			c.Runs, c.AtLeast = min(int(n), limit), int(n) > limit
		}
	}
	return nil
}

// countArgs are the parameters of count_runs.sql and, if it is part of the statement,
// of count_filters.sql.
func countArgs(f storage.RunFilter, plan storage.Plan, partition string, counts []storage.StatusCount, limit int) []any {
	statuses := make([]string, len(counts))
	for i, c := range counts {
		statuses[i] = string(c.Status)
	}
	args := []any{partition, statuses, timeBound(f.Created.From, true), timeBound(f.Created.Until, false), limit + 1}
	if plan.Cost == storage.Served {
		return args
	}
	args = append(args, texts(f.Tasks), texts(f.Queues), texts(f.SourceTypes), f.SourceRun, f.Schedule, f.IdempotencyKey, f.SingletonKey, f.ConcurrencyKey)
	for _, r := range []storage.TimeRange{f.Updated, f.Due, f.LeaseExpiry} {
		args = append(args, r.IsZero(), timeBound(r.From, true), timeBound(r.Until, false))
	}
	return args
}

// countBatch is how many runs are counted in one step.
const countBatch = 100

// countRuns is the statement of a count. Without further filters it is answered from
// the index alone.
func (s *statements) countRuns(plan storage.Plan) string {
	shape, filters := "count", "true"
	if plan.Cost == storage.Scanned {
		shape, filters = "count filtered", renumber(fragment("count_filters"), 5)
	}
	return s.shape(shape, func() string {
		return fill(fragment("count_runs"), holes{
			"runs": s.names.of(storage.Runs).name, "filters": filters, "batch": strconv.Itoa(countBatch),
		})
	})
}
