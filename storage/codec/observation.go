package codec

import (
	"bytes"
	"encoding/json"
	"time"

	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/keys"
)

// ObservationHead says how far an ordered stream has come.
type ObservationHead struct {
	Environment string
	Stream      string
	Position    int64 // of the last observation; 0 for none
}

// Observation is one item of an ordered stream.
type Observation struct {
	Environment string
	Stream      string
	Position    int64           // from 1
	At          time.Time       // never falls along a stream
	Data        json.RawMessage // any JSON value
}

// StreamOf returns what [ObservationHeadKey] made a key of. Any other key is
// ErrInvalidKey.
func StreamOf(head storage.Key) (environment, stream string, err error) {
	environment, eerr := keys.DecodeString(head.Partition)
	stream, serr := keys.DecodeString(head.ID)
	if eerr == nil && serr == nil {
		if same, err := ObservationHeadKey(environment, stream); err == nil && same == head {
			return environment, stream, nil
		}
	}
	return "", "", &storage.InputError{Kind: storage.ErrInvalidKey, Key: head, Field: "head", Reason: "is not the key of the head of a stream"}
}

// EncodeObservationHead returns the record of a head. It has no entries. A refusal
// is as with [EncodeRun].
func EncodeObservationHead(h ObservationHead) (storage.Record, error) {
	key, err := ObservationHeadKey(h.Environment, h.Stream)
	if err != nil {
		return storage.Record{}, err
	}
	if h.Position < 0 {
		return storage.Record{}, badPosition(key)
	}
	d := make(document, 0, 256)
	d.raw(`{"codec":"observation_head","v":1,"value":{`)
	d.text(fieldEnvironment, h.Environment)
	d.text(fieldStream, h.Stream)
	d.int(fieldPosition, h.Position)
	d.raw("}}")
	return storage.Record{Key: key, Document: []byte(d)}, nil
}

// EncodeObservation returns the record of an observation, with its entry in
// ObservationsByPosition. A refusal is as with [EncodeRun]; At may be
// [run.AtCommit].
func EncodeObservation(o Observation) (storage.Record, error) {
	key, err := ObservationKey(o.Environment, o.Stream, o.Position)
	if err != nil {
		return storage.Record{}, err
	}
	if o.Position < 1 {
		return storage.Record{}, badPosition(key)
	}
	var times commitTimes
	if err := times.check(fieldAt, o.At); err != nil {
		return storage.Record{}, err
	}
	if o.Data == nil {
		return storage.Record{}, invalid(fieldData, "is missing")
	}
	if err := checkJSON(fieldData, o.Data, observationLevels); err != nil {
		return storage.Record{}, err
	}
	partition, err := ObservationsPartition(o.Environment, o.Stream)
	if err != nil {
		return storage.Record{}, err
	}
	d := make(document, 0, 256+len(o.Data))
	d.raw(`{"codec":"observation","v":1,"value":{`)
	d.text(fieldEnvironment, o.Environment)
	d.text(fieldStream, o.Stream)
	d.int(fieldPosition, o.Position)
	d.time(fieldAt, o.At)
	d.name(fieldData)
	d = append(d, bytes.Trim(o.Data, jsonSpace)...)
	d.raw("}}")
	entry := storage.Entry{Index: storage.ObservationsByPosition, Partition: partition, Sort: keys.EncodeInt(o.Position)}
	return storage.Record{Key: key, Later: times.later, Document: []byte(d), Entries: []storage.Entry{entry}}, nil
}

func badPosition(key storage.Key) error {
	return &storage.InputError{Kind: storage.ErrInvalidKey, Key: key, Field: "position", Reason: "is below the first"}
}

// observationLevels is how deep Data stands in its document.
const observationLevels = 2

var (
	headFields        = fields(fieldEnvironment, fieldStream, fieldPosition)
	observationFields = headFields | fields(fieldAt, fieldData)
)

// DecodeObservationHead reads a record of the collection ObservationHeads. It is as
// total as [DecodeRun]; there are no tombstones of heads.
func DecodeObservationHead(rec storage.Record) (ObservationHead, Kind) {
	var d reader
	if !d.openOwner(rec, "observation_head", headFields) || d.have != headFields {
		return ObservationHead{}, Opaque
	}
	h := ObservationHead{Environment: d.text(fieldEnvironment), Stream: d.text(fieldStream), Position: d.int64(fieldPosition)}
	key, err := ObservationHeadKey(h.Environment, h.Stream)
	if d.bad || err != nil || key != rec.Key || h.Position < 0 {
		return ObservationHead{}, Opaque
	}
	return h, Canonical
}

// DecodeObservation reads a record of the collection ObservationRecords, as
// [DecodeObservationHead] does.
func DecodeObservation(rec storage.Record) (Observation, Kind) {
	d := reader{later: rec.Later}
	if !d.openOwner(rec, "observation", observationFields) || d.have != observationFields {
		return Observation{}, Opaque
	}
	o := Observation{
		Environment: d.text(fieldEnvironment),
		Stream:      d.text(fieldStream),
		Position:    d.int64(fieldPosition),
		At:          d.time(fieldAt),
		Data:        d.json(fieldData, observationLevels),
	}
	key, err := ObservationKey(o.Environment, o.Stream, o.Position)
	if d.bad || err != nil || key != rec.Key || o.Position < 1 {
		return Observation{}, Opaque
	}
	return o, Canonical
}
