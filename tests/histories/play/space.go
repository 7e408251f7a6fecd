// Package play has concurrent clients run random transactions.
package play

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"

	"github.com/google/uuid"

	"github.com/seed4391e180/runlane/run"
	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/codec"
	"github.com/seed4391e180/runlane/storage/keys"
	"github.com/seed4391e180/runlane/tests/histories/record"
)

const (
	queue    = "q"
	priority = run.PriorityDefault
)

// space is the keys that the clients fight for.
type space struct {
	environment string
	lasting     bool
	keys        []storage.Key
	pairs       []*record.Pair
	twins       map[storage.Key]storage.Key
	streams     []*stream
	slots, due  string // partitions of the two indexes in use
}

// stream is one ordered stream, with a position that some client has seen.
type stream struct {
	name      string
	head      storage.Key
	partition string
	last      atomic.Int64
}

func newSpace(o Options) (*space, error) {
	s := &space{environment: o.Environment, lasting: o.Lasting, twins: make(map[storage.Key]storage.Key)}
	add := func(key storage.Key, err error) error {
		s.keys = append(s.keys, key)
		return err
	}
	for i := range o.Slots {
		if err := add(codec.QueueSlotKey(o.Environment, queue, "", i)); err != nil {
			return nil, err
		}
	}
	for i := range o.Runs {
		if err := add(codec.RunKey(o.Environment, fmt.Sprintf("r%d", i))); err != nil {
			return nil, err
		}
	}
	for i := range o.Owners {
		if err := add(codec.SingletonKey(o.Environment, "task", fmt.Sprintf("o%d", i))); err != nil {
			return nil, err
		}
	}
	for i := range o.Pairs {
		id := uuid.UUID{0: 0xff, 6: 0x80, 8: 0x80, 15: byte(i)}
		p, err := record.NewPair(record.Pair{Environment: o.Environment, Queue: queue, RunID: fmt.Sprintf("p%d", i), EventID: id})
		if err != nil {
			return nil, err
		}
		s.pairs = append(s.pairs, p)
		s.keys = append(s.keys, p.Run, p.Event)
		s.twins[p.Run], s.twins[p.Event] = p.Event, p.Run
	}
	for i := range o.Streams {
		st := &stream{name: fmt.Sprintf("s%d", i)}
		var err error
		if st.head, err = codec.ObservationHeadKey(o.Environment, st.name); err != nil {
			return nil, err
		}
		if st.partition, err = codec.ObservationsPartition(o.Environment, st.name); err != nil {
			return nil, err
		}
		s.streams = append(s.streams, st)
	}
	var err error
	if s.slots, err = codec.QueueSlotExpiryPartition(o.Environment); err != nil {
		return nil, err
	}
	s.due, err = codec.DuePartition(o.Environment, queue, priority)
	return s, err
}

// pick draws n distinct keys, more often both of a pair than chance has it.
func (s *space) pick(r *rand.Rand, n int) []storage.Key {
	n = min(n, len(s.keys))
	picked := make([]storage.Key, n)
	for i, at := range r.Perm(len(s.keys))[:n] {
		picked[i] = s.keys[at]
	}
	if twin, paired := s.twins[picked[0]]; paired && n > 1 && r.IntN(3) > 0 && !slices.Contains(picked, twin) {
		picked[1] = twin
	}
	return picked
}

// deletes reports whether scripts delete records of that key.
func (s *space) deletes(key storage.Key) bool {
	return !s.lasting || key.Collection != storage.Runs && key.Collection != storage.RunEvents
}

// entries draws the place of a record in the index of its collection: most have one,
// at an even number of places or at the commit's time.
func (s *space) entries(key storage.Key, coin float64) []storage.Entry {
	var e storage.Entry
	switch key.Collection {
	case storage.QueueSlots:
		e = storage.Entry{Index: storage.QueueSlotsByExpiry, Partition: s.slots}
	case storage.Runs:
		e = storage.Entry{Index: storage.RunsByDue, Partition: s.due}
	default:
		return nil
	}
	switch {
	case coin < 0.15:
		return nil
	case coin < 0.4:
		e.Sort = storage.CommitTime
	default:
		e.Sort = keys.EncodeInt(int64(coin * 100))
	}
	return []storage.Entry{e}
}

// evidence is the key that one transaction creates and nobody else touches.
func (s *space) evidence(client, op int) storage.Key {
	id := uuid.UUID{0: byte(client >> 8), 1: byte(client), 6: 0x80, 8: 0x80, 12: byte(op >> 24), 13: byte(op >> 16), 14: byte(op >> 8), 15: byte(op)}
	key, err := codec.EventKey(s.environment, id)
	if err != nil {
		panic(err) // the environment was good enough for newSpace
	}
	return key
}
