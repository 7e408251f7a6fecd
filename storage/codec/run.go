package codec

import (
	"github.com/seed4391e180/runlane/run"
	"github.com/seed4391e180/runlane/storage"
)

// The levels of a document around its raw JSON.
const (
	runLevels   = 2
	eventLevels = 3
)

// EncodeRun returns the record of a run: its key, its document, and its entry in
// the one named index that its status calls for. Equal runs have equal documents.
//
// The run is checked completely. A refusal is a [*storage.InputError] that names
// the field by its name in the document: ErrInvalidKey or ErrTooLarge for names
// and keys, otherwise ErrInvalidDocument.
func EncodeRun(r run.Run) (storage.Record, error) {
	times, err := checkRun(&r)
	if err != nil {
		return storage.Record{}, err
	}
	if err := checkJSON(fieldPayload, r.Payload, runLevels); err != nil {
		return storage.Record{}, err
	}
	if err := checkJSON(fieldResult, r.Result, runLevels); err != nil {
		return storage.Record{}, err
	}
	key, err := RunKey(r.Environment, r.ID)
	if err != nil {
		return storage.Record{}, err
	}
	entry, err := runEntry(&r, key)
	if err != nil {
		return storage.Record{}, err
	}
	return storage.Record{Key: key, Document: appendRun(&r), Entries: []storage.Entry{entry}, Later: times.later}, nil
}

// EncodeTombstone returns the record that hides a run and all of its events, for
// Replace. It has no entries.
func EncodeTombstone(env, runID string) (storage.Record, error) {
	key, err := RunKey(env, runID)
	if err != nil {
		return storage.Record{}, err
	}
	var d document
	d.raw(`{"codec":"run","v":1,"tombstone":true,"value":{`)
	d.text(fieldEnvironment, env)
	d.text(fieldID, runID)
	d.raw("}}")
	return storage.Record{Key: key, Document: []byte(d)}, nil
}

// runEntry places a run in the index of whoever looks for runs with its status:
// each status has exactly one.
func runEntry(r *run.Run, key storage.Key) (e storage.Entry, err error) {
	switch {
	case r.Status.Runnable():
		e.Index = storage.RunsByDue
		if e.Partition, err = DuePartition(r.Environment, r.Queue, r.Priority); err == nil {
			e.Sort, err = sortTime(r.Due)
		}
	case r.Status.Leased():
		e.Index, e.Partition = storage.RunsByLeaseExpiry, key.Partition
		e.Sort, err = leaseSort(r.Lease)
	case r.Status == run.StatusWaiting:
		e.Index = storage.RunsWaitingForCompletion
		if e.Partition, err = WaitingPartition(r.Environment, r.WaitingFor); err == nil {
			e.Sort, err = sortTime(r.Created)
		}
	default:
		e.Index, e.Partition = storage.RunsByRetention, key.Partition
		e.Sort, err = sortTime(r.Finished)
	}
	return e, err
}

// appendRun writes the document of a checked run. The payload comes last, so that
// it is cheap to split off.
func appendRun(r *run.Run) []byte {
	d := make(document, 0, roomFor(r))
	d.raw(`{"codec":"run","v":1,"value":{`)
	d.text(fieldEnvironment, r.Environment)
	d.text(fieldID, r.ID)
	d.text(fieldTask, r.Task)
	d.text(fieldQueue, r.Queue)
	d.int(fieldPriority, int64(r.Priority))
	d.text(fieldStatus, string(r.Status))
	d.int(fieldSequence, r.Sequence)
	d.intIfAny(fieldMaxAttempts, int64(r.MaxAttempts))
	d.intIfAny(fieldAttempts, int64(r.Attempts))
	d.intIfAny(fieldFailures, int64(r.Failures))
	d.intIfAny(fieldRetries, int64(r.Retries))
	d.intIfAny(fieldReleases, int64(r.Releases))
	d.timeIfAny(fieldDue, r.Due)
	d.time(fieldCreated, r.Created)
	d.time(fieldUpdated, r.Updated)
	d.timeIfAny(fieldFinished, r.Finished)
	if r.Lease != nil {
		d.lease(r.Lease)
	}
	d.source(&r.Source)
	d.textIfAny(fieldIdempotencyKey, r.IdempotencyKey)
	d.intIfAny(fieldIdempotencyTTL, int64(r.IdempotencyTTL))
	d.textIfAny(fieldSingletonKey, r.SingletonKey)
	d.textIfAny(fieldConcurrencyKey, r.ConcurrencyKey)
	d.textIfAny(fieldWaitingFor, r.WaitingFor)
	d.intIfAny(fieldTimeout, int64(r.Timeout))
	d.timeIfAny(fieldLatestStart, r.LatestStart)
	if r.Failure != nil {
		d.failure(r.Failure)
	}
	d.mapIfAny(fieldTrace, r.Trace)
	d.mapIfAny(fieldMetadata, r.Metadata)
	d.jsonIfAny(fieldResult, r.Result)
	d.jsonIfAny(fieldPayload, r.Payload)
	d.raw("}}")
	return d
}

// roomFor guesses the size of a document, so that the usual one is allocated once.
func roomFor(r *run.Run) int {
	n := 640 + len(r.Payload) + len(r.Result) + len(r.ID) + len(r.IdempotencyKey) + len(r.SingletonKey) + len(r.ConcurrencyKey)
	if r.Failure != nil {
		n += len(r.Failure.Message) + len(r.Failure.Detail)
	}
	for _, m := range []map[string]string{r.Trace, r.Metadata} {
		for k, v := range m {
			n += len(k) + len(v) + 6
		}
	}
	return n
}
