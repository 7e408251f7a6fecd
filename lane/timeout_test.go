package lane

import (
	"context"
	"testing"
	"time"

	"github.com/seed4391e180/runlane/run"
)

// slowly works for as long as its payload says, in seconds, or until its context ends.
func slowly(ctx context.Context, _ *Attempt, p number) (int, error) {
	select {
	case <-time.After(time.Duration(p.N) * time.Second):
		return p.N, nil
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
}

func TestTimeout(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		task := Define(w.lane, "slowly", slowly, TaskOptions{Timeout: 10 * time.Second, MaxAttempts: 2, Backoff: Fixed(time.Second)})
		stop := w.work(WorkerConfig{})
		defer stop()
		began := time.Now()
		late := trigger(w, task, number{11})
		quick := trigger(w, task, number{9})
		longer := trigger(w, task, number{60}, TriggerOptions{Timeout: 2 * time.Minute})
		endless := trigger(w, task, number{3600}, TriggerOptions{Timeout: NoTimeout})
		r := w.ended(late.RunID)
		wantRun(t, r, run.StatusFailed, 2, 2)
		if r.Failure.Code != CodeTimeout || !r.Failure.Retryable || r.Timeout != 10*time.Second {
			t.Errorf("%+v, timeout %v", r.Failure, r.Timeout)
		}
		if took := time.Since(began); took < 20*time.Second || took > 25*time.Second {
			t.Errorf("two attempts took %v", took)
		}
		for _, id := range []string{quick.RunID, longer.RunID, endless.RunID} {
			wantRun(t, w.ended(id), run.StatusSucceeded, 1, 0)
		}
	})
}

// A handler that does not heed its context loses its run; a result that comes a
// moment later still counts.
func TestTimeoutUnheeded(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		hold := newGate()
		stubborn := Define(w.lane, "stubborn", func(ctx context.Context, a *Attempt, p number) (int, error) {
			if p.N > 0 {
				time.Sleep(time.Duration(p.N) * time.Millisecond)
			} else if a.Number == 1 {
				_ = hold.pass(ctx, false)
			}
			return a.Number, nil
		}, TaskOptions{Timeout: 10 * time.Second})
		stop := w.work(WorkerConfig{})
		wantRun(t, w.ended(trigger(w, stubborn, number{10_500}).RunID), run.StatusSucceeded, 1, 0)
		r := w.ended(trigger(w, stubborn, number{}).RunID)
		wantRun(t, r, run.StatusSucceeded, 2, 1)
		if got := w.types(r.ID); got != "created started retry_scheduled started succeeded" {
			t.Error(got)
		}
		close(hold.open)
		stop()
		if got := w.types(r.ID); got != "created started retry_scheduled started succeeded" {
			t.Error(got)
		}
	})
}

// A run that nobody began in time fails, frees its keys, and ends the waits for it.
func TestLatestStart(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		task := Define(w.lane, "double", double, TaskOptions{Queue: "late"})
		waits := waitsFor(w, task)
		latest := time.Now().Add(time.Minute)
		opts := TriggerOptions{LatestStart: latest, IdempotencyKey: "k", SingletonKey: "s", Metadata: map[string]string{"a": "b"}}
		late := trigger(w, task, number{1}, opts)
		unknown := trigger(w, Define[number, number](w.newLane(), "unknown", nil, TaskOptions{Queue: "late"}), number{1}, TriggerOptions{LatestStart: latest})
		waiter := trigger(w, waits, late.RunID)
		stop := w.work(WorkerConfig{Queues: []string{DefaultQueue}})
		w.reaches(waiter.RunID, run.StatusWaiting)
		time.Sleep(time.Until(latest) + time.Microsecond)
		stopLate := w.start(w.lane, WorkerConfig{Queues: []string{"late"}})
		for _, id := range []string{late.RunID, unknown.RunID} {
			r := w.ended(id)
			wantRun(t, r, run.StatusFailed, 0, 1)
			if r.Failure.Code != CodeTooLate {
				t.Errorf("%+v", r.Failure)
			}
			if got := w.types(id); got != "created failed" {
				t.Error(got)
			}
		}
		if got, err := waits.Wait(context.Background(), waiter.RunID); err != nil || got != "failed" {
			t.Errorf("%q, %v", got, err)
		}
		again := opts
		again.LatestStart = time.Now().Add(time.Minute)
		if res := trigger(w, task, number{1}, again); res.Existing {
			t.Error("the keys are not free")
		}
		if n := w.outcomes()[OutcomeFailed]; n != 2 {
			t.Errorf("%d failures are told", n)
		}
		if err := stopLate(); err != nil {
			t.Error(err)
		}
		stop()
	})
}

// Exactly at the latest start is in time; and what was begun in time may be tried
// again at any time.
func TestLatestStartInTime(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		task := Define(w.lane, "twice", func(_ context.Context, a *Attempt, _ number) (int, error) {
			if a.Number == 1 {
				return 0, errBoom
			}
			return 0, nil
		}, TaskOptions{Backoff: Fixed(time.Hour)})
		latest := time.Now().Add(time.Minute)
		res := trigger(w, task, number{}, TriggerOptions{RunAt: latest, LatestStart: latest})
		r := w.run(res.RunID)
		if tooLate(&r, latest) || !tooLate(&r, latest.Add(time.Microsecond)) {
			t.Error("the latest start itself is in time, and what is after it is not")
		}
		stop := w.work(WorkerConfig{})
		defer stop()
		wantRun(t, w.ended(trigger(w, task, number{}, TriggerOptions{LatestStart: latest}).RunID), run.StatusSucceeded, 2, 1)
	})
}

func TestBadTimes(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		task := Define(w.lane, "double", double, TaskOptions{})
		now := time.Now()
		for name, opts := range map[string]TriggerOptions{
			"negative timeout":          {Timeout: -2},
			"timeout below microsecond": {Timeout: time.Nanosecond},
			"timeout of 101 years":      {Timeout: 101 * 365 * 24 * time.Hour},
			"latest start before due":   {RunAt: now.Add(time.Hour), LatestStart: now},
			"relative latest start":     {LatestStart: run.AtCommit.Add(time.Hour)},
			"latest start in 10000":     {LatestStart: time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)},
			"concurrency key with NUL":  {ConcurrencyKey: "\x00"},
		} {
			if res, err := task.Trigger(context.Background(), number{}, opts); err == nil {
				t.Errorf("%s is accepted: %+v", name, res)
			}
		}
		if n := len(w.runs()); n != 0 {
			t.Errorf("%d runs are stored", n)
		}
	})
}
