package txn

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/seed4391e180/runlane/storage"
)

// Defaults of an Engine.
const (
	DefaultMaxAttempts = 8
	BackoffCap         = 25 * time.Millisecond
	backoffStart       = 2 * time.Millisecond
)

// Engine runs transactions on a Store. The zero values of its fields other than
// Store are the defaults.
type Engine struct {
	Store       Store
	MaxAttempts int                                        // DefaultMaxAttempts
	Limits      storage.Limits                             // storage.DefaultLimits
	Rand        func() float64                             // in [0, 1); math/rand/v2
	Sleep       func(context.Context, time.Duration) error // a timer
	// Joined says that the sessions are part of a transaction that somebody else
	// commits. Scope then is the engine whose callbacks it may not be used in.
	Joined bool
	Scope  *Engine
}

// WithDefaults returns the engine with its empty fields filled.
func (e Engine) WithDefaults() *Engine {
	if e.MaxAttempts == 0 {
		e.MaxAttempts = DefaultMaxAttempts
	}
	if e.Limits == (storage.Limits{}) {
		e.Limits = storage.DefaultLimits()
	}
	if e.Rand == nil {
		e.Rand = rand.Float64
	}
	if e.Sleep == nil {
		e.Sleep = sleep
	}
	made := &e
	if made.Scope == nil {
		made.Scope = made
	}
	return made
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// nested marks the context of a callback with the engine that runs it.
type nested struct{ engine *Engine }

// Transact is [storage.Transactor.Transact].
func (e *Engine) Transact(ctx context.Context, label string, fn func(context.Context, storage.Tx) error) (storage.Commit, error) {
	if ctx.Value(nested{e.Scope}) != nil {
		return storage.Commit{}, storage.ErrNestedTransaction
	}
	var (
		total  storage.Commit
		before *attempt
		final  map[storage.Reason]bool
		quiet  bool
	)
	for n := 1; ; n++ {
		if err := ctx.Err(); err != nil {
			return total, err
		}
		a := &attempt{engine: e, number: n, label: label, quiet: quiet}
		commit, err := a.run(ctx, before, fn)
		total.RoundTrips += a.roundTrips
		if a.begun {
			total.Attempts++
		}
		if err == nil {
			total.Versions, total.Appended, total.Time = commit.Versions, commit.Appended, commit.Time
			return total, nil
		}
		stale, ok := err.(*Replay) //nolint:errorlint // only what a session returned, never what a callback wrapped
		if !ok {
			return total, err
		}
		quiet = quiet || stale.Quiet
		if stale.Final != nil && final[stale.Reason] {
			return total, stale.Final
		}
		if n >= e.MaxAttempts {
			return total, e.exhausted(a, label, stale)
		}
		if stale.Final != nil {
			final = map[storage.Reason]bool{stale.Reason: true}
		}
		if err := e.Sleep(ctx, e.backoff(n)); err != nil {
			return total, err
		}
		if a.begun {
			before = a
		}
	}
}

// exhausted is the answer when the attempts are used up.
func (e *Engine) exhausted(a *attempt, label string, stale *Replay) error {
	if a.callbackErr != nil {
		// The callback failed on what may have been a mix of states. There is no attempt
		// left to tell; its error says more than a conflict would.
		return a.callbackErr
	}
	return &storage.ConflictError{Label: label, Reason: stale.Reason, Key: stale.Key, Attempts: a.number, Err: stale.Err}
}

// backoff doubles from backoffStart to BackoffCap, then loses up to half by jitter,
// so that writers which collided once do not march in step.
func (e *Engine) backoff(attempt int) time.Duration {
	d := BackoffCap
	if attempt < 5 {
		d = min(backoffStart<<(attempt-1), BackoffCap)
	}
	return d - time.Duration(e.Rand()*float64(d)/2)
}

// isReplay reports whether a session's error makes the attempt stale.
func isReplay(err error) bool {
	var r *Replay
	return errors.As(err, &r)
}
