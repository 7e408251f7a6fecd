package txn

import (
	"encoding/json"
	"slices"

	"github.com/seed4391e180/runlane/storage"
)

// Plan is what an attempt wants from the database, as a value: it can be sent in
// one piece, looked at in a test, or sent together with others. No key occurs
// twice among Expect and Mutations.
type Plan struct {
	Expect    []Expectation // of keys that are read and not written, in key order
	Mutations []Mutation    // net effects, in key order
	Locks     []Lock        // keys to lock now: those of the attempt that it does not hold yet, in key order
	Appends   []Append      // to streams, in the order of the first append to each
	Topics    []string      // hints to send when the plan commits
}

// Append is what the attempt wants at the end of one stream. The lock of the head
// is taken last unless Locks has it.
type Append struct {
	Head                storage.Key
	Environment, Stream string // what the head's key says
	Items               []json.RawMessage
}

// Expectation is what the attempt saw of a key.
type Expectation struct {
	Key     storage.Key
	Version storage.Version // zero: absent
	Hold    bool            // the attempt may go on to write the record: lock it, not only its key
}

// Op is the net effect of an attempt on one key.
type Op uint8

// The operations.
const (
	Insert Op = iota + 1 // the key must be absent
	Update               // the record must have the version Fence
	Delete               // likewise
)

// Mutation is the net effect of an attempt on one key.
type Mutation struct {
	Op     Op
	Key    storage.Key
	Before storage.Record // what Update and Delete replace, as it was read; its version is the fence
	Record storage.Record // what Insert and Update write
}

// Lock is one key to lock until the transaction ends.
type Lock struct {
	Key    storage.Key
	Shared bool // other shared holders are welcome
}

// Empty reports whether committing the plan would change nothing.
func (p *Plan) Empty() bool {
	return len(p.Mutations) == 0 && len(p.Topics) == 0 && len(p.Appends) == 0
}

// items is how many records the plan appends.
func (p *Plan) items() int {
	n := 0
	for i := range p.Appends {
		n += len(p.Appends[i].Items)
	}
	return n
}

// keys is how many keys the plan locks to commit: its own, and those of the streams.
func (p *Plan) keys() int {
	return len(p.Expect) + len(p.Mutations) + len(p.Appends) + p.items()
}

func (p *Plan) sort() {
	slices.SortFunc(p.Expect, func(a, b Expectation) int { return a.Key.Compare(b.Key) })
	slices.SortFunc(p.Mutations, func(a, b Mutation) int { return a.Key.Compare(b.Key) })
	slices.SortFunc(p.Locks, func(a, b Lock) int { return a.Key.Compare(b.Key) })
}
