package lane

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/seed4391e180/runlane/run"
	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/codec"
)

// steps are the events that lead from a new run to a status. A scheduled run is one
// with a delay.
var steps = map[run.Status][]run.EventType{
	run.StatusQueued:                {},
	run.StatusScheduled:             {},
	run.StatusRunning:               {run.TypeStarted},
	run.StatusReleased:              {run.TypeStarted, run.TypeReleased},
	run.StatusRetrying:              {run.TypeStarted, run.TypeRetryScheduled},
	run.StatusWaiting:               {run.TypeStarted, run.TypeWaiting},
	run.StatusCancellationRequested: {run.TypeStarted, run.TypeCancellationRequested},
	run.StatusSucceeded:             {run.TypeStarted, run.TypeSucceeded},
	run.StatusFailed:                {run.TypeStarted, run.TypeFailed},
	run.StatusCancelled:             {run.TypeCancelled},
}

// inStatus makes a run of the task that has a status.
func (w *world) inStatus(task *Task[number, number], s run.Status, opts TriggerOptions) string {
	w.t.Helper()
	if s == run.StatusScheduled {
		opts.Delay = time.Hour
	}
	id := trigger(w, task, number{7}, opts).RunID
	for _, typ := range steps[s] {
		w.befall(id, func(r *run.Run) run.EventData {
			var token uuid.UUID
			if r.Lease != nil {
				token = r.Lease.Token
			}
			switch typ {
			case run.TypeStarted:
				return run.Started{Lease: run.Lease{
					Token: uuid.New(), Worker: "other", Attempt: r.Attempts + 1,
					Expires: time.Now().UTC().Add(DefaultLease).Truncate(time.Microsecond), Duration: DefaultLease,
				}}
			case run.TypeReleased:
				return run.Released{Token: token, Due: run.AtCommit.Add(time.Hour)}
			case run.TypeRetryScheduled:
				return run.RetryScheduled{Token: token, Due: run.AtCommit.Add(time.Hour), Failure: run.Failure{Code: "error"}}
			case run.TypeWaiting:
				return run.Waiting{Token: token, For: "another"}
			case run.TypeCancellationRequested:
				return run.CancellationRequested{}
			case run.TypeSucceeded:
				return run.Succeeded{Token: token, Result: []byte("14")}
			case run.TypeFailed:
				return run.Failed{Token: token, Failure: run.Failure{Code: "error", Message: "boom"}}
			default:
				return run.Cancelled{Token: token}
			}
		}, true)
	}
	if got := w.run(id).Status; got != s {
		w.t.Fatalf("run is %s, not %s", got, s)
	}
	return id
}

// What Cancel, Retry and Rerun make of a run of every status.
func TestEveryStatusAndAction(t *testing.T) {
	table := []struct {
		status        run.Status
		cancel        CancelOutcome
		after         run.Status
		retry, rerun  bool
		keepsIdemKey  bool // with WhileActive, after the cancellation
		keepsSingular bool
	}{
		{status: run.StatusQueued, cancel: CancelDone, after: run.StatusCancelled},
		{status: run.StatusScheduled, cancel: CancelDone, after: run.StatusCancelled},
		{status: run.StatusReleased, cancel: CancelDone, after: run.StatusCancelled},
		{status: run.StatusRetrying, cancel: CancelDone, after: run.StatusCancelled},
		{status: run.StatusWaiting, cancel: CancelDone, after: run.StatusCancelled},
		{status: run.StatusRunning, cancel: CancelRequested, after: run.StatusCancellationRequested, keepsIdemKey: true, keepsSingular: true},
		{status: run.StatusCancellationRequested, cancel: CancelRequested, after: run.StatusCancellationRequested, keepsIdemKey: true, keepsSingular: true},
		{status: run.StatusSucceeded, cancel: CancelTooLate, after: run.StatusSucceeded, rerun: true},
		{status: run.StatusFailed, cancel: CancelTooLate, after: run.StatusFailed, retry: true, rerun: true},
		{status: run.StatusCancelled, cancel: CancelTooLate, after: run.StatusCancelled, rerun: true},
	}
	if len(table) != len(run.Statuses()) {
		t.Fatal("a status is missing")
	}
	for _, row := range table {
		t.Run(string(row.status), func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				ctx := context.Background()
				task := Define(w.lane, "task", double, TaskOptions{MaxAttempts: 3})
				id := w.inStatus(task, row.status, TriggerOptions{})
				for _, a := range []struct {
					action string
					legal  bool
					do     func(context.Context, string, ...AgainOptions) (Triggered, error)
				}{{"retry", row.retry, w.lane.Retry}, {"rerun", row.rerun, w.lane.Rerun}} {
					res, err := a.do(ctx, id)
					var refused *StatusError
					switch {
					case a.legal && (err != nil || res.Existing || res.RunID == id):
						t.Errorf("%s: %+v, %v", a.action, res, err)
					case !a.legal && (!errors.As(err, &refused) || *refused != StatusError{id, row.status, a.action}):
						t.Errorf("%s: %+v, %v", a.action, res, err)
					}
				}
				before := w.types(id)
				keyed := w.inStatus(task, row.status, TriggerOptions{IdempotencyKey: "k", IdempotencyTTL: WhileActive, SingletonKey: "s"})
				for range 2 { // the second time changes nothing
					want := Cancellation{RunID: keyed, Outcome: row.cancel, Status: row.after}
					got, err := w.lane.Cancel(ctx, keyed, "enough")
					if err != nil || got != want {
						t.Errorf("cancel: %+v, %v; want %+v", got, err, want)
					}
					if row.cancel == CancelDone {
						row.cancel = CancelTooLate
					}
				}
				r := w.run(keyed)
				if r.Status != row.after {
					t.Errorf("the run is %s", r.Status)
				}
				if again := w.inStatusKeys(task, keyed); again != [2]bool{row.keepsIdemKey, row.keepsSingular} {
					t.Errorf("keys are held: %v", again)
				}
				if w.types(id) != before {
					t.Errorf("another run has changed: %s", w.types(id))
				}
			})
		})
	}
}

// inStatusKeys tells which of the keys "k" and "s" are owned by a run.
func (w *world) inStatusKeys(task *Task[number, number], id string) (holds [2]bool) {
	w.t.Helper()
	idem, err := codec.IdempotencyKey(testEnv, task.def.name, "k")
	if err != nil {
		w.t.Fatal(err)
	}
	single, err := codec.SingletonKey(testEnv, task.def.name, "s")
	if err != nil {
		w.t.Fatal(err)
	}
	for i, key := range []storage.Key{idem, single} {
		if rec, found := w.get(key); found {
			o, _ := decodeOwner(rec)
			holds[i] = o.runID == id
		}
	}
	return holds
}

func TestNoSuchRun(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		ctx := context.Background()
		task := Define(w.lane, "task", double, TaskOptions{})
		w.putOpaque("q", 1, 1, time.Unix(1, 0))
		hidden := w.inStatus(task, run.StatusFailed, TriggerOptions{})
		w.hide(hidden)
		for _, id := range []string{"none", "opaque-1000000-0", hidden} {
			_, cancel := w.lane.Cancel(ctx, id, "")
			_, retry := w.lane.Retry(ctx, id)
			_, rerun := w.lane.Rerun(ctx, id)
			_, get := w.lane.Get(ctx, id)
			for i, err := range []error{cancel, retry, rerun, get} {
				if !errors.Is(err, ErrNoRun) {
					t.Errorf("%s, %d: %v", id, i, err)
				}
			}
		}
		var input *storage.InputError
		if _, err := w.lane.Get(ctx, "\x00"); !errors.As(err, &input) {
			t.Errorf("%v", err)
		}
		if _, err := w.lane.Cancel(ctx, strings.Repeat("x", 256), ""); !errors.As(err, &input) {
			t.Errorf("%v", err)
		}
		id := w.inStatus(task, run.StatusSucceeded, TriggerOptions{})
		if r, err := w.lane.Get(ctx, id); err != nil || r.ID != id || string(r.Result) != "14" {
			t.Errorf("%+v, %v", r, err)
		}
	})
}

// hide replaces a run by a tombstone, as a pruner would that ends right after.
func (w *world) hide(id string) {
	w.t.Helper()
	r := w.run(id)
	rec, err := tombstoneOf(&r)
	if err != nil {
		w.t.Fatal(err)
	}
	_, err = w.memory.Transact(context.Background(), "test.hide", func(ctx context.Context, tx storage.Tx) error {
		if _, _, err := tx.Get(ctx, rec.Key); err != nil {
			return err
		}
		return tx.Replace(ctx, rec)
	})
	if err != nil {
		w.t.Fatal(err)
	}
}

// The handler's context ends at once if the wake arrives, and otherwise with the
// next heartbeat; then the run is cancelled, or keeps the result that the handler
// still has.
func TestCancelRunning(t *testing.T) {
	for name, c := range map[string]struct {
		deaf   bool
		within time.Duration
		result bool
		want   run.Status
	}{
		"awake":       {within: 0, want: run.StatusCancelled},
		"deaf":        {deaf: true, within: DefaultLease / 3, want: run.StatusCancelled},
		"with result": {result: true, want: run.StatusSucceeded},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				w.store.deaf = c.deaf
				heard := make(chan time.Time, 1)
				task := Define(w.lane, "task", func(ctx context.Context, _ *Attempt, _ number) (number, error) {
					<-ctx.Done()
					if !errors.Is(context.Cause(ctx), ErrCancellationRequested) {
						t.Errorf("cause: %v", context.Cause(ctx))
					}
					heard <- time.Now()
					if c.result {
						return number{1}, nil
					}
					return number{}, context.Cause(ctx)
				}, TaskOptions{})
				defer w.work(WorkerConfig{})()
				// An id of full length: the topic is too long to be spelt out.
				res := trigger(w, task, number{}, TriggerOptions{RunID: strings.Repeat("r", 255), SingletonKey: "s"})
				w.reaches(res.RunID, run.StatusRunning)
				asked := time.Now()
				got, err := w.newLane().Cancel(context.Background(), res.RunID, "enough\x00")
				if err != nil || got.Outcome != CancelRequested {
					t.Fatalf("%+v, %v", got, err)
				}
				if took := (<-heard).Sub(asked); took > c.within {
					t.Errorf("heard of it after %v", took)
				}
				if r := w.ended(res.RunID); r.Status != c.want {
					t.Errorf("%+v", r)
				}
				for _, e := range w.history(res.RunID) {
					if d, ok := e.Data.(run.CancellationRequested); ok && !strings.HasPrefix(d.Reason, "enough") {
						t.Errorf("reason %q", d.Reason)
					}
				}
				if again, err := w.lane.Cancel(context.Background(), res.RunID, ""); err != nil || again.Outcome != CancelTooLate || again.Status != c.want {
					t.Errorf("again: %+v, %v", again, err)
				}
			})
		})
	}
}

// Nobody looks for runs that nobody cancels.
func TestCancelCostsNothingElsewhere(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		g := newGate()
		task := Define(w.lane, "task", func(ctx context.Context, _ *Attempt, _ number) (number, error) {
			return number{}, g.pass(ctx, true)
		}, TaskOptions{})
		defer w.work(WorkerConfig{})()
		held := trigger(w, task, number{})
		w.reaches(held.RunID, run.StatusRunning)
		queued := trigger(w, task, number{}, TriggerOptions{Delay: time.Hour})
		if _, err := w.lane.Cancel(context.Background(), queued.RunID, ""); err != nil {
			t.Fatal(err)
		}
		other := w.inStatus(Define(w.lane, "elsewhere", double, TaskOptions{Queue: "elsewhere"}), run.StatusScheduled, TriggerOptions{})
		w.leaseTo(other, "other")
		if _, err := w.lane.Cancel(context.Background(), other, ""); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if n := w.store.count("run.heed"); n != 0 {
			t.Errorf("%d looks", n)
		}
		// A hint is no more than that.
		_, err := w.memory.Transact(context.Background(), "test.hint", func(_ context.Context, tx storage.Tx) error {
			return tx.Wake(w.lane.cancelTopic(held.RunID))
		})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if n := w.store.count("run.heed"); n != 1 || w.outcomes()[OutcomeSucceeded] != 0 {
			t.Errorf("%d looks", n)
		}
		close(g.open)
		wantRun(t, w.ended(held.RunID), run.StatusSucceeded, 1, 0)
	})
}

// A worker that comes back on an older lease changes nothing about a run that was
// cancelled meanwhile, whoever held it last.
func TestLateWorkerAfterCancel(t *testing.T) {
	for _, held := range []bool{false, true} {
		inBubble(t, func(t *testing.T, w *world) {
			res, late, stop := w.lateFinish()
			if held { // recovery finds the request when the lease is over
				if _, err := w.lane.Cancel(context.Background(), res.RunID, ""); err != nil {
					t.Fatal(err)
				}
				w.befall(res.RunID, func(r *run.Run) run.EventData { return expiry(r, time.Now().UTC()) }, true)
			} else { // the lease is over, and then somebody cancels
				w.befall(res.RunID, func(r *run.Run) run.EventData { return expiry(r, time.Now().UTC().Add(time.Hour)) }, true)
				if _, err := w.lane.Cancel(context.Background(), res.RunID, ""); err != nil {
					t.Fatal(err)
				}
			}
			before := w.types(res.RunID)
			close(late)
			time.Sleep(time.Second)
			if r := w.run(res.RunID); r.Status != run.StatusCancelled || w.types(res.RunID) != before {
				t.Errorf("%s, then %s", before, w.types(res.RunID))
			}
			stop()
			if o := w.outcomes(); o[OutcomeLost] != 1 || len(o) != 1 {
				t.Errorf("%v", o)
			}
		})
	}
}

// A cancellation races with the end of the run, or of its lease: one of them wins,
// and Cancel says which.
func TestCancelRaces(t *testing.T) {
	for _, rival := range []string{"finish", "recovery"} {
		t.Run(rival, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				task := Define(w.lane, "task", double, TaskOptions{MaxAttempts: 5, Backoff: Fixed(time.Hour)})
				for range 50 {
					id := w.inStatus(task, run.StatusRunning, TriggerOptions{SingletonKey: "s"})
					var both sync.WaitGroup
					var got Cancellation
					if rival == "recovery" {
						time.Sleep(2 * DefaultLease)
					}
					both.Go(func() {
						var err error
						if got, err = w.lane.Cancel(context.Background(), id, ""); err != nil {
							t.Error(err)
						}
					})
					both.Go(func() {
						if rival == "recovery" {
							if _, err := w.newLane().Recover(context.Background()); err != nil {
								t.Error(err)
							}
							return
						}
						w.befall(id, func(r *run.Run) run.EventData { return run.Succeeded{Token: r.Lease.Token} }, true)
					})
					both.Wait()
					r := w.run(id)
					types := w.types(id)
					ok := map[CancelOutcome][]string{
						CancelTooLate:   {"created started succeeded", "created started cancellation_requested cancelled"},
						CancelRequested: {"created started cancellation_requested succeeded", "created started cancellation_requested cancelled", "created started cancellation_requested"},
						CancelDone:      {"created started lease_expired cancelled"},
					}
					found := false
					for _, want := range ok[got.Outcome] {
						found = found || want == types
					}
					if !found {
						t.Fatalf("%+v, but %s: %s", got, r.Status, types)
					}
					if r.Status.Active() { // recovery was first and saw no request
						time.Sleep(2 * DefaultLease)
						if _, err := w.lane.Recover(context.Background()); err != nil {
							t.Fatal(err)
						}
					}
				}
			})
		})
	}
}

func TestCancelFaults(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		ctx := context.Background()
		task := Define(w.lane, "task", double, TaskOptions{})
		id := w.inStatus(task, run.StatusQueued, TriggerOptions{})
		w.store.set(failing("run.cancel", 1, storage.ErrUnavailable), nil)
		if _, err := w.lane.Cancel(ctx, id, ""); !errors.Is(err, storage.ErrUnavailable) || w.run(id).Status != run.StatusQueued {
			t.Errorf("%v, %s", err, w.run(id).Status)
		}
		w.store.set(nil, failing("run.cancel", 1, storage.ErrCommitUnknown))
		if _, err := w.lane.Cancel(ctx, id, ""); !errors.Is(err, storage.ErrCommitUnknown) {
			t.Error(err)
		}
		if got, err := w.lane.Cancel(ctx, id, ""); err != nil || got.Outcome != CancelTooLate || got.Status != run.StatusCancelled {
			t.Errorf("%+v, %v", got, err)
		}
		if w.types(id) != "created cancelled" {
			t.Error(w.types(id))
		}
	})
}
