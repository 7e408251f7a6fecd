package lane

import (
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/google/uuid"

	"github.com/seed4391e180/runlane/run"
)

// Attempt is what a handler knows about the run it works on: a snapshot from the
// moment of the claim.
type Attempt struct {
	RunID          string
	Task           string
	Queue          string
	Priority       int
	Number         int // 1 for the first time that a worker took the run
	Failures       int // attempts that failed before this one
	MaxAttempts    int // how many attempts may fail; 0: no limit
	Created        time.Time
	IdempotencyKey string
	ConcurrencyKey string
	Timeout        time.Duration // how long the attempt may take; 0: no limit
	Metadata       map[string]string
	Trace          map[string]string // what Config.Carry said when the run was triggered
	// Token is unique to this attempt. A system outside that remembers the tokens it
	// has seen can tell a repeated request of one attempt from a request of the next.
	Token uuid.UUID
}

func newAttempt(r *run.Run) *Attempt {
	return &Attempt{
		RunID:          r.ID,
		Task:           r.Task,
		Queue:          r.Queue,
		Priority:       r.Priority,
		Number:         r.Attempts,
		Failures:       r.Failures,
		MaxAttempts:    r.MaxAttempts,
		Created:        r.Created,
		IdempotencyKey: r.IdempotencyKey,
		ConcurrencyKey: r.ConcurrencyKey,
		Timeout:        r.Timeout,
		Trace:          maps.Clone(r.Trace),
		Metadata:       maps.Clone(r.Metadata), // what a handler does to it does not reach the run
		Token:          r.Lease.Token,
	}
}

// Last reports whether the run fails for good if this attempt fails.
func (a *Attempt) Last() bool { return exhausted(a.Failures, a.MaxAttempts) }

// exhausted tells whether one more failure is one too many.
func exhausted(failures, maxAttempts int) bool {
	return maxAttempts > 0 && failures+1 >= maxAttempts
}

// Release makes the error with which a handler gives its run back without a
// failure, to be worked on again after the delay (0 or less: at once):
//
//	if !invoice.Paid {
//		return Receipt{}, a.Release(time.Hour)
//	}
//
// The result that comes with it is dropped. It may be wrapped.
func (a *Attempt) Release(delay time.Duration) error {
	return &releaseError{delay: min(max(delay, 0), run.MaxAfterCommit).Truncate(time.Microsecond)}
}

type releaseError struct{ delay time.Duration }

func (e *releaseError) Error() string { return fmt.Sprintf("lane: run released for %v", e.delay) }

// WaitFor makes the error with which a handler leaves its run waiting for another run
// to end, however that ends; no worker is occupied meanwhile, and no failure is
// counted. The run is then due again, and its handler runs from the beginning, so it
// first looks whether there is still something to wait for:
//
//	receipt, err := charge.Result(ctx, chargeRun)
//	if errors.Is(err, lane.ErrNotEnded) {
//		return Order{}, a.WaitFor(chargeRun)
//	}
//
// The result that comes with it is dropped. It may be wrapped. A run that does not
// exist fails the waiting one with CodeSourceMissing, and an id that cannot be one
// fails it with CodeError, both for good. Runs that wait for each other in a circle
// wait until one of them is cancelled.
func (a *Attempt) WaitFor(runID string) error { return &waitError{runID} }

type waitError struct{ source string }

func (e *waitError) Error() string { return fmt.Sprintf("lane: run waits for run %q", e.source) }

// GivesBack reports whether an error of a handler gives its run back, or leaves it
// waiting, rather than being a failure.
func GivesBack(err error) bool {
	release, wait := (*releaseError)(nil), (*waitError)(nil)
	return errors.As(err, &release) || errors.As(err, &wait)
}

// Permanent marks an error of a handler as one that trying again does not mend:
// the run fails at once, whatever attempts are left. Permanent(nil) is nil.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return &permanentError{err}
}

type permanentError struct{ err error }

func (e *permanentError) Error() string { return e.err.Error() }
func (e *permanentError) Unwrap() error { return e.err }

// The causes (see [context.Cause]) with which the context of a handler ends.
var (
	// ErrLeaseLost: the worker could not renew its lease on the run in time. Another
	// worker may have the run; whatever the handler returns is discarded.
	ErrLeaseLost = errors.New("lane: lease lost")
	// ErrShutdown: the worker is shutting down and its grace period is over. A
	// result is still taken; with an error the run is given back without a failure.
	ErrShutdown = errors.New("lane: worker is shutting down")
	// ErrTimeout: the attempt has taken as long as the run allows. A result is still
	// taken, for a while; with an error, or without an answer, the attempt has failed.
	ErrTimeout = errors.New("lane: attempt timed out")
	// ErrCancellationRequested: somebody asked for the run to be cancelled. A result
	// is still taken; with an error the run is cancelled.
	ErrCancellationRequested = errors.New("lane: cancellation of the run requested")
)
