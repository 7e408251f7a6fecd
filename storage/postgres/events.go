package postgres

import (
	"context"
	"math"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/seed4391e180/runlane/internal/cursor"
	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/codec"
)

// ListEvents is storage.Operator.ListEvents.
func (d *Driver) ListEvents(ctx context.Context, f storage.EventFilter) (storage.EventPage, error) {
	limit, err := d.limits.CheckEventFilter(f)
	if err != nil {
		return storage.EventPage{}, err
	}
	scope := cursor.Events(f)
	args, err := eventArgs(f, scope, limit)
	if err != nil {
		return storage.EventPage{}, err
	}
	p := eventPage{filter: f, scope: scope, limit: limit}
	err = d.read(ctx, func(q querier) error {
		p = eventPage{filter: f, scope: scope, limit: limit}
		rows, err := q.Query(ctx, d.statements.listEvents(f), args...)
		if err != nil {
			return err
		}
		return scanAll(rows, p.scan)
	})
	return p.page, err
}

// eventPage collects a page row by row. Its cursor comes from the last row that was
// scanned within the limit, hidden or not.
type eventPage struct {
	filter storage.EventFilter
	scope  cursor.Scope
	limit  int
	rows   int
	last   cursor.Position
	page   storage.EventPage
}

func (p *eventPage) scan(rows pgx.Rows) error {
	var (
		id       string
		sequence int64
		at       time.Time
		version  *int64
		document []byte
	)
	if err := rows.Scan(&id, &sequence, &at, &version, &document); err != nil {
		return err
	}
	p.rows++
	if p.rows > p.limit {
		p.page.Next = p.scope.Encode(p.last)
		return nil
	}
	p.last = cursor.Position{At: sequence, ID: id}
	if p.filter.Sort == storage.SortOccurred {
		p.last.At = at.UnixMicro()
	}
	if version == nil {
		return nil // its run is hidden
	}
	partition, err := codec.Partition(p.filter.Environment)
	if err != nil {
		return err
	}
	event, kind := codec.DecodeEvent(storage.Record{
		Key:      storage.Key{Collection: storage.RunEvents, Partition: partition, ID: id},
		Version:  storage.MakeVersion(*version),
		Document: document,
	})
	if kind == codec.Canonical {
		p.page.Events = append(p.page.Events, event)
	}
	return nil
}

// eventArgs are the parameters of list_events.sql.
func eventArgs(f storage.EventFilter, scope cursor.Scope, limit int) ([]any, error) {
	partition, err := codec.Partition(f.Environment)
	if err != nil {
		return nil, err
	}
	runID := ""
	if f.RunID != "" {
		key, err := codec.RunKey(f.Environment, f.RunID)
		if err != nil {
			return nil, err
		}
		runID = key.ID
	}
	after := cursor.Position{At: math.MinInt64}
	if f.Direction == storage.Descending {
		after = cursor.Position{At: math.MaxInt64, ID: highest}
	}
	sort := strconv.FormatInt(after.At, 10)
	if f.Sort == storage.SortOccurred {
		sort = timeBound(time.Time{}, f.Direction == storage.Ascending)
	}
	if f.Cursor != "" {
		if after, err = scope.Decode(f.Cursor); err != nil {
			return nil, err
		}
		sort = strconv.FormatInt(after.At, 10)
		if f.Sort == storage.SortOccurred {
			sort = time.UnixMicro(after.At).UTC().Format(storage.TimeFormat)
		}
	}
	return []any{
		partition, runID, texts(f.Types),
		timeBound(f.Occurred.From, true), timeBound(f.Occurred.Until, false),
		sort, after.ID, limit + 1,
	}, nil
}

// timeBound spells one end of a range of times; an open end is infinite.
func timeBound(t time.Time, lower bool) string {
	switch {
	case !t.IsZero():
		return wholeMicroseconds(t).Format(storage.TimeFormat)
	case lower:
		return "-infinity"
	}
	return "infinity"
}

// wholeMicroseconds rounds the end of a half-open range up to what the database
// stores, which excludes and includes the same times.
func wholeMicroseconds(t time.Time) time.Time {
	t = t.UTC()
	if down := t.Truncate(time.Microsecond); !down.Equal(t) {
		return down.Add(time.Microsecond)
	}
	return t
}

// listEvents is the statement of a page of events.
func (s *statements) listEvents(f storage.EventFilter) string {
	h := holes{
		"events": s.names.of(storage.RunEvents).name, "runs": s.names.of(storage.Runs).name,
		"scope": "$2::text = ''", "key": "occurred_at", "key_type": "timestamptz", "index": "runlane_run_events_occurred",
		"direction": "ASC", "beyond": ">",
	}
	shape := "events"
	if f.RunID != "" {
		h["scope"], h["index"] = "r.run_id = $2 AND r.sequence_index_native", "runlane_run_events_native"
		shape += " run"
	}
	if f.Sort == storage.SortSequence {
		h["key"], h["key_type"] = "sequence", "bigint"
		shape += " sequence"
	}
	if f.Direction == storage.Descending {
		h["direction"], h["beyond"] = "DESC", "<"
		shape += " descending"
	}
	return s.shape(shape, func() string { return fill(fragment("list_events"), h) })
}
