package driver_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/seed4391e180/runlane/internal/jsonscan"
	"github.com/seed4391e180/runlane/run"
	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/codec"
)

// TestPayloadsAsIfNothingWereShared runs random transactions over few runs and few
// events, in two environments with the same names, some of which fail in the middle.
// After each, every raw read and every operator read is what a model says that keeps
// every document whole.
func TestPayloadsAsIfNothingWereShared(t *testing.T) {
	w := newWorld(t)
	failures := w.failures()
	programs := 0
	rapid.Check(t, func(t *rapid.T) {
		programs++
		m := &payloadModel{world: w, docs: map[storage.Key]string{}}
		for i := range m.environments {
			m.environments[i] = fmt.Sprintf("e%d-%d", programs, i)
		}
		for i := range rapid.IntRange(1, 6).Draw(t, "transactions") {
			steps := rapid.SliceOfN(rapid.Custom(drawPayloadStep), 1, 6).Draw(t, fmt.Sprint("steps ", i))
			var fails *failure
			if n := rapid.IntRange(0, 2*len(failures)).Draw(t, "failure"); n < len(failures) {
				fails = &failures[n]
			}
			m.transaction(t, steps, fails)
			m.compare(t)
		}
	})
	w.sharingIsSound()
}

// payloadStep is one write.
type payloadStep struct {
	do          string
	environment int
	run, event  int
	payload     int
	sequence    int
}

var (
	modelPayloads = []string{"", "null", `{"n": 1}`, `{"n": 1.0}`, `"\u0001 \"$1\""`, `[1e400, -0, 0.1000]`}
	modelRuns     = []string{"r", "s"}
	modelEvents   = []uuid.UUID{uuid.MustParse("01980000-0000-7000-8000-000000000001"), uuid.MustParse("01980000-0000-7000-8000-000000000002"), uuid.MustParse("01980000-0000-7000-8000-000000000003")}
)

func drawPayloadStep(t *rapid.T) payloadStep {
	return payloadStep{
		do: rapid.SampledFrom([]string{
			"trigger", "trigger", "trigger", "trigger", "touch", "run", "run", "event", "event", "transfer", "tombstone", "opaque run",
			"run without value", "opaque event", "delete run", "delete run", "delete event", "delete both",
		}).Draw(t, "do"),
		environment: rapid.IntRange(0, 1).Draw(t, "environment"),
		run:         rapid.IntRange(0, len(modelRuns)-1).Draw(t, "run"),
		event:       rapid.IntRange(0, len(modelEvents)-1).Draw(t, "event"),
		payload:     rapid.IntRange(0, len(modelPayloads)-1).Draw(t, "payload"),
		sequence:    rapid.IntRange(1, 2).Draw(t, "sequence"),
	}
}

// payloadModel is what the store must hold: whole documents.
type payloadModel struct {
	*world
	environments [2]string
	docs         map[storage.Key]string
}

// writes are the records that a step puts, or deletes if they have no document.
func (m *payloadModel) writes(s payloadStep) []storage.Record {
	environment, id := m.environments[s.environment], modelRuns[s.run]
	created := run.Created{Task: "mail", Queue: "default", Priority: 2, Source: run.Source{Type: run.SourceTrigger}}
	if p := modelPayloads[s.payload]; p != "" {
		created.Payload = []byte(p)
	}
	first := run.Event{ID: modelEvents[s.event], Environment: environment, RunID: id, Sequence: 1, At: firstOfMarch, Data: created}
	r, err := run.Reduce(nil, 1, first)
	if err != nil {
		panic(err)
	}
	runRec, event := encoded(codec.EncodeRun(r)), encoded(codec.EncodeEvent(first))
	payload := modelPayloads[s.payload]
	if payload == "" {
		payload = "7"
	}
	switch s.do {
	case "trigger":
		return []storage.Record{runRec, event}
	case "touch": // whatever payload it has stays
		current, kind := codec.DecodeRun(storage.Record{Key: runRec.Key, Document: []byte(m.docs[runRec.Key])})
		if kind != codec.Canonical {
			return nil
		}
		current.Metadata = map[string]string{"touched": fmt.Sprint(s.payload)}
		return []storage.Record{encoded(codec.EncodeRun(current))}
	case "run":
		return []storage.Record{runRec}
	case "event":
		return []storage.Record{event}
	case "transfer": // to another run or sequence, with the payload that it has
		current, kind := codec.DecodeEvent(storage.Record{Key: event.Key, Document: []byte(m.docs[event.Key])})
		if kind != codec.Canonical {
			return nil
		}
		current.RunID, current.Sequence = id, int64(s.sequence)
		return []storage.Record{encoded(codec.EncodeEvent(current))}
	case "tombstone":
		return []storage.Record{encoded(codec.EncodeTombstone(environment, id))}
	case "opaque run":
		return []storage.Record{raw(runRec.Key, `{"codec":"run","v":9,"value":{"payload":`+payload+`}}`)}
	case "run without value":
		return []storage.Record{raw(runRec.Key, `{"payload":`+payload+`}`)}
	case "opaque event":
		return []storage.Record{raw(event.Key, `{"codec":"event","v":9,"value":{"event":{"payload":`+payload+`}}}`)}
	case "delete run":
		return []storage.Record{{Key: runRec.Key}}
	case "delete event":
		return []storage.Record{{Key: event.Key}}
	case "delete both":
		return []storage.Record{{Key: event.Key}, {Key: runRec.Key}}
	}
	panic("no such step: " + s.do)
}

// transaction runs steps, whose records are read by one call or as they come.
func (m *payloadModel) transaction(t *rapid.T, steps []payloadStep, fails *failure) {
	before := m.docs
	attempt := 0
	_, err := m.d.Transact(m.t.Context(), "model", func(ctx context.Context, tx storage.Tx) error {
		attempt++
		m.docs = map[storage.Key]string{}
		for key, doc := range before {
			m.docs[key] = doc
		}
		for _, s := range steps {
			for _, rec := range m.writes(s) {
				if err := m.write(ctx, tx, rec); err != nil {
					return err
				}
			}
		}
		if fails != nil {
			return fails.do(ctx, tx, attempt)
		}
		return nil
	})
	if fails != nil {
		m.docs = before
		if !errors.Is(err, fails.with) {
			t.Fatalf("the transaction ended with %v, not with %v", err, fails.with)
		}
	} else if err != nil {
		t.Fatalf("the transaction ended with %v", err)
	}
}

func (m *payloadModel) write(ctx context.Context, tx storage.Tx, rec storage.Record) error {
	_, found, err := tx.Get(ctx, rec.Key)
	switch {
	case err != nil:
		return err
	case rec.Document == nil && found:
		delete(m.docs, rec.Key)
		return tx.Delete(ctx, rec.Key)
	case rec.Document == nil:
		return nil
	}
	m.docs[rec.Key] = valueText(rec.Document)
	if found {
		return tx.Replace(ctx, rec)
	}
	return tx.Create(ctx, rec)
}

// valueText is a document in the one spelling that its value has.
func valueText(doc []byte) string {
	text, err := jsonscan.Canonical(doc)
	if err != nil {
		return "no document: " + string(doc)
	}
	return string(text)
}

// keys are all that the steps can write.
func (m *payloadModel) keys() (keys []storage.Key) {
	for _, environment := range m.environments {
		for _, id := range modelRuns {
			key, _ := codec.RunKey(environment, id)
			keys = append(keys, key)
		}
		for _, id := range modelEvents {
			key, _ := codec.EventKey(environment, id)
			keys = append(keys, key)
		}
	}
	return keys
}

// compare reads everything in every way.
func (m *payloadModel) compare(t *rapid.T) {
	ctx := m.t.Context()
	check := func(how string, key storage.Key, doc []byte) {
		if got := valueText(doc); got != m.docs[key] {
			t.Fatalf("%s: %v reads as\n%s\ninstead of\n%s", how, key, got, m.docs[key])
		}
	}
	_, err := m.d.Transact(ctx, "compare", func(ctx context.Context, tx storage.Tx) error {
		found, err := tx.GetMany(ctx, m.keys())
		if err != nil {
			return err
		}
		if len(found) != len(m.docs) {
			t.Fatalf("%d records instead of %d", len(found), len(m.docs))
		}
		for key, rec := range found {
			check("a read", key, rec.Document)
		}
		for _, environment := range m.environments {
			for _, id := range modelRuns {
				partition, err := codec.EventsPartition(environment, id)
				if err != nil {
					return err
				}
				for _, lock := range []storage.Lock{storage.Candidates, storage.Exclusive} {
					page, err := tx.Query(ctx, storage.Query{Index: storage.RunEventsBySequence, Partition: partition, Lock: lock})
					if err != nil {
						return err
					}
					for _, rec := range page.Records {
						check("a query", rec.Key, rec.Document)
					}
					if want := m.history(environment, id); len(page.Records) != len(want) {
						t.Fatalf("a history of %d events instead of %d", len(page.Records), len(want))
					}
				}
			}
		}
		return nil
	})
	require.NoError(t, err)
	for _, environment := range m.environments {
		m.compareOperators(ctx, t, environment)
	}
}

// history are the canonical events of a run.
func (m *payloadModel) history(environment, id string) (events []run.Event) {
	for key, doc := range m.docs {
		e, kind := codec.DecodeEvent(storage.Record{Key: key, Document: []byte(doc)})
		if key.Collection == storage.RunEvents && kind == codec.Canonical && e.Environment == environment && e.RunID == id {
			events = append(events, e)
		}
	}
	slices.SortFunc(events, func(a, b run.Event) int {
		if a.Sequence != b.Sequence {
			return int(a.Sequence - b.Sequence)
		}
		return slices.Compare(a.ID[:], b.ID[:])
	})
	return events
}

func (m *payloadModel) compareOperators(ctx context.Context, t *rapid.T, environment string) {
	var visible []run.Run
	var occurred []run.Event
	for _, id := range modelRuns {
		key, err := codec.RunKey(environment, id)
		require.NoError(t, err)
		want, kind := codec.DecodeRun(storage.Record{Key: key, Document: []byte(m.docs[key])})
		got, found, err := m.d.GetRun(ctx, environment, id)
		require.NoError(t, err)
		require.Equal(t, kind == codec.Canonical, found)
		page, err := m.d.ListEvents(ctx, storage.EventFilter{Environment: environment, RunID: id})
		require.NoError(t, err)
		if !found {
			require.Empty(t, page.Events)
			continue
		}
		require.Equal(t, spelt(want), spelt(got))
		visible = append(visible, want)
		history := m.history(environment, id)
		require.Equal(t, speltAll(history), speltAll(page.Events))
		occurred = append(occurred, history...)
	}
	runs, err := m.d.ListRuns(ctx, storage.RunFilter{Environment: environment, Full: true})
	require.NoError(t, err)
	require.Len(t, runs.Runs, len(visible))
	for i, item := range runs.Runs {
		require.Equal(t, spelt(visible[i]), spelt(*item.Run))
	}
	slices.SortFunc(occurred, func(a, b run.Event) int { return slices.Compare(a.ID[:], b.ID[:]) }) // all at one time
	page, err := m.d.ListEvents(ctx, storage.EventFilter{Environment: environment, Sort: storage.SortOccurred})
	require.NoError(t, err)
	require.Equal(t, speltAll(occurred), speltAll(page.Events))
}

// spelt is a run with its payload in one spelling.
func spelt(r run.Run) run.Run {
	if r.Payload != nil {
		r.Payload = json.RawMessage(valueText(r.Payload))
	}
	return r
}

func speltAll(events []run.Event) []run.Event {
	all := make([]run.Event, 0, len(events))
	for _, e := range events {
		if c, ok := e.Data.(run.Created); ok && c.Payload != nil {
			c.Payload = json.RawMessage(valueText(c.Payload))
			e.Data = c
		}
		all = append(all, e)
	}
	return all
}
