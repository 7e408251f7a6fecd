package run

import (
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
)

// CodeLeaseExpired is the code of the failure that a LeaseExpired event records.
const CodeLeaseExpired = "lease_expired"

// ErrIllegalTransition is what every [TransitionError] is.
var ErrIllegalTransition = errors.New("run: illegal transition")

// TransitionError refuses an event, or a renewal of a lease, that does not fit
// the run. It is ErrIllegalTransition.
type TransitionError struct {
	RunID  string    // the run, or the event's run if there is no run yet
	Status Status    // of the run before the event; "" if there is no run yet
	Type   EventType // of the event; "" for one without known data and for a renewal
	Reason Reason
}

// Reason is why a transition was refused.
type Reason string

// The reasons.
const (
	ReasonStatus   Reason = "the status does not allow it"
	ReasonNothing  Reason = "there is neither a run nor an event"
	ReasonSequence Reason = "the sequence does not continue the run"
	ReasonIdentity Reason = "the event belongs to another run"
	ReasonEventID  Reason = "the event has no id"
	ReasonData     Reason = "the event's data is missing or unknown"
	ReasonTime     Reason = "a time is missing"
	ReasonToken    Reason = "the token is not that of the lease"
	ReasonLease    Reason = "the lease lacks a token or a worker, or miscounts the attempt"
	ReasonWait     Reason = "a run waits for another run"
)

func (e *TransitionError) Error() string {
	status, what := e.Status, string(e.Type)
	if status == "" {
		status = "none"
	}
	if what == "" {
		what = "change"
	}
	return fmt.Sprintf("run: illegal transition of run %q (%s) by %s: %s", e.RunID, status, what, e.Reason)
}

// Is makes every TransitionError an ErrIllegalTransition.
func (e *TransitionError) Is(target error) bool { return target == ErrIllegalTransition }

// Reduce applies events to a run, in order, and returns the run that they make
// of it. r is nil for a run that does not exist yet; it is not modified. expected
// is the sequence that the first event must carry: 1 for a run that does not exist
// yet, otherwise one more than the run's. No events leave a run as it is.
//
// Reduce is pure: it reads no clock and compares no times, so times may be
// relative to a commit (see [AtCommit]). The result shares r's maps and raw JSON.
//
// An event that does not fit is a [*TransitionError]; then no event counts.
func Reduce(r *Run, expected int64, events ...Event) (Run, error) {
	var now Run
	if r != nil {
		now = *r
	}
	if expected != now.Sequence+1 || (r == nil) != (now.Sequence == 0) {
		return Run{}, &TransitionError{RunID: now.ID, Status: now.Status, Reason: ReasonSequence}
	}
	if r == nil && len(events) == 0 {
		return Run{}, &TransitionError{Reason: ReasonNothing}
	}
	for i := range events {
		next, reason := now.after(&events[i])
		if reason != "" {
			id := now.ID
			if now.Status == "" {
				id = events[i].RunID
			}
			return Run{}, &TransitionError{RunID: id, Status: now.Status, Type: events[i].Type(), Reason: reason}
		}
		now = next
	}
	return now, nil
}

// Renew extends the lease of a run: a heartbeat. It is no event, so neither
// Updated nor Sequence changes. r's own lease is not modified. A run without a
// lease, another token or a zero time is a [*TransitionError].
func Renew(r Run, token uuid.UUID, expires time.Time) (Run, error) {
	reason := Reason("")
	switch {
	case !r.Status.Leased():
		reason = ReasonStatus
	case r.Lease == nil || r.Lease.Token != token:
		reason = ReasonToken
	case expires.IsZero():
		reason = ReasonTime
	}
	if reason != "" {
		return Run{}, &TransitionError{RunID: r.ID, Status: r.Status, Reason: reason}
	}
	lease := *r.Lease
	lease.Expires = expires
	r.Lease = &lease
	return r, nil
}

// after returns the run after one event; the zero run is the one that does not
// exist yet. What does not depend on the type of the event is checked and done here.
func (r Run) after(e *Event) (Run, Reason) {
	switch {
	case e.Type() == "":
		return r, ReasonData
	case !legal(r.Status, e.Type()):
		return r, ReasonStatus
	case e.Sequence != r.Sequence+1:
		return r, ReasonSequence
	case e.Environment == "" || e.RunID == "":
		return r, ReasonIdentity
	case r.Status != "" && (e.Environment != r.Environment || e.RunID != r.ID):
		return r, ReasonIdentity
	case e.ID == uuid.Nil:
		return r, ReasonEventID
	case e.At.IsZero():
		return r, ReasonTime
	}
	if reason := r.admits(e.Data); reason != "" {
		return r, reason
	}
	r.apply(e)
	r.Sequence = e.Sequence
	r.Updated = e.At
	return r, ""
}

// legal tells whether an event of a type can happen to a run with a status; ""
// is the status of a run that does not exist yet.
func legal(s Status, t EventType) bool {
	switch {
	case s == "":
		return t == TypeCreated
	case s.Runnable():
		return t == TypeStarted || t == TypeFailed || t == TypeCancelled || t == TypeReleased
	case s == StatusWaiting:
		return t == TypeResumed || t == TypeFailed || t == TypeCancelled
	case s == StatusCancellationRequested:
		return t == TypeSucceeded || t == TypeFailed || t == TypeCancelled
	case s == StatusRunning:
		switch t {
		case TypeSucceeded, TypeFailed, TypeRetryScheduled, TypeReleased, TypeWaiting, TypeLeaseExpired, TypeCancellationRequested:
			return true
		}
	}
	return false
}

// admits checks what the data of a legal event says against the run.
func (r *Run) admits(data EventData) Reason {
	switch d := data.(type) {
	case Started:
		return r.admitsLease(d.Lease)
	case Succeeded:
		return r.ends(d.Token)
	case Failed:
		return r.ends(d.Token)
	case Cancelled:
		return r.ends(d.Token)
	case RetryScheduled:
		return r.givesBack(d.Token, d.Due)
	case Released:
		return r.givesBack(d.Token, d.Due)
	case LeaseExpired:
		return r.givesBack(d.Token, d.Due)
	case Waiting:
		// A run that waited for itself would never end.
		if d.For == "" || d.For == r.ID {
			return ReasonWait
		}
		return r.ends(d.Token)
	}
	return ""
}

func (r *Run) admitsLease(l Lease) Reason {
	switch {
	case l.Token == uuid.Nil || l.Worker == "" || l.Attempt != r.Attempts+1:
		return ReasonLease
	case l.Expires.IsZero():
		return ReasonTime
	}
	return ""
}

// ends checks the token of an event that ends the lease, or that finds none.
func (r *Run) ends(token uuid.UUID) Reason {
	held := uuid.Nil
	if r.Status.Leased() {
		if r.Lease == nil || r.Lease.Token == uuid.Nil {
			return ReasonToken
		}
		held = r.Lease.Token
	}
	if token != held {
		return ReasonToken
	}
	return ""
}

func (r *Run) givesBack(token uuid.UUID, due time.Time) Reason {
	if due.IsZero() {
		return ReasonTime
	}
	return r.ends(token)
}
