package record

import (
	"fmt"

	"github.com/google/uuid"

	"github.com/seed4391e180/runlane/run"
	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/codec"
)

// Pair is a run and its Created event, both canonical. A driver may store the payload
// of the two once, if one transaction creates them with the same one, and must then
// keep the event's when the run's changes or goes.
type Pair struct {
	Environment, Queue, RunID string
	EventID                   uuid.UUID

	Run, Event storage.Key // set by NewPair
	Partition  string      // of the run's history in RunEventsBySequence
}

// NewPair fills in the keys.
func NewPair(p Pair) (*Pair, error) {
	var err error
	if p.Run, err = codec.RunKey(p.Environment, p.RunID); err != nil {
		return nil, err
	}
	if p.Event, err = codec.EventKey(p.Environment, p.EventID); err != nil {
		return nil, err
	}
	p.Partition, err = codec.EventsPartition(p.Environment, p.RunID)
	return &p, err
}

// Twin is the other key of the pair.
func (p *Pair) Twin(key storage.Key) storage.Key {
	if key == p.Run {
		return p.Event
	}
	return p.Run
}

// HistoryIndex is the name, in histories, of the run's part of RunEventsBySequence.
func (p *Pair) HistoryIndex() string { return storage.RunEventsBySequence.String() + "/" + p.RunID }

// encode makes the record of a write of one of the two.
func (p *Pair) encode(key storage.Key, value, payload string) (storage.Record, error) {
	event := run.Event{
		ID: p.EventID, Environment: p.Environment, RunID: p.RunID, Sequence: 1, At: run.AtCommit,
		Data: run.Created{
			Task: "task", Queue: p.Queue, Priority: run.PriorityDefault, Payload: []byte(payloadText(payload)),
			Source: run.Source{Type: run.SourceTrigger}, Metadata: map[string]string{"w": value, "p": payload},
		},
	}
	if key == p.Event {
		return codec.EncodeEvent(event)
	}
	r, err := run.Reduce(nil, 1, event)
	if err != nil {
		return storage.Record{}, fmt.Errorf("the run of a pair: %w", err)
	}
	return codec.EncodeRun(r)
}
