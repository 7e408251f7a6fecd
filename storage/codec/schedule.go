package codec

import (
	"time"

	"github.com/seed4391e180/runlane/storage"
)

// ScheduleOccurrence is one fire of a schedule that made a run.
type ScheduleOccurrence struct {
	Environment string
	Schedule    string
	Fire        time.Time
	RunID       string
	Created     time.Time
}

// ScheduleCursor says how far a schedule has come: fires up to Considered are over,
// whether they made runs or not.
type ScheduleCursor struct {
	Environment string
	Schedule    string
	Considered  time.Time
}

// EncodeScheduleOccurrence returns the record of an occurrence, with its entry in
// ScheduleOccurrencesByFireTime. A refusal is as with [EncodeRun]; Fire is a known
// time.
func EncodeScheduleOccurrence(o ScheduleOccurrence) (storage.Record, error) {
	key, err := ScheduleOccurrenceKey(o.Environment, o.Schedule, o.Fire)
	if err != nil {
		return storage.Record{}, err
	}
	times, err := checkOccurrence(&o)
	if err != nil {
		return storage.Record{}, err
	}
	partition, err := OccurrencesPartition(o.Environment, o.Schedule)
	if err != nil {
		return storage.Record{}, err
	}
	sort, err := sortTime(o.Fire)
	if err != nil {
		return storage.Record{}, err
	}
	d := make(document, 0, 320)
	d.raw(`{"codec":"schedule_occurrence","v":1,"value":{`)
	d.text(fieldEnvironment, o.Environment)
	d.text(fieldSchedule, o.Schedule)
	d.time(fieldFire, o.Fire)
	d.text(fieldRunID, o.RunID)
	d.time(fieldCreated, o.Created)
	d.raw("}}")
	entry := storage.Entry{Index: storage.ScheduleOccurrencesByFireTime, Partition: partition, Sort: sort}
	return storage.Record{Key: key, Document: []byte(d), Entries: []storage.Entry{entry}, Later: times.later}, nil
}

func checkOccurrence(o *ScheduleOccurrence) (times commitTimes, err error) {
	if err := checkText(fieldRunID, o.RunID); err != nil {
		return times, err
	}
	return times, times.check(fieldCreated, o.Created)
}

// EncodeScheduleCursor returns the record of a cursor. It has no entries. A refusal
// is as with [EncodeRun].
func EncodeScheduleCursor(c ScheduleCursor) (storage.Record, error) {
	key, err := ScheduleCursorKey(c.Environment, c.Schedule)
	if err != nil {
		return storage.Record{}, err
	}
	var times commitTimes
	if err := times.check(fieldConsidered, c.Considered); err != nil {
		return storage.Record{}, err
	}
	d := make(document, 0, 224)
	d.raw(`{"codec":"schedule_cursor","v":1,"value":{`)
	d.text(fieldEnvironment, c.Environment)
	d.text(fieldSchedule, c.Schedule)
	d.time(fieldConsidered, c.Considered)
	d.raw("}}")
	return storage.Record{Key: key, Document: []byte(d), Later: times.later}, nil
}

var (
	occurrenceFields = fields(fieldEnvironment, fieldSchedule, fieldFire, fieldRunID, fieldCreated)
	cursorFields     = fields(fieldEnvironment, fieldSchedule, fieldConsidered)
)

// DecodeScheduleOccurrence reads a record of the collection ScheduleOccurrences. It
// is as total as [DecodeRun]; there are no tombstones of occurrences.
func DecodeScheduleOccurrence(rec storage.Record) (ScheduleOccurrence, Kind) {
	d := reader{later: rec.Later}
	if !d.openOwner(rec, "schedule_occurrence", occurrenceFields) || d.have != occurrenceFields {
		return ScheduleOccurrence{}, Opaque
	}
	o := ScheduleOccurrence{
		Environment: d.text(fieldEnvironment),
		Schedule:    d.text(fieldSchedule),
		Fire:        d.time(fieldFire),
		RunID:       d.text(fieldRunID),
		Created:     d.time(fieldCreated),
	}
	key, err := ScheduleOccurrenceKey(o.Environment, o.Schedule, o.Fire)
	if d.bad || err != nil || key != rec.Key {
		return ScheduleOccurrence{}, Opaque
	}
	if _, err := checkOccurrence(&o); err != nil {
		return ScheduleOccurrence{}, Opaque
	}
	return o, Canonical
}

// DecodeScheduleCursor reads a record of the collection ScheduleCursors, as
// [DecodeScheduleOccurrence] does.
func DecodeScheduleCursor(rec storage.Record) (ScheduleCursor, Kind) {
	d := reader{later: rec.Later}
	if !d.openOwner(rec, "schedule_cursor", cursorFields) || d.have != cursorFields {
		return ScheduleCursor{}, Opaque
	}
	c := ScheduleCursor{Environment: d.text(fieldEnvironment), Schedule: d.text(fieldSchedule), Considered: d.time(fieldConsidered)}
	key, err := ScheduleCursorKey(c.Environment, c.Schedule)
	if d.bad || err != nil || key != rec.Key {
		return ScheduleCursor{}, Opaque
	}
	return c, Canonical
}
