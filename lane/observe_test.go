package lane

import (
	"context"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/seed4391e180/runlane/run"
)

func TestCarryAndWrap(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		type spanKey struct{}
		var wrapped []string
		l, err := New(w.store, Config{
			Environment: testEnv,
			Carry: func(ctx context.Context) map[string]string {
				m, _ := ctx.Value(spanKey{}).(map[string]string)
				return m
			},
			Wrap: func(ctx context.Context, a *Attempt, next func(ctx context.Context) error) error {
				err := next(context.WithValue(ctx, spanKey{}, a.Trace))
				wrapped = append(wrapped, a.Trace["span"])
				return err
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		var child *Task[number, number]
		child = Define(l, "child", func(ctx context.Context, _ *Attempt, n number) (number, error) {
			if n.N == 0 {
				return n, errBoom
			}
			res, err := child.Trigger(ctx, number{n.N - 1}, TriggerOptions{RunID: "child"})
			return number{len(res.RunID)}, err
		}, TaskOptions{MaxAttempts: 1})
		ctx := context.WithValue(context.Background(), spanKey{}, map[string]string{"span": "s1", "odd": "a\x00\xff"})
		res, err := child.Trigger(ctx, number{1})
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Drain(ctx, WorkerConfig{}); err != nil {
			t.Fatal(err)
		}
		wantRun(t, w.run(res.RunID), run.StatusSucceeded, 1, 0)
		r := w.run("child")
		wantRun(t, r, run.StatusFailed, 1, 1)
		if r.Trace["span"] != "s1" || !maps.Equal(r.Trace, w.run(res.RunID).Trace) || strings.Join(wrapped, " ") != "s1 s1" {
			t.Errorf("%v, wrapped %v", r.Trace, wrapped)
		}
		// What is too much is left out; the run is stored.
		big := context.WithValue(ctx, spanKey{}, map[string]string{"span": strings.Repeat("x", MaxMetadata)})
		if res, err = child.Trigger(big, number{1}); err != nil || w.run(res.RunID).Trace != nil {
			t.Errorf("%v, %v", err, w.run(res.RunID).Trace)
		}
	})
}

// A Wrap that does not call the handler fails the attempt.
func TestWrapThatDoesNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		l, err := New(w.store, Config{Environment: testEnv, Wrap: func(context.Context, *Attempt, func(context.Context) error) error { return nil }})
		if err != nil {
			t.Fatal(err)
		}
		res := trigger(w, Define(l, "double", double, TaskOptions{MaxAttempts: 1}), number{1})
		if err := l.Drain(context.Background(), WorkerConfig{}); err != nil {
			t.Fatal(err)
		}
		wantRun(t, w.run(res.RunID), run.StatusFailed, 1, 1)
	})
}

func TestOldestPending(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		ctx := context.Background()
		task := Define(w.lane, "double", double, TaskOptions{})
		if got, err := w.lane.OldestPending(ctx, DefaultQueue); err != nil || got != (Oldest{}) {
			t.Errorf("%+v, %v", got, err)
		}
		trigger(w, task, number{1}, TriggerOptions{Delay: time.Hour, Priority: 1})
		old := trigger(w, task, number{1}, TriggerOptions{Priority: 4})
		time.Sleep(time.Minute)
		trigger(w, task, number{1}, TriggerOptions{Priority: 1})
		time.Sleep(time.Minute)
		got, err := w.lane.OldestPending(ctx, DefaultQueue)
		if err != nil || got.RunID != old.RunID || got.Waiting != 2*time.Minute || !got.Due.Equal(old.Created) {
			t.Errorf("%+v, %v", got, err)
		}
		if _, err := w.lane.OldestPending(ctx, "a:b"); !refused(err) {
			t.Error(err)
		}
	})
}
