package lane

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed4391e180/runlane/run"
	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/memory"
)

func TestShutdown(t *testing.T) {
	cases := []struct {
		name    string
		handler func(ctx context.Context, g *gate) error
		takes   time.Duration // that Work takes to return
		status  run.Status
		history string
		outcome Outcome
	}{
		{"finishes in the grace period", func(context.Context, *gate) error { time.Sleep(5 * time.Second); return nil },
			5 * time.Second, run.StatusSucceeded, "created started succeeded", OutcomeSucceeded},
		{"fails in the grace period", func(context.Context, *gate) error { time.Sleep(5 * time.Second); return errBoom },
			5 * time.Second, run.StatusRetrying, "created started retry_scheduled", OutcomeRetried},
		{"stops when told to", func(ctx context.Context, _ *gate) error { <-ctx.Done(); return fmt.Errorf("stopped: %w", ctx.Err()) },
			DefaultGrace, run.StatusReleased, "created started released", OutcomeReleased},
		{"finishes when told to", func(ctx context.Context, _ *gate) error { <-ctx.Done(); return nil },
			DefaultGrace, run.StatusSucceeded, "created started succeeded", OutcomeSucceeded},
		{"fails for good when told to", func(ctx context.Context, _ *gate) error { <-ctx.Done(); return Permanent(errBoom) },
			DefaultGrace, run.StatusFailed, "created started failed", OutcomeFailed},
		{"is stuck", func(ctx context.Context, g *gate) error { return g.pass(ctx, false) },
			DefaultGrace + settleTime, run.StatusReleased, "created started released", OutcomeReleased},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				g := newGate()
				var causes []error
				task := Define(w.lane, "task", func(ctx context.Context, _ *Attempt, _ number) (int, error) {
					err := c.handler(ctx, g)
					causes = append(causes, context.Cause(ctx))
					return 0, err
				}, TaskOptions{})
				res := trigger(w, task, number{}, TriggerOptions{IdempotencyKey: "k", IdempotencyTTL: WhileActive})
				stop := w.work(WorkerConfig{Concurrency: 1})
				synctest.Wait()
				queued := trigger(w, task, number{})
				begin := time.Now()
				stop()
				if took := time.Since(begin); took < c.takes || took > c.takes+100*time.Millisecond {
					t.Errorf("Work returned after %v", took)
				}
				r := w.run(res.RunID)
				if got := w.types(res.RunID); r.Status != c.status || got != c.history {
					t.Errorf("%s: %s", r.Status, got)
				}
				if r.Status == run.StatusReleased && (r.Failures != 0 || r.Due.After(time.Now())) {
					t.Errorf("%+v", r)
				}
				wantRun(t, w.run(queued.RunID), run.StatusQueued, 0, 0)
				if o := w.outcomes(); len(o) != 1 || o[c.outcome] != 1 {
					t.Errorf("%v", o)
				}
				// What a stuck handler says after all does not count.
				close(g.open)
				synctest.Wait()
				if got := w.types(res.RunID); got != c.history {
					t.Errorf("later: %s", got)
				}
				if len(causes) != 1 || c.takes >= DefaultGrace && causes[0] != ErrShutdown {
					t.Errorf("%v", causes)
				}
			})
		})
	}
}

func TestShutdownWithoutGrace(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		task := Define(w.lane, "task", func(ctx context.Context, _ *Attempt, _ number) (int, error) {
			<-ctx.Done()
			return 0, ctx.Err()
		}, TaskOptions{})
		results, err := task.TriggerMany(context.Background(), make([]Item[number], 50))
		if err != nil {
			t.Fatal(err)
		}
		stop := w.work(WorkerConfig{Concurrency: 50, Grace: -1})
		synctest.Wait()
		begin := time.Now()
		stop()
		if took := time.Since(begin); took > 100*time.Millisecond {
			t.Errorf("took %v", took)
		}
		for _, res := range results {
			wantRun(t, w.run(res.RunID), run.StatusReleased, 1, 0)
		}
	})
}

// A claim that was under way when Work was told to stop gives its runs back
// unseen by a handler.
func TestShutdownDuringAClaim(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		g := newGate()
		task := Define(w.lane, "task", func(ctx context.Context, _ *Attempt, _ number) (int, error) { return 0, g.pass(ctx, false) }, TaskOptions{})
		res := trigger(w, task, number{})
		w.store.set(nil, func(ctx context.Context, label string) error {
			if label != "run.claim" {
				return nil
			}
			select { // the commit has been sent
			case <-time.After(20 * time.Second):
				return nil
			case <-ctx.Done():
				return &storage.CommitUnknownError{Label: label, Err: ctx.Err()}
			}
		})
		stop := w.work(WorkerConfig{})
		time.Sleep(time.Second)
		stop()
		if _, _, entered := g.counts(); entered != 0 {
			t.Error("the handler ran")
		}
		if got := w.types(res.RunID); got != "created started released" {
			t.Error(got)
		}
	})
}

// The runs of a stopped worker go to the next one at once: it is woken.
func TestShutdownHandsOver(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		task := Define(w.lane, "task", func(ctx context.Context, a *Attempt, _ number) (int, error) {
			if a.Number == 1 {
				<-ctx.Done()
			}
			return 0, ctx.Err()
		}, TaskOptions{})
		res := trigger(w, task, number{})
		stop := w.work(WorkerConfig{})
		synctest.Wait()
		stopNext := w.start(w.lane, WorkerConfig{PollInterval: never})
		synctest.Wait()
		stop()
		begin := time.Now()
		w.ended(res.RunID)
		if took := time.Since(begin); took > 100*time.Millisecond {
			t.Errorf("took %v", took)
		}
		if err := stopNext(); err != nil {
			t.Error(err)
		}
		wantRun(t, w.run(res.RunID), run.StatusSucceeded, 2, 0)
	})
}

func TestShutdownWithoutStore(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		task := Define(w.lane, "task", func(ctx context.Context, a *Attempt, _ number) (int, error) {
			if a.Number == 1 {
				<-ctx.Done()
			}
			return 0, ctx.Err()
		}, TaskOptions{})
		res := trigger(w, task, number{})
		stop := w.start(w.lane, WorkerConfig{})
		synctest.Wait()
		w.store.set(func(context.Context, string) error { return storage.ErrUnavailable }, nil)
		begin := time.Now()
		if err := stop(); err == nil {
			t.Error("no word of the run that could not be given back")
		}
		if took := time.Since(begin); took > DefaultGrace+cleanupTime+time.Second {
			t.Errorf("took %v", took)
		}
		w.store.set(nil, nil)
		defer w.work(WorkerConfig{})()
		w.ended(res.RunID)
		if got := w.types(res.RunID); got != "created started lease_expired started succeeded" {
			t.Error(got)
		}
	})
}

func TestWorkEndsWhenTheStoreSaysSo(t *testing.T) {
	for _, fatal := range []error{storage.ErrClosed, &storage.ConfigurationError{Problem: "no schema", Mend: "migrate"}} {
		inBubble(t, func(t *testing.T, w *world) {
			Define(w.lane, "double", double, TaskOptions{})
			w.store.set(failing("run.claim", -1, fatal), nil)
			if err := w.lane.Work(t.Context(), WorkerConfig{}); !errors.Is(err, fatal) {
				t.Errorf("%v", err)
			}
		})
	}
	inBubble(t, func(t *testing.T, w *world) {
		Define(w.lane, "double", double, TaskOptions{})
		if err := w.lane.Work(canceled(), WorkerConfig{}); err != nil {
			t.Errorf("told to stop before it began: %v", err)
		}
	})
}

func TestStoreIsClosedUnderAWorker(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		task := Define(w.lane, "task", func(ctx context.Context, _ *Attempt, _ number) (int, error) {
			time.Sleep(time.Second)
			return 0, nil
		}, TaskOptions{})
		other := memory.New(memory.Config{})
		l, err := New(other, Config{Environment: testEnv})
		if err != nil {
			t.Fatal(err)
		}
		l.tasks = w.lane.tasks
		if _, err := task.TriggerIn(context.Background(), other, number{}); err != nil {
			t.Fatal(err)
		}
		done := make(chan error)
		go func() { done <- l.Work(t.Context(), WorkerConfig{}) }()
		synctest.Wait()
		if err := other.Close(); err != nil {
			t.Error(err)
		}
		if err := <-done; !errors.Is(err, storage.ErrClosed) {
			t.Errorf("%v", err)
		}
	})
}
