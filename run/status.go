package run

// Status is where a run stands in its life. The set is closed; [Status.Valid]
// tells whether a value belongs to it.
type Status string

// The statuses of a run.
const (
	StatusQueued                Status = "queued"                 // ready to be claimed since it was triggered or resumed
	StatusScheduled             Status = "scheduled"              // triggered for a later time
	StatusRunning               Status = "running"                // leased by a worker
	StatusReleased              Status = "released"               // given back by its worker without a failure; due at a time
	StatusRetrying              Status = "retrying"               // failed or lost its worker; due at a time
	StatusWaiting               Status = "waiting"                // waits for another run to end
	StatusCancellationRequested Status = "cancellation_requested" // still leased; its worker has been asked to stop
	StatusSucceeded             Status = "succeeded"              // ended with a result
	StatusFailed                Status = "failed"                 // ended with a failure
	StatusCancelled             Status = "cancelled"              // ended by a cancellation
)

// Statuses returns every status, in the order of a run's life.
func Statuses() []Status {
	return []Status{StatusQueued, StatusScheduled, StatusRunning, StatusReleased, StatusRetrying, StatusWaiting, StatusCancellationRequested, StatusSucceeded, StatusFailed, StatusCancelled}
}

// Valid reports whether s is one of [Statuses].
func (s Status) Valid() bool {
	switch s {
	case StatusQueued, StatusScheduled, StatusRunning, StatusReleased, StatusRetrying, StatusWaiting, StatusCancellationRequested, StatusSucceeded, StatusFailed, StatusCancelled:
		return true
	}
	return false
}

// Terminal reports whether a run with this status has ended. A terminal run
// accepts no further event, ever.
func (s Status) Terminal() bool {
	return s == StatusSucceeded || s == StatusFailed || s == StatusCancelled
}

// Runnable reports whether a worker may claim a run with this status once it is due.
func (s Status) Runnable() bool {
	return s == StatusQueued || s == StatusScheduled || s == StatusReleased || s == StatusRetrying
}

// Leased reports whether a run with this status is held by a worker; lease
// recovery looks at these.
func (s Status) Leased() bool { return s == StatusRunning || s == StatusCancellationRequested }

// Active reports whether the run has yet to end. At most one active run holds a
// singleton key.
func (s Status) Active() bool { return s.Valid() && !s.Terminal() }
