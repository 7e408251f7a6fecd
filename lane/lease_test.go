package lane

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed4391e180/runlane/run"
	"github.com/seed4391e180/runlane/storage"
)

func TestHeartbeatsKeepLeases(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		slow := Define(w.lane, "slow", func(ctx context.Context, _ *Attempt, _ number) (int, error) {
			select {
			case <-time.After(10 * time.Minute):
				return 0, nil
			case <-ctx.Done():
				return 0, context.Cause(ctx)
			}
		}, TaskOptions{})
		var slowRuns []Item[number]
		for range 20 {
			slowRuns = append(slowRuns, Item[number]{})
		}
		results, err := slow.TriggerMany(context.Background(), slowRuns)
		if err != nil {
			t.Fatal(err)
		}
		stop := w.work(WorkerConfig{Concurrency: 20})
		time.Sleep(time.Minute)
		if r := w.run(results[0].RunID); r.Lease == nil || time.Until(r.Lease.Expires) < DefaultLease/2 || !r.Updated.Equal(w.history(r.ID)[1].At) {
			t.Errorf("%+v, lease %+v", r, r.Lease)
		}
		time.Sleep(10 * time.Minute)
		stop()
		for _, res := range results {
			if got := w.types(res.RunID); got != "created started succeeded" {
				t.Error(got)
			}
		}
		// One transaction for all leases, three for each lease time.
		if n := w.store.count("run.heartbeat"); n < 50 || n > 70 {
			t.Errorf("%d heartbeats", n)
		}
	})
}

func TestShortRunsNeedNoHeartbeat(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		task := Define(w.lane, "short", func(context.Context, *Attempt, number) (int, error) {
			time.Sleep(DefaultLease / 10)
			return 0, nil
		}, TaskOptions{})
		stop := w.work(WorkerConfig{})
		for range 100 {
			trigger(w, task, number{})
			time.Sleep(time.Second)
		}
		stop()
		if n := w.store.count("run.heartbeat"); n != 0 {
			t.Errorf("%d heartbeats", n)
		}
	})
}

// A store that is away for less than a lease costs nothing.
func TestOutageShorterThanALease(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		task := Define(w.lane, "slow", func(ctx context.Context, _ *Attempt, _ number) (int, error) {
			time.Sleep(25 * time.Second)
			return 0, ctx.Err()
		}, TaskOptions{})
		res := trigger(w, task, number{})
		stop := w.work(WorkerConfig{})
		synctest.Wait()
		w.store.set(func(context.Context, string) error { return storage.ErrUnavailable }, nil)
		time.Sleep(20 * time.Second)
		w.store.set(nil, nil)
		w.ended(res.RunID)
		stop()
		if got := w.types(res.RunID); got != "created started succeeded" {
			t.Error(got)
		}
	})
}

// A worker that cannot renew its lease stops its handler, and what the handler
// says in the end does not count.
func TestLostLease(t *testing.T) {
	for _, stubborn := range []bool{false, true} {
		t.Run(fmt.Sprint("stubborn ", stubborn), func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				first := newGate()
				causes := make(chan error, 1)
				task := Define(w.lane, "task", func(ctx context.Context, a *Attempt, _ number) (int, error) {
					if a.Number > 1 {
						return a.Number, nil
					}
					err := first.pass(ctx, !stubborn)
					causes <- context.Cause(ctx)
					return a.Number, err
				}, TaskOptions{})
				res := trigger(w, task, number{})
				cut := newCutOff(w.store)
				l, err := New(cut, Config{Environment: testEnv, Hooks: w.lane.hooks})
				if err != nil {
					t.Fatal(err)
				}
				l.tasks = w.lane.tasks
				stopFirst := w.start(l, WorkerConfig{Name: "first"})
				synctest.Wait()
				cut.set(true)
				stopSecond := w.start(w.lane, WorkerConfig{Name: "second"})
				if got, err := task.Wait(context.Background(), res.RunID); got != 2 || err != nil {
					t.Errorf("%d, %v", got, err)
				}
				cut.set(false)
				close(first.open)
				if cause := <-causes; cause != ErrLeaseLost {
					t.Errorf("the context ended with %v", cause)
				}
				time.Sleep(time.Minute)
				if err := errors.Join(stopFirst(), stopSecond()); err != nil {
					t.Error(err)
				}
				if got := w.types(res.RunID); got != "created started lease_expired started succeeded" {
					t.Error(got)
				}
				wantRun(t, w.run(res.RunID), run.StatusSucceeded, 2, 1)
				if o := w.outcomes(); o[OutcomeLost] != 1 || o[OutcomeSucceeded] != 1 {
					t.Errorf("%v", o)
				}
			})
		})
	}
}

// cutOff is a store that one process cannot reach for a while.
type cutOff struct {
	storage.Driver
	mu  sync.Mutex
	off bool
}

func newCutOff(d storage.Driver) *cutOff { return &cutOff{Driver: d} }

func (c *cutOff) set(off bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.off = off
}

func (c *cutOff) Transact(ctx context.Context, label string, fn func(context.Context, storage.Tx) error) (storage.Commit, error) {
	c.mu.Lock()
	off := c.off
	c.mu.Unlock()
	if off {
		return storage.Commit{}, storage.ErrUnavailable
	}
	return c.Driver.Transact(ctx, label, fn)
}

// A lease that was ended by somebody else is noticed by the next heartbeat.
func TestHeartbeatNoticesThatTheLeaseIsGone(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		g := newGate()
		causes := make(chan error, 1)
		task := Define(w.lane, "task", func(ctx context.Context, a *Attempt, _ number) (int, error) {
			if a.Number > 1 {
				return 0, nil
			}
			err := g.pass(ctx, true)
			causes <- err
			return 0, err
		}, TaskOptions{})
		res := trigger(w, task, number{})
		stop := w.work(WorkerConfig{})
		synctest.Wait()
		w.happen(res.RunID, func(r *run.Run) run.EventData {
			return run.LeaseExpired{Token: r.Lease.Token, Due: run.AtCommit}
		})
		begin := time.Now()
		if cause, took := <-causes, time.Since(begin); cause != ErrLeaseLost || took > DefaultLease/2 {
			t.Errorf("%v after %v", cause, took)
		}
		w.ended(res.RunID)
		stop()
		if got := w.types(res.RunID); got != "created started lease_expired started succeeded" {
			t.Error(got)
		}
	})
}

func TestCancellationRequest(t *testing.T) {
	for _, obeys := range []bool{true, false} {
		inBubble(t, func(t *testing.T, w *world) {
			task := Define(w.lane, "task", func(ctx context.Context, a *Attempt, _ number) (int, error) {
				<-ctx.Done()
				if context.Cause(ctx) != ErrCancellationRequested {
					t.Errorf("%v", context.Cause(ctx))
				}
				if obeys {
					return 0, ctx.Err()
				}
				return 7, nil
			}, TaskOptions{})
			res := trigger(w, task, number{}, TriggerOptions{IdempotencyKey: "k", IdempotencyTTL: WhileActive})
			stop := w.work(WorkerConfig{})
			synctest.Wait()
			w.happen(res.RunID, func(*run.Run) run.EventData { return run.CancellationRequested{} })
			w.ended(res.RunID)
			stop()
			want := "created started cancellation_requested succeeded"
			if obeys {
				want = "created started cancellation_requested cancelled"
			}
			if got := w.types(res.RunID); got != want {
				t.Error(got)
			}
		})
	}
}

// The handler fails just after somebody asked for the cancellation, before a
// heartbeat could tell: it is cancelled all the same, and frees its key.
func TestFailureAfterCancellationRequest(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		g := newGate()
		task := Define(w.lane, "task", func(ctx context.Context, a *Attempt, _ number) (int, error) {
			return 0, errors.Join(errBoom, g.pass(ctx, false))
		}, TaskOptions{})
		opts := TriggerOptions{IdempotencyKey: "k", IdempotencyTTL: WhileActive}
		res := trigger(w, task, number{}, opts)
		stop := w.work(WorkerConfig{})
		synctest.Wait()
		w.happen(res.RunID, func(*run.Run) run.EventData { return run.CancellationRequested{} })
		close(g.open)
		w.ended(res.RunID)
		if got := w.types(res.RunID); got != "created started cancellation_requested cancelled" {
			t.Error(got)
		}
		if again := trigger(w, task, number{}, TriggerOptions{IdempotencyKey: "k", Delay: time.Hour}); again.Existing {
			t.Error("the key is not free")
		}
		stop()
	})
}
