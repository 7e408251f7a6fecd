package metamorphic_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/seed4391e180/runlane/run"
	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/codec"
	"github.com/seed4391e180/runlane/storage/keys"
)

// How many of each kind of record a script speaks of, in each of its environments.
const (
	runCount     = 4
	eventCount   = 8
	ownerCount   = 2 // of an idempotency key, and of a singleton key
	slotCount    = 3
	fireCount    = 2
	streamCount  = 2
	itemCount    = 5 // of each stream, by position; the stream may grow beyond
	queueCount   = 2
	taskName     = "task"
	scheduleName = "nightly"
)

// environmentNames are what scripts call their environments.
var environmentNames = []string{"A", "B"}

// moments are the times that records hold: two long past, one far ahead, and those
// that the commit fills in. What is relative to the commit always lies between the
// second and the third.
var moments = []time.Time{
	time.Date(2001, 2, 3, 4, 5, 6, 789000, time.UTC), time.Date(2002, 12, 31, 23, 59, 59, 999999000, time.UTC),
	time.Date(2098, 7, 6, 5, 4, 3, 1000, time.UTC), run.AtCommit, {},
}

// momentLater stands for the commit time plus the delay of the content.
const momentLater = 4

// delays are far longer than a script takes, so that the order of times does not
// depend on how fast it is.
var delays = []time.Duration{24 * time.Hour, 240 * time.Hour}

// world names the records of one play of a script.
type world struct {
	environments map[string]string // by the script's name
	names        []string          // of all keys, in a fixed order
	keys         map[string]storage.Key
	name         map[storage.Key]string
}

// newWorld makes the world whose environments have a prefix that no other play uses.
func newWorld(prefix string) *world {
	w := &world{environments: map[string]string{}, keys: map[string]storage.Key{}, name: map[storage.Key]string{}}
	for _, e := range environmentNames {
		env := prefix + "-" + strings.ToLower(e)
		w.environments[e] = env
		add := func(kind string, n int, key func(i int) (storage.Key, error)) {
			for i := range n {
				w.add(fmt.Sprintf("%s/%s/%d", e, kind, i), must(key(i)))
			}
		}
		add("run", runCount, func(i int) (storage.Key, error) { return codec.RunKey(env, runID(i)) })
		add("event", eventCount, func(i int) (storage.Key, error) { return codec.EventKey(env, eventID(i)) })
		add("owner", ownerCount, func(i int) (storage.Key, error) { return codec.IdempotencyKey(env, taskName, fmt.Sprint("key:", i)) })
		add("single", ownerCount, func(i int) (storage.Key, error) { return codec.SingletonKey(env, taskName, singletonKey(i+1)) })
		add("slot", slotCount, func(i int) (storage.Key, error) { return codec.QueueSlotKey(env, queueName(0), "", i) })
		add("fire", fireCount, func(i int) (storage.Key, error) { return codec.ScheduleOccurrenceKey(env, scheduleName, moments[i]) })
		add("cursor", 1, func(int) (storage.Key, error) { return codec.ScheduleCursorKey(env, scheduleName) })
		add("presence", 1, func(int) (storage.Key, error) { return codec.WaitPresenceKey(env, runID(0)) })
		add("reserved", 1, func(int) (storage.Key, error) {
			return storage.Key{Collection: storage.RunEventIDOwners, Partition: must(codec.Partition(env)), ID: keys.EncodeInt(-1)}, nil
		})
		add("head", streamCount, func(i int) (storage.Key, error) { return codec.ObservationHeadKey(env, streamName(i)) })
		for s := range streamCount {
			add(fmt.Sprint("item/", s), itemCount+1, func(i int) (storage.Key, error) { return codec.ObservationKey(env, streamName(s), int64(i)) })
		}
	}
	return w
}

func (w *world) add(name string, key storage.Key) {
	w.names = append(w.names, name)
	w.keys[name], w.name[key] = key, name
}

func runID(i int) string        { return fmt.Sprint("run:", i) }
func queueName(i int) string    { return fmt.Sprint("queue%", i) }
func streamName(i int) string   { return fmt.Sprint("stream ", i) }
func singletonKey(i int) string { return fmt.Sprint("only '", i) }

// eventID is a UUID with a number in it.
func eventID(i int) uuid.UUID {
	return uuid.MustParse(fmt.Sprintf("01980000-0000-7000-8000-%012d", i+1))
}

// token is the fence of a lease of a run.
func token(attempt int) uuid.UUID {
	return uuid.MustParse(fmt.Sprintf("01990000-0000-7000-8000-%012d", attempt))
}

// must is for what cannot fail: scripts name only what exists.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// place is what the name of a key says: its environment, kind and numbers.
func place(name string) (environment, kind string, numbers []int) {
	parts := strings.Split(name, "/")
	for _, p := range parts[2:] {
		var n int
		must(fmt.Sscan(p, &n))
		numbers = append(numbers, n)
	}
	return parts[0], parts[1], numbers
}

// show is the script's name of a key. A stream may grow beyond the named items.
func (w *world) show(key storage.Key) string {
	if name, ok := w.name[key]; ok {
		return name
	}
	text := key.Collection.String() + " " + key.ID
	for _, e := range environmentNames {
		if must(codec.Partition(w.environments[e])) == key.Partition {
			text = e + "/" + text
		}
	}
	return text
}

// partitions lists the partitions of an index that scripts use, in one environment.
func (w *world) partitions(environment string, index storage.Index) []string {
	env := w.environments[environment]
	var all []string
	add := func(partition string, err error) { all = append(all, must(partition, err)) }
	switch index {
	case storage.RunEventsBySequence:
		for i := range runCount {
			add(codec.EventsPartition(env, runID(i)))
		}
	case storage.RunsByDue:
		for q := range queueCount {
			add(codec.DuePartition(env, queueName(q), run.PriorityFirst))
			add(codec.DuePartition(env, queueName(q), run.PriorityDefault))
		}
	case storage.RunsWaitingForCompletion:
		add(codec.WaitingPartition(env, runID(0)))
		add(codec.WaitingPartition(env, runID(1)))
	case storage.ScheduleOccurrencesByFireTime:
		add(codec.OccurrencesPartition(env, scheduleName))
	case storage.ObservationsByPosition:
		for i := range streamCount {
			add(codec.ObservationsPartition(env, streamName(i)))
		}
	default:
		add(codec.Partition(env))
	}
	return all
}

// byTime reports whether an index is sorted by times; the others are by integers.
func byTime(index storage.Index) bool {
	return index != storage.RunEventsBySequence && index != storage.ObservationsByPosition
}

// boundCount is how many bounds a query of a script can have; 0 is none.
const boundCount = 6

// bound is the end of a range of sort values.
func bound(index storage.Index, n int) storage.Bound {
	switch {
	case n == 0:
		return storage.Bound{}
	case !byTime(index):
		return storage.At(keys.EncodeInt(int64(n - 1)))
	case n == boundCount-1:
		return storage.ServerNow()
	case n == boundCount-2:
		return storage.At(must(keys.EncodeTime(time.Date(2010, 1, 1, 0, 0, 0, 0, time.UTC))))
	}
	return storage.At(must(keys.EncodeTime(moments[n-1])))
}

// query is what a script's query asks of a store, from the beginning.
func (w *world) query(q query) storage.Query {
	index := storage.Indexes()[q.Index]
	parts := w.partitions(q.Environment, index)
	asked := storage.Query{
		Index: index, Partition: parts[q.Part%len(parts)], From: bound(index, q.From), Until: bound(index, q.Until), Limit: q.Limit,
	}
	if q.Down {
		asked.Direction = storage.Descending
	}
	if q.Exclusive {
		asked.Lock = storage.Exclusive
	}
	return asked
}

// payloads are what runs carry and streams are appended with. Two are long: one that
// compresses well and one that does not. The marks stand in two of them.
var payloads = []json.RawMessage{
	nil, json.RawMessage(`null`), json.RawMessage(`{"a": [1, "x"], "payload": {"event": {}}}`), json.RawMessage(`"other"`),
	json.RawMessage(`{"n": [9007199254740993, 0.1000, 1e2, -0, 1E-7, 123456789012345678901234567890.5]}`),
	json.RawMessage(`"$1 $$ '; -- {table} %_\\ \"quoted\" é 😀 \u0001 \u2028"`),
	json.RawMessage(`{"twice": 1, "twice": {"b": [], "": {}}, "a": false}`),
	json.RawMessage(`"` + strings.Repeat("long ", 2500) + `"`),
	json.RawMessage(`"` + noise(9000) + `"`),
	json.RawMessage("{\"at\": \"\x01\"}"), json.RawMessage("[\"\x02\", \"\x01\"]"),
}

// marked is where the payloads with marks begin. Items hold none.
const marked = 9

// noise is text that does not compress.
func noise(n int) string {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+/"
	state, text := uint64(88172645463325252), make([]byte, n)
	for i := range text {
		state ^= state << 13
		state ^= state >> 7
		state ^= state << 17
		text[i] = letters[state%uint64(len(letters))]
	}
	return string(text)
}

// filters are what runs are listed by.
var filters = []func(f *storage.RunFilter){
	func(*storage.RunFilter) {},
	func(f *storage.RunFilter) { f.Full = true },
	func(f *storage.RunFilter) { f.Statuses = []run.Status{run.StatusQueued, run.StatusRunning} },
	func(f *storage.RunFilter) { f.Queues, f.Tasks = []string{queueName(1)}, []string{taskName, "none"} },
	func(f *storage.RunFilter) { f.SingletonKey = singletonKey(1) },
	func(f *storage.RunFilter) { f.SourceTypes = []run.SourceType{run.SourceTrigger} },
	func(f *storage.RunFilter) { f.SourceRun = runID(0) },
	func(f *storage.RunFilter) { f.Due = storage.TimeRange{From: moments[0], Until: moments[2]} },
	func(f *storage.RunFilter) { f.Created = storage.TimeRange{From: moments[1]} },
}
