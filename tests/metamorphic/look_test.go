package metamorphic_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/codec"
)

// changes reads records and says which are not what they were.
func (p *player) changes(ctx context.Context, names []string) {
	keys := make([]storage.Key, len(names))
	for i, name := range names {
		keys[i] = p.world.keys[name]
	}
	recs, _, err := storage.Transact(ctx, p.store, "changes", func(ctx context.Context, tx storage.Tx) (map[storage.Key]storage.Record, error) {
		return tx.GetMany(ctx, keys)
	})
	if err != nil {
		p.say("  reading back failed:", err)
		return
	}
	for i, name := range names {
		rec, was := recs[keys[i]], p.last[name]
		if rec.Version != was.Version {
			p.before[name] = was
			p.say("  now", name, found{rec, !rec.Version.IsZero()})
		} else if string(rec.Document) != string(was.Document) {
			p.say("  has changed under its version:", name, rec, "was", was)
		}
		p.last[name] = rec
	}
}

// look reads what is committed in one of the ways there are.
func (p *player) look(ctx context.Context, l look) {
	switch l.At {
	case "run":
		p.lookAtRun(ctx, l)
	case "runs":
		p.lookAtRuns(ctx, l)
	case "events":
		p.lookAtEvents(ctx, l)
	case "index":
		p.lookAtIndex(ctx, l)
	}
}

func (p *player) lookAtRun(ctx context.Context, l look) {
	r, ok, err := p.store.GetRun(ctx, p.world.environments[l.Environment], runID(l.Run))
	switch {
	case err != nil:
		p.say("  run", l.Environment, runID(l.Run), err)
	case !ok:
		p.say("  run", l.Environment, runID(l.Run), "none")
	default:
		rec, err := codec.EncodeRun(r)
		if err != nil {
			p.say("  run", l.Environment, runID(l.Run), "cannot be encoded again:", err)
			return
		}
		p.say("  run", l.Environment, runID(l.Run), p.names.document(rec.Document, false))
	}
}

func (p *player) lookAtRuns(ctx context.Context, l look) {
	f := storage.RunFilter{
		Environment: p.world.environments[l.Environment], Sort: storage.RunSort(l.Sort), Direction: direction(l.Down), Limit: p.manner.page,
	}
	filters[l.Filter](&f)
	if within := [...]*storage.TimeRange{&f.Created, &f.Updated, &f.Due}[f.Sort]; within.IsZero() { // else most filters are refused
		*within = storage.TimeRange{From: time.Unix(0, 0), Until: time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)}
	}
	p.say("  runs", asJSON(l))
	for {
		page, err := p.store.ListRuns(ctx, f)
		if err != nil {
			p.say("   ", err)
			return
		}
		for _, item := range page.Runs {
			p.say("   ", p.names.plain(p.summary(item), false))
		}
		if f.Cursor = page.Next; f.Cursor == "" {
			return
		}
	}
}

// summary spells a listed run.
func (p *player) summary(item storage.RunItem) string {
	s := item.RunSummary
	text := fmt.Sprint(s.Environment, " ", s.ID, " ", s.Task, " ", s.Queue, " ", s.Status, " ", s.Priority)
	for _, at := range []time.Time{s.Created, s.Updated, s.Due, s.LeaseExpires} {
		if at.IsZero() {
			text += ", no time"
		} else {
			text += ", " + at.Format(storage.TimeFormat)
		}
	}
	text += fmt.Sprintf(", %q %q %q %s %q %q", s.IdempotencyKey, s.SingletonKey, s.ConcurrencyKey, s.SourceType, s.SourceRun, s.Schedule)
	if item.Run != nil {
		rec, err := codec.EncodeRun(*item.Run)
		if err != nil {
			return text + " cannot be encoded again: " + err.Error()
		}
		text += " " + p.names.document(rec.Document, false)
	}
	return text
}

func (p *player) lookAtEvents(ctx context.Context, l look) {
	f := storage.EventFilter{Environment: p.world.environments[l.Environment], Direction: direction(l.Down), Limit: p.manner.page}
	if l.Run < runCount {
		f.RunID = runID(l.Run)
	}
	if f.Sort = storage.EventSort(l.Sort % 2); f.RunID == "" {
		f.Sort = storage.SortOccurred
	}
	p.say("  events", asJSON(l))
	for {
		page, err := p.store.ListEvents(ctx, f)
		if err != nil {
			p.say("   ", err)
			return
		}
		for _, e := range page.Events {
			rec, err := codec.EncodeEvent(e)
			if err != nil {
				p.say("    an event cannot be encoded again:", err)
				continue
			}
			p.say("   ", rec.Key, p.names.document(rec.Document, false))
		}
		if f.Cursor = page.Next; f.Cursor == "" {
			return
		}
	}
}

func (p *player) lookAtIndex(ctx context.Context, l look) {
	recs, _, err := storage.Transact(ctx, p.store, "look", func(ctx context.Context, tx storage.Tx) ([]storage.Record, error) {
		a := newAttempt(p, &transaction{}, tx, p.store, 1, "look")
		a.ctx = ctx
		return a.all(p.world.query(*l.Query))
	})
	if err != nil {
		p.say("  index", l.Query.name(), err)
		return
	}
	p.say("  index", storage.Indexes()[l.Query.Index].String(), l.Query.name(), recs)
}

func direction(down bool) storage.Direction {
	if down {
		return storage.Descending
	}
	return storage.Ascending
}

// lookAtAll reads every record, and half of everything else: the seed decides which,
// and in which direction.
func (p *player) lookAtAll(ctx context.Context, seed uint64) {
	p.changes(ctx, p.world.names)
	r := rand.New(rand.NewPCG(seed, 0x6c6f6f6b))
	var looks []look
	for _, e := range environmentNames {
		for i := range runCount {
			looks = append(looks, look{At: "run", Environment: e, Run: i}, look{At: "events", Environment: e, Run: i, Sort: r.IntN(2), Down: r.IntN(2) == 0})
		}
		looks = append(looks, look{At: "events", Environment: e, Run: runCount, Down: r.IntN(2) == 0})
		for sort := range 3 {
			looks = append(looks, look{At: "runs", Environment: e, Sort: sort, Down: r.IntN(2) == 0, Filter: r.IntN(len(filters))})
		}
	}
	for _, l := range looks {
		if r.IntN(2) == 0 {
			p.look(ctx, l)
		}
	}
	p.lookAtIndexes(ctx, r)
}

// lookAtIndexes reads half of the partitions of indexes to their end, in one
// transaction.
func (p *player) lookAtIndexes(ctx context.Context, r *rand.Rand) {
	var queries []query
	for _, e := range environmentNames {
		for i, index := range storage.Indexes() {
			for part := range p.world.partitions(e, index) {
				if r.IntN(2) == 0 {
					queries = append(queries, query{Environment: e, Index: i, Part: part, Down: r.IntN(2) == 0})
				}
			}
		}
	}
	pages, _, err := storage.Transact(ctx, p.store, "look", func(ctx context.Context, tx storage.Tx) ([][]storage.Record, error) {
		a := newAttempt(p, &transaction{}, tx, p.store, 1, "look")
		a.ctx = ctx
		pages := make([][]storage.Record, len(queries))
		for i, q := range queries {
			var err error
			if pages[i], err = a.all(p.world.query(q)); err != nil {
				return nil, err
			}
		}
		return pages, nil
	})
	if err != nil {
		p.say("  reading the indexes failed:", err)
		return
	}
	for i, q := range queries {
		if len(pages[i]) > 0 {
			p.say("  index", storage.Indexes()[q.Index].String(), q.name(), pages[i])
		}
	}
}
