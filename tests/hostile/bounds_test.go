package hostile_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/lane"
	"github.com/seed4391e180/runlane/run"
	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/codec"
)

// longest are texts of exactly 255 bytes, whose last character would not fit a byte
// more; oneMore are those with that byte.
var (
	longest = []string{strings.Repeat("x", 255), strings.Repeat("é", 127) + "x", strings.Repeat("€", 85), strings.Repeat("😀", 63) + "abc"}
	oneMore = []string{strings.Repeat("x", 256), strings.Repeat("é", 128), strings.Repeat("€", 85) + "x", strings.Repeat("😀", 64)}
)

// keyField is a text of a run, of an event, or of a record's key.
type keyField struct {
	name   string // in errors
	isName bool   // it refuses ":"
	encode func(text string) error
}

// runField is a keyField of a run, whose status lets it have the field.
func runField(name string, set func(r *run.Run, text string)) keyField {
	isName := name == "environment" || name == "task" || name == "queue"
	return keyField{name, isName, func(text string) error {
		r := run.Run{
			Environment: "e", ID: "r", Task: "t", Queue: "q", Priority: 1, Status: run.StatusQueued, Sequence: 1,
			Due: noon, Created: noon, Updated: noon, Source: run.Source{Type: run.SourceTrigger},
		}
		set(&r, text)
		_, err := codec.EncodeRun(r)
		return err
	}}
}

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// eventField is a keyField of an event.
func eventField(name string, event func(text string) run.Event) keyField {
	return keyField{name, name == "environment" || name == "task" || name == "queue", func(text string) error {
		e := event(text)
		e.ID, e.Sequence, e.At = uuid.New(), 1, noon
		if e.Environment == "" {
			e.Environment = "e"
		}
		if e.RunID == "" {
			e.RunID = "r"
		}
		_, err := codec.EncodeEvent(e)
		return err
	}}
}

func createdWith(set func(c *run.Created, text string)) func(text string) run.Event {
	return func(text string) run.Event {
		c := run.Created{Task: "t", Queue: "q", Priority: 1, Source: run.Source{Type: run.SourceTrigger}}
		set(&c, text)
		return run.Event{Data: c}
	}
}

// ofKey is a keyField of a function that names records.
func ofKey[T any](name string, isName bool, encode func(text string) (T, error)) keyField {
	return keyField{name, isName, func(text string) error {
		_, err := encode(text)
		return err
	}}
}

// keyFields are all of them.
func keyFields() []keyField {
	const text, name = false, true
	lease := run.Lease{Token: uuid.New(), Attempt: 1, Expires: noon, Duration: time.Minute}
	return []keyField{
		runField("environment", func(r *run.Run, text string) { r.Environment = text }),
		runField("id", func(r *run.Run, text string) { r.ID = text }),
		runField("task", func(r *run.Run, text string) { r.Task = text }),
		runField("queue", func(r *run.Run, text string) { r.Queue = text }),
		runField("idempotency_key", func(r *run.Run, text string) { r.IdempotencyKey = text }),
		runField("singleton_key", func(r *run.Run, text string) { r.SingletonKey = text }),
		runField("concurrency_key", func(r *run.Run, text string) { r.ConcurrencyKey = text }),
		runField("source_run_id", func(r *run.Run, text string) { r.Source = run.Source{Type: run.SourceRerun, RunID: text} }),
		runField("schedule_id", func(r *run.Run, text string) { r.Source = run.Source{Type: run.SourceSchedule, Schedule: text} }),
		runField("lease_worker", func(r *run.Run, text string) {
			l := lease
			l.Worker = text
			r.Status, r.Attempts, r.Lease, r.Due = run.StatusRunning, 1, &l, time.Time{}
		}),
		runField("waiting_for", func(r *run.Run, text string) {
			r.Status, r.WaitingFor, r.Due = run.StatusWaiting, text, time.Time{}
		}),

		eventField("environment", func(text string) run.Event { return run.Event{Environment: text, Data: run.Resumed{}} }),
		eventField("run_id", func(text string) run.Event { return run.Event{RunID: text, Data: run.Resumed{}} }),
		eventField("task", createdWith(func(c *run.Created, text string) { c.Task = text })),
		eventField("queue", createdWith(func(c *run.Created, text string) { c.Queue = text })),
		eventField("idempotency_key", createdWith(func(c *run.Created, text string) { c.IdempotencyKey = text })),
		eventField("singleton_key", createdWith(func(c *run.Created, text string) { c.SingletonKey = text })),
		eventField("concurrency_key", createdWith(func(c *run.Created, text string) { c.ConcurrencyKey = text })),
		eventField("source_run_id", createdWith(func(c *run.Created, text string) { c.Source = run.Source{Type: run.SourceRerun, RunID: text} })),
		eventField("schedule_id", createdWith(func(c *run.Created, text string) { c.Source = run.Source{Type: run.SourceSchedule, Schedule: text} })),
		eventField("lease_worker", func(text string) run.Event {
			l := lease
			l.Worker = text
			return run.Event{Data: run.Started{Lease: l}}
		}),
		eventField("waiting_for", func(text string) run.Event {
			return run.Event{Data: run.Waiting{Token: uuid.New(), For: text}}
		}),

		ofKey("environment", name, func(text string) (storage.Key, error) { return codec.RunKey(text, "r") }),
		ofKey("environment", name, func(text string) (storage.Key, error) { return codec.EventKey(text, uuid.New()) }),
		ofKey("run_id", text, func(text string) (storage.Key, error) { return codec.RunKey("e", text) }),
		ofKey("source_run_id", text, func(text string) (storage.Key, error) { return codec.WaitPresenceKey("e", text) }),
		ofKey("task", name, func(text string) (storage.Key, error) { return codec.IdempotencyKey("e", text, "k") }),
		ofKey("idempotency_key", text, func(text string) (storage.Key, error) { return codec.IdempotencyKey("e", "t", text) }),
		ofKey("task", name, func(text string) (storage.Key, error) { return codec.SingletonKey("e", text, "k") }),
		ofKey("singleton_key", text, func(text string) (storage.Key, error) { return codec.SingletonKey("e", "t", text) }),
		ofKey("queue", name, func(text string) (storage.Key, error) { return codec.QueueSlotKey("e", text, "c", 1) }),
		ofKey("concurrency_key", text, func(text string) (storage.Key, error) { return codec.QueueSlotKey("e", "q", text, 1) }),
		ofKey("schedule_id", text, func(text string) (storage.Key, error) { return codec.ScheduleOccurrenceKey("e", text, noon) }),
		ofKey("schedule_id", text, func(text string) (storage.Key, error) { return codec.ScheduleCursorKey("e", text) }),
		ofKey("stream", text, func(text string) (storage.Key, error) { return codec.ObservationHeadKey("e", text) }),
		ofKey("stream", text, func(text string) (storage.Key, error) { return codec.ObservationKey("e", text, 1) }),
		ofKey("queue", name, func(text string) (string, error) { return codec.DuePartition("e", text, 1) }),
		ofKey("stream", text, func(text string) (string, error) { return codec.ObservationsPartition("e", text) }),
		ofKey("source_run_id", text, func(text string) (string, error) { return codec.WaitingPartition("e", text) }),
		ofKey("schedule_id", text, func(text string) (string, error) { return codec.OccurrencesPartition("e", text) }),
		ofKey("run_id", text, func(text string) (string, error) { return codec.EventsPartition("e", text) }),
		ofKey("run_id", text, func(text string) (storage.Record, error) {
			return codec.EncodeSingletonOwner(codec.SingletonOwner{Environment: "e", Task: "t", Key: "k", RunID: text})
		}),
		ofKey("run_id", text, func(text string) (storage.Record, error) {
			return codec.EncodeIdempotencyOwner(codec.IdempotencyOwner{Environment: "e", Task: "t", Key: "k", RunID: text})
		}),
	}
}

// TestTextLimitOfEveryField: 255 bytes fit, however many characters they are. A byte
// more, 3 kB, NUL and bytes that are no UTF-8 are refused, and the field is named.
func TestTextLimitOfEveryField(t *testing.T) {
	t.Parallel()
	refusals := []struct {
		kind  error
		texts []string
	}{
		{storage.ErrTooLarge, append([]string{strings.Repeat("k", 3000), strings.Repeat("é", 1500)}, oneMore...)},
		{storage.ErrInvalidKey, []string{"\x00", "a\x00b", "\xff", "a\xc3", "\xed\xa0\x80", "\xed\xb0\x80\xed\xa0\x80", "\xc0\x80", "\xf5\x80\x80\x80"}},
	}
	for _, f := range keyFields() {
		for _, text := range longest {
			require.NoError(t, f.encode(text), "%s of %d bytes", f.name, len(text))
		}
		for _, r := range refusals {
			for _, text := range r.texts {
				err := f.encode(text)
				requireRefused(t, err, r.kind, f.name, "%s: %.20q", f.name, text)
				if r.kind == storage.ErrTooLarge {
					var input *storage.InputError
					require.ErrorAs(t, err, &input)
					require.Equal(t, 255, input.Limit)
				}
			}
		}
		if f.isName {
			requireRefused(t, f.encode("a:b"), storage.ErrInvalidKey, f.name)
		}
	}
}

// TestLongestTexts stores runs all of whose texts are as long as they may be.
func TestLongestTexts(t *testing.T) {
	t.Parallel()
	onBoth(t, func(s *store) {
		for i, environment := range longest {
			var lives []life
			var recs []storage.Record
			for j, text := range longest {
				l := newLife(s.T, environment, text, i, j%2 == 0)
				lives, recs = append(lives, l), append(recs, l.recs...)
			}
			s.create(recs...)
			require.Len(s, s.readAll(keysOf(recs)...), len(recs))
			for _, l := range lives {
				requireSameRun(s.T, l.run, s.getRun(environment, l.text))
				s.filtersFindOnly(environment, l, 0, 1)
				s.partitionsHoldOnly(environment, l)
			}
		}
		// What needs an escape for each byte is longer when encoded. It is stored or
		// refused, but nothing is half.
		for _, blank := range []string{strings.Repeat(" ", 255), strings.Repeat("\x01", 255)} {
			s.create(encodeRun(s.T, after(s.T, nil, created(blank, blank, run.Created{}))))
			require.Equal(s, []string{blank}, idsOf(s.listRuns(storage.RunFilter{Environment: blank})))
			_, err := codec.EventsPartition(blank, blank)
			s.refused(err, storage.ErrTooLarge, "partition")
			_, err = codec.SingletonKey(blank, blank, blank)
			s.refused(err, storage.ErrTooLarge, "key")
		}
	})
}

// TestLongKeysOfRecords: parts of keys and of entries, bounds and topics of 3 kB are
// refused by the transaction and leave it as it was.
func TestLongKeysOfRecords(t *testing.T) {
	t.Parallel()
	onBoth(t, func(s *store) {
		long := "$" + strings.Repeat("k", 3000) + "!"
		good := storage.Key{Collection: storage.Runs, Partition: "$e!", ID: "$r!"}
		entry := func(partition, sort string) storage.Record {
			return storage.Record{Key: good, Document: []byte(`{}`), Entries: []storage.Entry{{Index: storage.RunsByDue, Partition: partition, Sort: sort}}}
		}
		record := func(partition, id string) storage.Record {
			return storage.Record{Key: storage.Key{Collection: storage.Runs, Partition: partition, ID: id}, Document: []byte(`{}`)}
		}
		before := s.rows()
		commit := s.must(func(ctx context.Context, tx storage.Tx) error {
			for field, rec := range map[string]storage.Record{
				"partition":                  record(long, "$r!"),
				"id":                         record("$e!", long),
				"entry RunsByDue: partition": entry("$e!"+long, "$s!"),
				"entry RunsByDue: sort":      entry("$e!", long),
				"entry RunsByDue: partition, sort and record id together": entry("$e!"+long[:1000]+"!", long[:1000]+"!"),
			} {
				if strings.Contains(field, "together") {
					rec.Key.ID = long[:1000] + "!"
				}
				s.refused(tx.Create(ctx, rec), storage.ErrTooLarge, field, field)
				if strings.HasPrefix(field, "entry") {
					continue
				}
				_, _, err := tx.Get(ctx, rec.Key)
				s.refused(err, storage.ErrTooLarge, field)
				_, err = tx.Peek(ctx, []storage.Key{rec.Key})
				s.refused(err, storage.ErrTooLarge, field)
			}
			for field, q := range map[string]storage.Query{
				"partition":   {Index: storage.RunsByDue, Partition: long},
				"from":        {Index: storage.RunsByDue, Partition: "$e!", From: storage.At(long)},
				"until":       {Index: storage.RunsByDue, Partition: "$e!", Until: storage.At(long)},
				"resume sort": {Index: storage.RunsByDue, Partition: "$e!", Resume: storage.Resume{Sort: long, ID: "$r!"}},
				"resume id":   {Index: storage.RunsByDue, Partition: "$e!", Resume: storage.Resume{Sort: "$r!", ID: long}},
			} {
				_, err := tx.Query(ctx, q)
				s.refused(err, storage.ErrInvalidQuery, field, field)
			}
			s.refused(tx.Wake(long), storage.ErrTooLarge, "topic")
			return nil
		})
		require.Equal(s, 1, commit.Attempts)
		require.Equal(s, before, s.rows())
	})
}

// TestFiltersRefuseWhatNoRunHas: a text of a filter that no field of a run can hold
// is refused like any other input, by its name, on every driver alike.
func TestFiltersRefuseWhatNoRunHas(t *testing.T) {
	t.Parallel()
	onBoth(t, func(s *store) {
		long := strings.Repeat("k", 3000)
		for _, bad := range []string{long, "\x00", "\xff", "\xed\xa0\x80"} {
			for field, f := range map[string]storage.RunFilter{
				"environment": {Environment: bad},
				"task":        {Environment: "e", Tasks: []string{"t", bad}},
				"queue":       {Environment: "e", Queues: []string{bad}},
				"source run":  {Environment: "e", SourceRun: bad},
				"schedule":    {Environment: "e", Schedule: bad},
				"idempotency": {Environment: "e", IdempotencyKey: bad},
				"singleton":   {Environment: "e", SingletonKey: bad},
				"concurrency": {Environment: "e", ConcurrencyKey: bad},
			} {
				_, err := s.ListRuns(s.Context(), f)
				s.refused(err, storage.ErrInvalidQuery, field, "%s %.10q", field, bad)
			}
			for field, f := range map[string]storage.EventFilter{
				"environment": {Environment: bad, RunID: "r"},
				"run":         {Environment: "e", RunID: bad},
			} {
				_, err := s.ListEvents(s.Context(), f)
				s.refused(err, storage.ErrInvalidQuery, field, "%s %.10q", field, bad)
			}
			for field, id := range map[string][2]string{"environment": {bad, "r"}, "run_id": {"e", bad}} {
				_, _, err := s.GetRun(s.Context(), id[0], id[1])
				var input *storage.InputError
				require.ErrorAs(s, err, &input)
				require.Equal(s, field, input.Field)
			}
		}
	})
}

// TestNamesInFilters: an environment or a run that cannot exist is answered alike by
// every driver.
func TestNamesInFilters(t *testing.T) {
	t.Parallel()
	answers := map[string][]string{}
	onBoth(t, func(s *store) {
		for _, name := range []string{"a:b", oneMore[0], oneMore[1]} {
			_, runs := s.ListRuns(s.Context(), storage.RunFilter{Environment: name})
			_, events := s.ListEvents(s.Context(), storage.EventFilter{Environment: name, RunID: "r"})
			_, history := s.ListEvents(s.Context(), storage.EventFilter{Environment: "e", RunID: name})
			for i, err := range []error{runs, events, history} {
				answers[show("%.10q %d", name, i)] = append(answers[show("%.10q %d", name, i)], show("%v", err))
			}
		}
	})
	for what, of := range answers {
		require.Len(t, of, 2)
		require.Equal(t, of[0], of[1], what)
	}
}

// TestLaneRefusesLongTexts: the options of a run are refused before anything is
// stored.
func TestLaneRefusesLongTexts(t *testing.T) {
	t.Parallel()
	onBoth(t, func(s *store) {
		l, err := lane.New(s, lane.Config{Environment: "e"})
		require.NoError(s, err)
		task := lane.Define[string, string](l, "task", nil, lane.TaskOptions{})
		for _, bad := range append([]string{strings.Repeat("k", 3000), "\x00", "\xff"}, oneMore...) {
			for field, opts := range map[string]lane.TriggerOptions{
				"id":              {RunID: bad},
				"idempotency_key": {IdempotencyKey: bad},
				"singleton_key":   {SingletonKey: bad},
			} {
				_, err := task.Trigger(s.Context(), "payload", opts)
				kind := storage.ErrTooLarge
				if len(bad) < 255 {
					kind = storage.ErrInvalidKey
				}
				s.refused(err, kind, field, "%s %.10q", field, bad)
			}
			require.Panics(s, func() { lane.Define[int, int](l, bad, nil, lane.TaskOptions{}) })
			require.Panics(s, func() { lane.Define[int, int](l, "other", nil, lane.TaskOptions{Queue: bad}) })
			_, err := lane.New(s, lane.Config{Environment: bad})
			require.Error(s, err)
		}
		require.Zero(s, s.rows())
		require.Empty(s, s.listRuns(storage.RunFilter{Environment: "e"}))
	})
}
