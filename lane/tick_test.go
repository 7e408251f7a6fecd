package lane

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/seed4391e180/runlane/run"
	"github.com/seed4391e180/runlane/storage"
)

// One worker, left to itself, does all that time brings.
func TestWorkersTick(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.lane.keep = time.Hour
		source := Define(w.lane, "double", double, TaskOptions{Queue: "sources"})
		waits := waitsFor(w, source)
		s := trigger(w, source, number{1}, TriggerOptions{IdempotencyKey: "k"})
		waiter := trigger(w, waits, s.RunID)
		stop := w.work(WorkerConfig{Queues: []string{DefaultQueue}})
		w.reaches(waiter.RunID, run.StatusWaiting)
		w.store.set(failing("run.waiters", 1, storage.ErrUnavailable), nil)
		stopSources := w.start(w.lane, WorkerConfig{Queues: []string{"sources"}, TickInterval: 10_000 * time.Hour})
		w.ended(s.RunID)
		if err := stopSources(); err != nil {
			t.Error(err)
		}
		began := time.Now()
		w.ended(waiter.RunID)
		if took := time.Since(began); took > 2*DefaultTickInterval {
			t.Errorf("took %v", took)
		}
		time.Sleep(w.lane.keep + time.Minute)
		if left := w.runs(); len(left) != 0 {
			t.Errorf("%d runs are kept", len(left))
		}
		stop()
		if n := w.store.count("key.expire"); n == 0 {
			t.Error("expired keys are not looked for")
		}
	})
}

// A part of a tick that fails keeps no other from being done.
func TestTickInPart(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		ctx := context.Background()
		task := Define(w.lane, "double", double, TaskOptions{})
		old := trigger(w, task, number{1}, TriggerOptions{IdempotencyKey: "k", IdempotencyTTL: time.Hour})
		stop := w.work(WorkerConfig{})
		w.ended(old.RunID)
		stop()
		time.Sleep(DefaultRetention + time.Hour)
		for _, label := range []string{"run.recover", "slot.reclaim", "key.expire"} {
			w.store.set(failing(label, 1, storage.ErrUnavailable), nil)
			if _, err := w.lane.Tick(ctx); !errors.Is(err, storage.ErrUnavailable) {
				t.Errorf("%s: %v", label, err)
			}
			if left := len(w.runs()); left != 0 {
				t.Errorf("%s: %d runs are kept", label, left)
			}
			w.store.set(nil, nil)
			if _, err := w.lane.Tick(ctx); err != nil {
				t.Error(err)
			}
			old = trigger(w, task, number{1})
			stop := w.work(WorkerConfig{TickInterval: 10_000 * time.Hour, RecoverInterval: 10_000 * time.Hour})
			w.ended(old.RunID)
			stop()
			time.Sleep(DefaultRetention + time.Hour)
		}
	})
}
