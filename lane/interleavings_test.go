package lane

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/seed4391e180/runlane/run"
	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/codec"
)

// leased is a run of a task that a worker holds, with the means to end its attempt.
type leased struct {
	world  *world
	worker *worker
	claim  *claim
}

// lease makes a worker hold a run, as if it had claimed it.
func (w *world) lease(id string, def *definition, lease time.Duration) *leased {
	w.t.Helper()
	worker, err := newWorker(w.lane, WorkerConfig{Name: "w", Queues: []string{DefaultQueue}, Lease: lease})
	if err != nil {
		w.t.Fatal(err)
	}
	token := uuid.New()
	w.happen(id, func(r *run.Run) run.EventData {
		return run.Started{Lease: run.Lease{Token: token, Worker: "w", Attempt: r.Attempts + 1, Expires: time.Now().Add(lease), Duration: lease}}
	})
	r := w.run(id)
	key, err := codec.RunKey(testEnv, id)
	if err != nil {
		w.t.Fatal(err)
	}
	rec, _ := w.get(key)
	rec.Entries = nil
	c := &claim{
		id: id, def: def, token: token, began: time.Now(), attempt: newAttempt(&r), payload: r.Payload,
		eventID: uuid.New(), run: r, record: rec, renewed: time.Now(),
	}
	c.ctx, c.cancel = context.WithCancelCause(context.Background())
	worker.held[c] = struct{}{}
	worker.running = 1
	return &leased{w, worker, c}
}

// ends ends the attempt with what a handler returned, and resumes who waits for it.
func (l *leased) ends(err error) func(ctx context.Context) {
	return func(ctx context.Context) {
		l.worker.keep = ctx
		l.worker.handOver(l.claim, l.worker.judge(l.claim, []byte(`1`), err))
		l.worker.send(ctx, l.worker.take())
		l.worker.beside.Wait()
	}
}

// claimer claims what is due and leaves it leased.
func (w *world) claimer() func(ctx context.Context) {
	worker, err := newWorker(w.lane, WorkerConfig{Name: "other", Queues: []string{DefaultQueue}})
	if err != nil {
		w.t.Fatal(err)
	}
	return func(ctx context.Context) {
		ended, cancel := context.WithCancel(ctx)
		cancel() // so that no handler is begun: what was claimed is given back
		worker.keep = ctx
		if err := worker.claimOnce(ended, ctx, worker.parts, 10); err != nil {
			w.t.Error(err)
		}
		for batch := worker.take(); len(batch) > 0; batch = worker.take() {
			worker.send(ctx, batch)
		}
		worker.beside.Wait()
	}
}

func (w *world) define(name string) *Task[number, number] {
	return Define(w.lane, name, double, TaskOptions{MaxAttempts: 3, Backoff: Fixed(time.Hour)})
}

// A run begins to wait for another while that one ends, is cancelled with its
// worker gone, or fails: in no order of the steps is it left waiting.
func TestEveryOrderOfWaitAndEnd(t *testing.T) {
	for name, end := range map[string]error{"succeeds": nil, "fails": Permanent(errBoom)} {
		t.Run(name, func(t *testing.T) {
			n := explore(t, 1_000_000, func(w *world) ([]func(context.Context), func()) {
				task := w.define("task")
				source, waiter := trigger(w, task, number{}).RunID, trigger(w, task, number{}).RunID
				s, r := w.lease(source, task.def, time.Minute), w.lease(waiter, task.def, time.Minute)
				return []func(context.Context){s.ends(end), r.ends(r.claim.attempt.WaitFor(source))}, func() {
					if got := w.types(waiter); got != "created started waiting resumed" {
						w.t.Errorf("the waiter: %s", got)
					}
					if !w.run(source).Status.Terminal() {
						w.t.Errorf("the source is %s", w.run(source).Status)
					}
				}
			})
			t.Logf("%d orders", n)
		})
	}
}

// A run begins to wait for one that ends, and that another one waits for already. That
// has some 8,600 orders; some of them are played.
func TestEveryOrderOfWaitAndEndWithAnother(t *testing.T) {
	sample(t, 500, func(w *world) ([]func(context.Context), func()) {
		task := w.define("task")
		source, first, second := trigger(w, task, number{}).RunID, trigger(w, task, number{}).RunID, trigger(w, task, number{}).RunID
		s := w.lease(source, task.def, time.Minute)
		f, r := w.lease(first, task.def, time.Minute), w.lease(second, task.def, time.Minute)
		f.ends(f.claim.attempt.WaitFor(source))(context.Background())
		return []func(context.Context){s.ends(nil), r.ends(r.claim.attempt.WaitFor(source))}, func() {
			for _, id := range []string{first, second} {
				if got := w.types(id); got != "created started waiting resumed" {
					w.t.Errorf("a waiter: %s", got)
				}
			}
		}
	})
}

// A lease expires while its worker ends the attempt: exactly one of them decides.
func TestEveryOrderOfRecoveryAndLateWorker(t *testing.T) {
	n := explore(t, 1_000_000, func(w *world) ([]func(context.Context), func()) {
		task := w.define("task")
		id := trigger(w, task, number{}).RunID
		s := w.lease(id, task.def, time.Second)
		time.Sleep(3 * time.Second) // the index rounds up
		recovers := func(ctx context.Context) {
			if _, err := w.lane.Recover(ctx); err != nil {
				w.t.Error(err)
			}
		}
		s.claim.renewed = time.Now() // the worker believes that it is in time
		return []func(context.Context){s.ends(nil), recovers}, func() {
			if got := w.types(id); got != "created started succeeded" && got != "created started lease_expired" {
				w.t.Error(got)
			}
		}
	})
	t.Logf("%d orders", n)
}

// The same, with another worker that takes the run as soon as it can.
func TestEveryOrderOfRecoveryAndNextWorker(t *testing.T) {
	n := explore(t, 1_000_000, func(w *world) ([]func(context.Context), func()) {
		task := w.define("task")
		id := trigger(w, task, number{}).RunID
		s := w.lease(id, task.def, time.Second)
		time.Sleep(3 * time.Second)
		claim := w.claimer()
		next := func(ctx context.Context) {
			if _, err := w.lane.Recover(ctx); err != nil {
				w.t.Error(err)
			}
			claim(ctx)
		}
		s.claim.renewed = time.Now()
		return []func(context.Context){s.ends(nil), next}, func() {
			switch got := w.types(id); got {
			case "created started succeeded", "created started lease_expired started released":
			case "created started lease_expired": // the claim passed over what the late worker had locked
			default:
				w.t.Error(got)
			}
		}
	})
	t.Logf("%d orders", n)
}

// Two triggers with one key, while the run that holds the key fails and so frees
// it: the key stands for one active run, and both are told of it or of the old one.
func TestEveryOrderOfTriggersWithOneKey(t *testing.T) {
	for name, opts := range map[string]TriggerOptions{"idempotency": {IdempotencyKey: "k"}, "singleton": {SingletonKey: "k"}} {
		t.Run(name, func(t *testing.T) {
			n := explore(t, 1_000_000, func(w *world) ([]func(context.Context), func()) {
				task := w.define("task")
				old := trigger(w, task, number{}, opts).RunID
				s := w.lease(old, task.def, time.Minute)
				var results [2]Triggered
				again := func(i int) func(ctx context.Context) {
					return func(ctx context.Context) {
						var err error
						if results[i], err = task.Trigger(ctx, number{}, opts); err != nil {
							w.t.Error(err)
						}
					}
				}
				// The first trigger and the failure are one actor: what follows each other has
				// fewer orders, and the key is freed between any two steps of the second.
				first := func(ctx context.Context) {
					s.ends(Permanent(errBoom))(ctx)
					again(0)(ctx)
				}
				return []func(context.Context){first, again(1)}, func() { judgeKey(w, old, results[:]) }
			})
			t.Logf("%d orders", n)
		})
	}
}

func judgeKey(w *world, old string, results []Triggered) {
	active := map[string]bool{}
	for _, r := range w.runs() {
		if r.Status.Active() {
			active[r.ID] = true
		}
	}
	if len(active) != 1 {
		w.t.Errorf("%d active runs hold the key", len(active))
	}
	made := 0
	for i, res := range results {
		if !res.Existing {
			made++
		}
		if !active[res.RunID] && (res.RunID != old || i == 0) {
			w.t.Errorf("trigger %d was told of run %q", i, res.RunID)
		}
	}
	if made != 1 {
		w.t.Errorf("%d triggers made a run", made)
	}
}

var _ storage.Driver = steppedDriver{}

func cancels(w *world, id string) func(ctx context.Context) {
	return func(ctx context.Context) {
		if _, err := w.lane.Cancel(ctx, id, "enough"); err != nil {
			w.t.Error(err)
		}
	}
}

// A run is cancelled while its worker ends the attempt: the result counts, or the
// cancellation does, and the request is heeded if it came first.
func TestEveryOrderOfCancelAndFinish(t *testing.T) {
	for name, c := range map[string]struct {
		end  error
		want map[string]bool
	}{
		"a result": {nil, map[string]bool{
			"created started succeeded": true, "created started cancellation_requested succeeded": true,
		}},
		"an error": {errBoom, map[string]bool{
			"created started retry_scheduled cancelled": true, "created started cancellation_requested cancelled": true,
		}},
		"a failure": {Permanent(errBoom), map[string]bool{
			"created started failed": true, "created started cancellation_requested cancelled": true,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			seen := map[string]bool{}
			n := explore(t, 1_000_000, func(w *world) ([]func(context.Context), func()) {
				task := w.define("task")
				id := trigger(w, task, number{}, TriggerOptions{IdempotencyKey: "k", SingletonKey: "s"}).RunID
				s := w.lease(id, task.def, time.Minute)
				return []func(context.Context){s.ends(c.end), cancels(w, id)}, func() {
					got := w.types(id)
					seen[got] = true
					if !c.want[got] {
						w.t.Error(got)
					}
				}
			})
			if len(seen) != len(c.want) {
				t.Errorf("of %v only %v came up", c.want, seen)
			}
			t.Logf("%d orders", n)
		})
	}
}

// A run that waits is cancelled while what it waits for ends: it is not begun again
// after it was cancelled, and not left waiting.
func TestEveryOrderOfCancelAndEndOfWait(t *testing.T) {
	n := explore(t, 1_000_000, func(w *world) ([]func(context.Context), func()) {
		task := w.define("task")
		source, waiter := trigger(w, task, number{}).RunID, trigger(w, task, number{}).RunID
		s, r := w.lease(source, task.def, time.Minute), w.lease(waiter, task.def, time.Minute)
		r.ends(r.claim.attempt.WaitFor(source))(context.Background())
		return []func(context.Context){s.ends(nil), cancels(w, waiter)}, func() {
			if got := w.types(waiter); got != "created started waiting cancelled" && got != "created started waiting resumed cancelled" {
				w.t.Error(got)
			}
		}
	})
	t.Logf("%d orders", n)
}

// A source is cancelled, not ended by a worker, while another run begins to wait for it.
func TestEveryOrderOfCancelAndWait(t *testing.T) {
	n := explore(t, 1_000_000, func(w *world) ([]func(context.Context), func()) {
		task := w.define("task")
		source, waiter := trigger(w, task, number{}).RunID, trigger(w, task, number{}).RunID
		r := w.lease(waiter, task.def, time.Minute)
		return []func(context.Context){cancels(w, source), r.ends(r.claim.attempt.WaitFor(source))}, func() {
			if got := w.types(waiter); got != "created started waiting resumed" {
				w.t.Error(got)
			}
		}
	})
	t.Logf("%d orders", n)
}

// A run is pruned while another begins to wait for it: it sees the end, or learns that
// nothing is there; it does not wait for ever.
func TestEveryOrderOfPruneAndWait(t *testing.T) {
	n := explore(t, 1_000_000, func(w *world) ([]func(context.Context), func()) {
		task := w.define("task")
		source, waiter := trigger(w, task, number{}).RunID, trigger(w, task, number{}).RunID
		w.lease(source, task.def, time.Minute).ends(nil)(context.Background())
		r := w.lease(waiter, task.def, time.Hour)
		time.Sleep(time.Minute)
		prunes := func(ctx context.Context) {
			if _, err := w.lane.Prune(ctx, PruneOptions{OlderThan: time.Second}); err != nil {
				w.t.Error(err)
			}
		}
		return []func(context.Context){prunes, r.ends(r.claim.attempt.WaitFor(source))}, func() {
			if got := w.types(waiter); got != "created started waiting resumed" && got != "created started failed" {
				w.t.Error(got)
			}
		}
	})
	t.Logf("%d orders", n)
}
