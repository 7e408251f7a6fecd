package lane

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/seed4391e180/runlane/run"
	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/codec"
)

// obey ends its run as the payload says.
func obey(_ context.Context, a *Attempt, how string) (string, error) {
	switch how {
	case "fail":
		return "", Permanent(errBoom)
	case "release":
		return "", a.Release(1000 * time.Hour)
	}
	return how, nil
}

func TestIdempotencyKey(t *testing.T) {
	cases := []struct {
		name     string
		how      string        // what becomes of the first run; "" leaves it queued
		ttl      time.Duration // of its key
		later    time.Duration // between the first trigger and the second
		existing bool
	}{
		{"queued", "", 0, time.Hour, true},
		{"queued, 30 days less a second", "", 0, DefaultIdempotencyTTL - time.Second, true},
		{"queued, 30 days", "", 0, DefaultIdempotencyTTL, false},
		{"succeeded", "succeed", 0, time.Hour, true},
		{"succeeded, over", "succeed", time.Hour, time.Hour, false},
		{"waits for its time", "release", 0, time.Hour, true},
		{"failed", "fail", 0, time.Hour, false},
		{"cancelled", "cancel", 0, time.Hour, true},
		{"while active: queued", "", WhileActive, 10000 * time.Hour, true},
		{"while active: released", "release", WhileActive, 100 * time.Hour, true},
		{"while active: succeeded", "succeed", WhileActive, time.Hour, false},
		{"while active: failed", "fail", WhileActive, time.Hour, false},
		{"while active: cancelled", "cancel", WhileActive, time.Hour, false},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				task := Define(w.lane, "obey", obey, TaskOptions{})
				other := Define(w.lane, "other", obey, TaskOptions{Queue: "other"})
				begin := time.Now()
				first := trigger(w, task, c.how, TriggerOptions{IdempotencyKey: "k:1", IdempotencyTTL: c.ttl})
				switch c.how {
				case "":
				case "cancel":
					w.cancel(first.RunID)
				default:
					stop := w.work(WorkerConfig{Queues: []string{DefaultQueue}})
					w.reaches(first.RunID, map[string]run.Status{"succeed": run.StatusSucceeded, "fail": run.StatusFailed, "release": run.StatusReleased}[c.how])
					stop()
				}
				time.Sleep(time.Until(begin.Add(c.later)))
				second := trigger(w, task, "again", TriggerOptions{IdempotencyKey: "k:1"})
				if second.Existing != c.existing || (second.RunID == first.RunID) != c.existing {
					t.Errorf("%+v after %+v", second, first)
				}
				if c.existing && !second.Created.Equal(first.Created) {
					t.Errorf("created %v, not %v", second.Created, first.Created)
				}
				// The key belongs to the run that was returned last.
				if third := trigger(w, task, "again", TriggerOptions{IdempotencyKey: "k:1"}); !third.Existing || third.RunID != second.RunID {
					t.Errorf("%+v after %+v", third, second)
				}
				for _, different := range []Triggered{
					trigger(w, task, "x", TriggerOptions{IdempotencyKey: "k:2"}),
					trigger(w, other, "x", TriggerOptions{IdempotencyKey: "k:1"}),
				} {
					if different.Existing {
						t.Errorf("another key, or another task's: %+v", different)
					}
				}
			})
		})
	}
}

// cancel ends a run that nobody holds, and frees its owners.
func (w *world) cancel(id string) {
	w.t.Helper()
	key, err := codec.RunKey(testEnv, id)
	if err != nil {
		w.t.Fatal(err)
	}
	_, err = w.memory.Transact(context.Background(), "test.cancel", func(ctx context.Context, tx storage.Tx) error {
		rec, _, err := tx.Get(ctx, key)
		if err != nil {
			return err
		}
		r, _ := codec.DecodeRun(rec)
		s, err := w.lane.newStep(&r, w.lane.source.id(), run.AtCommit, run.Cancelled{})
		if err != nil {
			return err
		}
		return stageAll(ctx, tx, []step{s})
	})
	if err != nil {
		w.t.Fatal(err)
	}
}

// An owner whose run is gone, or hidden by a tombstone, holds nothing.
func TestIdempotencyOwnerWithoutRun(t *testing.T) {
	for _, tombstone := range []bool{false, true} {
		inBubble(t, func(t *testing.T, w *world) {
			task := Define(w.lane, "obey", obey, TaskOptions{})
			opts := TriggerOptions{IdempotencyKey: "k"}
			first := trigger(w, task, "x", opts)
			w.replaceRun(first.RunID, func(ctx context.Context, tx storage.Tx, key storage.Key) error {
				if !tombstone {
					return tx.Delete(ctx, key)
				}
				rec, err := codec.EncodeTombstone(testEnv, first.RunID)
				if err != nil {
					return err
				}
				return tx.Replace(ctx, rec)
			})
			if second := trigger(w, task, "x", opts); second.Existing || second.RunID == first.RunID {
				t.Errorf("tombstone %v: %+v", tombstone, second)
			}
			// The same, with the id of the run that is gone.
			if !tombstone {
				third := trigger(w, task, "x", TriggerOptions{IdempotencyKey: "k2", RunID: "mine"})
				event, err := codec.EventKey(testEnv, w.history("mine")[0].ID)
				if err != nil {
					t.Fatal(err)
				}
				w.replaceRun("mine", func(ctx context.Context, tx storage.Tx, key storage.Key) error {
					if _, _, err := tx.Get(ctx, event); err != nil {
						return err
					}
					return errors.Join(tx.Delete(ctx, key), tx.Delete(ctx, event))
				})
				if again := trigger(w, task, "x", TriggerOptions{IdempotencyKey: "k2", RunID: "mine"}); again.Existing || again.RunID != third.RunID {
					t.Errorf("%+v", again)
				}
			}
		})
	}
}

func (w *world) replaceRun(id string, fn func(ctx context.Context, tx storage.Tx, key storage.Key) error) {
	w.t.Helper()
	key, err := codec.RunKey(testEnv, id)
	if err != nil {
		w.t.Fatal(err)
	}
	_, err = w.memory.Transact(context.Background(), "test.replace", func(ctx context.Context, tx storage.Tx) error {
		if _, _, err := tx.Get(ctx, key); err != nil {
			return err
		}
		return fn(ctx, tx, key)
	})
	if err != nil {
		w.t.Fatal(err)
	}
}

// What another version wrote is not overruled.
func TestIdempotencyOwnerOfAnotherVersion(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		task := Define(w.lane, "obey", obey, TaskOptions{})
		opts := TriggerOptions{IdempotencyKey: "k"}
		first := trigger(w, task, "x", opts)
		w.replaceRun(first.RunID, func(ctx context.Context, tx storage.Tx, key storage.Key) error {
			return tx.Replace(ctx, storage.Record{Key: key, Document: []byte(`{"codec":"run","v":99}`)})
		})
		if second := trigger(w, task, "x", opts); !second.Existing || second.RunID != first.RunID || !second.Created.IsZero() {
			t.Errorf("the run is opaque: %+v", second)
		}
		key, err := codec.IdempotencyKey(testEnv, "obey", "k")
		if err != nil {
			t.Fatal(err)
		}
		_, err = w.memory.Transact(context.Background(), "test.replace", func(ctx context.Context, tx storage.Tx) error {
			if _, _, err := tx.Get(ctx, key); err != nil {
				return err
			}
			return tx.Replace(ctx, storage.Record{Key: key, Document: []byte(`{"codec":"idempotency_owner","v":99}`)})
		})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := task.Trigger(context.Background(), "x", opts); !errors.Is(err, ErrOpaqueOwner) {
			t.Errorf("the owner is opaque: %v", err)
		}
	})
}

func TestSingletonKey(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		task := Define(w.lane, "obey", obey, TaskOptions{})
		opts := TriggerOptions{SingletonKey: "s"}
		first := trigger(w, task, "succeed", opts)
		if second := trigger(w, task, "x", opts); !second.Existing || second.RunID != first.RunID {
			t.Errorf("%+v", second)
		}
		// A run that one key holds back does not take the other.
		both := TriggerOptions{SingletonKey: "s", IdempotencyKey: "k"}
		if third := trigger(w, task, "x", both); !third.Existing || third.RunID != first.RunID {
			t.Errorf("%+v", third)
		}
		if free := trigger(w, task, "fail", TriggerOptions{IdempotencyKey: "k"}); free.Existing {
			t.Errorf("%+v", free)
		}
		defer w.work(WorkerConfig{})()
		w.ended(first.RunID)
		for range 3 {
			next := trigger(w, task, "fail", opts)
			if next.Existing {
				t.Errorf("%+v", next)
			}
			w.ended(next.RunID)
		}
	})
}

func TestSameKeyTwiceInABatch(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		task := Define(w.lane, "obey", obey, TaskOptions{})
		old := trigger(w, task, "x", TriggerOptions{IdempotencyKey: "old"})
		items := []Item[string]{
			{"a", TriggerOptions{IdempotencyKey: "k"}}, {"b", TriggerOptions{}}, {"c", TriggerOptions{IdempotencyKey: "k"}},
			{"d", TriggerOptions{IdempotencyKey: "old"}}, {"e", TriggerOptions{SingletonKey: "k"}}, {"f", TriggerOptions{SingletonKey: "k", IdempotencyKey: "k2"}},
			{"g", TriggerOptions{IdempotencyKey: "k2"}},
		}
		res, err := task.TriggerMany(context.Background(), items)
		if err != nil {
			t.Fatal(err)
		}
		for i, want := range []bool{false, false, true, true, false, true, false} {
			if res[i].Existing != want || res[i].Created.IsZero() || !res[i].Created.Equal(w.run(res[i].RunID).Created) {
				t.Errorf("item %d: %+v", i, res[i])
			}
		}
		if res[2].RunID != res[0].RunID || res[3].RunID != old.RunID || res[5].RunID != res[4].RunID || len(w.runs()) != 5 {
			t.Errorf("%+v, %d runs", res, len(w.runs()))
		}
	})
}

// The winner commits and the losers return it; if the winner rolls back, a loser
// stores its own run.
func TestConcurrentTriggersWithOneKey(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		task := Define(w.lane, "obey", obey, TaskOptions{})
		for round := range 20 {
			opts := TriggerOptions{IdempotencyKey: fmt.Sprint("k", round)}
			if round%2 == 1 {
				opts = TriggerOptions{SingletonKey: opts.IdempotencyKey}
			}
			var mu sync.Mutex
			made := map[string]int{}
			var wg sync.WaitGroup
			for i := range 8 {
				wg.Go(func() {
					// Every second one reads, and then rolls back.
					if i%2 == 1 {
						_, _ = task.TriggerIn(context.Background(), rollingBack{w.store}, "x", opts)
						return
					}
					res, err := task.Trigger(context.Background(), "x", opts)
					if err != nil {
						t.Error(err)
					}
					mu.Lock()
					defer mu.Unlock()
					if made[res.RunID] += 0; !res.Existing {
						made[res.RunID]++
					}
				})
			}
			wg.Wait()
			for id, n := range made {
				if n != 1 || len(made) != 1 {
					t.Fatalf("round %d: run %s was made %d times; %v", round, id, n, made)
				}
			}
		}
		if n := len(w.runs()); n != 20 {
			t.Errorf("%d runs", n)
		}
	})
}

type rollingBack struct{ storage.Transactor }

func (r rollingBack) Transact(ctx context.Context, label string, fn func(context.Context, storage.Tx) error) (storage.Commit, error) {
	return r.Transactor.Transact(ctx, label, func(ctx context.Context, tx storage.Tx) error {
		if err := fn(ctx, tx); err != nil {
			return err
		}
		return errBoom
	})
}

// An owner is freed only by the run that it names.
func TestOwnerOfAnotherRunIsLeftAlone(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		task := Define(w.lane, "obey", obey, TaskOptions{})
		first := trigger(w, task, "fail", TriggerOptions{IdempotencyKey: "k", IdempotencyTTL: time.Hour, Delay: 2 * time.Hour})
		time.Sleep(time.Hour)
		second := trigger(w, task, "x", TriggerOptions{IdempotencyKey: "k", Delay: 1000 * time.Hour})
		if second.Existing {
			t.Fatalf("%+v", second)
		}
		defer w.work(WorkerConfig{})()
		wantRun(t, w.ended(first.RunID), run.StatusFailed, 1, 1)
		if third := trigger(w, task, "x", TriggerOptions{IdempotencyKey: "k"}); !third.Existing || third.RunID != second.RunID {
			t.Errorf("%+v after %+v", third, second)
		}
	})
}

// Both halves of "a failed owner frees the key at once": the end of the run deletes
// the owner, and an owner that was left behind is not believed.
func TestFailedRunFreesItsKeys(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		task := Define(w.lane, "obey", obey, TaskOptions{})
		opts := TriggerOptions{IdempotencyKey: "k", SingletonKey: "s"}
		idempotency, err := codec.IdempotencyKey(testEnv, "obey", "k")
		if err != nil {
			t.Fatal(err)
		}
		singleton, err := codec.SingletonKey(testEnv, "obey", "s")
		if err != nil {
			t.Fatal(err)
		}
		first := trigger(w, task, "fail", opts)
		for _, key := range []storage.Key{idempotency, singleton} {
			if _, found := w.get(key); !found {
				t.Errorf("%s is absent", key)
			}
		}
		stop := w.work(WorkerConfig{})
		w.ended(first.RunID)
		stop()
		for _, key := range []storage.Key{idempotency, singleton} {
			if _, found := w.get(key); found {
				t.Errorf("%s is still there", key)
			}
		}
		second := trigger(w, task, "fail", opts)
		w.happen(second.RunID, func(*run.Run) run.EventData { return run.Failed{Failure: run.Failure{Code: "x"}} })
		for _, key := range []storage.Key{idempotency, singleton} {
			if _, found := w.get(key); !found {
				t.Errorf("%s is absent, although nobody freed it", key)
			}
		}
		if third := trigger(w, task, "x", opts); third.Existing {
			t.Errorf("%+v", third)
		}
	})
}
