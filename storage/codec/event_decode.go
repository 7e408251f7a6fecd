package codec

import (
	"time"

	"github.com/google/uuid"

	"github.com/seed4391e180/runlane/run"
	"github.com/seed4391e180/runlane/storage"
)

var (
	eventValueFields = fields(fieldEnvironment, fieldRunID, fieldSequence, fieldEvent)
	anyEventFields   = fields(fieldID, fieldType, fieldAt)
	dataFields       = map[run.EventType]fieldSet{
		run.TypeCreated:               anyEventFields | creationFields | fields(fieldRunAt),
		run.TypeStarted:               anyEventFields | leaseFields,
		run.TypeSucceeded:             anyEventFields | fields(fieldToken, fieldResult),
		run.TypeFailed:                anyEventFields | failureFields | fields(fieldToken),
		run.TypeRetryScheduled:        anyEventFields | failureFields | fields(fieldToken, fieldDue),
		run.TypeReleased:              anyEventFields | fields(fieldToken, fieldDue, fieldReason),
		run.TypeWaiting:               anyEventFields | fields(fieldToken, fieldWaitingFor),
		run.TypeResumed:               anyEventFields,
		run.TypeLeaseExpired:          anyEventFields | fields(fieldToken, fieldDue),
		run.TypeCancellationRequested: anyEventFields | fields(fieldReason),
		run.TypeCancelled:             anyEventFields | fields(fieldToken, fieldReason),
	}
	eventFields = func() (all fieldSet) {
		for _, s := range dataFields {
			all |= s
		}
		return all
	}()
)

// DecodeEvent reads a record of the collection RunEvents. It is as total as
// [DecodeRun]; there are no tombstones of events.
func DecodeEvent(rec storage.Record) (run.Event, Kind) {
	e, ok := decodeEvent(&rec, false)
	if !ok {
		return run.Event{}, Opaque
	}
	return e, Canonical
}

// EventColumns returns what operators see of an event in lists; ok is false for an
// opaque one. It is made for drivers, as [RunColumns] is.
func EventColumns(rec storage.Record) (columns storage.EventColumns, ok bool) {
	e, ok := decodeEvent(&rec, true)
	if !ok {
		return storage.EventColumns{}, false
	}
	return storage.EventColumns{
		Environment: e.Environment,
		RunID:       e.RunID,
		EventID:     e.ID,
		Sequence:    e.Sequence,
		Type:        e.Type(),
		At:          e.At,
	}, true
}

func decodeEvent(rec *storage.Record, brief bool) (e run.Event, ok bool) {
	value, tombstone, ok := readEnvelope(rec.Document, "event")
	if !ok || tombstone {
		return e, false
	}
	var outer reader
	if !outer.open(value, eventValueFields) {
		return e, false
	}
	d := reader{later: rec.Later, brief: brief}
	if !d.open(outer.raw[fieldEvent], eventFields) {
		return e, false
	}
	typ := word(&d, fieldType, eventTypes)
	if d.have&^dataFields[typ] != 0 {
		return e, false
	}
	e = run.Event{
		ID:          d.uuid(fieldID),
		Environment: outer.text(fieldEnvironment),
		RunID:       outer.text(fieldRunID),
		Sequence:    outer.int64(fieldSequence),
		At:          d.time(fieldAt),
		Data:        d.eventData(typ),
	}
	if d.bad || outer.bad || !isEventKey(rec.Key, e.Environment, e.ID) {
		return e, false
	}
	_, err := checkEvent(&e)
	return e, err == nil
}

func (d *reader) eventData(typ run.EventType) run.EventData {
	switch typ {
	case run.TypeCreated:
		return d.created()
	case run.TypeStarted:
		return run.Started{Lease: d.lease()}
	case run.TypeSucceeded:
		return run.Succeeded{Token: d.uuid(fieldToken), Result: d.json(fieldResult, eventLevels)}
	case run.TypeFailed:
		return run.Failed{Token: d.token(), Failure: d.failure()}
	case run.TypeRetryScheduled:
		return run.RetryScheduled{Token: d.uuid(fieldToken), Due: d.time(fieldDue), Failure: d.failure()}
	case run.TypeReleased:
		return run.Released{Token: d.token(), Due: d.time(fieldDue), Reason: d.prose(fieldReason)}
	case run.TypeWaiting:
		return run.Waiting{Token: d.uuid(fieldToken), For: d.text(fieldWaitingFor)}
	case run.TypeResumed:
		return run.Resumed{}
	case run.TypeLeaseExpired:
		return run.LeaseExpired{Token: d.uuid(fieldToken), Due: d.time(fieldDue)}
	case run.TypeCancellationRequested:
		return run.CancellationRequested{Reason: d.prose(fieldReason)}
	case run.TypeCancelled:
		return run.Cancelled{Token: d.token(), Reason: d.prose(fieldReason)}
	}
	return nil
}

func (d *reader) created() run.Created {
	return run.Created{
		Task:           d.text(fieldTask),
		Queue:          d.text(fieldQueue),
		Priority:       d.int(fieldPriority),
		Payload:        d.json(fieldPayload, eventLevels),
		RunAt:          d.time(fieldRunAt),
		MaxAttempts:    d.int(fieldMaxAttempts),
		Source:         d.source(),
		IdempotencyKey: d.text(fieldIdempotencyKey),
		IdempotencyTTL: time.Duration(d.int64(fieldIdempotencyTTL)),
		SingletonKey:   d.text(fieldSingletonKey),
		ConcurrencyKey: d.text(fieldConcurrencyKey),
		Timeout:        time.Duration(d.int64(fieldTimeout)),
		LatestStart:    d.time(fieldLatestStart),
		Trace:          d.texts(fieldTrace),
		Metadata:       d.texts(fieldMetadata),
	}
}

// token reads a token that is absent where nobody held the run. Spelling that as
// the zero UUID would be a second way to say the same.
func (d *reader) token() uuid.UUID {
	token := d.uuid(fieldToken)
	if d.have.has(fieldToken) && token == uuid.Nil {
		d.bad = true
	}
	return token
}
