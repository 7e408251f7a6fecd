package run

import (
	"time"

	"github.com/google/uuid"
)

// apply makes of the run what an admitted event says.
func (r *Run) apply(e *Event) {
	switch d := e.Data.(type) {
	case Created:
		r.create(e, &d)
	case Started:
		r.enter(StatusRunning)
		lease := d.Lease
		r.Lease = &lease
		r.Attempts++
	case Succeeded:
		r.finish(StatusSucceeded, e.At)
		r.Result = d.Result
	case Failed:
		r.finish(StatusFailed, e.At)
		r.fail(d.Failure)
	case Cancelled:
		r.finish(StatusCancelled, e.At)
	case RetryScheduled:
		r.retry(d.Due, d.Failure)
	case LeaseExpired:
		r.retry(d.Due, Failure{Code: CodeLeaseExpired, Message: "the worker did not renew its lease", Retryable: true})
	case Released:
		r.enter(StatusReleased)
		r.Due = d.Due
		if d.Token != uuid.Nil {
			r.Releases++
		}
	case Waiting:
		r.enter(StatusWaiting)
		r.WaitingFor = d.For
	case Resumed:
		r.enter(StatusQueued)
		r.Due = e.At
	case CancellationRequested:
		lease := r.Lease
		r.enter(StatusCancellationRequested)
		r.Lease = lease
	}
}

func (r *Run) create(e *Event, d *Created) {
	*r = Run{
		Environment:    e.Environment,
		ID:             e.RunID,
		Task:           d.Task,
		Queue:          d.Queue,
		Priority:       d.Priority,
		MaxAttempts:    d.MaxAttempts,
		Payload:        d.Payload,
		Status:         StatusQueued,
		Due:            e.At,
		Created:        e.At,
		Source:         d.Source,
		IdempotencyKey: d.IdempotencyKey,
		IdempotencyTTL: d.IdempotencyTTL,
		SingletonKey:   d.SingletonKey,
		ConcurrencyKey: d.ConcurrencyKey,
		Timeout:        d.Timeout,
		LatestStart:    d.LatestStart,
		Trace:          d.Trace,
		Metadata:       d.Metadata,
	}
	if !d.RunAt.IsZero() {
		r.Status, r.Due = StatusScheduled, d.RunAt
	}
}

// enter leaves the old status behind, with everything that belongs to it.
func (r *Run) enter(s Status) {
	r.Status = s
	r.Due = time.Time{}
	r.Lease = nil
	r.WaitingFor = ""
	r.Failure = nil
}

func (r *Run) finish(s Status, at time.Time) {
	r.enter(s)
	r.Finished = at
}

func (r *Run) fail(f Failure) {
	r.Failure = &f
	r.Failures++
}

func (r *Run) retry(due time.Time, f Failure) {
	r.enter(StatusRetrying)
	r.fail(f)
	r.Due = due
	r.Retries++
}
