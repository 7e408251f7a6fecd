package lane

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/seed4391e180/runlane/run"
	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/codec"
)

// leaseTo gives a run to a worker that is never heard of again.
func (w *world) leaseTo(id, worker string) uuid.UUID {
	w.t.Helper()
	token := uuid.New()
	w.happen(id, func(r *run.Run) run.EventData {
		return run.Started{Lease: run.Lease{Token: token, Worker: worker, Attempt: r.Attempts + 1, Expires: time.Now().UTC().Add(DefaultLease), Duration: DefaultLease}}
	})
	return token
}

func TestRecover(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		once := Define(w.lane, "once", double, TaskOptions{MaxAttempts: 1})
		twice := Define(w.lane, "twice", double, TaskOptions{MaxAttempts: 2})
		opts := TriggerOptions{IdempotencyKey: "k", SingletonKey: "s"}
		failed, retried, stopped := trigger(w, once, number{}, opts), trigger(w, twice, number{}), trigger(w, twice, number{})
		for _, res := range []Triggered{failed, retried, stopped} {
			w.leaseTo(res.RunID, "dead")
		}
		w.happen(stopped.RunID, func(*run.Run) run.EventData { return run.CancellationRequested{} })

		// Never before the lease is over, although the index rounds.
		for time.Since(retried.Created) < DefaultLease-time.Second {
			if n, err := w.lane.Recover(context.Background()); n != 0 || err != nil {
				t.Fatalf("%d, %v after %v", n, err, time.Since(retried.Created))
			}
			time.Sleep(time.Second)
		}
		time.Sleep(time.Second + DefaultLease)
		if n, err := w.lane.Recover(context.Background()); n != 3 || err != nil {
			t.Errorf("%d, %v", n, err)
		}
		if n, err := w.lane.Recover(context.Background()); n != 0 || err != nil {
			t.Errorf("again: %d, %v", n, err)
		}
		wantRun(t, w.run(failed.RunID), run.StatusFailed, 1, 1)
		wantRun(t, w.run(retried.RunID), run.StatusRetrying, 1, 1)
		wantRun(t, w.run(stopped.RunID), run.StatusCancelled, 1, 0)
		if f := w.run(failed.RunID).Failure; f.Code != run.CodeLeaseExpired || w.recovered != 3 {
			t.Errorf("%+v, %d recovered", f, w.recovered)
		}
		if again := trigger(w, once, number{}, opts); again.Existing {
			t.Error("the keys of the failed run are not free")
		}
		defer w.work(WorkerConfig{})()
		w.ended(retried.RunID)
	})
}

func TestRecoverManyPagesAndOpaqueLeases(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		_, err := w.memory.Transact(context.Background(), "test.opaque", func(ctx context.Context, tx storage.Tx) error {
			for i := range 150 {
				key, err := codec.RunKey(testEnv, fmt.Sprint("opaque", i))
				if err != nil {
					return err
				}
				if err := tx.Create(ctx, storage.Record{Key: key, Document: []byte(`{}`), Entries: []storage.Entry{
					{Index: storage.RunsByLeaseExpiry, Partition: key.Partition, Sort: storage.CommitTime},
				}}); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		task := Define(w.lane, "double", double, TaskOptions{})
		results, err := task.TriggerMany(context.Background(), make([]Item[number], 250))
		if err != nil {
			t.Fatal(err)
		}
		for _, res := range results {
			w.leaseTo(res.RunID, "dead")
		}
		time.Sleep(time.Minute)
		if n, err := w.lane.Recover(context.Background()); n != 250 || err != nil {
			t.Errorf("%d, %v", n, err)
		}
	})
}

// lateFinish starts a worker that works on the task for 25 of the 30 seconds of a
// lease, does not renew it, and then waits with the outcome until late is closed.
// It returns after 45 seconds.
func (w *world) lateFinish() (res Triggered, late chan struct{}, stop func()) {
	task := Define(w.lane, "task", func(_ context.Context, a *Attempt, _ number) (int, error) {
		if a.Number == 1 {
			time.Sleep(25 * time.Second)
		}
		return a.Number, nil
	}, TaskOptions{})
	res = trigger(w, task, number{4})
	late = make(chan struct{})
	w.store.set(func(_ context.Context, label string) error {
		switch label {
		case "run.finish":
			<-late
		case "run.heartbeat":
			return storage.ErrUnavailable
		}
		return nil
	}, nil)
	stop = w.work(WorkerConfig{RecoverInterval: 10_000 * time.Hour})
	time.Sleep(45 * time.Second)
	return res, late, stop
}

// Whoever is first, the run ends once: the lease is over, but its owner is only late.
func TestRecoveryAgainstLateCompletion(t *testing.T) {
	for _, ownerFirst := range []bool{true, false} {
		t.Run(fmt.Sprint("owner first ", ownerFirst), func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				res, late, stop := w.lateFinish()
				if ownerFirst {
					close(late)
					synctest.Wait()
				}
				n, err := w.lane.Recover(context.Background())
				if err != nil {
					t.Fatal(err)
				}
				want := "created started succeeded"
				if !ownerFirst {
					close(late)
					want = "created started lease_expired started succeeded"
				}
				w.ended(res.RunID)
				stop()
				if got := w.types(res.RunID); got != want || (n == 0) != ownerFirst {
					t.Errorf("%d recovered: %s", n, got)
				}
			})
		})
	}
}

// The run has gone to somebody else when its old owner comes back.
func TestLateCompletionUnderAnotherLease(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		res, late, stop := w.lateFinish()
		w.happen(res.RunID, func(r *run.Run) run.EventData {
			return run.LeaseExpired{Token: r.Lease.Token, Due: time.Now().UTC().Add(time.Hour)}
		})
		token := w.leaseTo(res.RunID, "other")
		close(late)
		time.Sleep(time.Second)
		if r := w.run(res.RunID); r.Status != run.StatusRunning || r.Lease.Token != token {
			t.Errorf("%+v", r)
		}
		stop()
		if o := w.outcomes(); o[OutcomeLost] != 1 || len(o) != 1 {
			t.Errorf("%v", o)
		}
	})
}

// Recovery believes the lease, not the index that led to it.
func TestRecoveryReadsTheLease(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		task := Define(w.lane, "double", double, TaskOptions{})
		res := trigger(w, task, number{4})
		w.leaseTo(res.RunID, "alive")
		w.replaceRun(res.RunID, func(ctx context.Context, tx storage.Tx, key storage.Key) error {
			rec, _, err := tx.Get(ctx, key)
			if err != nil {
				return err
			}
			rec.Entries = []storage.Entry{{Index: storage.RunsByLeaseExpiry, Partition: key.Partition, Sort: storage.CommitTime}}
			return tx.Replace(ctx, rec)
		})
		time.Sleep(DefaultLease / 2)
		if n, err := w.lane.Recover(context.Background()); n != 0 || err != nil {
			t.Errorf("%d, %v", n, err)
		}
		time.Sleep(DefaultLease / 2)
		if n, err := w.lane.Recover(context.Background()); n != 1 || err != nil {
			t.Errorf("%d, %v", n, err)
		}
	})
}

// pausing stops transactions of a label after their first query.
type pausing struct {
	storage.Driver
	label string
	pause func()
}

type pausingTx struct {
	storage.Tx
	pause func()
}

func (p pausing) Transact(ctx context.Context, label string, fn func(context.Context, storage.Tx) error) (storage.Commit, error) {
	if label != p.label {
		return p.Driver.Transact(ctx, label, fn)
	}
	return p.Driver.Transact(ctx, label, func(ctx context.Context, tx storage.Tx) error { return fn(ctx, pausingTx{tx, p.pause}) })
}

func (p pausingTx) Query(ctx context.Context, q storage.Query) (storage.Page, error) {
	page, err := p.Tx.Query(ctx, q)
	p.pause()
	return page, err
}

// Recovery has read the expired lease when its owner completes.
func TestCompletionInTheMiddleOfRecovery(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		res, late, stop := w.lateFinish()
		between := sync.OnceFunc(func() {
			close(late)
			time.Sleep(100 * time.Millisecond)
		})
		other, err := New(pausing{w.memory, "run.recover", between}, Config{Environment: testEnv})
		if err != nil {
			t.Fatal(err)
		}
		n, err := other.Recover(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		w.ended(res.RunID)
		stop()
		want := map[int]string{0: "created started succeeded", 1: "created started lease_expired started succeeded"}[n]
		if got := w.types(res.RunID); got != want {
			t.Errorf("%d recovered: %s", n, got)
		}
	})
}

// A name is not a right: the lease of the old life must run out.
func TestRestartedWorkerDoesNotOwnItsOldLease(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		task := Define(w.lane, "double", double, TaskOptions{})
		res := trigger(w, task, number{4})
		token := w.leaseTo(res.RunID, "same")
		stop := w.work(WorkerConfig{Name: "same"})
		time.Sleep(DefaultLease - time.Second)
		if r := w.run(res.RunID); r.Status != run.StatusRunning || r.Lease.Token != token || time.Until(r.Lease.Expires) > time.Second {
			t.Errorf("%+v", r)
		}
		w.ended(res.RunID)
		stop()
		if got := w.types(res.RunID); got != "created started lease_expired started succeeded" {
			t.Error(got)
		}
	})
}
