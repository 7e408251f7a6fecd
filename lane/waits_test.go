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
	"github.com/seed4391e180/runlane/storage/codec"
)

const waited = "created started waiting resumed started succeeded"

// waitsFor defines a task whose runs wait for the run that their payload names and
// return its result, or how it ended.
func waitsFor(w *world, source *Task[number, number]) *Task[string, string] {
	return Define(w.lane, "waits", func(ctx context.Context, a *Attempt, id string) (string, error) {
		got, err := source.Result(ctx, id)
		var failed *RunError
		switch {
		case errors.Is(err, ErrNotEnded), errors.Is(err, ErrNoRun):
			return "", fmt.Errorf("not yet: %w", a.WaitFor(id))
		case errors.As(err, &failed):
			return string(failed.Status), nil
		}
		return fmt.Sprint(got.N), err
	}, TaskOptions{})
}

// A run waits without occupying its worker, and is due as soon as the other has ended.
func TestWaitFor(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		source := Define(w.lane, "double", double, TaskOptions{})
		waits := waitsFor(w, source)
		later := trigger(w, source, number{21}, TriggerOptions{Delay: time.Hour})
		var waiters []string
		for range 3 * waiterPage / 2 {
			waiters = append(waiters, trigger(w, waits, later.RunID).RunID)
		}
		stop := w.work(WorkerConfig{Concurrency: 1, PollInterval: 10 * time.Minute})
		defer stop()
		for _, id := range waiters {
			if r := w.reaches(id, run.StatusWaiting); r.WaitingFor != later.RunID || r.Failures != 0 {
				t.Fatalf("%+v", r)
			}
		}
		r := w.ended(later.RunID)
		for _, id := range waiters {
			if got, err := waits.Wait(context.Background(), id); err != nil || got != "42" {
				t.Fatalf("%q, %v", got, err)
			}
			if got := w.types(id); got != waited {
				t.Fatal(got)
			}
		}
		if took := time.Since(r.Finished); took > 5*time.Second {
			t.Errorf("took %v", took)
		}
	})
}

func TestWaitForARunThatHasEnded(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		source := Define(w.lane, "double", double, TaskOptions{})
		blind := Define(w.lane, "blind", func(_ context.Context, a *Attempt, id string) (int, error) {
			if a.Number == 1 {
				return 0, a.WaitFor(id)
			}
			return a.Number, nil
		}, TaskOptions{})
		stop := w.work(WorkerConfig{PollInterval: time.Hour})
		defer stop()
		done := w.ended(trigger(w, source, number{1}).RunID)
		began := time.Now()
		waiter := w.ended(trigger(w, blind, done.ID).RunID)
		if got := w.types(waiter.ID); got != waited || time.Since(began) > 5*time.Second {
			t.Error(got, time.Since(began))
		}
		wantRun(t, waiter, run.StatusSucceeded, 2, 0)
	})
}

// What cannot be waited for fails the run with a clear failure, kept for people.
func TestWaitForNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		hidden := trigger(w, Define[number, number](w.lane, "double", nil, TaskOptions{Queue: "other"}), number{1})
		w.replaceRun(hidden.RunID, func(ctx context.Context, tx storage.Tx, _ storage.Key) error {
			rec, err := codec.EncodeTombstone(testEnv, hidden.RunID)
			if err != nil {
				return err
			}
			return tx.Replace(ctx, rec)
		})
		task := Define(w.lane, "blind", func(_ context.Context, a *Attempt, id string) (int, error) {
			if id == "itself" {
				id = a.RunID
			}
			return 0, a.WaitFor(id)
		}, TaskOptions{})
		stop := w.work(WorkerConfig{})
		defer stop()
		for id, code := range map[string]string{
			"nobody": CodeSourceMissing, hidden.RunID: CodeSourceMissing,
			"itself": CodeError, "": CodeError, strings.Repeat("x", 256): CodeError,
		} {
			r := w.ended(trigger(w, task, id).RunID)
			wantRun(t, r, run.StatusFailed, 1, 1)
			if r.Failure.Code != code || r.Failure.Message == "" {
				t.Errorf("waiting for %q: %+v", id, r.Failure)
			}
		}
	})
}

// However a run ends, whoever waits for it learns of it.
func TestEveryEndIsSeen(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		source := Define[number, number](w.lane, "source", nil, TaskOptions{Queue: "nobody's", MaxAttempts: 1})
		waits := waitsFor(w, source)
		stop := w.work(WorkerConfig{Queues: []string{DefaultQueue}, RecoverInterval: time.Second})
		defer stop()
		wait := func(id string) string {
			waiter := trigger(w, waits, id)
			w.reaches(waiter.RunID, run.StatusWaiting)
			return waiter.RunID
		}

		cancelled := trigger(w, source, number{}).RunID
		waiter := wait(cancelled)
		w.cancel(cancelled)
		if n, err := w.lane.sweepWaits(context.Background()); n != 1 || err != nil {
			t.Errorf("%d resumed, %v", n, err)
		}
		if got, err := waits.Wait(context.Background(), waiter); err != nil || got != "cancelled" {
			t.Errorf("%q, %v", got, err)
		}

		expired := trigger(w, source, number{}).RunID
		waiter = wait(expired)
		w.happen(expired, func(r *run.Run) run.EventData {
			return run.Started{Lease: run.Lease{Token: w.lane.source.id(), Worker: "dead", Attempt: 1, Expires: time.Now().Add(time.Second), Duration: time.Second}}
		})
		if got, err := waits.Wait(context.Background(), waiter); err != nil || got != "failed" {
			t.Errorf("%q, %v", got, err)
		}
	})
}

// A process that dies after it ended a run and before it resumed the waiters leaves
// nobody behind.
func TestSweepFindsWhomADeadProcessLeft(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		source := Define(w.lane, "double", double, TaskOptions{Queue: "sources"})
		waits := waitsFor(w, source)
		stop := w.work(WorkerConfig{Queues: []string{DefaultQueue}})
		defer stop()
		var sources, waiters []string
		for range 30 {
			s := trigger(w, source, number{1})
			sources = append(sources, s.RunID)
			waiters = append(waiters, trigger(w, waits, s.RunID).RunID)
		}
		for _, id := range waiters {
			w.reaches(id, run.StatusWaiting)
		}
		if n, err := w.lane.sweepWaits(context.Background()); n != 0 || err != nil {
			t.Errorf("%d resumed before their sources have ended, %v", n, err)
		}
		w.store.set(func(_ context.Context, label string) error {
			if label == "run.waiters" {
				return storage.ErrUnavailable
			}
			return nil
		}, nil)
		stopSources := w.start(w.lane, WorkerConfig{Queues: []string{"sources"}})
		for _, id := range sources {
			w.ended(id)
		}
		if err := stopSources(); err != nil {
			t.Error(err)
		}
		for _, id := range waiters {
			if r := w.run(id); r.Status != run.StatusWaiting {
				t.Fatalf("%+v", r)
			}
		}
		w.store.set(nil, nil)
		if n, err := w.lane.sweepWaits(context.Background()); n != len(waiters) || err != nil {
			t.Errorf("%d resumed, %v", n, err)
		}
		for _, id := range waiters {
			w.ended(id)
			if got := w.types(id); got != waited {
				t.Error(got)
			}
		}
	})
}

// Runs that begin to wait, by many workers, while what they wait for ends: each
// resumes, once.
func TestWaitsRaceWithEnds(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		source := Define(w.lane, "double", double, TaskOptions{})
		blind := Define(w.lane, "blind", func(_ context.Context, a *Attempt, id string) (int, error) {
			if a.Number == 1 {
				return 0, a.WaitFor(id)
			}
			return a.Number, nil
		}, TaskOptions{})
		var stops []func()
		for range 3 {
			stops = append(stops, w.work(WorkerConfig{Concurrency: 50, PollInterval: time.Hour}))
		}
		var waiters []string
		for range 100 {
			s := trigger(w, source, number{1})
			for range 3 {
				waiters = append(waiters, trigger(w, blind, s.RunID).RunID)
			}
		}
		for _, id := range waiters {
			w.ended(id)
			if got := w.types(id); got != waited {
				t.Fatal(got)
			}
		}
		for _, stop := range stops {
			stop()
		}
	})
}
