package postgres

import (
	"context"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/seed4391e180/runlane/internal/cursor"
	"github.com/seed4391e180/runlane/run"
	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/codec"
)

// ListEvents is storage.Operator.ListEvents.
func (d *Driver) ListEvents(ctx context.Context, f storage.EventFilter) (storage.EventPage, error) {
	limit, err := d.limits.CheckEventFilter(f)
	if err != nil {
		return storage.EventPage{}, err
	}
	plan, err := storage.PlanEvents(f)
	if err != nil {
		return storage.EventPage{}, err
	}
	scope := cursor.Events(f)
	args, err := eventArgs(f, plan, scope, limit)
	if err != nil {
		return storage.EventPage{}, err
	}
	p := eventPage{filter: f, scope: scope, limit: limit}
	err = d.read(ctx, func(q querier) error {
		p = eventPage{filter: f, scope: scope, limit: limit}
		rows, err := q.Query(ctx, d.statements.listEvents(f, plan, limit), args...)
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

// eventArgs are the parameters of list_events.sql and of the fragment in it.
func eventArgs(f storage.EventFilter, plan storage.Plan, scope cursor.Scope, limit int) ([]any, error) {
	partition, err := codec.Partition(f.Environment)
	if err != nil {
		return nil, err
	}
	var after *cursor.Position
	if f.Cursor != "" {
		at, err := scope.Decode(f.Cursor)
		if err != nil {
			return nil, err
		}
		after = &at
	}
	near, id, far := eventBounds(f, after)
	args := []any{partition, limit + 1}
	switch plan.Path {
	case storage.ByType:
		return append(args, near, id, far, distinctTypes(f.Types)), nil
	case storage.ByOccurred:
		return append(args, near, id, far), nil
	}
	key, err := codec.RunKey(f.Environment, f.RunID)
	if err != nil {
		return nil, err
	}
	if f.Sort == storage.SortSequence {
		near, id = sequenceBound(f.Direction, after)
	}
	return append(args, key.ID, texts(f.Types), timeBound(f.Occurred.From, true), timeBound(f.Occurred.Until, false), near, id), nil
}

// eventBounds are the time and the record id behind which a page by time begins, and
// the time at which it ends. The server begins where it is told to continue, so that is
// the cursor, unless the range begins behind it. No record id is before all others.
func eventBounds(f storage.EventFilter, after *cursor.Position) (near, id, far string) {
	near, far = timeBound(f.Occurred.From, true), timeBound(f.Occurred.Until, false)
	if f.Direction == storage.Descending {
		near, far = far, near
	}
	if after != nil && f.Sort == storage.SortOccurred {
		if at := time.UnixMicro(after.At).UTC(); endsWithin(f.Occurred, f.Direction, at) {
			return at.Format(storage.TimeFormat), after.ID, far
		}
	}
	return near, "", far
}

// sequenceBound is the sequence and the record id behind which a page begins.
func sequenceBound(d storage.Direction, after *cursor.Position) (near, id string) {
	switch {
	case after != nil:
		return strconv.FormatInt(after.At, 10), after.ID
	case d == storage.Descending:
		return strconv.FormatInt(math.MaxInt64, 10), highest
	}
	return strconv.FormatInt(math.MinInt64, 10), ""
}

// distinctTypes names each type once: a type that is merged twice would be listed twice.
func distinctTypes(types []run.EventType) []string {
	list := texts(types)
	slices.Sort(list)
	return slices.Compact(list)
}

// mostRows is how many rows a statement is planned for, with the one that says that
// another page follows: a default page, or the largest.
func mostRows(limit int) string {
	limits := storage.DefaultLimits()
	if limit <= limits.DefaultPage {
		return strconv.Itoa(limits.DefaultPage + 1)
	}
	return strconv.Itoa(limits.MaxPage + 1)
}

// listEvents is the statement of a page of events.
func (s *statements) listEvents(f storage.EventFilter, plan storage.Plan, limit int) string {
	h := holes{
		"events": s.names.of(storage.RunEvents).name, "runs": s.names.of(storage.Runs).name,
		"key": "occurred_at", "key_type": "timestamptz", "direction": "ASC", "beyond": ">", "before": "<", "most": mostRows(limit),
	}
	name, branches := "events_by_time", 1
	switch plan.Path {
	case storage.ByType:
		name, branches = "events_by_type", len(distinctTypes(f.Types))
	case storage.ByHistory:
		name = "events_of_run"
	}
	if f.Sort == storage.SortSequence {
		h["key"], h["key_type"] = "sequence", "bigint"
	}
	if f.Direction == storage.Descending {
		h["direction"], h["beyond"], h["before"] = "DESC", "<", ">"
	}
	shape := strings.Join([]string{name, h["key"], h["direction"], h["most"], strconv.Itoa(branches)}, " ")
	return s.shape(shape, func() string {
		pages := make([]string, branches)
		for i := range pages {
			h["number"] = strconv.Itoa(i + 1)
			pages[i] = fill(fragment(name), h)
		}
		h["page"] = strings.Join(pages, "\n  UNION ALL\n  ")
		return fill(fragment("list_events"), h)
	})
}
