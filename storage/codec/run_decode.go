package codec

import (
	"time"

	"github.com/seed4391e180/runlane/run"
	"github.com/seed4391e180/runlane/storage"
)

var (
	leaseFields = fields(fieldLeaseToken, fieldLeaseWorker, fieldLeaseAttempt, fieldLeaseExpires, fieldLeaseDuration,
		fieldLeaseQueueSlot, fieldLeaseKeySlot)
	failureFields  = fields(fieldFailureCode, fieldFailureMessage, fieldFailureRetryable, fieldFailureDetail)
	creationFields = fields(fieldTask, fieldQueue, fieldPriority, fieldMaxAttempts, fieldSourceType, fieldSourceRun,
		fieldSchedule, fieldIdempotencyKey, fieldIdempotencyTTL, fieldSingletonKey, fieldConcurrencyKey, fieldTimeout,
		fieldLatestStart, fieldTrace, fieldMetadata, fieldPayload)
	runFields = leaseFields | failureFields | creationFields | fields(fieldEnvironment, fieldID, fieldStatus,
		fieldSequence, fieldAttempts, fieldFailures, fieldRetries, fieldReleases, fieldDue, fieldCreated, fieldUpdated,
		fieldFinished, fieldWaitingFor, fieldResult)
	identityFields = fields(fieldEnvironment, fieldID)
)

// DecodeRun reads a record of the collection Runs. It is total: any bytes have a
// kind. Of a tombstone the run has the identity only, of an opaque document
// nothing. Payload and result share the document's bytes.
//
// A document that has yet to be committed decodes to times relative to the commit;
// for that the record's Later counts too.
func DecodeRun(rec storage.Record) (run.Run, Kind) {
	return decodeRun(&rec, false)
}

// RunColumns returns what operators see of a run in lists; ok is false for
// everything that is not canonical.
//
// It is made for drivers, which call it for every write: the document is one that
// passed [storage.Limits.CheckRecord]. Then ok is true exactly if [DecodeRun] says
// canonical, although raw JSON inside is not read again.
func RunColumns(rec storage.Record) (columns storage.RunColumns, ok bool) {
	r, kind := decodeRun(&rec, true)
	if kind != Canonical {
		return storage.RunColumns{}, false
	}
	columns = storage.RunColumns{
		Environment:    r.Environment,
		ID:             r.ID,
		Task:           r.Task,
		Queue:          r.Queue,
		Status:         r.Status,
		Priority:       r.Priority,
		Created:        r.Created,
		Updated:        r.Updated,
		Due:            r.Due,
		IdempotencyKey: r.IdempotencyKey,
		SingletonKey:   r.SingletonKey,
		ConcurrencyKey: r.ConcurrencyKey,
		SourceType:     r.Source.Type,
		SourceRun:      r.Source.RunID,
		Schedule:       r.Source.Schedule,
	}
	if r.Lease != nil {
		columns.LeaseExpires = r.Lease.Expires
	}
	return columns, true
}

func decodeRun(rec *storage.Record, brief bool) (run.Run, Kind) {
	value, tombstone, ok := readEnvelope(rec.Document, "run")
	if !ok {
		return run.Run{}, Opaque
	}
	allowed, kind := runFields, Canonical
	if tombstone {
		allowed, kind = identityFields, Tombstone
	}
	d := reader{later: rec.Later, brief: brief}
	if !d.open(value, allowed) {
		return run.Run{}, Opaque
	}
	r := d.run()
	if d.bad || !isRunKey(rec.Key, r.Environment, r.ID) {
		return run.Run{}, Opaque
	}
	if tombstone {
		if _, err := RunKey(r.Environment, r.ID); err != nil {
			return run.Run{}, Opaque
		}
	} else if _, err := checkRun(&r); err != nil {
		return run.Run{}, Opaque
	}
	return r, kind
}

func (d *reader) run() run.Run {
	r := run.Run{
		Environment:    d.text(fieldEnvironment),
		ID:             d.text(fieldID),
		Task:           d.text(fieldTask),
		Queue:          d.text(fieldQueue),
		Priority:       d.int(fieldPriority),
		Payload:        d.json(fieldPayload, runLevels),
		Status:         word(d, fieldStatus, statuses),
		Sequence:       d.int64(fieldSequence),
		MaxAttempts:    d.int(fieldMaxAttempts),
		Attempts:       d.int(fieldAttempts),
		Failures:       d.int(fieldFailures),
		Retries:        d.int(fieldRetries),
		Releases:       d.int(fieldReleases),
		Due:            d.time(fieldDue),
		Created:        d.time(fieldCreated),
		Updated:        d.time(fieldUpdated),
		Finished:       d.time(fieldFinished),
		Source:         d.source(),
		IdempotencyKey: d.text(fieldIdempotencyKey),
		IdempotencyTTL: time.Duration(d.int64(fieldIdempotencyTTL)),
		SingletonKey:   d.text(fieldSingletonKey),
		ConcurrencyKey: d.text(fieldConcurrencyKey),
		WaitingFor:     d.text(fieldWaitingFor),
		Timeout:        time.Duration(d.int64(fieldTimeout)),
		LatestStart:    d.time(fieldLatestStart),
		Result:         d.json(fieldResult, runLevels),
		Trace:          d.texts(fieldTrace),
		Metadata:       d.texts(fieldMetadata),
	}
	if d.have&leaseFields != 0 {
		lease := d.lease()
		r.Lease = &lease
	}
	if d.have&failureFields != 0 {
		failure := d.failure()
		r.Failure = &failure
	}
	return r
}
