package memory

import (
	"context"
	"time"

	"github.com/seed4391e180/runlane/storage"
)

// Query implements [storage.Tx].
func (a *attempt) Query(ctx context.Context, q storage.Query) (page storage.Page, err error) {
	defer a.note(&err)
	if err := a.usable(ctx); err != nil {
		return storage.Page{}, err
	}
	q, err = a.driver.limits.CheckQuery(q)
	if err != nil {
		return storage.Page{}, err
	}
	if q.Lock == storage.Exclusive {
		// How many of the page are new is known only after they are locked, and then it
		// is too late to refuse.
		if err := a.room(q.Limit); err != nil {
			return storage.Page{}, err
		}
	}
	first := !a.used || !a.pageTime.IsZero()
	a.noteRead()
	page, stale := a.scan(q)
	if stale != nil {
		return storage.Page{}, a.stale(stale)
	}
	if first && q.Lock == storage.Exclusive {
		a.pageTime = page.Time
	}
	return page, nil
}

// scan reads the page and, if the query asks for it, locks it: exactly the records
// that it returns.
func (a *attempt) scan(q storage.Query) (page storage.Page, stale *replay) {
	d := a.driver
	d.mu.Lock()
	defer d.mu.Unlock()
	var last indexItem
	d.state.walk(q.Index, q.Direction, spanOf(q, d.now()), func(item indexItem) bool {
		if q.Lock == storage.Exclusive && !d.locks.try(a, item.key, exclusive) {
			return true
		}
		rec := d.state.get(item.key).record(item.key)
		if q.Lock == storage.Exclusive {
			if stale = a.carry(rec); stale != nil {
				return false
			}
		}
		page.Records = append(page.Records, rec)
		last = item
		return len(page.Records) < q.Limit
	})
	if len(page.Records) == q.Limit {
		page.Resume = storage.Resume{Sort: last.sort, ID: last.key.ID}
	}
	page.Time = d.now()
	return page, stale
}

// span is the part of one partition of an index that a query covers.
type span struct {
	partition   string
	from, until string // "" is no bound
	after       position
}

func spanOf(q storage.Query, now time.Time) span {
	bound := func(b storage.Bound) string {
		if b.IsServerNow() {
			// Just after every time up to now: times are whole microseconds.
			return sortTime(now.Add(time.Microsecond))
		}
		return b.Sort()
	}
	return span{partition: q.Partition, from: bound(q.From), until: bound(q.Until), after: position(q.Resume)}
}

// walk visits the entries of the span in the given direction until visit returns false.
func (s *state) walk(index storage.Index, direction storage.Direction, span span, visit func(indexItem) bool) {
	tree := s.indexes[s.place[index]]
	resumed := span.after != position{}
	if direction == storage.Ascending {
		begin := indexItem{partition: span.partition, sort: max(span.from, span.after.Sort)}
		tree.AscendGreaterOrEqual(begin, func(item indexItem) bool {
			switch {
			case item.partition != span.partition || span.until != "" && item.sort >= span.until:
				return false
			case resumed && item.position().compare(span.after) <= 0:
				return true
			}
			return visit(item)
		})
		return
	}
	// The first entry must stand before begin, which is no entry itself: a key has an
	// id and a partition. Nothing sorts between a partition and itself with a zero byte.
	begin := indexItem{partition: span.partition + "\x00"}
	switch {
	case resumed && (span.until == "" || span.after.Sort < span.until):
		begin = indexItem{partition: span.partition, sort: span.after.Sort, key: storage.Key{ID: span.after.ID}}
	case span.until != "":
		begin = indexItem{partition: span.partition, sort: span.until}
	}
	tree.DescendLessOrEqual(begin, func(item indexItem) bool {
		if item.partition != span.partition || item.sort < span.from {
			return false
		}
		return visit(item)
	})
}

// carry gives a record that was locked by a query to later point reads. What the
// attempt knew of it before must still hold.
func (a *attempt) carry(rec storage.Record) *replay {
	k := a.keys[rec.Key]
	switch {
	case k == nil:
		a.keys[rec.Key] = &keyState{known: true, base: rec, seen: true, carried: true}
	case !k.known:
		return &replay{reason: storage.ReasonExists, key: rec.Key}
	case k.base.Version != rec.Version:
		return &replay{reason: storage.ReasonChanged, key: rec.Key}
	default:
		k.seen = true
	}
	return nil
}
