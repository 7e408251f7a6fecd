package lane

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/seed4391e180/runlane/run"
	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/codec"
)

// limited makes a lane of another process with limits for the default queue.
func (w *world) limited(limits QueueLimits) *Lane {
	w.t.Helper()
	l, err := New(w.store, Config{Environment: testEnv, Hooks: w.lane.hooks, Limits: map[string]QueueLimits{DefaultQueue: limits}})
	if err != nil {
		w.t.Fatal(err)
	}
	return l
}

// slotsHeld counts the slots of the default queue that are held.
func (w *world) slotsHeld(keys ...string) int {
	w.t.Helper()
	n := 0
	for _, key := range append(keys, "") {
		for slot := 1; slot <= 20; slot++ {
			k, err := codec.QueueSlotKey(testEnv, DefaultQueue, key, slot)
			if err != nil {
				w.t.Fatal(err)
			}
			if _, found := w.get(k); found {
				n++
			}
		}
	}
	return n
}

// crowd counts how many handlers of each key run at once.
type crowd struct {
	mu   sync.Mutex
	now  map[string]int
	most map[string]int
}

func (c *crowd) enter(key string) (leave func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.now == nil {
		c.now, c.most = map[string]int{}, map[string]int{}
	}
	c.now[key]++
	c.most[key] = max(c.most[key], c.now[key])
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.now[key]--
	}
}

func (c *crowd) task(took time.Duration) Handler[number, int] {
	return func(_ context.Context, a *Attempt, _ number) (int, error) {
		defer c.enter(a.ConcurrencyKey)()
		defer c.enter("all")()
		time.Sleep(took)
		return 0, nil
	}
}

func TestLimitsHoldAcrossProcesses(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		var c crowd
		var stops []func() error
		var task *Task[number, int]
		for range 3 {
			l := w.limited(QueueLimits{Running: 5, PerKey: 2})
			task = Define(l, "task", c.task(time.Second), TaskOptions{})
			stops = append(stops, w.start(l, WorkerConfig{Concurrency: 20, PollInterval: time.Minute}))
		}
		var items []Item[number]
		for n := range 120 {
			items = append(items, Item[number]{Options: TriggerOptions{ConcurrencyKey: []string{"a", "b", "c", ""}[n%4]}})
		}
		began := time.Now()
		results, err := task.TriggerMany(context.Background(), items)
		if err != nil {
			t.Fatal(err)
		}
		for _, res := range results {
			w.ended(res.RunID)
		}
		// 120 runs of a second, five at a time: what waits for a slot gets it at once.
		if took := time.Since(began); took > 30*time.Second {
			t.Errorf("took %v", took)
		}
		if c.most["all"] != 5 || c.most["a"] != 2 || c.most["b"] != 2 || c.most["c"] != 2 {
			t.Errorf("at once: %v", c.most)
		}
		for _, stop := range stops {
			if err := stop(); err != nil {
				t.Error(err)
			}
		}
		if n := w.slotsHeld("a", "b", "c"); n != 0 {
			t.Errorf("%d slots are left", n)
		}
	})
}

// Runs that no slot is free for do not hide the ones behind them.
func TestBlockedRunsHideNobody(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		l := w.limited(QueueLimits{PerKey: 1})
		first := newGate()
		task := Define(l, "task", func(ctx context.Context, a *Attempt, _ number) (int, error) {
			if a.ConcurrencyKey == "busy" {
				return 0, first.pass(ctx, true)
			}
			return 0, nil
		}, TaskOptions{})
		var items []Item[number]
		for n := range 1101 {
			key := "busy"
			if n == 1000 {
				key = "other"
			}
			items = append(items, Item[number]{Options: TriggerOptions{ConcurrencyKey: key}})
		}
		results, err := task.TriggerMany(context.Background(), items)
		if err != nil {
			t.Fatal(err)
		}
		stop := w.start(l, WorkerConfig{Concurrency: 10})
		began := time.Now()
		w.ended(results[1000].RunID)
		w.ended(trigger(w, task, number{}).RunID)
		if took := time.Since(began); took > 3*time.Second {
			t.Errorf("took %v", took)
		}
		if _, _, n := first.counts(); n != 1 {
			t.Errorf("%d runs of the busy key", n)
		}
		close(first.open)
		for _, res := range results {
			w.ended(res.RunID)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
		if _, most, _ := first.counts(); most != 1 {
			t.Errorf("%d at once", most)
		}
	})
}

// The slots of a worker that is not heard of are free when its leases have ended,
// whatever becomes of the runs.
func TestSlotsOfADeadWorker(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		l := w.limited(QueueLimits{Running: 2})
		task := Define(l, "task", func(ctx context.Context, a *Attempt, _ number) (int, error) {
			if a.Number == 1 {
				<-ctx.Done()
				return 0, context.Cause(ctx)
			}
			return 0, nil
		}, TaskOptions{})
		for range 2 {
			trigger(w, task, number{})
		}
		cut := newCutOff(w.store)
		dead, err := New(cut, Config{Environment: testEnv, Limits: l.limits})
		if err != nil {
			t.Fatal(err)
		}
		dead.tasks = l.tasks
		stopDead := w.start(dead, WorkerConfig{RecoverInterval: 10_000 * time.Hour})
		for w.slotsHeld() < 2 {
			time.Sleep(time.Millisecond)
		}
		cut.set(true)
		stop := w.start(l, WorkerConfig{})
		began := time.Now()
		for _, r := range w.runs() {
			if got := w.ended(r.ID); got.Attempts != 2 {
				t.Errorf("%+v", got)
			}
		}
		if took := time.Since(began); took > 3*DefaultLease {
			t.Errorf("took %v", took)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
		cut.set(false)
		if err := stopDead(); err != nil {
			t.Error(err)
		}
		if n := w.slotsHeld(); n != 0 {
			t.Errorf("%d slots are left", n)
		}
	})
}

// Only slots whose leases are gone are reclaimed.
func TestReclaimSlots(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		l := w.limited(QueueLimits{Running: 3})
		hold := newGate()
		task := Define(l, "task", func(ctx context.Context, _ *Attempt, _ number) (int, error) { return 0, hold.pass(ctx, true) }, TaskOptions{})
		kept, gone := trigger(w, task, number{}), trigger(w, task, number{})
		stop := w.start(l, WorkerConfig{Lease: time.Minute, TickInterval: 10_000 * time.Hour})
		for w.slotsHeld() < 2 {
			time.Sleep(time.Millisecond)
		}
		w.replaceRun(gone.RunID, func(ctx context.Context, tx storage.Tx, key storage.Key) error { return tx.Delete(ctx, key) })
		if n, err := l.reclaimSlots(context.Background()); n != 0 || err != nil {
			t.Errorf("%d reclaimed before a lease has ended, %v", n, err)
		}
		time.Sleep(90 * time.Second)
		if n, err := l.reclaimSlots(context.Background()); n != 1 || err != nil {
			t.Errorf("%d reclaimed, %v", n, err)
		}
		if n, err := l.reclaimSlots(context.Background()); n != 0 || err != nil {
			t.Errorf("%d reclaimed again, %v", n, err)
		}
		if n := w.slotsHeld(); n != 1 {
			t.Errorf("%d slots are held", n)
		}
		close(hold.open)
		w.ended(kept.RunID)
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

func TestPauseQueue(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		ctx := context.Background()
		hold := newGate()
		long := Define(w.lane, "long", func(ctx context.Context, _ *Attempt, _ number) (int, error) { return 0, hold.pass(ctx, true) }, TaskOptions{})
		task := Define(w.lane, "double", double, TaskOptions{})
		other := Define(w.lane, "other", double, TaskOptions{Queue: "other"})
		stop := w.work(WorkerConfig{})
		running := trigger(w, long, number{})
		w.reaches(running.RunID, run.StatusRunning)
		for _, reason := range []string{"the first", "another"} {
			if err := w.lane.PauseQueue(ctx, DefaultQueue, reason); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(2 * DefaultPollInterval)
		waits := trigger(w, task, number{1})
		w.ended(trigger(w, other, number{1}).RunID)
		close(hold.open)
		w.ended(running.RunID)
		time.Sleep(time.Minute)
		if got := w.types(waits.RunID); got != "created" {
			t.Error(got)
		}
		many := make([]string, 0, 2*maxPeeks)
		for n := range 2 * maxPeeks {
			many = append(many, fmt.Sprint("queue ", n))
		}
		many[maxPeeks+7] = DefaultQueue
		paused, err := w.lane.PausedQueues(ctx, many...)
		if err != nil || len(paused) != 1 || paused[0].Queue != DefaultQueue || paused[0].Reason != "the first" || paused[0].Since.IsZero() {
			t.Errorf("%+v, %v", paused, err)
		}
		for range 2 {
			if err := w.lane.ResumeQueue(ctx, DefaultQueue); err != nil {
				t.Fatal(err)
			}
		}
		began := time.Now()
		w.ended(waits.RunID)
		if took := time.Since(began); took > 2*DefaultPollInterval {
			t.Errorf("took %v", took)
		}
		stop()
		for _, err := range []error{w.lane.PauseQueue(ctx, "a:b", ""), w.lane.ResumeQueue(ctx, "")} {
			if !refused(err) {
				t.Errorf("%v", err)
			}
		}
	})
}

func TestBadLimits(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		for _, limits := range []map[string]QueueLimits{
			{"": {}}, {"a:b": {Running: 1}}, {"q": {Running: -1}}, {"q": {PerKey: -1}}, {"q": {Running: MaxQueueLimit + 1}}, {"q": {PerKey: MaxQueueLimit + 1}},
		} {
			if _, err := New(w.store, Config{Environment: testEnv, Limits: limits}); err == nil {
				t.Errorf("%v is accepted", limits)
			}
		}
	})
}

// A key that more slots would have to be looked at for than a claim looks at waits
// its turn.
func TestManyKeysInOnePage(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		l := w.limited(QueueLimits{PerKey: 900})
		task := Define(l, "task", func(context.Context, *Attempt, number) (int, error) { return 0, nil }, TaskOptions{})
		var items []Item[number]
		for n := range 40 {
			items = append(items, Item[number]{Options: TriggerOptions{ConcurrencyKey: fmt.Sprint(n)}})
		}
		results, err := task.TriggerMany(context.Background(), items)
		if err != nil {
			t.Fatal(err)
		}
		stop := w.start(l, WorkerConfig{Concurrency: 40})
		began := time.Now()
		for _, res := range results {
			w.ended(res.RunID)
		}
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("took %v", took)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}
