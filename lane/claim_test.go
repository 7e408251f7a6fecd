package lane

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed4391e180/runlane/run"
	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/codec"
)

func TestConcurrencyIsKept(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		g := newGate()
		task := Define(w.lane, "task", func(ctx context.Context, _ *Attempt, _ number) (int, error) { return 0, g.pass(ctx, false) }, TaskOptions{})
		if _, err := task.TriggerMany(context.Background(), make([]Item[number], 100)); err != nil {
			t.Fatal(err)
		}
		stop := w.work(WorkerConfig{Concurrency: 7})
		synctest.Wait()
		if inside, _, _ := g.counts(); inside != 7 {
			t.Errorf("%d handlers run", inside)
		}
		if n := w.store.count("run.claim"); n != 1 {
			t.Errorf("%d claims for one batch", n)
		}
		close(g.open)
		time.Sleep(time.Minute)
		stop()
		if _, most, entered := g.counts(); most != 7 || entered != 100 {
			t.Errorf("%d handlers at once, %d in all", most, entered)
		}
		if n := w.outcomes()[OutcomeSucceeded]; n != 100 {
			t.Errorf("%d succeeded", n)
		}
	})
}

// Storing outcomes takes no slot, but not without bound: a worker whose store
// refuses outcomes stops claiming.
func TestOutcomesWaitWithoutBeingForgotten(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		task := Define(w.lane, "double", double, TaskOptions{})
		if _, err := task.TriggerMany(context.Background(), make([]Item[number], 50)); err != nil {
			t.Fatal(err)
		}
		w.store.set(failing("run.finish", -1, storage.ErrUnavailable), nil)
		stop := w.work(WorkerConfig{Concurrency: 5})
		time.Sleep(5 * time.Second)
		running := 0
		for _, r := range w.runs() {
			if r.Status == run.StatusRunning {
				running++
			}
		}
		if running != 10 {
			t.Errorf("%d runs are held", running)
		}
		w.store.set(nil, nil)
		time.Sleep(time.Minute)
		stop()
		if n := w.outcomes()[OutcomeSucceeded]; n != 50 {
			t.Errorf("%v", w.outcomes())
		}
	})
}

func TestPriorities(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		var order []int
		task := Define(w.lane, "task", func(_ context.Context, a *Attempt, _ number) (int, error) {
			order = append(order, a.Priority)
			return 0, nil
		}, TaskOptions{})
		for _, priority := range []int{4, 0, 3, 1, 2, 4, 1} {
			trigger(w, task, number{}, TriggerOptions{Priority: priority})
		}
		stop := w.work(WorkerConfig{Concurrency: 1})
		time.Sleep(time.Minute)
		stop()
		if fmt.Sprint(order) != "[1 1 2 2 3 4 4]" {
			t.Error(order)
		}
	})
}

// What a claim had no room to ask for is asked when there is room, not at the next poll.
func TestWhatAClaimHadNoRoomForIsNotForgotten(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		var ids []string
		for _, queue := range []string{"a", "b"} {
			task := Define(w.lane, "in "+queue, double, TaskOptions{Queue: queue})
			for priority := 1; priority <= 4; priority++ {
				ids = append(ids, trigger(w, task, number{}, TriggerOptions{Priority: priority}).RunID)
			}
		}
		stop := w.work(WorkerConfig{Concurrency: 1, PollInterval: never})
		time.Sleep(100 * time.Millisecond)
		for _, id := range ids {
			wantRun(t, w.run(id), run.StatusSucceeded, 1, 0)
		}
		stop()
	})
}

// Neither one opaque candidate nor 1,000 of them hide the run behind them.
func TestIneligibleCandidatesHideNothing(t *testing.T) {
	for _, c := range []struct{ opaque, concurrency int }{{1, 1}, {1000, 1}, {1000, 100}, {500, 500}} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				task := Define(w.lane, "double", double, TaskOptions{})
				w.putOpaque(DefaultQueue, run.PriorityDefault, c.opaque, time.Now().Add(-time.Hour))
				time.Sleep(time.Second)
				behind, err := task.TriggerMany(context.Background(), make([]Item[number], 5))
				if err != nil {
					t.Fatal(err)
				}
				stop := w.work(WorkerConfig{Concurrency: c.concurrency, PollInterval: time.Hour})
				time.Sleep(100 * time.Millisecond)
				for _, res := range behind {
					wantRun(t, w.run(res.RunID), run.StatusSucceeded, 1, 0)
				}
				if n := w.skipped(SkipOpaque); n < c.opaque || n > 2*c.opaque {
					t.Errorf("%d skipped", n)
				}
				if n := w.store.count("run.claim"); n > 20 {
					t.Errorf("%d claims", n)
				}
				// Once passed over, they do not stand in the way of what is new.
				second := trigger(w, task, number{2})
				time.Sleep(10 * time.Millisecond)
				wantRun(t, w.run(second.RunID), run.StatusSucceeded, 1, 0)
				stop()
			})
		})
	}
}

// A page that was made large to get past ineligible candidates holds more runs
// than there are slots: the others come next, without a poll.
func TestRunsBehindTheSlotsOfALargePage(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		task := Define(w.lane, "double", double, TaskOptions{})
		w.putOpaque(DefaultQueue, run.PriorityDefault, 50, time.Now().Add(-time.Hour))
		var results []Triggered
		for range 150 {
			results = append(results, trigger(w, task, number{1}))
			time.Sleep(scanMargin / 25)
		}
		stop := w.work(WorkerConfig{Concurrency: 1, PollInterval: never})
		time.Sleep(time.Second)
		for _, res := range results {
			wantRun(t, w.run(res.RunID), run.StatusSucceeded, 1, 0)
		}
		stop()
	})
}

// Opaque candidates between runs, more of both than a page holds.
func TestManyIneligibleCandidatesBetweenMany(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		g := newGate()
		close(g.open)
		task := Define(w.lane, "task", func(ctx context.Context, _ *Attempt, _ number) (int, error) { return 0, g.pass(ctx, false) }, TaskOptions{})
		begin := time.Now()
		for range 4 {
			w.putOpaque(DefaultQueue, run.PriorityDefault, 150, time.Now())
			if _, err := task.TriggerMany(context.Background(), make([]Item[number], 50)); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
		}
		stop := w.work(WorkerConfig{Concurrency: 20})
		time.Sleep(time.Minute)
		stop()
		if _, most, entered := g.counts(); most > 20 || entered != 200 {
			t.Errorf("%d at once, %d in all after %v", most, entered, time.Since(begin))
		}
	})
}

func TestUnknownTaskIsGivenBackWithADelay(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		newTask := Define[number, number](w.lane, "new", nil, TaskOptions{})
		old := Define(w.lane, "old", double, TaskOptions{})
		waiting := trigger(w, newTask, number{5})
		done := trigger(w, old, number{1})
		stop := w.work(WorkerConfig{Concurrency: 1})
		time.Sleep(time.Second)
		wantRun(t, w.run(done.RunID), run.StatusSucceeded, 1, 0)
		wantRun(t, w.run(waiting.RunID), run.StatusReleased, 0, 0)
		if n := w.skipped(SkipUnknownTask); n != 1 {
			t.Errorf("%d skipped", n)
		}
		stop()

		deployed := w.newLane()
		Define(deployed, "new", double, TaskOptions{})
		stopNew := w.start(deployed, WorkerConfig{})
		begin := time.Now()
		if got, err := newTask.Wait(context.Background(), waiting.RunID); err != nil || got.N != 10 {
			t.Errorf("%v, %v", got, err)
		}
		if took := time.Since(begin); took > unknownTaskDelay+5*time.Second {
			t.Errorf("took %v", took)
		}
		if err := stopNew(); err != nil {
			t.Error(err)
		}
		if got := w.types(waiting.RunID); got != "created released started succeeded" {
			t.Error(got)
		}
	})
}

// A run that a claim cannot write stands in nobody's way. Nothing of ours makes
// such a run: here its document is as large as a document can be.
func TestRunThatCannotBeClaimed(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		task := Define(w.lane, "double", double, TaskOptions{})
		big := trigger(w, task, number{1})
		w.replaceRun(big.RunID, func(ctx context.Context, tx storage.Tx, key storage.Key) error {
			rec, _, err := tx.Get(ctx, key)
			if err != nil {
				return err
			}
			r, _ := codec.DecodeRun(rec)
			r.Metadata = map[string]string{"k": ""}
			if rec, err = codec.EncodeRun(r); err != nil {
				return err
			}
			r.Metadata["k"] = strings.Repeat("x", storage.DefaultLimits().MaxDocument-len(rec.Document))
			if rec, err = codec.EncodeRun(r); err != nil {
				return err
			}
			return tx.Replace(ctx, rec)
		})
		time.Sleep(time.Second)
		small := trigger(w, task, number{2})
		stop := w.work(WorkerConfig{Concurrency: 1})
		time.Sleep(3 * time.Second)
		stop()
		wantRun(t, w.run(small.RunID), run.StatusSucceeded, 1, 0)
		wantRun(t, w.run(big.RunID), run.StatusQueued, 0, 0)
		w.replaceRun(big.RunID, func(ctx context.Context, tx storage.Tx, key storage.Key) error { return tx.Delete(ctx, key) })
	})
}

// What does not fit into one transaction is claimed by several.
func TestClaimsFitBytes(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		task := Define(w.lane, "text", func(context.Context, *Attempt, string) (int, error) { return 0, nil }, TaskOptions{})
		for range 30 {
			trigger(w, task, strings.Repeat("x", 1000))
		}
		worker, err := newWorker(w.lane, WorkerConfig{Concurrency: 50})
		if err != nil {
			t.Fatal(err)
		}
		worker.byteCap = 10_000
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- worker.run(ctx) }()
		time.Sleep(time.Minute)
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if n := w.outcomes()[OutcomeSucceeded]; n != 30 {
			t.Errorf("%v", w.outcomes())
		}
		if n := w.store.count("run.finish"); n < 4 {
			t.Errorf("%d transactions finish 30 runs", n)
		}
	})
}

// querySpy sees the queries of claims.
type querySpy struct {
	storage.Driver
	mu      sync.Mutex
	queries []storage.Query
}

type queryTx struct {
	storage.Tx
	spy *querySpy
}

func (s *querySpy) Transact(ctx context.Context, label string, fn func(context.Context, storage.Tx) error) (storage.Commit, error) {
	if label != "run.claim" {
		return s.Driver.Transact(ctx, label, fn)
	}
	return s.Driver.Transact(ctx, label, func(ctx context.Context, tx storage.Tx) error { return fn(ctx, queryTx{tx, s}) })
}

func (t queryTx) Query(ctx context.Context, q storage.Query) (storage.Page, error) {
	t.spy.mu.Lock()
	t.spy.queries = append(t.spy.queries, q)
	t.spy.mu.Unlock()
	return t.Tx.Query(ctx, q)
}

// A busy worker begins at the front of a range only now and then; what is due
// behind the point where it goes on is late, and not lost.
func TestBusyWorkerRarelyScansFromTheFront(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		spy := &querySpy{Driver: w.store}
		l, err := New(spy, Config{Environment: testEnv})
		if err != nil {
			t.Fatal(err)
		}
		task := Define(l, "slow", func(context.Context, *Attempt, number) (int, error) {
			time.Sleep(100 * time.Millisecond)
			return 0, nil
		}, TaskOptions{})
		if _, err := task.TriggerMany(context.Background(), make([]Item[number], 1000)); err != nil {
			t.Fatal(err)
		}
		stop := w.start(l, WorkerConfig{Concurrency: 2, PollInterval: time.Hour})
		time.Sleep(5 * time.Second)
		begin := time.Now()
		past := trigger(w, task, number{}, TriggerOptions{RunAt: begin.Add(-time.Hour)})
		w.ended(past.RunID)
		if took := time.Since(begin); took > scanWhenBusy+time.Second {
			t.Errorf("the run that was due behind the point took %v", took)
		}
		time.Sleep(15 * time.Second)
		if err := stop(); err != nil {
			t.Error(err)
		}
		front, all := 0, 0
		key, err := codec.DuePartition(testEnv, DefaultQueue, run.PriorityDefault)
		if err != nil {
			t.Fatal(err)
		}
		for _, q := range spy.queries {
			if q.Partition == key {
				all++
				if q.From.IsZero() && q.Resume.IsZero() {
					front++
				}
			}
		}
		if all < 100 || front > 5 {
			t.Errorf("%d of %d scans from the front", front, all)
		}
	})
}

// Runs that other transactions hold locked, or that appear late, are found later.
func TestLockedCandidateIsFoundLater(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		task := Define(w.lane, "double", double, TaskOptions{})
		held := trigger(w, task, number{1})
		free := trigger(w, task, number{2})
		key, err := codec.RunKey(testEnv, held.RunID)
		if err != nil {
			t.Fatal(err)
		}
		release := make(chan struct{})
		done := make(chan error)
		go func() {
			_, err := w.memory.Transact(context.Background(), "test.lock", func(ctx context.Context, tx storage.Tx) error {
				if _, _, err := tx.Get(ctx, key); err != nil {
					return err
				}
				if _, err := tx.Now(ctx); err != nil {
					return err
				}
				<-release
				return nil
			})
			done <- err
		}()
		synctest.Wait()
		stop := w.work(WorkerConfig{})
		time.Sleep(30 * time.Second)
		wantRun(t, w.run(free.RunID), run.StatusSucceeded, 1, 0)
		wantRun(t, w.run(held.RunID), run.StatusQueued, 0, 0)
		close(release)
		if err := <-done; err != nil {
			t.Error(err)
		}
		time.Sleep(2 * time.Second)
		wantRun(t, w.run(held.RunID), run.StatusSucceeded, 1, 0)
		stop()
	})
}
