package memory

import (
	"context"

	"github.com/seed4391e180/runlane/internal/cursor"
	"github.com/seed4391e180/runlane/run"
	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/codec"
)

// ListEvents implements [storage.Operator]. Hidden events take part in the page
// until the very end, so that the cursor moves past them.
func (d *Driver) ListEvents(ctx context.Context, f storage.EventFilter) (storage.EventPage, error) {
	if err := d.begin(ctx); err != nil {
		return storage.EventPage{}, err
	}
	defer d.running.Done()
	limit, err := d.limits.CheckEventFilter(f)
	if err != nil {
		return storage.EventPage{}, err
	}
	scope := cursor.Events(f)
	after, err := resume(scope, f.Cursor)
	if err != nil {
		return storage.EventPage{}, err
	}
	all, visible := d.events(f)
	rows, more := page(all, f.Direction, after, limit)
	result := storage.EventPage{Events: make([]run.Event, 0, len(rows))}
	for _, l := range rows {
		if visible[l.row.event.RunID] {
			e, _ := codec.DecodeEvent(l.row.record(l.key))
			result.Events = append(result.Events, e)
		}
	}
	if more {
		result.Next = scope.Encode(rows[len(rows)-1].at)
	}
	return result, nil
}

// events lists the events that the filter selects, in no order, and says which of
// their runs are visible.
func (d *Driver) events(f storage.EventFilter) (rows []listed, visible map[string]bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	visible = map[string]bool{}
	for key, r := range d.state.table(storage.RunEvents) {
		e := r.event
		if e == nil || e.Environment != f.Environment || !is(f.RunID, e.RunID) || !oneOf(f.Types, e.Type) || !within(f.Occurred, e.At) {
			continue
		}
		at := e.Sequence
		if f.Sort == storage.SortOccurred {
			at = e.At.UnixMicro()
		}
		rows = append(rows, listed{cursor.Position{At: at, ID: e.EventID.String()}, key, r})
		if _, known := visible[e.RunID]; !known {
			visible[e.RunID] = d.visible(e.Environment, e.RunID)
		}
	}
	return rows, visible
}

func (d *Driver) visible(environment, runID string) bool {
	key, err := codec.RunKey(environment, runID)
	if err != nil {
		return false
	}
	r := d.state.get(key)
	return r != nil && r.run != nil
}
