package lane

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/seed4391e180/runlane/run"
	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/codec"
)

// CancelOutcome is a closed set: what a request to cancel a run came to.
type CancelOutcome string

// The outcomes of a request to cancel.
const (
	// CancelDone: no worker held the run, and it is cancelled.
	CancelDone CancelOutcome = "cancelled"
	// CancelRequested: a worker holds the run and is asked to stop, by this request or
	// by an earlier one. See [ErrCancellationRequested] for how the run may end.
	CancelRequested CancelOutcome = "requested"
	// CancelTooLate: the run has ended before, also if that was by a cancellation.
	CancelTooLate CancelOutcome = "ended"
)

// Cancellation is what came of a request to cancel a run.
type Cancellation struct {
	RunID   string
	Outcome CancelOutcome
	Status  run.Status // of the run after the request
}

// Cancel cancels a run. One that no worker holds (queued, scheduled, released,
// retrying or waiting) is cancelled at once and frees its keys. The worker of a
// running one is asked to stop: the handler's context ends with
// [ErrCancellationRequested], at once if the wake arrives and otherwise with the
// worker's next heartbeat. The reason, cut to 4 KiB, is kept in the run's history.
//
// Cancel may be repeated: a run that is asked to stop already, or has ended, is
// left as it is, and the outcome says so. Errors: ErrNoRun, *storage.InputError for
// an id that no run can have, and those of the store.
func (l *Lane) Cancel(ctx context.Context, runID, reason string) (Cancellation, error) {
	target, err := l.newCancelTarget(runID)
	if err != nil {
		return Cancellation{}, fmt.Errorf("lane: cancel: %w", err)
	}
	items, err := l.cancelAll(ctx, []cancelTarget{target}, reason)
	if err == nil {
		err = items[0].Err
	}
	if err != nil {
		return Cancellation{}, fmt.Errorf("lane: cancel: %w", err)
	}
	return items[0].Cancellation, nil
}

// cancelTarget is a run that is to be cancelled, and the id of the event that does it.
type cancelTarget struct {
	runID string
	key   storage.Key
	event uuid.UUID
}

func (l *Lane) newCancelTarget(runID string) (cancelTarget, error) {
	key, err := codec.RunKey(l.env, runID)
	return cancelTarget{runID, key, l.source.id()}, err
}

// cancelAll cancels, in one transaction, as many of the targets, from the first, as
// it can write, and returns what came of each.
func (l *Lane) cancelAll(ctx context.Context, targets []cancelTarget, reason string) ([]CancelItem, error) {
	reason = storable(reason, maxMessage)
	keys := make([]storage.Key, len(targets))
	for i := range targets {
		keys[i] = targets[i].key
	}
	done, _, err := storage.Transact(ctx, l.store, "run.cancel", func(ctx context.Context, tx storage.Tx) (cancelled, error) {
		records, err := tx.GetMany(ctx, keys)
		if err != nil {
			return cancelled{}, err
		}
		var (
			items []CancelItem
			steps []step
			size  int
		)
		for i := range targets {
			item, s := l.cancelOne(records, &targets[i], reason)
			if s != nil {
				if size += s.size(); size > maxBytes && len(steps) > 0 {
					break
				}
				steps = append(steps, *s)
				if item.Outcome == CancelRequested {
					if err := hint(tx, l.cancelTopic(item.RunID)); err != nil {
						return cancelled{}, err
					}
				}
			}
			items = append(items, item)
		}
		return cancelled{items, steps}, stageAll(ctx, tx, steps)
	})
	if err != nil {
		return nil, err
	}
	if err := l.resumeWaiters(ctx, awaited(done.steps)); err != nil {
		l.log.Warn("resuming runs failed; Tick will resume them", "error", err)
	}
	return done.items, nil
}

// cancelled is what a transaction that cancels has done.
type cancelled struct {
	items []CancelItem
	steps []step
}

// cancelOne decides about a target; the step is nil if nothing is to be written.
func (l *Lane) cancelOne(records map[storage.Key]storage.Record, target *cancelTarget, reason string) (CancelItem, *step) {
	item := CancelItem{Cancellation: Cancellation{RunID: target.runID}}
	rec, found := records[target.key]
	r, kind := codec.DecodeRun(rec)
	if !found || kind != codec.Canonical {
		item.Err = fmt.Errorf("%w: %s", ErrNoRun, target.key)
		return item, nil
	}
	item.Status = r.Status
	var event run.EventData
	switch item.Outcome = cancelOutcome(r.Status); {
	case item.Outcome == CancelDone:
		event = run.Cancelled{Reason: reason}
	case r.Status == run.StatusRunning:
		event = run.CancellationRequested{Reason: reason}
	default:
		return item, nil
	}
	s, err := l.newStep(&r, target.event, run.AtCommit, event)
	if err != nil {
		return CancelItem{Cancellation: Cancellation{RunID: target.runID, Status: r.Status}, Err: err}, nil
	}
	item.Status = s.run.Status
	return item, &s
}

// cancelOutcome is what a request to cancel makes of a run with a status.
func cancelOutcome(s run.Status) CancelOutcome {
	switch {
	case s.Terminal():
		return CancelTooLate
	case s.Leased():
		return CancelRequested
	}
	return CancelDone
}

// cancelTopic is what wakes the worker that holds a run, so that it looks whether
// it is to stop.
func (l *Lane) cancelTopic(runID string) string {
	topic := "x:" + l.env + ":" + runID
	if len(topic) <= storage.DefaultLimits().MaxTopic {
		return topic
	}
	sum := sha256.Sum256([]byte(topic))
	return "x:" + hex.EncodeToString(sum[:])
}

// cancelBacklog is how many requests to cancel may wait to be looked into. What is
// beyond is found by the heartbeat.
const cancelBacklog = 256

// heardCancel passes a wake on if it is about a run that this worker holds.
func (w *worker) heardCancel(topic string) {
	if len(topic) < 2 || topic[:2] != "x:" {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for c := range w.held {
		if !c.over && w.lane.cancelTopic(c.id) == topic {
			select {
			case w.cancels <- c:
			default:
			}
			return
		}
	}
}

// heedCancels looks into requests to cancel until ctx ends. It changes nothing that
// is stored, and a failure is left to the heartbeat.
func (w *worker) heedCancels(ctx context.Context) {
	for {
		select {
		case c := <-w.cancels:
			if err := w.lookForCancel(ctx, c); err != nil && ctx.Err() == nil {
				w.lane.log.Debug("looking for a cancellation failed", "worker", w.cfg.Name, "run", c.id, "error", err)
			}
		case <-ctx.Done():
			return
		}
	}
}

func (w *worker) lookForCancel(ctx context.Context, c *claim) error {
	ctx, cancel := context.WithTimeout(ctx, w.cfg.Heartbeat)
	defer cancel()
	w.mu.Lock()
	key := c.record.Key
	w.mu.Unlock()
	rec, _, err := storage.Transact(ctx, w.lane.store, "run.heed", func(ctx context.Context, tx storage.Tx) (storage.Record, error) {
		rec, _, err := tx.Get(ctx, key)
		return rec, err
	})
	if err != nil {
		return err
	}
	r, ok := leasedTo(rec, rec.Document != nil, c.token)
	if !ok || r.Status != run.StatusCancellationRequested {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if c.over {
		return nil
	}
	// A heartbeat may overwrite this with what it knew before, which only costs the
	// ending a replay.
	c.run, c.record = *r, rec
	c.cancel(ErrCancellationRequested)
	return nil
}

// now reads the store's clock.
func (l *Lane) now(ctx context.Context) (time.Time, error) {
	now, _, err := storage.Transact(ctx, l.store, "lane.now", func(ctx context.Context, tx storage.Tx) (time.Time, error) {
		page, err := tx.Query(ctx, storage.Query{Index: storage.RunsByRetention, Partition: l.ended, Limit: 1})
		return page.Time, err
	})
	return now, err
}
