package storage

import "strings"

// Collection is one of the closed set of record collections. Its zero value is
// none of them. Collections are compared with ==.
type Collection struct{ id uint8 }

// The collections; 1-to-1 with physical tables in a database.
var (
	Runs                      = Collection{1}  // one run: its whole current state
	RunEvents                 = Collection{2}  // one lifecycle event of a run
	RunEventIDOwners          = Collection{3}  // reserved for adapter compatibility; nothing of ours writes it
	RunCompletionWaitPresence = Collection{4}  // one monotonic row per source run that any durable wait ever used
	IdempotencyOwners         = Collection{5}  // (task, idempotency key) -> owning run, with its expiry
	SingletonOwners           = Collection{6}  // (task, singleton key) -> the one active run
	QueueSlots                = Collection{7}  // one held capacity slot of (queue, concurrency key, slot number)
	ScheduleOccurrences       = Collection{8}  // one materialized fire, under a deterministic id
	ScheduleCursors           = Collection{9}  // the latest fire time considered, per schedule
	ObservationHeads          = Collection{10} // the last position of an ordered stream
	ObservationRecords        = Collection{11} // one appended observation, by (stream, position)
)

var collectionNames = [...]string{
	"", "Runs", "RunEvents", "RunEventIdOwners", "RunCompletionWaitPresence", "IdempotencyOwners", "SingletonOwners",
	"QueueSlots", "ScheduleOccurrences", "ScheduleCursors", "ObservationHeads", "ObservationRecords",
}

// Collections returns every collection, in a fixed order.
func Collections() []Collection {
	all := make([]Collection, 0, len(collectionNames)-1)
	for id := 1; id < len(collectionNames); id++ {
		all = append(all, Collection{uint8(id)})
	}
	return all
}

// String is the collection's name, such as "RunEvents"; "" for the zero value.
func (c Collection) String() string { return collectionNames[c.id] }

// Ordinal is the collection's place in [Collections], from 0; -1 for the zero value.
func (c Collection) Ordinal() int { return int(c.id) - 1 }

// Index is one of the closed set of named indexes. Its zero value is none of
// them. Indexes are compared with ==.
type Index struct{ id uint8 }

// The named indexes. Each is on one collection; a record has at most one entry in each.
var (
	RunEventsBySequence           = Index{1} // RunEvents, (environment, run), sequence: the history of one run
	RunsByDue                     = Index{2} // Runs, (environment, queue, priority), due time: runnable candidates
	RunsByLeaseExpiry             = Index{3} // Runs, environment, lease expiry rounded up: lease recovery
	RunsWaitingForCompletion      = Index{4} // Runs, (environment, source run), creation time: whom to release when a run ends
	RunsByRetention               = Index{5} // Runs, environment, terminal time: pruning
	IdempotencyOwnersByExpiry     = Index{6} // IdempotencyOwners, environment, expiry: reclaiming expired owners
	QueueSlotsByExpiry            = Index{7} // QueueSlots, environment, reservation expiry: reclaiming dead reservations
	ScheduleOccurrencesByFireTime = Index{8} // ScheduleOccurrences, (environment, schedule), fire time: history and pruning
	ObservationsByPosition        = Index{9} // ObservationRecords, stream, position: reading a stream in order
)

var indexes = [...]struct {
	name string
	on   Collection
}{
	{},
	{"RunEventsBySequence", RunEvents},
	{"RunsByDue", Runs},
	{"RunsByLeaseExpiry", Runs},
	{"RunsWaitingForCompletion", Runs},
	{"RunsByRetention", Runs},
	{"IdempotencyOwnersByExpiry", IdempotencyOwners},
	{"QueueSlotsByExpiry", QueueSlots},
	{"ScheduleOccurrencesByFireTime", ScheduleOccurrences},
	{"ObservationsByPosition", ObservationRecords},
}

// Indexes returns every named index, in a fixed order.
func Indexes() []Index {
	all := make([]Index, 0, len(indexes)-1)
	for id := 1; id < len(indexes); id++ {
		all = append(all, Index{uint8(id)})
	}
	return all
}

// String is the index's name, such as "RunsByDue"; "" for the zero value.
func (ix Index) String() string { return indexes[ix.id].name }

// On is the collection whose records the index orders.
func (ix Index) On() Collection { return indexes[ix.id].on }

// IndexesOn returns the named indexes on a collection, in the order of [Indexes].
func IndexesOn(c Collection) []Index {
	var on []Index
	for _, ix := range Indexes() {
		if ix.On() == c {
			on = append(on, ix)
		}
	}
	return on
}

// SnakeCase spells the name of a collection or an index as databases do:
// "RunEventIdOwners" is "run_event_id_owners".
func SnakeCase(name string) string {
	var b strings.Builder
	for i, r := range name {
		if 'A' <= r && r <= 'Z' {
			if i > 0 {
				b.WriteByte('_')
			}
			r += 'a' - 'A'
		}
		b.WriteRune(r)
	}
	return b.String()
}
