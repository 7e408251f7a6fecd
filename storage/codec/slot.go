package codec

import (
	"time"

	"github.com/google/uuid"

	"github.com/seed4391e180/runlane/storage"
)

// QueueSlot is one unit of the capacity of a queue, or of a concurrency key in it,
// that the lease of a run holds.
type QueueSlot struct {
	Environment    string
	Queue          string
	ConcurrencyKey string // "": the queue as a whole
	Slot           int    // from 1
	RunID          string
	Token          uuid.UUID // of the lease
	Expires        time.Time // when the lease ended unless it was renewed: nobody looks at the slot before
}

// QueuePause says that no run of a queue is to be begun. It takes the place of
// slot 0 of the queue as a whole.
type QueuePause struct {
	Environment string
	Queue       string
	At          time.Time
	Reason      string // "" is none
}

// WaitPresence says that some run has waited for the end of a run.
type WaitPresence struct {
	Environment string
	SourceRun   string
}

// EncodeQueueSlot returns the record of a slot, with its entry in
// QueueSlotsByExpiry. A refusal is as with [EncodeRun].
func EncodeQueueSlot(s QueueSlot) (storage.Record, error) {
	times, err := checkQueueSlot(&s)
	if err != nil {
		return storage.Record{}, err
	}
	key, err := QueueSlotKey(s.Environment, s.Queue, s.ConcurrencyKey, s.Slot)
	if err != nil {
		return storage.Record{}, err
	}
	sort, err := sortTime(s.Expires)
	if err != nil {
		return storage.Record{}, err
	}
	d := make(document, 0, 384)
	d.raw(`{"codec":"queue_slot","v":1,"value":{`)
	d.text(fieldEnvironment, s.Environment)
	d.text(fieldQueue, s.Queue)
	d.textIfAny(fieldConcurrencyKey, s.ConcurrencyKey)
	d.int(fieldSlot, int64(s.Slot))
	d.text(fieldRunID, s.RunID)
	d.uuid(fieldLeaseToken, s.Token)
	d.time(fieldExpires, s.Expires)
	d.raw("}}")
	entry := storage.Entry{Index: storage.QueueSlotsByExpiry, Partition: key.Partition, Sort: sort}
	return storage.Record{Key: key, Document: []byte(d), Entries: []storage.Entry{entry}, Later: times.later}, nil
}

func checkQueueSlot(s *QueueSlot) (times commitTimes, err error) {
	if s.Slot < 1 {
		return times, invalid(fieldSlot, "is less than 1")
	}
	if err := checkText(fieldRunID, s.RunID); err != nil {
		return times, err
	}
	if s.Token == uuid.Nil {
		return times, invalid(fieldLeaseToken, "is missing")
	}
	return times, times.check(fieldExpires, s.Expires)
}

// EncodeQueuePause returns the record of a pause. It has no entries. A refusal is
// as with [EncodeRun].
func EncodeQueuePause(p QueuePause) (storage.Record, error) {
	var times commitTimes
	if err := times.check(fieldAt, p.At); err != nil {
		return storage.Record{}, err
	}
	if err := checkFree(fieldReason, p.Reason); err != nil {
		return storage.Record{}, err
	}
	key, err := QueueSlotKey(p.Environment, p.Queue, "", 0)
	if err != nil {
		return storage.Record{}, err
	}
	d := make(document, 0, 256)
	d.raw(`{"codec":"queue_pause","v":1,"value":{`)
	d.text(fieldEnvironment, p.Environment)
	d.text(fieldQueue, p.Queue)
	d.time(fieldAt, p.At)
	d.textIfAny(fieldReason, p.Reason)
	d.raw("}}")
	return storage.Record{Key: key, Document: []byte(d), Later: times.later}, nil
}

// EncodeWaitPresence returns the record that some run has waited for another. It
// has no entries. A refusal is as with [EncodeRun].
func EncodeWaitPresence(p WaitPresence) (storage.Record, error) {
	key, err := WaitPresenceKey(p.Environment, p.SourceRun)
	if err != nil {
		return storage.Record{}, err
	}
	d := make(document, 0, 192)
	d.raw(`{"codec":"wait_presence","v":1,"value":{`)
	d.text(fieldEnvironment, p.Environment)
	d.text(fieldSourceRun, p.SourceRun)
	d.raw("}}")
	return storage.Record{Key: key, Document: []byte(d)}, nil
}

var (
	slotNeeds  = fields(fieldEnvironment, fieldQueue, fieldSlot, fieldRunID, fieldLeaseToken, fieldExpires)
	pauseNeeds = fields(fieldEnvironment, fieldQueue, fieldAt)
	waitNeeds  = fields(fieldEnvironment, fieldSourceRun)
)

// DecodeQueueSlot reads a record of the collection QueueSlots as a slot. It is as
// total as [DecodeRun]; there are no tombstones of slots.
func DecodeQueueSlot(rec storage.Record) (QueueSlot, Kind) {
	d := reader{later: rec.Later}
	if !d.openOwner(rec, "queue_slot", slotNeeds|fields(fieldConcurrencyKey)) || d.have&slotNeeds != slotNeeds {
		return QueueSlot{}, Opaque
	}
	s := QueueSlot{
		Environment:    d.text(fieldEnvironment),
		Queue:          d.text(fieldQueue),
		ConcurrencyKey: d.text(fieldConcurrencyKey),
		Slot:           d.int(fieldSlot),
		RunID:          d.text(fieldRunID),
		Token:          d.uuid(fieldLeaseToken),
		Expires:        d.time(fieldExpires),
	}
	key, err := QueueSlotKey(s.Environment, s.Queue, s.ConcurrencyKey, s.Slot)
	if d.bad || err != nil || key != rec.Key || d.have.has(fieldConcurrencyKey) && s.ConcurrencyKey == "" {
		return QueueSlot{}, Opaque
	}
	if _, err := checkQueueSlot(&s); err != nil {
		return QueueSlot{}, Opaque
	}
	return s, Canonical
}

// DecodeQueuePause reads a record of the collection QueueSlots as a pause, as
// [DecodeQueueSlot] does.
func DecodeQueuePause(rec storage.Record) (QueuePause, Kind) {
	d := reader{later: rec.Later}
	if !d.openOwner(rec, "queue_pause", pauseNeeds|fields(fieldReason)) || d.have&pauseNeeds != pauseNeeds {
		return QueuePause{}, Opaque
	}
	p := QueuePause{
		Environment: d.text(fieldEnvironment),
		Queue:       d.text(fieldQueue),
		At:          d.time(fieldAt),
		Reason:      d.text(fieldReason),
	}
	key, err := QueueSlotKey(p.Environment, p.Queue, "", 0)
	if d.bad || err != nil || key != rec.Key || checkFree(fieldReason, p.Reason) != nil {
		return QueuePause{}, Opaque
	}
	return p, Canonical
}

// DecodeWaitPresence reads a record of the collection RunCompletionWaitPresence,
// as [DecodeQueueSlot] does.
func DecodeWaitPresence(rec storage.Record) (WaitPresence, Kind) {
	var d reader
	if !d.openOwner(rec, "wait_presence", waitNeeds) || d.have != waitNeeds {
		return WaitPresence{}, Opaque
	}
	p := WaitPresence{Environment: d.text(fieldEnvironment), SourceRun: d.text(fieldSourceRun)}
	key, err := WaitPresenceKey(p.Environment, p.SourceRun)
	if d.bad || err != nil || key != rec.Key {
		return WaitPresence{}, Opaque
	}
	return p, Canonical
}
