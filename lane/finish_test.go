package lane

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed4391e180/runlane/run"
	"github.com/seed4391e180/runlane/storage"
)

// Outcomes that arrive together travel together.
func TestOutcomesTravelTogether(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		g := newGate()
		task := Define(w.lane, "task", func(ctx context.Context, _ *Attempt, _ number) (int, error) { return 0, g.pass(ctx, false) }, TaskOptions{})
		if _, err := task.TriggerMany(context.Background(), make([]Item[number], 300)); err != nil {
			t.Fatal(err)
		}
		w.store.set(func(_ context.Context, label string) error {
			if label == "run.finish" {
				time.Sleep(time.Millisecond) // a round trip
			}
			return nil
		}, nil)
		stop := w.work(WorkerConfig{Concurrency: 300})
		synctest.Wait()
		close(g.open)
		time.Sleep(time.Minute)
		stop()
		if n := w.store.count("run.finish"); n > 10 {
			t.Errorf("%d transactions for 300 outcomes", n)
		}
		if n := w.outcomes()[OutcomeSucceeded]; n != 300 {
			t.Errorf("%v", w.outcomes())
		}
	})
}

func TestFaultsWhileFinishing(t *testing.T) {
	unknown := &storage.CommitUnknownError{Label: "run.finish"}
	refusal := &storage.InputError{Kind: storage.ErrInvalidDocument, Field: "result"}
	cases := []struct {
		name          string
		before, after error
		times         int
		history       string
		outcome       Outcome
	}{
		{"unavailable", storage.ErrUnavailable, nil, 3, "created started succeeded", OutcomeSucceeded},
		{"conflict", &storage.ConflictError{}, nil, 3, "created started succeeded", OutcomeSucceeded},
		{"something new", errBoom, nil, 3, "created started succeeded", OutcomeSucceeded},
		{"unknown and not stored", unknown, nil, 3, "created started succeeded", OutcomeSucceeded},
		{"unknown and stored", nil, unknown, 1, "created started succeeded", OutcomeSucceeded},
		{"refused", refusal, nil, 1, "created started failed", OutcomeFailed},
		{"unavailable for too long", storage.ErrUnavailable, nil, 100, "created started lease_expired started succeeded", OutcomeLost},
		{"configuration", &storage.ConfigurationError{}, nil, 1, "created started lease_expired started succeeded", OutcomeLost},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				task := Define(w.lane, "double", double, TaskOptions{})
				var recovered atomic.Bool
				begin := time.Now()
				w.store.set(func(_ context.Context, label string) error {
					// Without heartbeats the lease ends while the outcome waits.
					if label == "run.heartbeat" && c.outcome == OutcomeLost && !recovered.Load() {
						return storage.ErrUnavailable
					}
					return failNext(label, &c.times, c.before)
				}, func(_ context.Context, label string) error {
					if label == "run.recover" && time.Since(begin) > DefaultLease {
						recovered.Store(true)
					}
					return failNext(label, &c.times, c.after)
				})
				res := trigger(w, task, number{})
				stop := w.work(WorkerConfig{})
				time.Sleep(3 * time.Minute)
				stop()
				if got := w.types(res.RunID); got != c.history {
					t.Error(got)
				}
				if w.finishes[0].Outcome != c.outcome {
					t.Errorf("%+v", w.finishes)
				}
			})
		})
	}
}

func failNext(label string, times *int, err error) error {
	if label != "run.finish" || *times == 0 || err == nil {
		return nil
	}
	*times--
	return err
}

// One outcome that the store does not take keeps none of its neighbours waiting.
func TestBadOutcomeAmongGoodOnes(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		g := newGate()
		task := Define(w.lane, "task", func(ctx context.Context, _ *Attempt, p number) (int, error) { return p.N, g.pass(ctx, false) }, TaskOptions{})
		items := make([]Item[number], 64)
		for i := range items {
			items[i].Payload.N = i
		}
		results, err := task.TriggerMany(context.Background(), items)
		if err != nil {
			t.Fatal(err)
		}
		l, err := New(picky{w.store, results[40].RunID}, Config{Environment: testEnv, Hooks: w.lane.hooks})
		if err != nil {
			t.Fatal(err)
		}
		l.tasks = w.lane.tasks
		stop := w.start(l, WorkerConfig{Concurrency: 64})
		synctest.Wait()
		close(g.open)
		for i, res := range results {
			want := run.StatusSucceeded
			if i == 40 {
				want = run.StatusFailed
			}
			wantStatus(t, w.ended(res.RunID), want)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
		if n := w.store.count("run.finish"); n > 30 {
			t.Errorf("%d transactions", n)
		}
	})
}

func wantStatus(t *testing.T, r run.Run, want run.Status) {
	t.Helper()
	if r.Status != want {
		t.Errorf("run %q is %s, not %s", r.ID, r.Status, want)
	}
}

// picky refuses the result of one run.
type picky struct {
	storage.Driver
	runID string
}

type pickyTx struct {
	storage.Tx
	runID string
}

func (p picky) Transact(ctx context.Context, label string, fn func(context.Context, storage.Tx) error) (storage.Commit, error) {
	return p.Driver.Transact(ctx, label, func(ctx context.Context, tx storage.Tx) error { return fn(ctx, pickyTx{tx, p.runID}) })
}

func (p pickyTx) Replace(ctx context.Context, rec storage.Record) error {
	if r := string(rec.Document); strings.Contains(r, p.runID) && strings.Contains(r, `"succeeded"`) {
		return &storage.InputError{Kind: storage.ErrInvalidDocument, Key: rec.Key, Field: "result"}
	}
	return p.Tx.Replace(ctx, rec)
}
