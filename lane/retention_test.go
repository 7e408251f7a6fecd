package lane

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/seed4391e180/runlane/run"
	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/codec"
	"github.com/seed4391e180/runlane/storage/memory"
)

func (w *world) tick(l *Lane) int {
	w.t.Helper()
	n, err := l.tickRetention(context.Background())
	if err != nil {
		w.t.Fatal(err)
	}
	return n
}

func TestRetention(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		task := Define(w.lane, "task", double, TaskOptions{})
		long := w.busy(task, 6000, TriggerOptions{}) // more than one call may delete
		for range 250 {
			w.inStatus(task, run.StatusSucceeded, TriggerOptions{})
		}
		w.putEndedOpaque(300) // more than one call looks at
		time.Sleep(time.Hour)
		late := w.inStatus(task, run.StatusFailed, TriggerOptions{})

		keeps, err := New(w.store, Config{Environment: testEnv, Retention: KeepForever})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(DefaultRetention - 2*time.Hour)
		if n := w.tick(w.lane); n != 0 {
			t.Errorf("%d pruned too early", n)
		}
		time.Sleep(time.Hour + time.Second)
		if n := w.tick(keeps); n != 0 {
			t.Errorf("%d pruned although they are kept for ever", n)
		}
		before := w.store.count("run.prune_events")
		if n := w.tick(w.lane); n != 19 { // the page of the long run without it
			t.Errorf("%d pruned at first", n)
		}
		if n := w.store.count("run.prune_events") - before; n != tidyTrips-1 {
			t.Errorf("%d transactions", n)
		}
		total := 19
		for range 8 {
			n := w.tick(w.lane)
			if total += n; n > tidyRuns {
				t.Errorf("%d pruned in one call", n)
			}
		}
		if runs, tombstones, events := w.records(long); total != 251 || runs+tombstones+events != 0 {
			t.Errorf("%d pruned; %d, %d, %d", total, runs, tombstones, events)
		}
		time.Sleep(time.Hour)
		for range 4 { // the opaque runs come first
			total += w.tick(w.lane)
		}
		if runs, _, _ := w.records(late); runs != 0 || total != 252 {
			t.Errorf("the late run is there: %d, %d pruned", runs, total)
		}
	})
}

func TestRetentionConfig(t *testing.T) {
	for retention, ok := range map[time.Duration]bool{0: true, KeepForever: true, 1: true, -2: false} {
		store := memory.New(memory.Config{})
		if _, err := New(store, Config{Environment: testEnv, Retention: retention}); (err == nil) != ok {
			t.Errorf("%v: %v", retention, err)
		}
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestExpiredKeys(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		ctx := context.Background()
		task := Define(w.lane, "task", double, TaskOptions{})
		var items []Item[number]
		for i := range 450 {
			items = append(items, Item[number]{Options: TriggerOptions{IdempotencyKey: string(rune('a' + i)), IdempotencyTTL: time.Hour}})
		}
		items = append(items,
			Item[number]{Options: TriggerOptions{IdempotencyKey: "long", IdempotencyTTL: 2 * time.Hour}},
			Item[number]{Options: TriggerOptions{IdempotencyKey: "active", IdempotencyTTL: WhileActive}})
		if _, err := task.TriggerMany(ctx, items); err != nil {
			t.Fatal(err)
		}
		w.putOpaqueOwner(time.Now())
		time.Sleep(time.Hour - time.Microsecond)
		if n, err := w.lane.tickExpiredKeys(ctx); n != 0 || err != nil {
			t.Errorf("too early: %d, %v", n, err)
		}
		time.Sleep(time.Microsecond)
		if n, err := w.lane.tickExpiredKeys(ctx); n != 450 || err != nil {
			t.Errorf("%d, %v", n, err)
		}
		for key, existing := range map[string]bool{"a": false, "long": true, "active": true} {
			if res := trigger(w, task, number{}, TriggerOptions{IdempotencyKey: key}); res.Existing != existing {
				t.Errorf("%s: %+v", key, res)
			}
		}
		w.store.set(failing("key.expire", 1, errBoom), nil)
		if _, err := w.lane.tickExpiredKeys(ctx); !errors.Is(err, errBoom) {
			t.Error(err)
		}
	})
}

func (w *world) putOpaqueOwner(expired time.Time) {
	w.t.Helper()
	key, err := codec.IdempotencyKey(testEnv, "task", "opaque")
	if err != nil {
		w.t.Fatal(err)
	}
	owner, err := codec.EncodeIdempotencyOwner(codec.IdempotencyOwner{Environment: testEnv, Task: "task", Key: "opaque", RunID: "r", Expires: expired.UTC()})
	if err != nil {
		w.t.Fatal(err)
	}
	_, err = w.memory.Transact(context.Background(), "test.owner", func(ctx context.Context, tx storage.Tx) error {
		return tx.Create(ctx, storage.Record{Key: key, Document: []byte(`{"codec":"idempotency_owner","v":99,"value":{}}`), Entries: owner.Entries})
	})
	if err != nil {
		w.t.Fatal(err)
	}
}

func TestResetKey(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		ctx := context.Background()
		task := Define(w.lane, "task", double, TaskOptions{})
		opts := TriggerOptions{IdempotencyKey: "k"}
		first := trigger(w, task, number{}, opts)
		if id, err := w.lane.ResetKey(ctx, "task", "k"); id != first.RunID || err != nil {
			t.Errorf("%q, %v", id, err)
		}
		if id, err := w.lane.ResetKey(ctx, "task", "k"); id != "" || err != nil {
			t.Errorf("again: %q, %v", id, err)
		}
		second := trigger(w, task, number{}, opts)
		if second.Existing {
			t.Error("the key is held")
		}
		defer w.work(WorkerConfig{})()
		if r := w.ended(first.RunID); r.Status != run.StatusSucceeded {
			t.Errorf("the run does not go on: %+v", r)
		}
		w.ended(second.RunID)
		if again := trigger(w, task, number{}, opts); again.RunID != second.RunID {
			t.Error("the first run has freed the key of the second")
		}
		w.putOpaqueOwner(time.Now())
		if _, err := w.lane.ResetKey(ctx, "task", "opaque"); !errors.Is(err, ErrOpaqueOwner) {
			t.Error(err)
		}
		var input *storage.InputError
		if _, err := w.lane.ResetKey(ctx, "a:b", "k"); !errors.As(err, &input) {
			t.Error(err)
		}
	})
}
