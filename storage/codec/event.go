package codec

import (
	"github.com/google/uuid"

	"github.com/seed4391e180/runlane/run"
	"github.com/seed4391e180/runlane/storage"
)

// EncodeEvent returns the record of an event: its key, its document, and its entry
// in RunEventsBySequence. The event is checked completely; a refusal is as with
// [EncodeRun].
func EncodeEvent(e run.Event) (storage.Record, error) {
	times, err := checkEvent(&e)
	if err != nil {
		return storage.Record{}, err
	}
	if err := checkEventJSON(e.Data); err != nil {
		return storage.Record{}, err
	}
	key, err := EventKey(e.Environment, e.ID)
	if err != nil {
		return storage.Record{}, err
	}
	partition, err := EventsPartition(e.Environment, e.RunID)
	if err != nil {
		return storage.Record{}, err
	}
	entry := storage.Entry{Index: storage.RunEventsBySequence, Partition: partition, Sort: SequenceSort(e.Sequence)}
	return storage.Record{Key: key, Document: appendEvent(&e), Entries: []storage.Entry{entry}, Later: times.later}, nil
}

// appendEvent writes the document of a checked event, its payload last.
func appendEvent(e *run.Event) []byte {
	d := make(document, 0, roomForEvent(e))
	d.raw(`{"codec":"event","v":1,"value":{`)
	d.text(fieldEnvironment, e.Environment)
	d.text(fieldRunID, e.RunID)
	d.int(fieldSequence, e.Sequence)
	d.name(fieldEvent)
	d.raw("{")
	d.uuid(fieldID, e.ID)
	d.text(fieldType, string(e.Type()))
	d.time(fieldAt, e.At)
	d.eventData(e.Data)
	d.raw("}}}")
	return d
}

func (d *document) eventData(data run.EventData) {
	switch v := data.(type) {
	case run.Created:
		d.created(&v)
	case run.Started:
		d.lease(&v.Lease)
	case run.Succeeded:
		d.uuid(fieldToken, v.Token)
		d.jsonIfAny(fieldResult, v.Result)
	case run.Failed:
		d.uuidIfAny(fieldToken, v.Token)
		d.failure(&v.Failure)
	case run.RetryScheduled:
		d.uuid(fieldToken, v.Token)
		d.time(fieldDue, v.Due)
		d.failure(&v.Failure)
	case run.Released:
		d.uuidIfAny(fieldToken, v.Token)
		d.time(fieldDue, v.Due)
		d.textIfAny(fieldReason, v.Reason)
	case run.Waiting:
		d.uuid(fieldToken, v.Token)
		d.text(fieldWaitingFor, v.For)
	case run.LeaseExpired:
		d.uuid(fieldToken, v.Token)
		d.time(fieldDue, v.Due)
	case run.CancellationRequested:
		d.textIfAny(fieldReason, v.Reason)
	case run.Cancelled:
		d.uuidIfAny(fieldToken, v.Token)
		d.textIfAny(fieldReason, v.Reason)
	}
}

func (d *document) created(c *run.Created) {
	d.text(fieldTask, c.Task)
	d.text(fieldQueue, c.Queue)
	d.int(fieldPriority, int64(c.Priority))
	d.timeIfAny(fieldRunAt, c.RunAt)
	d.intIfAny(fieldMaxAttempts, int64(c.MaxAttempts))
	d.source(&c.Source)
	d.textIfAny(fieldIdempotencyKey, c.IdempotencyKey)
	d.intIfAny(fieldIdempotencyTTL, int64(c.IdempotencyTTL))
	d.textIfAny(fieldSingletonKey, c.SingletonKey)
	d.textIfAny(fieldConcurrencyKey, c.ConcurrencyKey)
	d.intIfAny(fieldTimeout, int64(c.Timeout))
	d.timeIfAny(fieldLatestStart, c.LatestStart)
	d.mapIfAny(fieldTrace, c.Trace)
	d.mapIfAny(fieldMetadata, c.Metadata)
	d.jsonIfAny(fieldPayload, c.Payload)
}

func (d *document) uuidIfAny(f field, id uuid.UUID) {
	if id != uuid.Nil {
		d.uuid(f, id)
	}
}

// roomForEvent guesses the size of a document, so that the usual one is allocated once.
func roomForEvent(e *run.Event) int {
	const room = 384
	switch d := e.Data.(type) {
	case run.Created:
		return 2*room + len(d.Payload)
	case run.Succeeded:
		return room + len(d.Result)
	case run.Failed:
		return room + len(d.Failure.Message) + len(d.Failure.Detail)
	case run.RetryScheduled:
		return room + len(d.Failure.Message) + len(d.Failure.Detail)
	}
	return room
}
