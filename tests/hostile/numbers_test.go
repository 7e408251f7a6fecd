package hostile_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/lane"
	"github.com/seed4391e180/runlane/run"
	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/codec"
)

// numbers are JSON numbers and how jsonb prints them: every digit that was written,
// zeros at the end included, no exponent, and no sign on zero.
var numbers = []struct{ written, printed string }{
	{"9007199254740993", "9007199254740993"},
	{"-9007199254740993", "-9007199254740993"},
	{"18446744073709551617", "18446744073709551617"},
	{"0.1", "0.1"},
	{"0.1000", "0.1000"},
	{"1", "1"},
	{"1.0", "1.0"},
	{"-0", "0"},
	{"-0.00", "0.00"},
	{"0e400", "0"},
	{"1e2", "100"},
	{"1E+2", "100"},
	{"12.50e1", "125.0"},
	{"1e-2", "0.01"},
	{"1.5e-400", "0." + strings.Repeat("0", 399) + "15"},
	{"1e400", "1" + strings.Repeat("0", 400)},
	{"-1e400", "-1" + strings.Repeat("0", 400)},
	{"1e-16383", "0." + strings.Repeat("0", 16382) + "1"},
	{"1e131071", "1" + strings.Repeat("0", 131071)},
	{"3.141592653589793238462643383279", "3.141592653589793238462643383279"},
	{"0.30000000000000004", "0.30000000000000004"},
	{"5e-324", "0." + strings.Repeat("0", 323) + "5"},
}

// allNumbers is the payload with all of them, and how its numbers are printed.
func allNumbers() (payload []byte, printed string) {
	var w, p []string
	for _, n := range numbers {
		w, p = append(w, n.written), append(p, n.printed)
	}
	return withNumber("[" + strings.Join(w, ",") + "]"), "[" + strings.Join(p, ",") + "]"
}

// numberIn is what stands in {"n": …}, without space.
func numberIn(t *testing.T, doc []byte) string {
	t.Helper()
	var v struct {
		N json.RawMessage `json:"n"`
	}
	require.NoError(t, json.Unmarshal(doc, &v), "%s", doc)
	return strings.ReplaceAll(string(v.N), " ", "")
}

func withNumber(written string) []byte { return []byte(`{"n": ` + written + `}`) }

// numberWorld follows numbers through everything that rewrites a document.
type numberWorld struct {
	*store
	environment string
	want        string // as they are printed
	runKey      storage.Key
	eventKey    storage.Key
}

// inRun requires the number in the run's payload, by every read.
func (w *numberWorld) inRun(when string) {
	w.Helper()
	q := storage.Query{Index: storage.RunsByDue}
	var err error
	q.Partition, err = codec.DuePartition(w.environment, "queue", run.PriorityDefault)
	require.NoError(w, err)
	read := map[string]storage.Record{"read": w.read(w.runKey), "query": w.query(q).Records[0]}
	q.Lock = storage.Exclusive
	read["exclusive query"] = w.query(q).Records[0]
	for how, rec := range read {
		requireNumber(w.T, w.want, decodeRun(w.T, rec).Payload, when, how)
	}
	requireNumber(w.T, w.want, w.getRun(w.environment, "r").Payload, when, "GetRun")
	listed := w.listRuns(storage.RunFilter{Environment: w.environment, Full: true})
	require.Len(w, listed, 1)
	requireNumber(w.T, w.want, listed[0].Run.Payload, when, "ListRuns")
}

// inEvent requires the number in the payload of the Created event, by every read.
// listed says whether operators see it.
func (w *numberWorld) inEvent(when string, listed bool) {
	w.Helper()
	of := func(e run.Event) json.RawMessage {
		c, ok := e.Data.(run.Created)
		require.True(w, ok)
		return c.Payload
	}
	e := decodeEvent(w.T, w.read(w.eventKey))
	requireNumber(w.T, w.want, of(e), when, "read")
	q := storage.Query{Index: storage.RunEventsBySequence}
	var err error
	q.Partition, err = codec.EventsPartition(w.environment, e.RunID)
	require.NoError(w, err)
	for _, q.Lock = range []storage.Lock{storage.Candidates, storage.Exclusive} {
		requireNumber(w.T, w.want, of(decodeEvent(w.T, w.query(q).Records[0])), when, "query")
	}
	for _, f := range []storage.EventFilter{{RunID: e.RunID}, {Sort: storage.SortOccurred}} {
		f.Environment = w.environment
		events := w.listEvents(f)
		if !listed {
			require.Empty(w, events)
			continue
		}
		require.Len(w, events, 1)
		requireNumber(w.T, w.want, of(events[0]), when, "ListEvents")
	}
}

func requireNumber(t *testing.T, want string, doc []byte, about ...any) {
	t.Helper()
	if got := numberIn(t, doc); got != want {
		at := 0
		for at < min(len(got), len(want)) && got[at] == want[at] {
			at++
		}
		t.Fatalf("%v: %.40q stands where %.40q should", about, got[at:], want[at:])
	}
}

func (w *numberWorld) change(change func(r *run.Run)) {
	w.Helper()
	w.must(func(ctx context.Context, tx storage.Tx) error {
		rec, _, err := tx.Get(ctx, w.runKey)
		if err != nil {
			return err
		}
		r := decodeRun(w.T, rec)
		change(&r)
		return tx.Replace(ctx, encodeRun(w.T, r))
	})
}

// TestNumbersKeepEveryDigit: payload split, put together, shared by the Created
// event, copied on write, written again from what was read.
func TestNumbersKeepEveryDigit(t *testing.T) {
	t.Parallel()
	onBoth(t, func(s *store) {
		payload, printed := allNumbers()
		w := &numberWorld{store: s, environment: "e", want: printed}
		_, runRec, eventRec := newRun(s.T, "e", "r", payload)
		w.runKey, w.eventKey = runRec.Key, eventRec.Key
		s.create(runRec, eventRec)
		w.inRun("shared")
		w.inEvent("shared", true)

		w.change(func(r *run.Run) { r.Metadata = map[string]string{"k": "v"} })
		w.inRun("kept")
		w.inEvent("kept", true)

		w.change(func(r *run.Run) { r.Payload = []byte(`{"n": 7}`) })
		w.inEvent("copied", true)
		w.change(func(r *run.Run) { r.Payload = payload })
		w.inRun("changed back")

		event := s.read(w.eventKey)
		s.replace(storage.Record{Key: event.Key, Document: event.Document, Entries: eventRec.Entries})
		w.inEvent("written again from what was read", true)

		s.remove(w.runKey)
		w.inEvent("run deleted", false)
		moved := decodeEvent(s.T, s.read(w.eventKey))
		moved.RunID = "another"
		s.replace(encodeEvent(s.T, moved))
		w.inEvent("transferred", false)
	})
}

// TestNumbersOfTheSameValue: a payload whose number changes only in its digits is
// another payload.
func TestNumbersOfTheSameValue(t *testing.T) {
	t.Parallel()
	onBoth(t, func(s *store) {
		for i, pair := range [][2]string{{"0.1", "0.1000"}, {"0.1000", "0.1"}, {"1", "1.0"}, {"100", "1.00e2"}, {"0", "-0.0"}} {
			w := &numberWorld{store: s, environment: show("e%d", i), want: pair[0]}
			_, runRec, eventRec := newRun(s.T, w.environment, "r", withNumber(pair[0]))
			w.runKey, w.eventKey = runRec.Key, eventRec.Key
			s.create(runRec, eventRec)
			w.change(func(r *run.Run) { r.Payload = withNumber(pair[1]) })
			w.inEvent("the event keeps the first", true)
			w.want = map[string]string{"-0.0": "0.0", "1.00e2": "100"}[pair[1]]
			if w.want == "" {
				w.want = pair[1]
			}
			w.inRun("the run has the second")
		}
	})
}

// TestNumbersBesideMarks: the statement that fills commit times into a document
// leaves its numbers alone.
func TestNumbersBesideMarks(t *testing.T) {
	t.Parallel()
	inEveryMode(t, func(s *store) {
		payload, printed := allNumbers()
		for i, collection := range []storage.Collection{storage.Runs, storage.RunEvents, storage.QueueSlots} {
			key := storage.Key{Collection: collection, Partition: "$e!", ID: show("$r%d!", i)}
			rec := storage.Record{Key: key, Later: time.Hour, Document: []byte(
				`{"value":{"numbers":` + string(payload) + `,"at":"` + storage.CommitTime + `","payload":{"numbers":` + string(payload) + `,"later":"` + storage.CommitTimeLater + `"}}}`)}
			for _, write := range []func(...storage.Record) storage.Commit{s.create, s.replace} {
				commit := write(rec)
				var got struct {
					Value struct {
						Numbers json.RawMessage
						At      time.Time
						Payload struct {
							Numbers json.RawMessage
							Later   time.Time
						}
					}
				}
				require.NoError(s, json.Unmarshal(s.read(key).Document, &got))
				requireNumber(s.T, printed, got.Value.Numbers, collection)
				requireNumber(s.T, printed, got.Value.Payload.Numbers, collection)
				require.Equal(s, commit.Time, got.Value.At)
				require.Equal(s, commit.Time.Add(time.Hour), got.Value.Payload.Later)
			}
		}
	})
}

// TestNumbersThroughHandlers: a handler gets the digits that were triggered, and the
// caller those that the handler returned.
func TestNumbersThroughHandlers(t *testing.T) {
	t.Parallel()
	onBoth(t, func(s *store) {
		l, err := lane.New(s, lane.Config{Environment: "e"})
		require.NoError(s, err)
		echo := lane.Define(l, "echo", func(_ context.Context, a *lane.Attempt, p json.RawMessage) (json.RawMessage, error) {
			if a.Number == 1 {
				return nil, a.Release(0) // the run is written again with its payload
			}
			return p, nil
		}, lane.TaskOptions{})
		defer s.work(l, lane.WorkerConfig{PollInterval: 20 * time.Millisecond})()
		ctx, cancel := context.WithTimeout(s.Context(), time.Minute)
		defer cancel()
		payload, printed := allNumbers()
		triggered, err := echo.Trigger(ctx, payload)
		require.NoError(s, err)
		result, err := echo.Wait(ctx, triggered.RunID)
		require.NoError(s, err)
		requireNumber(s.T, printed, result, "Wait")
		ends := s.listEvents(storage.EventFilter{Environment: "e", RunID: triggered.RunID, Types: []run.EventType{run.TypeSucceeded}})
		require.Len(s, ends, 1)
		succeeded, ok := ends[0].Data.(run.Succeeded)
		require.True(s, ok)
		requireNumber(s.T, printed, succeeded.Result, "the event")
	})
}

// expanding is a number that takes 8 bytes to write and 128 KiB to print.
const expanding = "1e131071"

// TestWhatIsStoredCanBeWrittenAgain: numbers that are longer when printed do not make
// a record that can never be replaced. Such a document is stored and stays usable, or
// is refused.
func TestWhatIsStoredCanBeWrittenAgain(t *testing.T) {
	t.Parallel()
	onBoth(t, func(s *store) {
		for _, n := range []int{1, 7, 8} {
			for _, text := range []int{0, 120_000, 950_000} {
				for i, collection := range []storage.Collection{storage.Runs, storage.QueueSlots} {
					rec := storage.Record{
						Key:      storage.Key{Collection: collection, Partition: "$e!", ID: show("$%d-%d-%d!", n, text, i)},
						Document: []byte(`{"value":{"payload":[` + strings.Repeat(expanding+",", n) + `"` + strings.Repeat("x", text) + `"]}}`),
					}
					if _, err := s.transact(creates(rec)); err != nil {
						s.refused(err, storage.ErrTooLarge, "")
						continue
					}
					read := s.read(rec.Key)
					_, err := s.transact(replaces(storage.Record{Key: rec.Key, Document: read.Document}))
					require.NoError(s, err, "%d numbers beside %d bytes in %v", n, text, collection)
				}
			}
		}
	})
}

// TestRunsOfLongNumbersAreWorked: such a payload or result makes no run that workers
// can neither work on nor end. It is refused, or everything can happen to its run.
func TestRunsOfLongNumbersAreWorked(t *testing.T) {
	t.Parallel()
	onBoth(t, func(s *store) {
		l, err := lane.New(s, lane.Config{Environment: "e"})
		require.NoError(s, err)
		numbers := func(n, text int) json.RawMessage {
			return json.RawMessage("[" + strings.Repeat(expanding+",", n) + `"` + strings.Repeat("x", text) + `"]`)
		}
		task := lane.Define(l, "task", func(_ context.Context, a *lane.Attempt, _ json.RawMessage) (json.RawMessage, error) {
			if a.Failures == 0 {
				return nil, errors.New(strings.Repeat("why ", 1000))
			}
			return numbers(7, 100_000), nil
		}, lane.TaskOptions{Backoff: lane.Fixed(0)})
		defer s.work(l, lane.WorkerConfig{PollInterval: 20 * time.Millisecond})()
		ctx, cancel := context.WithTimeout(s.Context(), 20*time.Second)
		defer cancel()
		worked := 0
		for _, size := range [][2]int{{1, 0}, {2, 100_000}, {3, 130_000}, {4, 400_000}, {7, 130_000}, {7, 130_500}, {8, 0}} {
			triggered, err := task.Trigger(ctx, numbers(size[0], size[1]))
			if err != nil {
				s.refused(err, storage.ErrTooLarge, "")
				continue
			}
			worked++
			_, err = task.Wait(ctx, triggered.RunID)
			var ended *lane.RunError
			require.ErrorAs(s, err, &ended, "a run with %d such numbers and %d bytes", size[0], size[1])
			require.Equal(s, lane.CodeResult, ended.Failure.Code)
		}
		require.GreaterOrEqual(s, worked, 2)
	})
}
