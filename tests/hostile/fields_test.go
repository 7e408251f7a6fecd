package hostile_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/run"
	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/codec"
)

// asJSON is a text as a JSON document.
func asJSON(t *testing.T, text string) json.RawMessage {
	t.Helper()
	doc, err := json.Marshal(text)
	require.NoError(t, err)
	return doc
}

// nameOf is a text without the one character that names refuse.
func nameOf(text string) string { return strings.ReplaceAll(text, ":", "\u2236") }

// life is everything that is written in the life of a run all of whose texts are
// the same hostile one.
type life struct {
	text   string
	run    run.Run
	events []run.Event
	recs   []storage.Record // the run, its events, and a record of each collection that is named after texts
}

// newLife is a run that was retried, waited, and failed, or succeeded.
func newLife(t *testing.T, environment, text string, number int, ended bool) life {
	t.Helper()
	l := life{text: text}
	at := time.Date(2026, 3, 1, 0, 0, number, 1000*number, time.UTC)
	name := nameOf(text)
	lease := run.Lease{Token: uuid.New(), Worker: text, Attempt: 1, Expires: at.Add(time.Minute), Duration: time.Minute}
	failure := run.Failure{Code: text, Message: text, Detail: text, Retryable: true}
	payload, err := json.Marshal(map[string]any{text: []string{text}})
	require.NoError(t, err)
	data := []run.EventData{
		run.Created{
			Task: name, Queue: name, Priority: 1, Payload: payload, Source: run.Source{Type: run.SourceSchedule, Schedule: text},
			IdempotencyKey: text, IdempotencyTTL: time.Hour, SingletonKey: text, ConcurrencyKey: text,
			Trace: map[string]string{text: text}, Metadata: map[string]string{text: text},
		},
		run.Started{Lease: lease},
		run.RetryScheduled{Token: lease.Token, Due: at.Add(time.Hour), Failure: failure},
	}
	if ended {
		second := lease
		second.Token, second.Attempt = uuid.New(), 2
		data = append(data, run.Started{Lease: second}, run.Succeeded{Token: second.Token, Result: asJSON(t, text)})
	}
	for i, d := range data {
		l.events = append(l.events, run.Event{ID: uuid.New(), Environment: environment, RunID: text, Sequence: int64(i + 1), At: at.Add(time.Duration(i)), Data: d})
	}
	for i := range l.events {
		l.events[i].At = l.events[i].At.Truncate(time.Microsecond)
	}
	l.run = after(t, nil, l.events...)
	l.recs = append(l.recs, encodeRun(t, l.run))
	for _, e := range l.events {
		l.recs = append(l.recs, encodeEvent(t, e))
	}
	l.recs = append(l.recs, owners(t, environment, name, text)...)
	return l
}

// owners are records of the other collections, named after a text.
func owners(t *testing.T, environment, name, text string) []storage.Record {
	t.Helper()
	idempotency, err := codec.EncodeIdempotencyOwner(codec.IdempotencyOwner{Environment: environment, Task: name, Key: text, RunID: text, Expires: run.AtCommit.Add(time.Hour)})
	require.NoError(t, err)
	singleton, err := codec.EncodeSingletonOwner(codec.SingletonOwner{Environment: environment, Task: name, Key: text, RunID: text})
	require.NoError(t, err)
	recs := []storage.Record{idempotency, singleton}
	doc, err := json.Marshal(map[string]string{text: text})
	require.NoError(t, err)
	plain := func(key storage.Key, err error) {
		require.NoError(t, err)
		recs = append(recs, storage.Record{Key: key, Document: doc})
	}
	plain(codec.WaitPresenceKey(environment, text))
	plain(codec.QueueSlotKey(environment, name, text, 1))
	plain(codec.ScheduleOccurrenceKey(environment, text, time.Unix(0, 0)))
	plain(codec.ScheduleCursorKey(environment, text))
	plain(codec.ObservationHeadKey(environment, text))
	plain(codec.ObservationKey(environment, text, 1))
	return recs
}

// TestTextInEveryField writes every hostile text into every field, all texts in one
// transaction, and finds each where it was put and nowhere else.
// The filters are tried in turn, so in every mode each gets one text in seven.
func TestTextInEveryField(t *testing.T) {
	t.Parallel()
	inEveryMode(t, func(s *store) {
		const environment = "{table} $1 ' \" 😀"
		var lives []life
		var recs []storage.Record
		for i, text := range texts {
			l := newLife(s.T, environment, text, i, i%2 == 0)
			lives, recs = append(lives, l), append(recs, l.recs...)
		}
		s.create(recs...)
		found := s.readAll(keysOf(recs)...)
		require.Len(s, found, len(recs))
		for i, l := range lives {
			requireSameRun(s.T, l.run, decodeRun(s.T, found[l.recs[0].Key]))
			requireSameRun(s.T, l.run, s.getRun(environment, l.text))
			history := s.listEvents(storage.EventFilter{Environment: environment, RunID: l.text})
			require.Len(s, history, len(l.events), "%q", l.text)
			for j, e := range l.events {
				requireSameEvent(s.T, e, decodeEvent(s.T, found[l.recs[j+1].Key]))
				requireSameEvent(s.T, e, history[j])
			}
			s.filtersFindOnly(environment, l, i%len(textFilters), len(textFilters))
			s.partitionsHoldOnly(environment, l)
		}
		s.must(func(ctx context.Context, tx storage.Tx) error {
			for _, rec := range recs {
				if _, _, err := tx.Assume(ctx, found[rec.Key]); err != nil {
					return err
				}
				if err := tx.Delete(ctx, rec.Key); err != nil {
					return err
				}
			}
			return nil
		})
		require.Zero(s, s.rows())
	})
}

// textFilters set the filters of operators that compare a text, one each.
var textFilters = []func(f *storage.RunFilter, l life){
	func(f *storage.RunFilter, l life) { f.Tasks = []string{l.run.Task} },
	func(f *storage.RunFilter, l life) { f.Queues = []string{l.run.Queue} },
	func(f *storage.RunFilter, l life) { f.Schedule = l.text },
	func(f *storage.RunFilter, l life) { f.IdempotencyKey = l.text },
	func(f *storage.RunFilter, l life) { f.SingletonKey = l.text },
	func(f *storage.RunFilter, l life) { f.ConcurrencyKey = l.text },
	func(f *storage.RunFilter, l life) {
		f.Tasks, f.Queues, f.Schedule = []string{l.run.Task}, []string{l.run.Queue}, l.text
		f.IdempotencyKey, f.SingletonKey, f.ConcurrencyKey = l.text, l.text, l.text
	},
}

// filtersFindOnly: a filter finds the one run whose field is exactly that text,
// whatever other texts look like it. Of the filters it tries every step-th from the
// first on.
func (s *store) filtersFindOnly(environment string, l life, first, step int) {
	s.Helper()
	for i := first; i < len(textFilters); i += step {
		f := storage.RunFilter{Environment: environment, Full: true, Created: storage.TimeRange{From: time.Unix(0, 0)}}
		textFilters[i](&f, l)
		items := s.listRuns(f)
		require.Equal(s, []string{l.text}, idsOf(items), "%+v", f)
		requireSameRun(s.T, l.run, *items[0].Run)
	}
}

// partitionsHoldOnly: the named index that the run is in has it under exactly that
// text, for both kinds of query.
func (s *store) partitionsHoldOnly(environment string, l life) {
	s.Helper()
	q := storage.Query{Index: storage.RunsByDue}
	var err error
	if q.Partition, err = codec.DuePartition(environment, l.run.Queue, 1); l.run.Status.Terminal() {
		q.Index = storage.RunEventsBySequence
		q.Partition, err = codec.EventsPartition(environment, l.text)
	}
	require.NoError(s, err)
	for _, q.Lock = range []storage.Lock{storage.Candidates, storage.Exclusive} {
		page := s.query(q)
		want := l.recs[:1]
		if q.Index == storage.RunEventsBySequence {
			want = l.recs[1 : 1+len(l.events)]
		}
		require.Equal(s, keysOf(want), keysOf(page.Records), "%q", l.text)
	}
}

func requireSameRun(t *testing.T, want, got run.Run) {
	t.Helper()
	require.JSONEq(t, string(want.Payload), string(got.Payload))
	want.Payload, got.Payload = nil, nil
	if want.Result != nil {
		require.JSONEq(t, string(want.Result), string(got.Result))
		want.Result, got.Result = nil, nil
	}
	require.Equal(t, want, got)
}

func requireSameEvent(t *testing.T, want, got run.Event) {
	t.Helper()
	switch w := want.Data.(type) {
	case run.Created:
		g, ok := got.Data.(run.Created)
		require.True(t, ok)
		require.JSONEq(t, string(w.Payload), string(g.Payload))
		w.Payload, g.Payload = nil, nil
		want.Data, got.Data = w, g
	case run.Succeeded:
		g, ok := got.Data.(run.Succeeded)
		require.True(t, ok)
		require.JSONEq(t, string(w.Result), string(g.Result))
		w.Result, g.Result = nil, nil
		want.Data, got.Data = w, g
	}
	require.Equal(t, want, got)
}
