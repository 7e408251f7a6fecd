package lane

import (
	"context"
	"errors"
	"reflect"
	"sync"
	"testing"
	"time"

	"github.com/seed4391e180/runlane/run"
	"github.com/seed4391e180/runlane/storage"
)

func TestRetryAndRerun(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		ctx := context.Background()
		task := Define(w.lane, "task", double, TaskOptions{Queue: "q", MaxAttempts: 3})
		origin := w.run(w.inStatus(task, run.StatusFailed, TriggerOptions{
			Priority: 4, IdempotencyKey: "k", IdempotencyTTL: time.Hour, SingletonKey: "s", Metadata: map[string]string{"a": "b"},
		}))
		time.Sleep(time.Minute)
		retried, err := w.lane.Retry(ctx, origin.ID, AgainOptions{Delay: time.Minute})
		if err != nil || retried.Existing || !retried.Created.Equal(time.Now()) {
			t.Fatalf("%+v, %v", retried, err)
		}
		child := w.run(retried.RunID)
		want := origin
		want.ID, want.Status, want.Sequence = child.ID, run.StatusScheduled, 1
		want.Created, want.Updated, want.Due = retried.Created, retried.Created, retried.Created.Add(time.Minute)
		want.Attempts, want.Failures, want.Finished, want.Failure = 0, 0, time.Time{}, nil
		want.Source = run.Source{Type: run.SourceManualRetry, RunID: origin.ID}
		if !reflect.DeepEqual(child, want) {
			t.Errorf("\n%+v, want\n%+v", child, want)
		}
		if holds := w.inStatusKeys(task, child.ID); holds != [2]bool{true, true} {
			t.Errorf("keys: %v", holds)
		}
		if !reflect.DeepEqual(w.run(origin.ID), origin) {
			t.Error("the failed run has changed")
		}
		// The keys stand for the first child, so there is no second one.
		again, err := w.lane.Retry(ctx, origin.ID)
		if err != nil || !again.Existing || again.RunID != child.ID {
			t.Errorf("%+v, %v", again, err)
		}
		stop := w.work(WorkerConfig{})
		if r := w.ended(child.ID); r.Status != run.StatusSucceeded || string(r.Result) != `{"N":14}` {
			t.Errorf("%+v", r)
		}
		stop()

		rerun, err := w.lane.Rerun(ctx, child.ID, AgainOptions{RunID: "mine"})
		if err != nil || rerun.Existing || rerun.RunID != "mine" {
			t.Fatalf("%+v, %v", rerun, err)
		}
		r := w.run("mine")
		if r.Source != (run.Source{Type: run.SourceRerun, RunID: child.ID}) || r.IdempotencyKey != "" || r.IdempotencyTTL != 0 || r.Status != run.StatusQueued {
			t.Errorf("%+v", r)
		}
		if holds := w.inStatusKeys(task, "mine"); holds != [2]bool{false, true} {
			t.Errorf("keys: %v", holds)
		}
		// The idempotency key still stands for the run that has succeeded.
		if holds := w.inStatusKeys(task, child.ID); !holds[0] {
			t.Error("the rerun took the key")
		}
		other, err := w.lane.Rerun(ctx, child.ID)
		if err != nil || !other.Existing || other.RunID != "mine" {
			t.Errorf("%+v, %v", other, err)
		}
	})
}

func TestAgainOptions(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		ctx := context.Background()
		task := Define(w.lane, "task", double, TaskOptions{})
		origin := w.inStatus(task, run.StatusFailed, TriggerOptions{})
		other := w.inStatus(task, run.StatusFailed, TriggerOptions{})
		if _, err := w.lane.Retry(ctx, origin, AgainOptions{RunID: "child"}); err != nil {
			t.Fatal(err)
		}
		var exists *RunExistsError
		for name, do := range map[string]func() (Triggered, error){
			"of another":    func() (Triggered, error) { return w.lane.Retry(ctx, other, AgainOptions{RunID: "child"}) },
			"other manner":  func() (Triggered, error) { return w.lane.Rerun(ctx, origin, AgainOptions{RunID: "child"}) },
			"itself":        func() (Triggered, error) { return w.lane.Retry(ctx, origin, AgainOptions{RunID: origin}) },
			"not a retry":   func() (Triggered, error) { return w.lane.Retry(ctx, origin, AgainOptions{RunID: other}) },
			"in many hands": func() (Triggered, error) { return w.lane.Retry(ctx, other, AgainOptions{RunID: "child", Delay: 1}) },
		} {
			if _, err := do(); !errors.As(err, &exists) || !errors.Is(err, storage.ErrRecordExists) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if _, err := w.lane.Retry(ctx, origin, AgainOptions{Delay: -1}); err == nil {
			t.Error("a negative delay")
		}
		if _, err := w.lane.Retry(ctx, origin, AgainOptions{}, AgainOptions{}); err == nil {
			t.Error("two options")
		}
		// The child is there although its origin has gone.
		w.hide(origin)
		if res, err := w.lane.Retry(ctx, origin, AgainOptions{RunID: "child"}); err != nil || !res.Existing || res.RunID != "child" {
			t.Errorf("%+v, %v", res, err)
		}
	})
}

func TestManyRetriesWithOneRunID(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		task := Define(w.lane, "task", double, TaskOptions{})
		origin := w.inStatus(task, run.StatusFailed, TriggerOptions{})
		var (
			all  sync.WaitGroup
			mu   sync.Mutex
			made int
		)
		for range 20 {
			all.Go(func() {
				res, err := w.lane.Retry(context.Background(), origin, AgainOptions{RunID: "child"})
				mu.Lock()
				defer mu.Unlock()
				if err != nil || res.RunID != "child" || res.Created.IsZero() {
					t.Errorf("%+v, %v", res, err)
				}
				if !res.Existing {
					made++
				}
			})
		}
		all.Wait()
		if made != 1 || len(w.runs()) != 2 {
			t.Errorf("%d made, %d runs", made, len(w.runs()))
		}
	})
}

// A retry and a trigger of the same key: one run, and both get it.
func TestRetryRacesWithTrigger(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		task := Define(w.lane, "task", double, TaskOptions{})
		for i := range 30 {
			opts := TriggerOptions{IdempotencyKey: "k", SingletonKey: "s"}
			if i%2 == 0 {
				opts.SingletonKey = ""
			}
			origin := w.inStatus(task, run.StatusFailed, opts)
			var (
				both               sync.WaitGroup
				retried, triggered Triggered
			)
			both.Go(func() {
				var err error
				if retried, err = w.lane.Retry(context.Background(), origin); err != nil {
					t.Error(err)
				}
			})
			both.Go(func() { triggered = trigger(w, task, number{1}, opts) })
			both.Wait()
			if retried.RunID != triggered.RunID || retried.Existing == triggered.Existing || retried.RunID == origin {
				t.Fatalf("%+v, %+v", retried, triggered)
			}
			w.leaseTo(retried.RunID, "w")
			w.befall(retried.RunID, func(r *run.Run) run.EventData {
				return run.Failed{Token: r.Lease.Token, Failure: run.Failure{Code: "x"}}
			}, true)
		}
	})
}

func TestRetryFaults(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		ctx := context.Background()
		task := Define(w.lane, "task", double, TaskOptions{})
		origin := w.inStatus(task, run.StatusFailed, TriggerOptions{IdempotencyKey: "k"})
		w.store.set(nil, failing("run.again", 1, storage.ErrCommitUnknown))
		res, err := w.lane.Retry(ctx, origin)
		if !errors.Is(err, storage.ErrCommitUnknown) || res.RunID == "" {
			t.Fatalf("%+v, %v", res, err)
		}
		again, err := w.lane.Retry(ctx, origin, AgainOptions{RunID: res.RunID})
		if err != nil || !again.Existing || again.RunID != res.RunID {
			t.Errorf("%+v, %v", again, err)
		}
		if len(w.runs()) != 2 {
			t.Errorf("%d runs", len(w.runs()))
		}
	})
}
