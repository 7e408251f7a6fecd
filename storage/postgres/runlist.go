package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	entrun "github.com/seed4391e180/runlane/ent/run"
	"github.com/seed4391e180/runlane/internal/cursor"
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

// documentColumns are what a list in full reads as well.
var documentColumns = []string{entrun.FieldRecordVersion, entrun.FieldRecordDocument, entrun.FieldRecordPayload}

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
	plan, err := storage.PlanRuns(f)
	if err != nil {
		return storage.RunPage{}, err
	}
	scope := cursor.Runs(f)
	var after *cursor.Position
	if f.Cursor != "" {
		at, err := scope.Decode(f.Cursor)
		if err != nil {
			return storage.RunPage{}, err
		}
		after = &at
	}
	where := runPredicates(f, plan, partition, after)
	var page runPage
	err = d.read(ctx, func(q querier) error {
		page = runPage{filter: f, partition: partition, limit: limit}
		query := d.runs(asking{q, page.scan}).Where(where...).Order(runOrder(f)...).Limit(limit + 1)
		query.Select(summaryColumns...)
		if f.Full {
			query.Select(documentColumns...)
		}
		_, err := query.All(ctx)
		return err
	})
	if page.more {
		page.page.Next = scope.Encode(page.last)
	}
	return page.page, err
}

// runPage collects a page row by row; one row more says that another page follows.
type runPage struct {
	filter    storage.RunFilter
	partition string
	limit     int
	row       runRow
	last      cursor.Position
	more      bool
	page      storage.RunPage
}

// runRow is a listed row as it is scanned, the same for each.
type runRow struct {
	id, task, queue, status             string
	priority                            int
	created, updated                    time.Time
	due, leaseExpires                   pgtype.Timestamptz
	idempotency, singleton, concurrency pgtype.Text
	sourceType, sourceRun, schedule     pgtype.Text
	version                             int64
	document, payload                   []byte
	into                                []any
}

func (r *runRow) fields(full bool) []any {
	if r.into == nil {
		r.into = []any{
			&r.id, &r.task, &r.queue, &r.status, &r.priority, &r.created, &r.updated, &r.due, &r.leaseExpires,
			&r.idempotency, &r.singleton, &r.concurrency, &r.sourceType, &r.sourceRun, &r.schedule,
		}
		if full {
			r.into = append(r.into, &r.version, &r.document, &r.payload)
		}
	}
	return r.into
}

func (p *runPage) scan(rows pgx.Rows) error {
	r := &p.row
	if len(p.page.Runs) == p.limit {
		p.more = true
		return nil
	}
	if err := rows.Scan(r.fields(p.filter.Full)...); err != nil {
		return err
	}
	item := storage.RunItem{RunSummary: r.summary(p.filter.Environment)}
	if p.filter.Full {
		if whole, ok := decodeRun(p.partition, r.id, r.version, r.document, r.payload); ok {
			item.Run = &whole
		}
		r.document, r.payload = nil, nil // the run may keep parts of them
	}
	if p.page.Runs == nil {
		p.page.Runs = make([]storage.RunItem, 0, p.limit)
	}
	p.page.Runs = append(p.page.Runs, item)
	p.last = cursor.Position{At: sortTime(p.filter.Sort, &item.RunSummary).UnixMicro(), ID: r.id}
	return nil
}

func (r *runRow) summary(environment string) storage.RunSummary {
	id, _ := keys.DecodeString(r.id) // a canonical run's key is the encoding of its id
	return storage.RunSummary{
		Environment: environment, ID: id, Task: r.task, Queue: r.queue, Status: run.Status(r.status), Priority: r.priority,
		Created: r.created.UTC(), Updated: r.updated.UTC(), Due: optionalTime(r.due), LeaseExpires: optionalTime(r.leaseExpires),
		IdempotencyKey: r.idempotency.String, SingletonKey: r.singleton.String, ConcurrencyKey: r.concurrency.String,
		SourceType: run.SourceType(r.sourceType.String), SourceRun: r.sourceRun.String, Schedule: r.schedule.String,
	}
}

func optionalTime(t pgtype.Timestamptz) time.Time {
	if !t.Valid {
		return time.Time{}
	}
	return t.Time.UTC()
}

func sortTime(sort storage.RunSort, r *storage.RunSummary) time.Time {
	switch sort {
	case storage.SortUpdated:
		return r.Updated
	case storage.SortDue:
		return r.Due
	}
	return r.Created
}
