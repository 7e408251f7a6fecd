package lane

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/seed4391e180/runlane/run"
	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/codec"
)

// hunt is one attempt of a claim's transaction: it looks for due runs, then
// stages what becomes of them. The exclusive queries have locked them, so the
// time of the last page is later than everything that happened to them, and
// serves as the time of all events.
type hunt struct {
	worker *worker
	began  time.Time // local
	slots  int       // runs that may still be started
	room   int       // records that may still be read
	bytes  int       // of the documents that will be written
	full   bool      // there were more of them than fit
	drawn  int       // identifiers used
	time   time.Time
	scans  []scanned
	picks  []pick
}

// pick is one run of a hunt: read, and then as it will be written.
type pick struct {
	run    run.Run
	def    *definition // nil: no handler here
	record storage.Record
}

// look asks the partitions, one after the other, until there is no room left.
func (h *hunt) look(ctx context.Context, tx storage.Tx, asked []*partition) error {
	for _, p := range asked {
		if h.slots <= 0 || h.room <= 0 {
			break
		}
		limit := min(h.room, max(h.slots, p.grown))
		q, full := p.query(h.began, limit)
		page, err := tx.Query(ctx, q)
		if err != nil {
			return err
		}
		h.time = page.Time
		s := scanned{part: p, began: h.began, full: full, limit: limit, resume: page.Resume, time: page.Time}
		h.sort(&s, page.Records)
		h.scans = append(h.scans, s)
	}
	return nil
}

// sort decides what becomes of each record of a page.
func (h *hunt) sort(s *scanned, records []storage.Record) {
	w := h.worker
	h.room -= len(records)
	for _, rec := range records {
		r, kind := codec.DecodeRun(rec)
		if kind != codec.Canonical || !r.Status.Runnable() || w.refused.has(rec.Key) {
			s.opaque++
			continue
		}
		if h.full = h.bytes > 0 && h.bytes+len(rec.Document) > w.byteCap; h.full || h.slots <= 0 {
			s.left = r.Due
			h.room = 0
			return
		}
		def := w.lane.task(r.Task)
		if def == nil {
			s.unknown++
		} else {
			s.started++
			h.slots--
		}
		s.taken++
		h.bytes += len(rec.Document)
		h.picks = append(h.picks, pick{run: r, def: def})
	}
}

// stage writes every pick as running, or as released if nobody here knows its task.
func (h *hunt) stage(ctx context.Context, tx storage.Tx) error {
	for i := range h.picks {
		p := &h.picks[i]
		err := h.stageOne(ctx, tx, p)
		if err != nil && refused(err) {
			key, keyErr := codec.RunKey(p.run.Environment, p.run.ID)
			return &refusedRun{key, errors.Join(err, keyErr)}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (h *hunt) stageOne(ctx context.Context, tx storage.Tx, p *pick) error {
	token := h.id()
	events := make([]run.Event, 1, 2)
	events[0] = h.event(&p.run, 1, run.Started{Lease: run.Lease{
		Token:    token,
		Worker:   h.worker.cfg.Name,
		Attempt:  p.run.Attempts + 1,
		Expires:  h.time.Add(h.worker.cfg.Lease),
		Duration: h.worker.cfg.Lease,
	}})
	if p.def == nil {
		events = append(events, h.event(&p.run, 2, run.Released{
			Token:  token,
			Due:    h.time.Add(unknownTaskDelay),
			Reason: string(SkipUnknownTask),
		}))
	}
	next, err := run.Reduce(&p.run, p.run.Sequence+1, events...)
	if err != nil {
		return err
	}
	p.run = next
	if p.record, err = codec.EncodeRun(next); err != nil {
		return err
	}
	if err := tx.Replace(ctx, p.record); err != nil {
		return err
	}
	for _, e := range events {
		rec, err := codec.EncodeEvent(e)
		if err != nil {
			return err
		}
		if err := tx.Create(ctx, rec); err != nil {
			return err
		}
	}
	return nil
}

func (h *hunt) event(r *run.Run, step int64, data run.EventData) run.Event {
	return run.Event{ID: h.id(), Environment: r.Environment, RunID: r.ID, Sequence: r.Sequence + step, At: h.time, Data: data}
}

func (h *hunt) id() uuid.UUID {
	h.drawn++
	return h.worker.ids.spare[h.drawn-1]
}

// idPool holds identifiers that were drawn before a transaction. Those that it did
// not need serve the next one: an idle worker draws none.
type idPool struct {
	draw  func() uuid.UUID
	spare []uuid.UUID
}

// fill makes sure that there are n.
func (p *idPool) fill(n int) {
	for len(p.spare) < n {
		p.spare = append(p.spare, p.draw())
	}
}

// use takes away the first n, which a transaction has stored.
func (p *idPool) use(n int) { p.spare = p.spare[:copy(p.spare, p.spare[n:])] }

// drop takes away all: a transaction that failed may have stored some of them.
func (p *idPool) drop() { p.spare = p.spare[:0] }

// refusedRun ends a claim because the store, or the reducer, does not accept what
// would become of one run.
type refusedRun struct {
	key storage.Key
	err error
}

func (e *refusedRun) Error() string { return e.err.Error() }
func (e *refusedRun) Unwrap() error { return e.err }

// refusedRuns remembers such runs, so that they do not stand in the way of the
// others for ever.
type refusedRuns map[storage.Key]struct{}

func (r refusedRuns) has(key storage.Key) bool {
	_, ok := r[key]
	return ok
}

func (r *refusedRuns) add(key storage.Key) {
	const enough = 10_000 // beyond which they are tried again rather than remembered
	if *r == nil || len(*r) >= enough {
		*r = refusedRuns{}
	}
	(*r)[key] = struct{}{}
}
