package run

import (
	"encoding/json"
	"time"

	"github.com/google/uuid"
)

// Event is one thing that happened to a run. Events of a run carry the
// sequences 1, 2, 3, … in the order in which they happened.
type Event struct {
	ID          uuid.UUID
	Environment string
	RunID       string
	Sequence    int64
	At          time.Time
	Data        EventData
}

// Type is the type of the event's data; "" if it has none, or something else
// than one of the types below, such as a pointer to one.
func (e Event) Type() EventType {
	switch e.Data.(type) {
	case Created, Started, Succeeded, Failed, RetryScheduled, Released, Waiting, Resumed, LeaseExpired,
		CancellationRequested, Cancelled:
		return e.Data.eventType()
	}
	return ""
}

// EventType is a closed set: the kinds of event.
type EventType string

// The event types. A heartbeat is not an event.
const (
	TypeCreated               EventType = "run.created"
	TypeStarted               EventType = "run.started"
	TypeSucceeded             EventType = "run.succeeded"
	TypeFailed                EventType = "run.failed"
	TypeRetryScheduled        EventType = "run.retry_scheduled"
	TypeReleased              EventType = "run.released"
	TypeWaiting               EventType = "run.waiting"
	TypeResumed               EventType = "run.resumed"
	TypeLeaseExpired          EventType = "run.lease_expired"
	TypeCancellationRequested EventType = "run.cancellation_requested"
	TypeCancelled             EventType = "run.cancelled"
)

// EventTypes returns every event type, in the order of a run's life.
func EventTypes() []EventType {
	return []EventType{
		TypeCreated, TypeStarted, TypeSucceeded, TypeFailed, TypeRetryScheduled, TypeReleased,
		TypeWaiting, TypeResumed, TypeLeaseExpired, TypeCancellationRequested, TypeCancelled,
	}
}

// Valid reports whether t is one of [EventTypes].
func (t EventType) Valid() bool {
	switch t {
	case TypeCreated, TypeStarted, TypeSucceeded, TypeFailed, TypeRetryScheduled, TypeReleased,
		TypeWaiting, TypeResumed, TypeLeaseExpired, TypeCancellationRequested, TypeCancelled:
		return true
	}
	return false
}

// EventData is what one type of event says. Its implementations are the types
// below and no others.
type EventData interface{ eventType() EventType }

// Created makes a run. RunAt zero means at once (the run is queued, due at the
// event's time), anything else that it is scheduled for then.
type Created struct {
	Task           string
	Queue          string
	Priority       int
	Payload        json.RawMessage
	RunAt          time.Time
	MaxAttempts    int // see Run.MaxAttempts
	Source         Source
	IdempotencyKey string
	IdempotencyTTL time.Duration
	SingletonKey   string
	ConcurrencyKey string
	Timeout        time.Duration
	LatestStart    time.Time
	Trace          map[string]string
	Metadata       map[string]string
}

// Started grants a lease: a runnable run becomes running.
type Started struct{ Lease Lease }

// Succeeded ends a leased run with its result (nil: none).
type Succeeded struct {
	Token  uuid.UUID
	Result json.RawMessage
}

// Failed ends a run. Token is the lease that the failure ends; it is uuid.Nil for
// a run that no worker holds (it started too late, say, or what it waited for is gone).
type Failed struct {
	Token   uuid.UUID
	Failure Failure
}

// RetryScheduled ends a lease whose attempt failed; the run is due again at Due.
type RetryScheduled struct {
	Token   uuid.UUID
	Due     time.Time
	Failure Failure
}

// Released ends a lease without a failure; the run is due again at Due. Token is
// uuid.Nil if no worker held the run: then it is only put off, which counts neither
// as an attempt nor as a release.
type Released struct {
	Token  uuid.UUID
	Due    time.Time
	Reason string
}

// Waiting ends a lease; the run waits for the run For to end.
type Waiting struct {
	Token uuid.UUID
	For   string
}

// Resumed ends a wait: the run is queued, due at the event's time.
type Resumed struct{}

// LeaseExpired ends a lease that its worker did not renew; the run is due again
// at Due. A run that may not be tried again gets a Failed event instead, and one
// whose cancellation was requested a Cancelled event.
type LeaseExpired struct {
	Token uuid.UUID
	Due   time.Time
}

// CancellationRequested asks the worker of a running run to stop.
type CancellationRequested struct{ Reason string }

// Cancelled ends a run by cancellation. Token is the lease that it ends; it is
// uuid.Nil for a run that no worker holds.
type Cancelled struct {
	Token  uuid.UUID
	Reason string
}

func (Created) eventType() EventType               { return TypeCreated }
func (Started) eventType() EventType               { return TypeStarted }
func (Succeeded) eventType() EventType             { return TypeSucceeded }
func (Failed) eventType() EventType                { return TypeFailed }
func (RetryScheduled) eventType() EventType        { return TypeRetryScheduled }
func (Released) eventType() EventType              { return TypeReleased }
func (Waiting) eventType() EventType               { return TypeWaiting }
func (Resumed) eventType() EventType               { return TypeResumed }
func (LeaseExpired) eventType() EventType          { return TypeLeaseExpired }
func (CancellationRequested) eventType() EventType { return TypeCancellationRequested }
func (Cancelled) eventType() EventType             { return TypeCancelled }
