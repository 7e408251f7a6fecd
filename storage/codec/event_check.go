package codec

import (
	"time"

	"github.com/google/uuid"

	"github.com/seed4391e180/runlane/run"
)

// checkEvent checks everything that makes an event canonical, except that its raw
// JSON is JSON. Both directions use it. The result collects the times that are
// relative to the commit.
func checkEvent(e *run.Event) (commitTimes, error) {
	var times commitTimes
	if err := checkName(fieldEnvironment, e.Environment); err != nil {
		return times, err
	}
	if err := checkText(fieldRunID, e.RunID); err != nil {
		return times, err
	}
	if e.Sequence < 1 {
		return times, invalid(fieldSequence, "is less than 1")
	}
	if e.ID == uuid.Nil {
		return times, invalid(fieldID, "is missing")
	}
	if err := times.check(fieldAt, e.At); err != nil {
		return times, err
	}
	err := checkEventData(e, &times)
	return times, err
}

func checkEventData(e *run.Event, times *commitTimes) error {
	switch d := e.Data.(type) {
	case run.Created:
		return checkCreated(&d, times)
	case run.Started:
		return checkLeaseValues(&d.Lease, times)
	case run.Succeeded:
		return checkToken(d.Token)
	case run.Failed:
		return checkFailure(&d.Failure)
	case run.RetryScheduled:
		if err := checkGivenBack(d.Token, d.Due, times); err != nil {
			return err
		}
		return checkFailure(&d.Failure)
	case run.Released:
		if err := times.check(fieldDue, d.Due); err != nil {
			return err
		}
		return checkFree(fieldReason, d.Reason)
	case run.Waiting:
		if err := checkToken(d.Token); err != nil {
			return err
		}
		if d.For == e.RunID {
			return invalid(fieldWaitingFor, "is the run itself")
		}
		return checkText(fieldWaitingFor, d.For)
	case run.Resumed:
		return nil
	case run.LeaseExpired:
		return checkGivenBack(d.Token, d.Due, times)
	case run.CancellationRequested:
		return checkFree(fieldReason, d.Reason)
	case run.Cancelled:
		return checkFree(fieldReason, d.Reason)
	}
	return invalid(fieldType, "is none of the event types")
}

func checkToken(token uuid.UUID) error {
	if token == uuid.Nil {
		return invalid(fieldToken, "is missing")
	}
	return nil
}

// checkGivenBack checks what every event says that makes a run due again.
func checkGivenBack(token uuid.UUID, due time.Time, times *commitTimes) error {
	if err := checkToken(token); err != nil {
		return err
	}
	return times.check(fieldDue, due)
}

func checkCreated(c *run.Created, times *commitTimes) error {
	if err := checkName(fieldTask, c.Task); err != nil {
		return err
	}
	if err := checkName(fieldQueue, c.Queue); err != nil {
		return err
	}
	if err := checkPriority(c.Priority); err != nil {
		return err
	}
	if c.MaxAttempts < 0 {
		return invalid(fieldMaxAttempts, "is negative")
	}
	if !c.RunAt.IsZero() {
		if err := times.check(fieldRunAt, c.RunAt); err != nil {
			return err
		}
	}
	if err := checkSource(&c.Source); err != nil {
		return err
	}
	return checkOptionals(optionals{c.IdempotencyKey, c.SingletonKey, c.ConcurrencyKey, c.IdempotencyTTL, c.Timeout, c.LatestStart, c.Trace, c.Metadata}, times)
}

// checkEventJSON checks the raw JSON of an event.
func checkEventJSON(data run.EventData) error {
	switch d := data.(type) {
	case run.Created:
		return checkJSON(fieldPayload, d.Payload, eventLevels)
	case run.Succeeded:
		return checkJSON(fieldResult, d.Result, eventLevels)
	}
	return nil
}
