package lane

import (
	"context"
	"errors"
	"runtime"
	"time"

	"github.com/seed4391e180/runlane/run"
	"github.com/seed4391e180/runlane/storage"
)

// finishers is how many transactions of a worker store outcomes at once. Outcomes
// that arrive while they are busy travel together in the next one, so there is no
// timer, and no delay for an outcome that is alone.
const finishers = 2

func (w *worker) signalFinisher() {
	select {
	case w.signal <- struct{}{}:
	default:
	}
}

// finish stores outcomes until ctx ends.
func (w *worker) finish(ctx context.Context) {
	for {
		select {
		case <-w.signal:
		case <-ctx.Done():
			return
		}
		// Handlers that are about to return may do so first and share the transaction.
		runtime.Gosched()
		for batch := w.take(); len(batch) > 0; batch = w.take() {
			w.send(ctx, batch)
		}
	}
}

// take returns the outcomes that one transaction can store.
func (w *worker) take() []*ending {
	w.mu.Lock()
	defer w.mu.Unlock()
	size, locks, n := 0, 0, 0
	for n < len(w.endings) && n < maxBatch {
		e := w.endings[n]
		size += e.plan.size()
		locks += e.plan.locks() + 2*waits(e)
		if n > 0 && (size > w.byteCap || locks > maxKeys) {
			break
		}
		n++
	}
	batch := w.endings[:n:n]
	w.endings = w.endings[n:]
	if len(w.endings) == 0 {
		w.endings = nil
	} else {
		w.signalFinisher()
	}
	return batch
}

// send stores a batch. If that fails for another reason than that the store
// cannot be reached, the batch is halved until whatever is to blame is alone; what
// can be tried again is, until its lease is over.
func (w *worker) send(ctx context.Context, batch []*ending) {
	for failures := 1; len(batch) > 0; failures++ {
		fates, err := w.commit(ctx, batch)
		if err == nil {
			var ended []string
			for i, e := range batch {
				if fates[i].awaited {
					ended = append(ended, e.claim.id)
				}
			}
			w.resume(ended)
			for i, e := range batch {
				w.settle(e, fates[i])
			}
			return
		}
		w.lane.log.Debug("storing outcomes failed", "worker", w.cfg.Name, "runs", len(batch), "error", err)
		unknown := errors.Is(err, storage.ErrCommitUnknown)
		unreachable := unknown || errors.Is(err, storage.ErrUnavailable) || errors.Is(err, context.DeadlineExceeded)
		switch {
		case errors.Is(err, storage.ErrClosed) || errors.Is(err, storage.ErrConfiguration):
			w.giveUp(batch, err)
			return
		case len(batch) > 1 && !unreachable:
			w.send(ctx, batch[:len(batch)/2])
			w.send(ctx, batch[len(batch)/2:])
			return
		case refused(err) && !w.demote(batch[0], err):
			w.giveUp(batch, err)
			return
		}
		for _, e := range batch {
			e.unknown = e.unknown || unknown
		}
		if !pause(ctx, w.retryPause(failures)) {
			return // Work is over; it counts what is left
		}
		batch = w.inTime(batch)
	}
}

// commit stores a batch in one transaction and returns the fate of each.
func (w *worker) commit(ctx context.Context, batch []*ending) ([]fate, error) {
	w.markSending(batch, true) // so that heartbeats leave it alone
	defer w.markSending(batch, false)
	ctx, cancel := context.WithTimeout(ctx, w.cfg.Lease)
	defer cancel()
	attempt := 0
	fates, _, err := storage.Transact(ctx, w.lane.store, "run.finish", func(ctx context.Context, tx storage.Tx) ([]fate, error) {
		attempt++
		held, err := w.lane.readForEndings(ctx, tx, batch, attempt > 1)
		if err != nil {
			return nil, err
		}
		fates := make([]fate, len(batch))
		for i, e := range batch {
			if fates[i], err = e.stage(ctx, tx, w.lane, held); err != nil {
				return nil, err
			}
		}
		return fates, nil
	})
	return fates, err
}

func (w *worker) markSending(batch []*ending, sending bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range batch {
		e.claim.sending = sending
		e.record = e.claim.record
	}
}

// waits is 1 for an ending that asks to wait for another run.
func waits(e *ending) int {
	if e.outcome.kind == kindWaiting {
		return 1
	}
	return 0
}

// readForEndings reads, in one round trip, the owners and slots that the endings may
// free and the runs that they ask to wait for. When the transaction runs again, all
// is read along that was assumed: it did not hold.
func (l *Lane) readForEndings(ctx context.Context, tx storage.Tx, batch []*ending, again bool) (map[storage.Key]storage.Record, error) {
	var wanted []storage.Key
	for _, e := range batch {
		if !again {
			wanted = append(wanted, e.plan.freed...)
		} else {
			wanted = append(append(wanted, e.plan.reads()...), e.record.Key)
		}
		if waits(e) > 0 {
			keys, err := l.sourceKeys(e.outcome.source)
			if err != nil {
				return nil, err
			}
			wanted = append(wanted, keys...)
		}
	}
	if len(wanted) == 0 {
		return nil, nil
	}
	return tx.GetMany(ctx, wanted)
}

// demote turns a result that the store refuses into a failure; it reports whether
// there is something else to try.
func (w *worker) demote(e *ending, cause error) bool {
	if e.outcome.kind == kindFailed {
		return false
	}
	w.mu.Lock()
	r, base := e.claim.run, e.claim.record.Version
	w.mu.Unlock()
	out := w.failed(e.claim, e.outcome.refusal(), cause.Error(), "", true)
	p, err := w.lane.newPlan(e.claim, &out, &r, base)
	if err != nil {
		return false
	}
	e.outcome, e.plan = out, p
	return true
}

// inTime returns the endings whose lease is not over yet and settles the others.
func (w *worker) inTime(batch []*ending) []*ending {
	now := time.Now()
	var live, late []*ending
	w.mu.Lock()
	for _, e := range batch {
		if now.Before(w.expires(e.claim)) {
			live = append(live, e)
		} else {
			late = append(late, e)
		}
	}
	w.mu.Unlock()
	for _, e := range late {
		w.settle(e, lost)
	}
	return live
}

func (w *worker) giveUp(batch []*ending, err error) {
	w.lane.log.Error("outcomes cannot be stored", "worker", w.cfg.Name, "runs", len(batch), "first", batch[0].claim.id, "error", err)
	for _, e := range batch {
		w.settle(e, lost)
	}
}

// settle ends this worker's part in a run.
func (w *worker) settle(e *ending, f fate) {
	c := e.claim
	now := time.Now()
	w.mu.Lock()
	delete(w.held, c)
	w.finishing--
	w.expect(c, f, e.outcome.delay, now)
	w.mu.Unlock()
	c.cancel(nil)
	w.nudge()
	done := Finish{RunID: c.id, Task: c.def.name, Queue: c.attempt.Queue, Attempt: c.attempt.Number, Took: now.Sub(c.began)}
	done.Outcome, done.Code = outcomeOf(f.event)
	if done.Outcome == OutcomeLost {
		w.lane.log.Warn("outcome discarded: the lease is lost", "run", c.id, "task", c.def.name)
	}
	if w.lane.hooks.Finished != nil {
		w.lane.hooks.Finished(done)
	}
}

// expect asks again when the run that was given back is due, and for those that its
// slots are free for. The caller holds w.mu.
func (w *worker) expect(c *claim, f fate, delay time.Duration, now time.Time) {
	_, retried := f.event.(run.RetryScheduled)
	_, released := f.event.(run.Released)
	due := f.due || (retried || released) && delay < w.cfg.PollInterval
	slots := c.slotted && f.event != nil
	for _, part := range w.parts {
		if part.queue != c.attempt.Queue {
			continue
		}
		if slots {
			part.askAt(now)
		}
		if due && part.priority == c.attempt.Priority {
			if delay > 0 {
				delay += time.Millisecond // both clocks only measure it; this covers their difference
			}
			part.askAt(now.Add(delay))
		}
	}
}

// resume resumes, beside everything else, the runs that wait for those that ended.
func (w *worker) resume(ended []string) {
	if len(ended) == 0 {
		return
	}
	w.mu.Lock()
	w.resuming++
	w.mu.Unlock()
	w.beside.Go(func() {
		defer func() {
			w.mu.Lock()
			w.resuming--
			w.active = true
			w.mu.Unlock()
			w.askAgain(w.parts, time.Now())
			w.nudge()
		}()
		if err := w.lane.resumeWaiters(w.keep, ended); err != nil && w.keep.Err() == nil {
			w.lane.log.Warn("resuming runs failed; Tick will resume them", "worker", w.cfg.Name, "error", err)
		}
	})
}

// settleLate tells of runs that failed because it was too late to begin them.
func (w *worker) settleLate(late []step) {
	w.resume(awaited(late))
	if w.lane.hooks.Finished == nil {
		return
	}
	for i := range late {
		r := &late[i].run
		w.lane.hooks.Finished(Finish{RunID: r.ID, Task: r.Task, Queue: r.Queue, Outcome: OutcomeFailed, Code: r.Failure.Code})
	}
}

func outcomeOf(event run.EventData) (Outcome, string) {
	switch e := event.(type) {
	case run.Succeeded:
		return OutcomeSucceeded, ""
	case run.RetryScheduled:
		return OutcomeRetried, e.Failure.Code
	case run.Failed:
		return OutcomeFailed, e.Failure.Code
	case run.Released:
		return OutcomeReleased, ""
	case run.Waiting:
		return OutcomeWaiting, ""
	case run.Cancelled:
		return OutcomeCancelled, ""
	}
	return OutcomeLost, ""
}
