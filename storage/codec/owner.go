package codec

import (
	"time"

	"github.com/seed4391e180/runlane/storage"
)

// IdempotencyOwner says which run an idempotency key of a task stands for.
type IdempotencyOwner struct {
	Environment string
	Task        string
	Key         string
	RunID       string
	Expires     time.Time // zero: the run owns the key while it is active
}

// SingletonOwner says which active run holds a singleton key of a task.
type SingletonOwner struct {
	Environment string
	Task        string
	Key         string
	RunID       string
}

// EncodeIdempotencyOwner returns the record of an owner, with an entry in
// IdempotencyOwnersByExpiry if it expires. A refusal is as with [EncodeRun].
func EncodeIdempotencyOwner(o IdempotencyOwner) (storage.Record, error) {
	times, err := checkIdempotencyOwner(&o)
	if err != nil {
		return storage.Record{}, err
	}
	key, err := IdempotencyKey(o.Environment, o.Task, o.Key)
	if err != nil {
		return storage.Record{}, err
	}
	rec := storage.Record{Key: key, Later: times.later}
	d := make(document, 0, 320)
	d.raw(`{"codec":"idempotency_owner","v":1,"value":{`)
	d.owner(o.Environment, o.Task, o.Key, o.RunID)
	if o.Expires.IsZero() {
		d.name(fieldExpires)
		d.raw("null")
	} else {
		d.time(fieldExpires, o.Expires)
		sort, err := sortTime(o.Expires)
		if err != nil {
			return storage.Record{}, err
		}
		rec.Entries = []storage.Entry{{Index: storage.IdempotencyOwnersByExpiry, Partition: key.Partition, Sort: sort}}
	}
	d.raw("}}")
	rec.Document = []byte(d)
	return rec, nil
}

// EncodeSingletonOwner returns the record of an owner. It has no entries. A
// refusal is as with [EncodeRun].
func EncodeSingletonOwner(o SingletonOwner) (storage.Record, error) {
	key, err := SingletonKey(o.Environment, o.Task, o.Key)
	if err != nil {
		return storage.Record{}, err
	}
	if err := checkText(fieldRunID, o.RunID); err != nil {
		return storage.Record{}, err
	}
	d := make(document, 0, 320)
	d.raw(`{"codec":"singleton_owner","v":1,"value":{`)
	d.owner(o.Environment, o.Task, o.Key, o.RunID)
	d.raw("}}")
	return storage.Record{Key: key, Document: []byte(d)}, nil
}

func (d *document) owner(env, task, key, runID string) {
	d.text(fieldEnvironment, env)
	d.text(fieldTask, task)
	d.text(fieldKey, key)
	d.text(fieldRunID, runID)
}

func checkIdempotencyOwner(o *IdempotencyOwner) (times commitTimes, err error) {
	if err := checkText(fieldRunID, o.RunID); err != nil {
		return times, err
	}
	if !o.Expires.IsZero() {
		err = times.check(fieldExpires, o.Expires)
	}
	return times, err
}

var ownerFields = fields(fieldEnvironment, fieldTask, fieldKey, fieldRunID)

// DecodeIdempotencyOwner reads a record of the collection IdempotencyOwners. It is
// as total as [DecodeRun]; there are no tombstones of owners.
func DecodeIdempotencyOwner(rec storage.Record) (IdempotencyOwner, Kind) {
	d := reader{later: rec.Later}
	if !d.openOwner(rec, "idempotency_owner", ownerFields|fields(fieldExpires)) || !d.have.has(fieldExpires) {
		return IdempotencyOwner{}, Opaque
	}
	o := IdempotencyOwner{
		Environment: d.text(fieldEnvironment),
		Task:        d.text(fieldTask),
		Key:         d.text(fieldKey),
		RunID:       d.text(fieldRunID),
	}
	if string(d.raw[fieldExpires]) != "null" {
		o.Expires = d.time(fieldExpires)
	}
	key, err := IdempotencyKey(o.Environment, o.Task, o.Key)
	if d.bad || err != nil || key != rec.Key {
		return IdempotencyOwner{}, Opaque
	}
	if _, err := checkIdempotencyOwner(&o); err != nil {
		return IdempotencyOwner{}, Opaque
	}
	return o, Canonical
}

// DecodeSingletonOwner reads a record of the collection SingletonOwners, as
// [DecodeIdempotencyOwner] does.
func DecodeSingletonOwner(rec storage.Record) (SingletonOwner, Kind) {
	var d reader
	if !d.openOwner(rec, "singleton_owner", ownerFields) {
		return SingletonOwner{}, Opaque
	}
	o := SingletonOwner{
		Environment: d.text(fieldEnvironment),
		Task:        d.text(fieldTask),
		Key:         d.text(fieldKey),
		RunID:       d.text(fieldRunID),
	}
	key, err := SingletonKey(o.Environment, o.Task, o.Key)
	if d.bad || err != nil || key != rec.Key || checkText(fieldRunID, o.RunID) != nil {
		return SingletonOwner{}, Opaque
	}
	return o, Canonical
}

func (d *reader) openOwner(rec storage.Record, codec string, allowed fieldSet) bool {
	value, tombstone, ok := readEnvelope(rec.Document, codec)
	return ok && !tombstone && d.open(value, allowed)
}
