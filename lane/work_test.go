package lane

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed4391e180/runlane/run"
)

func TestTriggerWorkSucceed(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		task := Define(w.lane, "double", double, TaskOptions{})
		res := trigger(w, task, number{21})
		if res.Existing || res.Created.IsZero() {
			t.Errorf("triggered %+v", res)
		}
		stop := w.work(WorkerConfig{})
		got, err := task.Wait(context.Background(), res.RunID)
		if err != nil || got.N != 42 {
			t.Errorf("Wait = %v, %v", got, err)
		}
		stop()
		wantRun(t, w.run(res.RunID), run.StatusSucceeded, 1, 0)
		if got := w.types(res.RunID); got != "created started succeeded" {
			t.Error(got)
		}
	})
}

func TestAttemptTellsAboutTheRun(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		var seen Attempt
		type key struct{}
		task := Define(w.lane, "look", func(ctx context.Context, a *Attempt, _ number) (string, error) {
			seen = *a
			value, _ := ctx.Value(key{}).(string)
			return value, nil
		}, TaskOptions{Queue: "q", MaxAttempts: 3})
		res := trigger(w, task, number{}, TriggerOptions{Priority: 3, IdempotencyKey: "k:1", Metadata: map[string]string{"a": "b"}})
		ctx, cancel := context.WithCancel(context.WithValue(t.Context(), key{}, "of Work"))
		done := make(chan error)
		go func() { done <- w.lane.Work(ctx, WorkerConfig{Name: "me"}) }()
		if got, err := task.Wait(ctx, res.RunID); err != nil || got != "of Work" {
			t.Errorf("the handler's context has %q of Work's, %v", got, err)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if seen.RunID != res.RunID || seen.Task != "look" || seen.Queue != "q" || seen.Priority != 3 || seen.Number != 1 || seen.Failures != 0 ||
			seen.MaxAttempts != 3 || seen.IdempotencyKey != "k:1" || seen.Metadata["a"] != "b" || !seen.Created.Equal(res.Created) {
			t.Errorf("%+v", seen)
		}
		started, ok := w.history(res.RunID)[1].Data.(run.Started)
		if !ok || started.Lease.Token != seen.Token || started.Lease.Worker != "me" {
			t.Errorf("%+v", started)
		}
	})
}

func TestRetriesUntilItSucceeds(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		var last []bool
		task := Define(w.lane, "flaky", func(_ context.Context, a *Attempt, _ number) (int, error) {
			last = append(last, a.Last())
			if a.Number < 4 {
				return 0, errBoom
			}
			return a.Failures, nil
		}, TaskOptions{MaxAttempts: 4, Backoff: Fixed(10 * time.Minute)})
		res := trigger(w, task, number{})
		defer w.work(WorkerConfig{})()
		if got, err := task.Wait(context.Background(), res.RunID); got != 3 || err != nil {
			t.Errorf("Wait = %v, %v", got, err)
		}
		wantRun(t, w.run(res.RunID), run.StatusSucceeded, 4, 3)
		if got, want := w.types(res.RunID), "created started retry_scheduled started retry_scheduled started retry_scheduled started succeeded"; got != want {
			t.Error(got)
		}
		if fmt.Sprint(last) != "[false false false true]" {
			t.Errorf("Last: %v", last)
		}
		for i, e := range w.history(res.RunID) {
			if retry, ok := e.Data.(run.RetryScheduled); ok {
				if got := retry.Due.Sub(e.At); got != 10*time.Minute {
					t.Errorf("event %d: due after %v", i, got)
				}
				if retry.Failure != (run.Failure{Code: CodeError, Message: "boom", Retryable: true}) {
					t.Errorf("event %d: %+v", i, retry.Failure)
				}
			}
		}
	})
}

// A retry that is due before the next poll does not wait for it.
func TestShortRetryDoesNotWaitForThePoll(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		task := Define(w.lane, "flaky", func(_ context.Context, a *Attempt, _ number) (int, error) {
			switch a.Number {
			case 1:
				return 0, errBoom
			case 2:
				return 0, a.Release(30 * time.Millisecond)
			}
			return 0, nil
		}, TaskOptions{Backoff: Fixed(20 * time.Millisecond)})
		defer w.work(WorkerConfig{PollInterval: time.Hour})()
		time.Sleep(time.Minute)
		begin := time.Now()
		w.ended(trigger(w, task, number{}).RunID)
		if took := time.Since(begin); took > 100*time.Millisecond {
			t.Errorf("took %v", took)
		}
	})
}

func TestHowAttemptsEnd(t *testing.T) {
	huge := strings.Repeat("x", MaxResult)
	cases := []struct {
		name    string
		handler Handler[number, any]
		status  run.Status
		code    string
		message string
		history string
	}{
		{"exhausted", func(context.Context, *Attempt, number) (any, error) { return nil, errBoom },
			run.StatusFailed, CodeError, "boom", "created started retry_scheduled started failed"},
		{"permanent", func(context.Context, *Attempt, number) (any, error) {
			return nil, fmt.Errorf("no use: %w", Permanent(errBoom))
		}, run.StatusFailed, CodeError, "no use: boom", "created started failed"},
		{"panic", func(context.Context, *Attempt, number) (any, error) { panic("at the disco") },
			run.StatusFailed, CodePanic, "at the disco", "created started retry_scheduled started failed"},
		{"panic with an error that panics", func(context.Context, *Attempt, number) (any, error) { return nil, badError{} },
			run.StatusFailed, CodePanic, "no text", "created started retry_scheduled started failed"},
		{"goexit", func(context.Context, *Attempt, number) (any, error) { runtime.Goexit(); return nil, nil },
			run.StatusFailed, CodePanic, "left its goroutine", "created started retry_scheduled started failed"},
		{"release", func(_ context.Context, a *Attempt, _ number) (any, error) {
			if a.Number < 4 {
				return "dropped", fmt.Errorf("not yet: %w", a.Release(time.Minute))
			}
			return nil, nil
		}, run.StatusSucceeded, "", "", "created started released started released started released started succeeded"},
		{"result too large", func(context.Context, *Attempt, number) (any, error) { return huge, nil },
			run.StatusFailed, CodeResult, "262146 bytes", "created started failed"},
		{"result not JSON", func(context.Context, *Attempt, number) (any, error) { return make(chan int), nil },
			run.StatusFailed, CodeResult, "chan int", "created started failed"},
		{"result with NUL", func(context.Context, *Attempt, number) (any, error) { return map[string]string{"k": "\x00"}, nil },
			run.StatusFailed, CodeResult, "result", "created started failed"},
		{"result not UTF-8", func(context.Context, *Attempt, number) (any, error) {
			return struct{ A []string }{[]string{"ok", "\xff"}}, nil
		}, run.StatusFailed, CodeResult, ".A[1]", "created started failed"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				task := Define(w.lane, "task", c.handler, TaskOptions{MaxAttempts: 2, Backoff: Fixed(time.Second)})
				res := trigger(w, task, number{})
				defer w.work(WorkerConfig{})()
				r := w.ended(res.RunID)
				if got := w.types(res.RunID); r.Status != c.status || got != c.history {
					t.Errorf("%s: %s", r.Status, got)
				}
				_, err := task.Wait(context.Background(), res.RunID)
				if c.code == "" {
					if err != nil {
						t.Error(err)
					}
					return
				}
				failed := (*RunError)(nil)
				if !errors.As(err, &failed) || failed.Status != c.status || failed.Failure.Code != c.code || !strings.Contains(failed.Failure.Message, c.message) {
					t.Errorf("Wait: %v", err)
				}
				if c.code == CodePanic && !strings.Contains(failed.Failure.Detail, "work_test.go") {
					t.Errorf("no stack: %q", failed.Failure.Detail)
				}
			})
		})
	}
}

type badError struct{}

func (badError) Error() string { panic("no text") }

func TestReleasesAreNotFailures(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		task := Define(w.lane, "patient", func(_ context.Context, a *Attempt, _ number) (int, error) {
			if a.Number <= 5 {
				return 0, a.Release(-time.Hour)
			}
			return a.Failures, nil
		}, TaskOptions{MaxAttempts: 1})
		res := trigger(w, task, number{})
		defer w.work(WorkerConfig{})()
		wantRun(t, w.ended(res.RunID), run.StatusSucceeded, 6, 0)
		if r := w.run(res.RunID); r.Releases != 5 {
			t.Errorf("%d releases", r.Releases)
		}
	})
}

func TestPayloadThatDoesNotDecode(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		texts := Define[string, int](w.lane, "task", nil, TaskOptions{})
		other := w.newLane()
		var called atomic.Bool
		Define(other, "task", func(context.Context, *Attempt, number) (int, error) { called.Store(true); return 0, nil }, TaskOptions{})
		res := trigger(w, texts, "text")
		stop := w.start(other, WorkerConfig{})
		r := w.ended(res.RunID)
		if err := stop(); err != nil {
			t.Error(err)
		}
		wantRun(t, r, run.StatusFailed, 1, 1)
		if r.Failure.Code != CodePayload || r.Failure.Retryable || called.Load() {
			t.Errorf("%+v, called %v", r.Failure, called.Load())
		}
	})
}

// What a handler says must not be able to keep its run from being recorded.
func TestHostileText(t *testing.T) {
	hostile := []string{"\x00", "\xff\xfe", "\xed\xa0\x80", "$1", "$$", "'; --", `a"b`, `%_\`, "\u2028", strings.Repeat("é", maxMessage), strings.Repeat("\x00", 3*maxMessage), "\x01", "\x02"}
	inBubble(t, func(t *testing.T, w *world) {
		task := Define(w.lane, "task", func(_ context.Context, a *Attempt, p int) (string, error) {
			if a.Number%2 == 0 {
				panic(hostile[p])
			}
			return "", errors.New(hostile[p])
		}, TaskOptions{MaxAttempts: 2, Backoff: Fixed(0)})
		echo := Define(w.lane, "echo", func(_ context.Context, a *Attempt, p string) (string, error) {
			if a.Metadata[p] != p {
				return "", Permanent(errors.New("metadata are not what they were"))
			}
			return p, nil
		}, TaskOptions{})
		defer w.work(WorkerConfig{Name: "\xff\x00" + strings.Repeat("é", 300)})()
		for i, text := range hostile {
			r := w.ended(trigger(w, task, i).RunID)
			if r.Status != run.StatusFailed || len(r.Failure.Message) > maxMessage || len(r.Failure.Message) == 0 {
				t.Errorf("%q: %s, %q", text, r.Status, r.Failure.Message)
			}
			if i < 2 || len(text) > 100 {
				continue
			}
			res, err := echo.Trigger(context.Background(), text, TriggerOptions{
				IdempotencyKey: text + ":", SingletonKey: text, RunID: text + "id", Metadata: map[string]string{text: text},
			})
			if i == 2 {
				if err == nil {
					t.Errorf("%q was accepted", text)
				}
				continue
			}
			if got, err := echo.Wait(context.Background(), res.RunID); got != text || err != nil {
				t.Errorf("%q came back as %q, %v", text, got, err)
			}
		}
	})
}
