package memory

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/seed4391e180/runlane/internal/cursor"
	"github.com/seed4391e180/runlane/run"
	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/codec"
)

// GetRun implements [storage.Operator]. A name that no run can have is ErrInvalidKey.
func (d *Driver) GetRun(ctx context.Context, environment, runID string) (run.Run, bool, error) {
	if err := d.begin(ctx); err != nil {
		return run.Run{}, false, err
	}
	defer d.running.Done()
	key, err := codec.RunKey(environment, runID)
	if err != nil {
		return run.Run{}, false, err
	}
	d.mu.Lock()
	stored := d.state.get(key)
	d.mu.Unlock()
	if stored == nil {
		return run.Run{}, false, nil
	}
	r, kind := codec.DecodeRun(stored.record(key))
	if kind != codec.Canonical {
		return run.Run{}, false, nil
	}
	return r, true, nil
}

// listed is a row of a listing, at its place in the order.
type listed struct {
	at  cursor.Position
	key storage.Key
	row *stored
}

// page orders the rows, leaves out those up to the cursor, and cuts off what is
// more than the limit.
func page(rows []listed, direction storage.Direction, after *cursor.Position, limit int) (page []listed, more bool) {
	order := func(a, b cursor.Position) int {
		d := cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.ID, b.ID))
		if direction == storage.Descending {
			return -d
		}
		return d
	}
	if after != nil {
		rows = slices.DeleteFunc(rows, func(l listed) bool { return order(l.at, *after) <= 0 })
	}
	slices.SortFunc(rows, func(a, b listed) int { return order(a.at, b.at) })
	if len(rows) > limit {
		return rows[:limit], true
	}
	return rows, false
}

// resume reads a cursor; nil is the first page.
func resume(scope cursor.Scope, text string) (*cursor.Position, error) {
	if text == "" {
		return nil, nil
	}
	p, err := scope.Decode(text)
	if err != nil {
		return nil, err
	}
	return &p, nil
}

// ListRuns implements [storage.Operator]. It looks at every run, and refuses what a
// store with many could not answer.
func (d *Driver) ListRuns(ctx context.Context, f storage.RunFilter) (storage.RunPage, error) {
	if err := d.begin(ctx); err != nil {
		return storage.RunPage{}, err
	}
	defer d.running.Done()
	limit, err := d.limits.CheckRunFilter(f)
	if err != nil {
		return storage.RunPage{}, err
	}
	scope := cursor.Runs(f)
	after, err := resume(scope, f.Cursor)
	if err != nil {
		return storage.RunPage{}, err
	}
	rows, more := page(d.runs(f), f.Direction, after, limit)
	result := storage.RunPage{Runs: make([]storage.RunItem, len(rows))}
	for i, l := range rows {
		result.Runs[i].RunSummary = *l.row.run
		if f.Full {
			r, _ := codec.DecodeRun(l.row.record(l.key))
			result.Runs[i].Run = &r
		}
	}
	if more {
		result.Next = scope.Encode(rows[len(rows)-1].at)
	}
	return result, nil
}

// runs lists the visible runs that the filter selects, in no order.
func (d *Driver) runs(f storage.RunFilter) []listed {
	d.mu.Lock()
	defer d.mu.Unlock()
	var rows []listed
	for key, r := range d.state.table(storage.Runs) {
		if r.run == nil || !selectsRun(f, r.run) {
			continue
		}
		at := sortOf(f.Sort, r.run)
		if at.IsZero() {
			continue
		}
		rows = append(rows, listed{cursor.Position{At: at.UnixMicro(), ID: r.run.ID}, key, r})
	}
	return rows
}

func sortOf(sort storage.RunSort, r *storage.RunColumns) time.Time {
	switch sort {
	case storage.SortUpdated:
		return r.Updated
	case storage.SortDue:
		return r.Due
	}
	return r.Created
}

func selectsRun(f storage.RunFilter, r *storage.RunColumns) bool {
	return f.Environment == r.Environment &&
		oneOf(f.Statuses, r.Status) && oneOf(f.Tasks, r.Task) && oneOf(f.Queues, r.Queue) && oneOf(f.SourceTypes, r.SourceType) &&
		is(f.SourceRun, r.SourceRun) && is(f.Schedule, r.Schedule) && is(f.IdempotencyKey, r.IdempotencyKey) &&
		is(f.SingletonKey, r.SingletonKey) && is(f.ConcurrencyKey, r.ConcurrencyKey) &&
		within(f.Created, r.Created) && within(f.Updated, r.Updated) && within(f.Due, r.Due) && within(f.LeaseExpiry, r.LeaseExpires)
}

func oneOf[T comparable](wanted []T, v T) bool { return len(wanted) == 0 || slices.Contains(wanted, v) }

func is(wanted, v string) bool { return wanted == "" || wanted == v }

// within reports whether the range excludes nothing or holds the time. A time that
// is missing lies in no range.
func within(r storage.TimeRange, t time.Time) bool {
	if r.IsZero() {
		return true
	}
	return !t.IsZero() && !t.Before(r.From) && (r.Until.IsZero() || t.Before(r.Until))
}

// CountRuns implements [storage.Operator].
func (d *Driver) CountRuns(ctx context.Context, f storage.RunFilter, limit int) ([]storage.StatusCount, error) {
	if err := d.begin(ctx); err != nil {
		return nil, err
	}
	defer d.running.Done()
	limit, err := d.limits.CheckCount(f, limit)
	if err != nil {
		return nil, err
	}
	found := map[run.Status]int{}
	f.Sort = storage.SortCreated // which every run has
	for _, l := range d.runs(f) {
		found[l.row.run.Status]++
	}
	var counts []storage.StatusCount
	for _, s := range run.Statuses() {
		if oneOf(f.Statuses, s) {
			counts = append(counts, storage.StatusCount{Status: s, Runs: min(found[s], limit), AtLeast: found[s] > limit})
		}
	}
	return counts, nil
}
