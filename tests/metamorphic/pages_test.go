package metamorphic_test

import (
	"fmt"

	"github.com/seed4391e180/runlane/storage"
)

func (q *query) name() string { return asJSON(q) }

// page reads one page. "more" goes on where the same page ended last, in this
// transaction or an earlier one, whatever has become of the record there.
func (a *attempt) page(o op) error {
	q := a.p.world.query(*o.Query)
	name := o.Query.name()
	if o.As == "more" {
		resume, ok := a.resumes[name]
		if !ok {
			resume = a.p.resumes[name]
		}
		q.Resume = resume
	}
	page, err := a.tx.Query(a.ctx, q)
	if err != nil {
		return a.settle("page "+name, err)
	}
	a.resumes[name] = page.Resume
	a.lock(q, page.Records)
	a.say("page", o.As, name, page.Records, fmt.Sprintf("more: %t", !page.Resume.IsZero()))
	return nil
}

// walk reads an index to its end, in pages of whatever size.
func (a *attempt) walk(o op) error {
	recs, err := a.all(a.p.world.query(*o.Query))
	if err != nil {
		return a.settle("walk "+o.Query.name(), err)
	}
	a.say("walk", o.Query.name(), recs)
	return nil
}

func (a *attempt) all(q storage.Query) ([]storage.Record, error) {
	var all []storage.Record
	q.Limit = a.p.manner.page
	for {
		page, err := a.tx.Query(a.ctx, q)
		if err != nil {
			return nil, err
		}
		all = append(all, page.Records...)
		if page.Resume.IsZero() {
			a.lock(q, all)
			return all, nil
		}
		q.Resume = page.Resume
	}
}

// lock remembers what an exclusive query returned: it counts as read.
func (a *attempt) lock(q storage.Query, recs []storage.Record) {
	if q.Lock != storage.Exclusive {
		return
	}
	a.locked = recs
	for _, rec := range recs {
		a.read[a.p.world.show(rec.Key)] = true
	}
}

// claim takes due runs as a worker does: an exclusive page, its time, and for each
// run an event.
func (a *attempt) claim(o op) error {
	q := a.p.world.query(*o.Query)
	page, err := a.tx.Query(a.ctx, q)
	if err != nil {
		return a.settle("claim", err)
	}
	a.lock(q, page.Records)
	a.say("claim", o.Query.name(), page.Records)
	if err := a.seal(); err != nil {
		return err
	}
	for i, rec := range page.Records {
		if i >= len(o.Keys) {
			return nil
		}
		if err := a.happen(rec, a.p.world.show(rec.Key), o.Keys[i], o.Write); err != nil {
			return err
		}
	}
	return nil
}

// writeLocked writes over, or deletes, what the last exclusive page returned, without
// another read.
func (a *attempt) writeLocked(o op) error {
	if len(a.locked) == 0 {
		a.say("locked: nothing")
		return nil
	}
	key := a.locked[0].Key
	name := a.p.world.show(key)
	if o.As == "delete" || a.p.world.keys[name] != key { // no content is drawn for what a stream has grown by
		err := a.tx.Delete(a.ctx, key)
		return a.staged("delete locked", name, storage.Record{}, err)
	}
	rec := a.p.world.record(name, &content{As: "opaque", Document: o.Write.Document, Entry: o.Write.Entry, Number: o.Write.Number, Due: o.Write.Due})
	return a.staged("replace locked", name, rec, a.tx.Replace(a.ctx, rec))
}
