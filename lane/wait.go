package lane

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/seed4391e180/runlane/run"
	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/codec"
)

// ErrNoRun says that there is no run with an id, or that it was written by another
// version and cannot be read.
var ErrNoRun = errors.New("lane: no such run")

// RunError is how a run ended that did not succeed.
type RunError struct {
	RunID   string
	Status  run.Status // failed or cancelled
	Failure run.Failure
}

func (e *RunError) Error() string {
	if e.Status == run.StatusCancelled {
		return fmt.Sprintf("lane: run %q was cancelled", e.RunID)
	}
	return fmt.Sprintf("lane: run %q failed: %s: %s", e.RunID, e.Failure.Code, e.Failure.Message)
}

// Wait returns the result of a run of the task once it has ended, whoever works on
// it. It looks again and again, at first quickly, later about once a second; a
// store that cannot be reached is waited out.
//
// Errors: *RunError if the run did not succeed, ErrNoRun, ctx.Err(), and those of
// the store and of decoding the result.
func (t *Task[P, R]) Wait(ctx context.Context, runID string) (R, error) {
	var none R
	r, err := t.lane.await(ctx, runID)
	if err != nil {
		return none, err
	}
	return t.result(r)
}

// result is what a run has come to.
func (t *Task[P, R]) result(r run.Run) (R, error) {
	var none R
	if r.Task != t.def.name {
		return none, fmt.Errorf("%w: run %q is of task %q, not %q", ErrNoRun, r.ID, r.Task, t.def.name)
	}
	if !r.Status.Terminal() {
		return none, ErrNotEnded
	}
	if r.Status != run.StatusSucceeded {
		failed := &RunError{RunID: r.ID, Status: r.Status}
		if r.Failure != nil {
			failed.Failure = *r.Failure
		}
		return none, failed
	}
	var result R
	if r.Result != nil {
		if err := json.Unmarshal(r.Result, &result); err != nil {
			return none, fmt.Errorf("lane: result of run %q: %w", r.ID, err)
		}
	}
	return result, nil
}

// ErrNotEnded says that a run has no result yet.
var ErrNotEnded = errors.New("lane: the run has not ended")

// Result returns the result of a run of the task that has ended; ErrNotEnded if it
// has not. It looks once. Errors otherwise as with Wait.
func (t *Task[P, R]) Result(ctx context.Context, runID string) (R, error) {
	var none R
	key, err := codec.RunKey(t.lane.env, runID)
	if err != nil {
		return none, err
	}
	r, err := t.lane.read(ctx, key)
	if err != nil {
		return none, err
	}
	return t.result(r)
}

// Get returns a run as it is now, a single read. Errors: ErrNoRun, also for a run
// that has been pruned, *storage.InputError for an id that no run can have, and those
// of the store.
func (l *Lane) Get(ctx context.Context, runID string) (run.Run, error) {
	key, err := codec.RunKey(l.env, runID)
	if err != nil {
		return run.Run{}, fmt.Errorf("lane: get: %w", err)
	}
	return l.read(ctx, key)
}

// await returns a run once it has ended.
func (l *Lane) await(ctx context.Context, runID string) (run.Run, error) {
	key, err := codec.RunKey(l.env, runID)
	if err != nil {
		return run.Run{}, err
	}
	const first, most = 5 * time.Millisecond, time.Second
	for wait := first; ; wait = min(wait*3/2, most) {
		r, err := l.read(ctx, key)
		switch {
		case err == nil && r.Status.Terminal():
			return r, nil
		case err != nil && !storage.Retryable(err):
			return run.Run{}, err
		}
		if !pause(ctx, l.jittered(wait)) {
			return run.Run{}, ctx.Err()
		}
	}
}

// read returns a run as it is now.
func (l *Lane) read(ctx context.Context, key storage.Key) (run.Run, error) {
	r, _, err := storage.Transact(ctx, l.store, "run.read", func(ctx context.Context, tx storage.Tx) (run.Run, error) {
		rec, found, err := tx.Get(ctx, key)
		if err != nil {
			return run.Run{}, err
		}
		r, kind := codec.DecodeRun(rec)
		if !found || kind != codec.Canonical {
			return run.Run{}, fmt.Errorf("%w: %s", ErrNoRun, key)
		}
		return r, nil
	})
	return r, err
}
