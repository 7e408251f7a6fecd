package postgres

import (
	"context"
	"errors"
	"time"

	"entgo.io/ent/dialect/sql"

	"github.com/jackc/pgx/v5"

	"github.com/seed4391e180/runlane/ent"
	"github.com/seed4391e180/runlane/ent/predicate"
	entrun "github.com/seed4391e180/runlane/ent/run"
	"github.com/seed4391e180/runlane/internal/cursor"
	"github.com/seed4391e180/runlane/internal/txn"
	"github.com/seed4391e180/runlane/run"
	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/codec"
	"github.com/seed4391e180/runlane/storage/keys"
)

// summaryColumns are the columns of a listed run; its document is not among them,
// so that a list never reads what is stored out of line.
var summaryColumns = []string{
	entrun.FieldRunID, entrun.FieldTask, entrun.FieldQueue, entrun.FieldStatus, entrun.FieldPriority,
	entrun.FieldCreatedAt, entrun.FieldUpdatedAt, entrun.FieldDueAt, entrun.FieldLeaseExpiresAt,
	entrun.FieldIdempotencyKey, entrun.FieldSingletonKey, entrun.FieldConcurrencyKey,
	entrun.FieldSourceType, entrun.FieldSourceRunID, entrun.FieldScheduleID,
}

// runs begins a generated query on the driver's schema. It is for All, First and
// Only: those run modifiers last, when columns are named already.
func (d *Driver) runs(q querier) *ent.RunQuery {
	query := ent.NewClient(ent.Driver(entDriver{q})).Run.Query()
	query.Modify(func(s *sql.Selector) { s.FromExpr(sql.Raw(d.names.of(storage.Runs).name)) })
	return query
}

// read runs one operator read on a pooled connection; fn may run again. What a new
// transaction would get over, a read gets over as well, once: a connection that had
// died in the pool, a prepared statement that a migration has outdated.
func (d *Driver) read(ctx context.Context, fn func(querier) error) error {
	done, err := d.begin()
	if err != nil {
		return err
	}
	defer done()
	err = d.readOnce(ctx, fn)
	if stale := (*txn.Replay)(nil); errors.As(err, &stale) && stale.Final != nil {
		err = d.readOnce(ctx, fn)
	}
	return readError(err)
}

func (d *Driver) readOnce(ctx context.Context, fn func(querier) error) error {
	conn, err := d.acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	return classify(ctx, fn(d.ask(conn.Conn())), nil, nil)
}

// GetRun is storage.Operator.GetRun.
func (d *Driver) GetRun(ctx context.Context, environment, runID string) (r run.Run, found bool, err error) {
	key, err := codec.RunKey(environment, runID)
	if err != nil {
		return run.Run{}, false, err
	}
	err = d.read(ctx, func(q querier) error {
		row, err := d.runs(q).Where(entrun.EnvironmentKey(key.Partition), entrun.RunID(key.ID), entrun.StatusNotNil()).Only(ctx)
		if ent.IsNotFound(err) {
			return nil
		}
		if err != nil {
			return err
		}
		r, found = decodeRun(row)
		return nil
	})
	return r, found, err
}

// nameHolder fills in which run holds a singleton key. What cannot be found out
// stays unknown: the refusal itself is certain.
func (d *Driver) nameHolder(ctx context.Context, conn *pgx.Conn, dup *storage.DuplicateActiveError) {
	partition, err := codec.Partition(dup.Environment)
	if err != nil {
		return
	}
	var active []string
	for _, s := range run.Statuses() {
		if s.Active() {
			active = append(active, string(s))
		}
	}
	ask := func(q querier) error {
		query := d.runs(q).Where(entrun.EnvironmentKey(partition), entrun.Task(dup.Task), entrun.SingletonKey(dup.SingletonKey),
			entrun.StatusIn(active...))
		query.Select(entrun.FieldRunID)
		rows, err := query.All(ctx)
		if err == nil && len(rows) == 1 {
			dup.RunID, err = keys.DecodeString(rows[0].RunID)
		}
		return err
	}
	if conn != nil {
		err = ask(conn)
	} else {
		err = d.read(ctx, ask)
	}
	if err != nil {
		d.config.Logger.WarnContext(ctx, "the holder of a singleton key is not known", "error", err)
	}
}

// decodeRun decodes a whole row. Typed columns are filled only for canonical runs,
// so a run that does not decode was written by a newer version.
func decodeRun(row *ent.Run) (run.Run, bool) {
	rec := storage.Record{
		Key:      storage.Key{Collection: storage.Runs, Partition: row.EnvironmentKey, ID: row.RunID},
		Version:  storage.MakeVersion(row.RecordVersion),
		Document: row.RecordDocument,
	}
	if row.RecordPayload != nil {
		rec.Document = codec.JoinPayload(row.RecordDocument, row.RecordPayload)
	}
	r, kind := codec.DecodeRun(rec)
	return r, kind == codec.Canonical
}

// ListRuns is storage.Operator.ListRuns.
func (d *Driver) ListRuns(ctx context.Context, f storage.RunFilter) (storage.RunPage, error) {
	limit, err := d.limits.CheckRunFilter(f)
	if err != nil {
		return storage.RunPage{}, err
	}
	partition, err := codec.Partition(f.Environment)
	if err != nil {
		return storage.RunPage{}, err
	}
	scope := cursor.Runs(f)
	where := runPredicates(f, partition)
	if f.Cursor != "" {
		after, err := scope.Decode(f.Cursor)
		if err != nil {
			return storage.RunPage{}, err
		}
		where = append(where, behind(sortColumn(f.Sort), f.Direction, time.UnixMicro(after.At).UTC(), after.ID))
	}
	var page storage.RunPage
	err = d.read(ctx, func(q querier) error {
		query := d.runs(q).Where(where...).Order(runOrder(f)...).Limit(limit + 1)
		if !f.Full {
			query.Select(summaryColumns...)
		}
		rows, err := query.All(ctx)
		if err != nil {
			return err
		}
		page = runPage(f, scope, rows, limit)
		return nil
	})
	return page, err
}

// runPage makes a page of up to limit rows; one row more says that another page follows.
func runPage(f storage.RunFilter, scope cursor.Scope, rows []*ent.Run, limit int) storage.RunPage {
	var page storage.RunPage
	if len(rows) > limit {
		rows = rows[:limit]
		last := rows[limit-1]
		page.Next = scope.Encode(cursor.Position{At: sortTime(f.Sort, last).UnixMicro(), ID: last.RunID})
	}
	for _, row := range rows {
		item := storage.RunItem{RunSummary: summary(f.Environment, row)}
		if f.Full {
			if r, ok := decodeRun(row); ok {
				item.Run = &r
			}
		}
		page.Runs = append(page.Runs, item)
	}
	return page
}

func summary(environment string, row *ent.Run) storage.RunSummary {
	id, _ := keys.DecodeString(row.RunID) // a canonical run's key is the encoding of its id
	return storage.RunSummary{
		Environment: environment, ID: id,
		Task: value(row.Task), Queue: value(row.Queue), Status: run.Status(value(row.Status)), Priority: int(value(row.Priority)),
		Created: value(row.CreatedAt).UTC(), Updated: value(row.UpdatedAt).UTC(), Due: optionalTime(row.DueAt), LeaseExpires: optionalTime(row.LeaseExpiresAt),
		IdempotencyKey: value(row.IdempotencyKey), SingletonKey: value(row.SingletonKey), ConcurrencyKey: value(row.ConcurrencyKey),
		SourceType: run.SourceType(value(row.SourceType)), SourceRun: value(row.SourceRunID), Schedule: value(row.ScheduleID),
	}
}

// value is what a nullable column holds, or the zero value.
func value[T any](p *T) T {
	if p == nil {
		var zero T
		return zero
	}
	return *p
}

func optionalTime(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.UTC()
}

func sortColumn(s storage.RunSort) string {
	switch s {
	case storage.SortUpdated:
		return entrun.FieldUpdatedAt
	case storage.SortDue:
		return entrun.FieldDueAt
	}
	return entrun.FieldCreatedAt
}

func sortTime(s storage.RunSort, row *ent.Run) time.Time {
	switch s {
	case storage.SortUpdated:
		return value(row.UpdatedAt)
	case storage.SortDue:
		return value(row.DueAt)
	}
	return value(row.CreatedAt)
}

func runOrder(f storage.RunFilter) []entrun.OrderOption {
	direction := sql.OrderAsc()
	if f.Direction == storage.Descending {
		direction = sql.OrderDesc()
	}
	return []entrun.OrderOption{sql.OrderByField(sortColumn(f.Sort), direction).ToFunc(), sql.OrderByField(entrun.FieldRunID, direction).ToFunc()}
}

// behind is the keyset predicate: everything after the last row of the page before.
func behind(column string, direction storage.Direction, at time.Time, id string) predicate.Run {
	return func(s *sql.Selector) {
		columns := []string{s.C(column), s.C(entrun.FieldRunID)}
		if direction == storage.Descending {
			s.Where(sql.CompositeLT(columns, at, id))
		} else {
			s.Where(sql.CompositeGT(columns, at, id))
		}
	}
}

// runPredicates are the filters. The sort column is not null, so that the partial
// index on it can serve.
func runPredicates(f storage.RunFilter, partition string) []predicate.Run {
	where := []predicate.Run{entrun.EnvironmentKey(partition), func(s *sql.Selector) { s.Where(sql.NotNull(s.C(sortColumn(f.Sort)))) }}
	where = append(where, entrun.StatusNotNil())
	anyOf := func(column string, values []string) {
		if len(values) > 0 {
			args := make([]any, len(values))
			for i, v := range values {
				args[i] = v
			}
			where = append(where, func(s *sql.Selector) { s.Where(sql.In(s.C(column), args...)) })
		}
	}
	one := func(column, v string) {
		if v != "" {
			anyOf(column, []string{v})
		}
	}
	within := func(column string, r storage.TimeRange) {
		if !r.From.IsZero() {
			where = append(where, func(s *sql.Selector) { s.Where(sql.GTE(s.C(column), wholeMicroseconds(r.From))) })
		}
		if !r.Until.IsZero() {
			where = append(where, func(s *sql.Selector) { s.Where(sql.LT(s.C(column), wholeMicroseconds(r.Until))) })
		}
	}
	anyOf(entrun.FieldStatus, texts(f.Statuses))
	anyOf(entrun.FieldTask, f.Tasks)
	anyOf(entrun.FieldQueue, f.Queues)
	anyOf(entrun.FieldSourceType, texts(f.SourceTypes))
	one(entrun.FieldSourceRunID, f.SourceRun)
	one(entrun.FieldScheduleID, f.Schedule)
	one(entrun.FieldIdempotencyKey, f.IdempotencyKey)
	one(entrun.FieldSingletonKey, f.SingletonKey)
	one(entrun.FieldConcurrencyKey, f.ConcurrencyKey)
	within(entrun.FieldCreatedAt, f.Created)
	within(entrun.FieldUpdatedAt, f.Updated)
	within(entrun.FieldDueAt, f.Due)
	within(entrun.FieldLeaseExpiresAt, f.LeaseExpiry)
	return where
}

func texts[T ~string](values []T) []string {
	out := make([]string, len(values))
	for i, v := range values {
		out[i] = string(v)
	}
	return out
}
