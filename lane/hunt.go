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
	worker     *worker
	began      time.Time // local
	luck       float64   // see capacity
	slots      int       // runs that may still be started
	room       int       // records that may still be read
	bytes      int       // of the documents that will be written
	full       bool      // there were more of them than fit
	drawn      int       // identifiers used
	time       time.Time
	scans      []scanned
	picks      []pick
	late       []step // runs that have failed, since it is too late to begin them
	capacities map[string]*capacity
}

// pick is one run of a hunt: read, and then as it will be written.
type pick struct {
	run    run.Run
	def    *definition // nil: the run is put off, since no handler is here
	record storage.Record

	queueSlot, keySlot int
}

// look asks the partitions, one after the other, until there is no room left.
func (h *hunt) look(ctx context.Context, tx storage.Tx, asked []*partition) error {
	for _, p := range asked {
		if h.slots <= 0 || h.room <= 0 {
			break
		}
		limit := min(h.room, max(h.slots, p.grown))
		q, kind := p.query(h.began, limit)
		page, err := tx.Query(ctx, q)
		if err != nil {
			return err
		}
		h.time = page.Time
		s := scanned{part: p, began: h.began, kind: kind, resumed: !q.Resume.IsZero(), limit: limit, resume: page.Resume, time: page.Time}
		h.room -= len(page.Records)
		runs := h.readable(&s, page.Records)
		capacity, err := h.capacity(ctx, tx, p.queue, runs)
		if err != nil {
			return err
		}
		if err := h.sort(&s, runs, capacity); err != nil {
			return err
		}
		h.scans = append(h.scans, s)
	}
	return nil
}

// readable decodes the records of a page, without those that are left alone.
func (h *hunt) readable(s *scanned, records []storage.Record) []run.Run {
	runs := make([]run.Run, 0, len(records))
	for _, rec := range records {
		r, kind := codec.DecodeRun(rec)
		if kind != codec.Canonical || !r.Status.Runnable() || h.worker.refused.has(rec.Key) {
			s.opaque++
			continue
		}
		s.sizes = append(s.sizes, len(rec.Document))
		runs = append(runs, r)
	}
	return runs
}

// capacity returns what is known of the slots of a queue, after a look at those of
// the runs; nil if the queue has no limits.
func (h *hunt) capacity(ctx context.Context, tx storage.Tx, queue string, runs []run.Run) (*capacity, error) {
	limits, limited := h.worker.lane.limits[queue]
	if !limited || len(runs) == 0 {
		return nil, nil
	}
	c := h.capacities[queue]
	if c == nil {
		c = &capacity{queue: queue, limits: limits, luck: h.luck, free: map[string][]int{}}
		if h.capacities == nil {
			h.capacities = map[string]*capacity{}
		}
		h.capacities[queue] = c
	}
	return c, c.look(ctx, tx, h.worker.lane.env, runs)
}

// sort decides what becomes of each run of a page.
func (h *hunt) sort(s *scanned, runs []run.Run, free *capacity) error {
	w := h.worker
	for i := range runs {
		r := &runs[i]
		if h.full = h.bytes > 0 && h.bytes+s.sizes[i] > w.byteCap; h.full || h.slots <= 0 {
			s.left = r.Due
			h.room = 0
			return nil
		}
		def := w.lane.task(r.Task)
		switch {
		case tooLate(r, h.time):
			if err := h.fail(r); err != nil {
				return err
			}
			s.taken++
		case def == nil:
			s.unknown++
			s.taken++
			h.picks = append(h.picks, pick{run: *r})
		default:
			queueSlot, keySlot, ok := free.take(r)
			if !ok {
				s.blocked++
				if free.spent() {
					s.resume = storage.Resume{} // the others of the queue wait too
					return nil
				}
				continue
			}
			s.started++
			s.taken++
			h.slots--
			h.picks = append(h.picks, pick{run: *r, def: def, queueSlot: queueSlot, keySlot: keySlot})
		}
		h.bytes += s.sizes[i]
	}
	return nil
}

// tooLate reports whether a run that no worker has begun must not be begun any more.
func tooLate(r *run.Run, now time.Time) bool {
	return r.Attempts == 0 && !r.LatestStart.IsZero() && now.After(r.LatestStart)
}

func (h *hunt) fail(r *run.Run) error {
	s, err := h.worker.lane.newStep(r, h.id(), h.time, run.Failed{Failure: run.Failure{
		Code:    CodeTooLate,
		Message: "no worker began the run in time",
	}})
	if err != nil {
		return h.refuse(r, err)
	}
	h.late = append(h.late, s)
	return nil
}

// stage writes every pick as running, or as put off if nobody here knows its task.
func (h *hunt) stage(ctx context.Context, tx storage.Tx) error {
	for i := range h.picks {
		p := &h.picks[i]
		if err := h.stageOne(ctx, tx, p); err != nil {
			return h.refuse(&p.run, err)
		}
	}
	return stageAll(ctx, tx, h.late)
}

// refuse says which run an error is about, if trying it again is of no use.
func (h *hunt) refuse(r *run.Run, err error) error {
	if !refused(err) {
		return err
	}
	key, keyErr := codec.RunKey(r.Environment, r.ID)
	return &refusedRun{key, errors.Join(err, keyErr)}
}

func (h *hunt) stageOne(ctx context.Context, tx storage.Tx, p *pick) error {
	var data run.EventData = run.Released{Due: h.time.Add(unknownTaskDelay), Reason: string(SkipUnknownTask)}
	if p.def != nil {
		data = run.Started{Lease: run.Lease{
			Token:     h.id(),
			Worker:    h.worker.cfg.Name,
			Attempt:   p.run.Attempts + 1,
			Expires:   h.time.Add(h.worker.cfg.Lease),
			Duration:  h.worker.cfg.Lease,
			QueueSlot: p.queueSlot,
			KeySlot:   p.keySlot,
		}}
	}
	event := h.event(&p.run, data)
	next, err := run.Reduce(&p.run, event.Sequence, event)
	if err != nil {
		return err
	}
	p.run = next
	if p.record, err = codec.EncodeRun(next); err != nil {
		return err
	}
	log, err := codec.EncodeEvent(event)
	if err != nil {
		return err
	}
	if err := tx.Replace(ctx, p.record); err != nil {
		return err
	}
	if err := tx.Create(ctx, log); err != nil || next.Lease == nil {
		return err
	}
	slots, err := slotRecords(&next)
	if err != nil {
		return err
	}
	for _, rec := range slots {
		if err := tx.Create(ctx, rec); err != nil {
			return err
		}
	}
	return nil
}

func (h *hunt) event(r *run.Run, data run.EventData) run.Event {
	return run.Event{ID: h.id(), Environment: r.Environment, RunID: r.ID, Sequence: r.Sequence + 1, At: h.time, Data: data}
}

func (h *hunt) id() uuid.UUID {
	h.drawn++
	return h.worker.ids.spare[h.drawn-1]
}
