package lane

import (
	"context"
	"fmt"
	"time"

	"github.com/seed4391e180/runlane/run"
	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/codec"
)

// Pause is a queue that workers do not begin runs of.
type Pause struct {
	Queue  string
	Since  time.Time // by the database's clock
	Reason string
}

// PauseQueue makes workers begin no more runs of a queue, in all processes, until
// ResumeQueue. What is being worked on goes on, and runs can be triggered. A worker
// notices within its poll interval. A queue that is paused already stays as it is.
// The reason is for people; its first 4 KiB are kept.
func (l *Lane) PauseQueue(ctx context.Context, queue, reason string) error {
	rec, err := codec.EncodeQueuePause(codec.QueuePause{Environment: l.env, Queue: queue, At: run.AtCommit, Reason: storable(reason, maxMessage)})
	if err != nil {
		return fmt.Errorf("lane: pause %q: %w", queue, err)
	}
	_, err = l.store.Transact(ctx, "queue.pause", func(ctx context.Context, tx storage.Tx) error {
		_, found, err := tx.Get(ctx, rec.Key)
		if err != nil || found {
			return err
		}
		return tx.Create(ctx, rec)
	})
	if err != nil {
		return fmt.Errorf("lane: pause %q: %w", queue, err)
	}
	return nil
}

// ResumeQueue ends the pause of a queue. A queue that is not paused stays as it is.
func (l *Lane) ResumeQueue(ctx context.Context, queue string) error {
	key, err := codec.QueueSlotKey(l.env, queue, "", 0)
	if err != nil {
		return fmt.Errorf("lane: resume %q: %w", queue, err)
	}
	_, err = l.store.Transact(ctx, "queue.resume", func(ctx context.Context, tx storage.Tx) error {
		_, found, err := tx.Get(ctx, key)
		if err != nil || !found {
			return err
		}
		return tx.Delete(ctx, key)
	})
	if err != nil {
		return fmt.Errorf("lane: resume %q: %w", queue, err)
	}
	return nil
}

// PausedQueues returns those of the queues that are paused, in their order. Of a
// pause that another version wrote only the queue is known.
func (l *Lane) PausedQueues(ctx context.Context, queues ...string) ([]Pause, error) {
	wanted := make([]storage.Key, len(queues))
	for i, queue := range queues {
		key, err := codec.QueueSlotKey(l.env, queue, "", 0)
		if err != nil {
			return nil, fmt.Errorf("lane: paused queues: %w", err)
		}
		wanted[i] = key
	}
	var paused []Pause
	for first := 0; first < len(wanted); first += maxPeeks {
		some := wanted[first:min(first+maxPeeks, len(wanted))]
		found, _, err := storage.Transact(ctx, l.store, "queue.paused", func(ctx context.Context, tx storage.Tx) (map[storage.Key]storage.Record, error) {
			return tx.Peek(ctx, some)
		})
		if err != nil {
			return nil, fmt.Errorf("lane: paused queues: %w", err)
		}
		for i, key := range some {
			if rec, ok := found[key]; ok {
				p, _ := codec.DecodeQueuePause(rec)
				paused = append(paused, Pause{Queue: queues[first+i], Since: p.At, Reason: p.Reason})
			}
		}
	}
	return paused, nil
}

// lookForPauses notes which queues are paused. A store that does not answer leaves
// what is known.
func (w *worker) lookForPauses(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, w.cfg.Lease)
	defer cancel()
	paused, err := w.lane.PausedQueues(ctx, w.cfg.Queues...)
	if err != nil {
		if ctx.Err() == nil {
			w.lane.log.Warn("cannot tell which queues are paused", "worker", w.cfg.Name, "error", err)
		}
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	before := w.paused
	w.paused = map[string]bool{}
	for _, p := range paused {
		w.paused[p.Queue] = true
	}
	for _, part := range w.parts {
		if before[part.queue] && !w.paused[part.queue] {
			part.askAt(time.Now())
			w.nudge()
		}
	}
}

// pauses looks for pauses until ctx ends. It does so beside the claimer, which has
// nothing to wait for then.
func (w *worker) pauses(ctx context.Context) {
	for pause(ctx, w.lane.jittered(w.cfg.PollInterval)) {
		w.lookForPauses(ctx)
	}
}
