package postgres

import (
	"time"

	"entgo.io/ent/dialect/sql"

	"github.com/seed4391e180/runlane/ent/predicate"
	entrun "github.com/seed4391e180/runlane/ent/run"
	"github.com/seed4391e180/runlane/internal/cursor"
	"github.com/seed4391e180/runlane/storage"
)

func sortColumn(s storage.RunSort) string {
	switch s {
	case storage.SortUpdated:
		return entrun.FieldUpdatedAt
	case storage.SortDue:
		return entrun.FieldDueAt
	}
	return entrun.FieldCreatedAt
}

func runOrder(f storage.RunFilter) []entrun.OrderOption {
	direction := sql.OrderAsc()
	if f.Direction == storage.Descending {
		direction = sql.OrderDesc()
	}
	return []entrun.OrderOption{sql.OrderByField(sortColumn(f.Sort), direction).ToFunc(), sql.OrderByField(entrun.FieldRunID, direction).ToFunc()}
}

// runPredicates are the filters and the place to continue behind. They are spelt so
// that one index has the order of the page, the one of the plan's path, and that the
// server walks through it, whatever it believes of the values:
//
//   - An index leaves out rows without its time, so it can serve only what says that the
//     time is not null. A comparison of single values says so; one of rows does not, to
//     PostgreSQL. So a page by status compares times as rows.
//   - Where the scan begins there is one bound, the cursor or the end of the range, not
//     both: so it begins there.
//   - All filters that the index does not serve are one CASE, of which the server has no
//     opinion. It would scan the whole table for what it knows to be rare, rather than
//     the range within which it is looked for.
func runPredicates(f storage.RunFilter, plan storage.Plan, partition string, after *cursor.Position) []predicate.Run {
	column, within := sortColumn(f.Sort), [...]storage.TimeRange{f.Created, f.Updated, f.Due}[f.Sort]
	where := []predicate.Run{entrun.EnvironmentKey(partition)}
	if plan.Path == storage.ByStatus {
		where = append(where, anyOf(entrun.FieldStatus, texts(f.Statuses)))
	} else {
		where = append(where, func(s *sql.Selector) { s.Where(sql.NotNull(s.C(column))) })
	}
	where = append(where, sortBounds(column, within, f.Direction, plan, after)...)
	if plan.Cost == storage.Scanned {
		where = append(where, func(s *sql.Selector) { s.Where(opaque(furtherFilters(s, f))) })
	}
	return where
}

// sortBounds are the bounds of the time that runs are sorted by.
func sortBounds(column string, within storage.TimeRange, d storage.Direction, plan storage.Plan, after *cursor.Position) []predicate.Run {
	var where []predicate.Run
	if after != nil && endsWithin(within, d, time.UnixMicro(after.At)) {
		where = append(where, beyond(column, d, time.UnixMicro(after.At).UTC(), after.ID))
		if d == storage.Descending {
			within.Until = time.Time{}
		} else {
			within.From = time.Time{}
		}
	}
	if plan.Path != storage.ByStatus {
		return append(where, func(s *sql.Selector) {
			for _, p := range bounds(s.C(column), within) {
				s.Where(p)
			}
		})
	}
	if !within.From.IsZero() {
		where = append(where, beyond(column, storage.Ascending, within.From, ""))
	}
	if !within.Until.IsZero() {
		where = append(where, beyond(column, storage.Descending, within.Until, ""))
	}
	return where
}

// beyond compares (time, run id) as a row: what comes after it in that direction. With
// no id, it is what begins at the time when ascending, and what ends before it when
// descending: the two ends of a half-open range.
func beyond(column string, d storage.Direction, at time.Time, id string) predicate.Run {
	return func(s *sql.Selector) {
		columns := []string{s.C(column), s.C(entrun.FieldRunID)}
		if d == storage.Descending {
			s.Where(sql.CompositeLT(columns, wholeMicroseconds(at), id))
		} else {
			s.Where(sql.CompositeGT(columns, wholeMicroseconds(at), id))
		}
	}
}

// bounds compares a time with the ends of a range as single values.
func bounds(column string, r storage.TimeRange) (where []*sql.Predicate) {
	if !r.From.IsZero() {
		where = append(where, sql.GTE(column, wholeMicroseconds(r.From)))
	}
	if !r.Until.IsZero() {
		where = append(where, sql.LT(column, wholeMicroseconds(r.Until)))
	}
	return where
}

// furtherFilters are the filters of what no index serves.
func furtherFilters(s *sql.Selector, f storage.RunFilter) *sql.Predicate {
	var all []*sql.Predicate
	for _, in := range []struct {
		column string
		values []string
	}{
		{entrun.FieldStatus, texts(f.Statuses)}, {entrun.FieldTask, f.Tasks}, {entrun.FieldQueue, f.Queues}, {entrun.FieldSourceType, texts(f.SourceTypes)},
		{entrun.FieldSourceRunID, one(f.SourceRun)}, {entrun.FieldScheduleID, one(f.Schedule)}, {entrun.FieldIdempotencyKey, one(f.IdempotencyKey)},
		{entrun.FieldSingletonKey, one(f.SingletonKey)}, {entrun.FieldConcurrencyKey, one(f.ConcurrencyKey)},
	} {
		if len(in.values) > 0 {
			all = append(all, sql.In(s.C(in.column), anys(in.values)...))
		}
	}
	for _, r := range []struct {
		column string
		within storage.TimeRange
	}{{entrun.FieldCreatedAt, f.Created}, {entrun.FieldUpdatedAt, f.Updated}, {entrun.FieldDueAt, f.Due}, {entrun.FieldLeaseExpiresAt, f.LeaseExpiry}} {
		if r.column != sortColumn(f.Sort) {
			all = append(all, bounds(s.C(r.column), r.within)...)
		}
	}
	return sql.And(all...)
}

// opaque is a predicate of which the server has no opinion.
func opaque(p *sql.Predicate) *sql.Predicate {
	return sql.P(func(b *sql.Builder) { b.WriteString("CASE WHEN ").Join(p).WriteString(" THEN true ELSE false END") })
}

func anyOf(column string, values []string) predicate.Run {
	return func(s *sql.Selector) { s.Where(sql.In(s.C(column), anys(values)...)) }
}

func anys(values []string) []any {
	args := make([]any, len(values))
	for i, v := range values {
		args[i] = v
	}
	return args
}

// one is a choice of one value; "" is no choice.
func one(v string) []string {
	if v == "" {
		return nil
	}
	return []string{v}
}

func texts[T ~string](values []T) []string {
	out := make([]string, len(values))
	for i, v := range values {
		out[i] = string(v)
	}
	return out
}
