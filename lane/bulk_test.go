package lane

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/seed4391e180/runlane/run"
	"github.com/seed4391e180/runlane/storage"
)

func TestCancelMany(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		ctx := context.Background()
		task := Define(w.lane, "task", double, TaskOptions{})
		var ids []string
		for range 30 {
			for _, s := range run.Statuses() {
				ids = append(ids, w.inStatus(task, s, TriggerOptions{}))
			}
		}
		o := BulkOptions{Reason: "enough", DryRun: true, Limit: 120}
		for _, dry := range []bool{true, false} {
			o.DryRun = dry
			var all BulkCancel
			calls := 0
			for o.Resume = (BulkResume{}); ; {
				res, err := w.lane.CancelMany(ctx, o)
				if err != nil {
					t.Fatal(err)
				}
				calls++
				all.Runs = append(all.Runs, res.Runs...)
				all.Cancelled += res.Cancelled
				all.Requested += res.Requested
				all.Ended += res.Ended
				all.Failed += res.Failed
				if o.Resume = res.Resume; o.Resume.IsZero() {
					break
				}
			}
			if all.Cancelled != 150 || all.Requested != 60 || all.Ended != 90 || all.Failed != 0 || calls != 3 {
				t.Errorf("dry %v: %d calls, %d, %d, %d, %d", dry, calls, all.Cancelled, all.Requested, all.Ended, all.Failed)
			}
			for i, item := range all.Runs {
				if item.RunID != ids[i] || item.Err != nil {
					t.Fatalf("item %d is %+v", i, item)
				}
				if s := w.run(ids[i]).Status; item.Status != s {
					t.Errorf("item %d is %+v, and the run %s", i, item, s)
				}
			}
			if n := w.store.count("run.cancel"); dry && n != 0 || !dry && n != 5 { // of 100, 20, 100, 20 and 60 runs
				t.Errorf("dry %v: %d transactions", dry, n)
			}
		}
		for _, r := range w.runs() {
			if r.Status.Active() && r.Status != run.StatusCancellationRequested {
				t.Errorf("run is %s", r.Status)
			}
		}
	})
}

func TestRetryMany(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		ctx := context.Background()
		task := Define(w.lane, "task", double, TaskOptions{})
		origins := map[string]bool{}
		for i := range 250 {
			var opts TriggerOptions
			if i%5 == 0 {
				opts.IdempotencyKey = fmt.Sprint(i % 10) // each of two keys 25 times
			}
			origins[w.inStatus(task, run.StatusFailed, opts)] = true
		}
		time.Sleep(time.Second)
		o := BulkOptions{Filter: storage.RunFilter{Statuses: []run.Status{run.StatusFailed}}}
		dry := o
		dry.DryRun = true
		would, err := w.lane.RetryMany(ctx, dry)
		if err != nil || would.Made != 250 || len(w.runs()) != 250 {
			t.Errorf("%d, %v", would.Made, err)
		}
		// The first call dies after its second transaction; the next one repeats it.
		n := 0
		w.store.set(nil, func(_ context.Context, label string) error {
			if n++; label == "run.again" && n >= 3 {
				return storage.ErrCommitUnknown
			}
			return nil
		})
		part, err := w.lane.RetryMany(ctx, o)
		if !errors.Is(err, storage.ErrCommitUnknown) || part.Resume.IsZero() {
			t.Fatalf("%+v, %v", part.Resume, err)
		}
		w.store.set(nil, nil)
		o.Resume = part.Resume
		rest, err := w.lane.RetryMany(ctx, o)
		if err != nil || !rest.Resume.IsZero() {
			t.Fatal(err)
		}
		if got := len(part.Runs) + len(rest.Runs); got != 250 {
			t.Errorf("%d items", got)
		}
		children := 0
		for _, r := range w.runs() {
			if r.Source.Type == run.SourceManualRetry {
				children++
				if !origins[r.Source.RunID] {
					t.Errorf("%+v", r.Source)
				}
			}
		}
		if children != 200+2 {
			t.Errorf("%d children", children)
		}
		// Once more from the start: everything is there.
		o.Resume = BulkResume{}
		again, err := w.lane.RetryMany(ctx, o)
		if err != nil || again.Made != 0 || again.Existing != 250 {
			t.Errorf("%d made, %d existing, %v", again.Made, again.Existing, err)
		}
		time.Sleep(time.Second)
		everything, err := w.lane.RetryMany(ctx, BulkOptions{DryRun: true})
		if err != nil || everything.Failed != 202 {
			t.Errorf("%d, %v", everything.Failed, err)
		}
	})
}

// A retry that fails at once and matches the filter is not retried by the same call.
func TestRetryManyDoesNotChaseItsChildren(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		task := Define(w.lane, "task", double, TaskOptions{})
		for range 2 {
			w.inStatus(task, run.StatusFailed, TriggerOptions{})
		}
		time.Sleep(time.Second)
		w.store.set(nil, func(_ context.Context, label string) error {
			if label == "run.again" {
				w.inStatus(task, run.StatusFailed, TriggerOptions{})
				time.Sleep(time.Second)
			}
			return nil
		})
		o := BulkOptions{Filter: storage.RunFilter{Statuses: []run.Status{run.StatusFailed}}, Limit: 1}
		made := 0
		for range 10 {
			res, err := w.lane.RetryMany(context.Background(), o)
			if err != nil {
				t.Fatal(err)
			}
			made += res.Made
			if o.Resume = res.Resume; o.Resume.IsZero() {
				break
			}
		}
		w.store.set(nil, nil)
		if made != 2 || !o.Resume.IsZero() {
			t.Errorf("%d made, resume %+v", made, o.Resume)
		}
	})
}

// Large runs share out over transactions, and what concerns one run does not keep
// the others.
func TestBulkBatches(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		ctx := context.Background()
		task := Define(w.lane, "large", func(context.Context, *Attempt, string) (int, error) { return 0, nil }, TaskOptions{})
		for range 30 {
			trigger(w, task, strings.Repeat("x", MaxPayload-2))
		}
		res, err := w.lane.CancelMany(ctx, BulkOptions{})
		if err != nil || res.Cancelled != 30 {
			t.Fatalf("%d, %v", res.Cancelled, err)
		}
		if n := w.store.count("run.cancel"); n != 2 {
			t.Errorf("%d transactions", n)
		}
	})
	things := []int{1, 2, 3, 4, 5, 6, 7}
	got, err := inBatches(things, func(some []int) ([]int, error) {
		for _, n := range some {
			if n == 3 {
				return nil, &RunExistsError{RunID: "3"}
			}
		}
		return some[:min(2, len(some))], nil
	}, func(n int, _ error) int { return -n })
	if fmt.Sprint(got) != "[1 2 -3 4 5 6 7]" || err != nil {
		t.Errorf("%v, %v", got, err)
	}
	got, err = inBatches(things, func(some []int) ([]int, error) { return nil, errBoom }, nil)
	if got != nil || !errors.Is(err, errBoom) {
		t.Errorf("%v, %v", got, err)
	}
}

func TestBulkOptions(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		for want, o := range map[error]BulkOptions{
			nil:                          {Filter: storage.RunFilter{Environment: testEnv}},
			storage.ErrUnsupportedFilter: {Filter: storage.RunFilter{Tasks: []string{"task"}}},
			storage.ErrInvalidCursor:     {Resume: BulkResume{Cursor: "x", Began: time.Now()}},
		} {
			if _, err := w.lane.CancelMany(context.Background(), o); !errors.Is(err, want) {
				t.Errorf("cancel: %v, want %v", err, want)
			}
			if _, err := w.lane.RetryMany(context.Background(), o); !errors.Is(err, want) {
				t.Errorf("retry: %v, want %v", err, want)
			}
		}
		for _, o := range []BulkOptions{{Limit: -1}, {Filter: storage.RunFilter{Environment: "other"}}} {
			if _, err := w.lane.CancelMany(context.Background(), o); err == nil {
				t.Errorf("%+v is taken", o)
			}
		}
	})
}
