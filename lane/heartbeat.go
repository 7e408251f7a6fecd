package lane

import (
	"context"
	"errors"
	"time"

	"github.com/seed4391e180/runlane/run"
	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/codec"
)

// heartbeats renews the leases of the runs that this worker holds, until ctx
// ends, and takes from the handlers those runs whose leases are over.
func (w *worker) heartbeats(ctx context.Context) {
	wait := w.cfg.Heartbeat
	for pause(ctx, w.untilExpiry(wait)) {
		w.loseExpired()
		wait = w.cfg.Heartbeat
		for _, batch := range w.toRenew() {
			if !w.renew(ctx, batch) {
				wait = w.cfg.Heartbeat / 4 // sooner than usual: there is time for several more
				w.loseExpired()            // it may have taken long
			}
		}
	}
}

// untilExpiry is the time until the first lease ends, at most the given one.
func (w *worker) untilExpiry(most time.Duration) time.Duration {
	now := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	for c := range w.held {
		if !c.sending {
			most = min(most, w.expires(c).Sub(now))
		}
	}
	return max(most, time.Millisecond)
}

// loseExpired gives up the runs whose leases ended without a renewal: as far as
// this worker knows, somebody else has them.
func (w *worker) loseExpired() {
	now := time.Now()
	w.mu.Lock()
	var expired []*claim
	for c := range w.held {
		if !now.Before(w.expires(c)) && !c.sending {
			expired = append(expired, c)
		}
	}
	w.mu.Unlock()
	for _, c := range expired {
		w.lose(c)
	}
}

// lose takes a run from its handler. An outcome that is on its way is left to the
// finisher, which finds out by itself.
func (w *worker) lose(c *claim) {
	w.mu.Lock()
	running := !c.over
	c.over = true
	delete(w.held, c)
	w.mu.Unlock()
	if !running {
		return
	}
	c.cancel(ErrLeaseLost)
	w.lane.log.Warn("lease lost", "worker", w.cfg.Name, "run", c.id, "task", c.def.name)
	if w.lane.hooks.Finished != nil {
		w.lane.hooks.Finished(Finish{
			RunID: c.id, Task: c.def.name, Queue: c.attempt.Queue, Attempt: c.attempt.Number,
			Outcome: OutcomeLost, Took: time.Since(c.began),
		})
	}
}

// renewal is one lease in a heartbeat.
type renewal struct {
	claim  *claim
	run    run.Run
	record storage.Record
}

// toRenew returns the leases that are to be renewed now, in batches. A lease that
// is younger than half a heartbeat can wait for the next one: most runs end first.
func (w *worker) toRenew() (batches [][]renewal) {
	now := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	var batch []renewal
	size := 0
	for c := range w.held {
		if c.sending || now.Sub(c.renewed) < w.cfg.Heartbeat/2 {
			continue
		}
		if len(batch) == maxBatch || len(batch) > 0 && size+len(c.record.Document) > w.byteCap {
			batches = append(batches, batch)
			batch, size = nil, 0
		}
		batch = append(batch, renewal{c, c.run, c.record})
		size += len(c.record.Document)
	}
	if len(batch) > 0 {
		batches = append(batches, batch)
	}
	return batches
}

// renewed is what a heartbeat found of one lease; found is false if it is lost.
type renewed struct {
	run    run.Run
	record storage.Record
	found  bool
}

// renew renews a batch in one transaction. A batch that fails is halved until
// whatever is to blame is alone. It reports whether all went well.
func (w *worker) renew(ctx context.Context, batch []renewal) bool {
	began := time.Now()
	results, commit, err := w.sendRenewal(ctx, batch)
	if err == nil {
		for i := range results {
			if results[i].found {
				w.noteRenewal(batch[i].claim, &results[i], commit, began)
			} else {
				w.lose(batch[i].claim)
			}
		}
		return true
	}
	unreachable := errors.Is(err, storage.ErrUnavailable) || errors.Is(err, storage.ErrCommitUnknown) ||
		errors.Is(err, storage.ErrClosed) || errors.Is(err, context.DeadlineExceeded)
	if half := len(batch) / 2; half > 0 && !unreachable && ctx.Err() == nil {
		first, second := w.renew(ctx, batch[:half]), w.renew(ctx, batch[half:])
		return first && second
	}
	w.lane.log.Warn("heartbeat failed", "worker", w.cfg.Name, "runs", len(batch), "error", err)
	return false
}

func (w *worker) sendRenewal(ctx context.Context, batch []renewal) ([]renewed, storage.Commit, error) {
	// A store that does not answer must not keep the worker from seeing leases end.
	ctx, cancel := context.WithTimeout(ctx, w.cfg.Heartbeat)
	defer cancel()
	attempt := 0
	return storage.Transact(ctx, w.lane.store, "run.heartbeat", func(ctx context.Context, tx storage.Tx) ([]renewed, error) {
		attempt++
		if attempt > 1 {
			keys := make([]storage.Key, len(batch))
			for i := range batch {
				keys[i] = batch[i].record.Key
			}
			if _, err := tx.GetMany(ctx, keys); err != nil {
				return nil, err
			}
		}
		results := make([]renewed, len(batch))
		for i := range batch {
			rec, found, err := tx.Assume(ctx, batch[i].record)
			if err != nil {
				return nil, err
			}
			if found && rec.Version == batch[i].record.Version {
				results[i] = renewed{run: batch[i].run, found: true}
			} else if r, ok := leasedTo(rec, found, batch[i].claim.token); ok {
				results[i] = renewed{run: *r, found: true}
			}
		}
		return results, w.stageRenewals(ctx, tx, results)
	})
}

// stageRenewals writes the new expiries. They are known times, not times relative
// to the commit: only a known one can be rounded in the index of leases.
func (w *worker) stageRenewals(ctx context.Context, tx storage.Tx, results []renewed) error {
	now, err := tx.Now(ctx)
	if err != nil {
		return err
	}
	expires := now.Add(w.cfg.Lease).Truncate(time.Microsecond)
	for i := range results {
		res := &results[i]
		if !res.found {
			continue
		}
		if res.run, err = run.Renew(res.run, res.run.Lease.Token, expires); err != nil {
			return err
		}
		if res.record, err = codec.EncodeRun(res.run); err != nil {
			return err
		}
		if err := tx.Replace(ctx, res.record); err != nil {
			return err
		}
	}
	return nil
}

// noteRenewal remembers what a committed heartbeat stored.
func (w *worker) noteRenewal(c *claim, res *renewed, commit storage.Commit, began time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	c.run, c.renewed = res.run, began
	c.record = res.record
	c.record.Version = commit.Versions[c.record.Key]
	c.record.Entries = nil
	if c.run.Status == run.StatusCancellationRequested && !c.over {
		c.cancel(ErrCancellationRequested)
	}
}
