package hostile_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/lane"
	"github.com/seed4391e180/runlane/run"
	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/codec"
)

// unstorable are JSON texts that jsonb, or JSON itself, cannot hold, and the path
// within [1, X] or {"a": X} that is to blame.
var unstorable = map[string]string{
	"NUL":                    `"a\u0000b"`,
	"a high surrogate":       `"\ud83d"`,
	"a high surrogate, text": `"\ud83dx"`,
	"a low surrogate":        `"\ude00"`,
	"swapped surrogates":     `"\ude00\ud83d"`,
	"two high surrogates":    `"\ud83d\ud83d"`,
	"invalid UTF-8":          "\"a\xffb\"",
	"half a character":       "\"\xf0\x9f\x98\"",
	"an overlong character":  "\"\xc0\xaf\"",
	"a surrogate in UTF-8":   "\"\xed\xa0\x80\"",
	"beyond Unicode":         "\"\xf4\x90\x80\x80\"",
	"a raw NUL":              "\"\x00\"",
	"a number out of range":  `1e131072`,
	"a number far out":       `-1e99999999999999999999`,
	"too many digits":        `1e-16384`,
	"zero with an exponent":  `0e-16384`,
	"not a number":           `NaN`,
	"a control character":    "\"a\nb\"",
	"a mark within a text":   "\"a\x01\"",
	"more than one value":    `1 2`,
	"nesting":                strings.Repeat("[", 513) + strings.Repeat("]", 513),
	"a comma":                `,`,
}

// TestUnstorableJSON puts each into a payload and a result, as a value, in an array,
// in an object and, if it is a text, as the key of an object.
func TestUnstorableJSON(t *testing.T) {
	t.Parallel()
	places := map[string]string{"": "%s", "[1]": `[0,%s]`, "a": `{"a":%s}`, "a.b[0]": `{"a":{"b":[%s]}}`}
	for name, bad := range unstorable {
		for path, around := range places {
			raw := json.RawMessage(strings.Replace(around, "%s", bad, 1))
			encoders := map[string]func() error{
				"payload": func() error {
					_, err := codec.EncodeRun(after(t, nil, created("e", "r", run.Created{Payload: raw})))
					return err
				},
				"payload of the event": func() error {
					_, err := codec.EncodeEvent(created("e", "r", run.Created{Payload: raw}))
					return err
				},
				"result": func() error {
					_, err := codec.EncodeRun(succeeded(t, raw))
					return err
				},
				"result of the event": func() error {
					_, err := codec.EncodeEvent(run.Event{ID: uuid.New(), Environment: "e", RunID: "r", Sequence: 3, At: noon, Data: run.Succeeded{Token: uuid.New(), Result: raw}})
					return err
				},
			}
			for what, encode := range encoders {
				field, _, _ := strings.Cut(what, " ")
				if name == "nesting" || name == "more than one value" || name == "a comma" {
					path = "" // the place depends on what stands around it
				}
				requireRefused(t, encode(), storage.ErrInvalidDocument, field, "%s: %s %s", what, name, raw)
				requireRefused(t, encode(), storage.ErrInvalidDocument, path, "%s: %s %s", what, name, raw)
			}
		}
	}
	for _, key := range []string{`"\u0000"`, `"\ud800"`, "\"\xff\"", `"\udc00\ud800"`} {
		_, err := codec.EncodeRun(after(t, nil, created("e", "r", run.Created{Payload: json.RawMessage(`{"a":{` + key + `:1}}`)})))
		requireRefused(t, err, storage.ErrInvalidDocument, "payload.a", "%s", key)
	}
}

// succeeded is a run with a result.
func succeeded(t *testing.T, result json.RawMessage) run.Run {
	t.Helper()
	lease := run.Lease{Token: uuid.New(), Worker: "w", Attempt: 1, Expires: noon.Add(time.Minute), Duration: time.Minute}
	first := created("e", "r", run.Created{})
	return after(t, nil, first,
		run.Event{ID: uuid.New(), Environment: "e", RunID: "r", Sequence: 2, At: noon, Data: run.Started{Lease: lease}},
		run.Event{ID: uuid.New(), Environment: "e", RunID: "r", Sequence: 3, At: noon, Data: run.Succeeded{Token: lease.Token, Result: result}})
}

// TestUnstorableTexts puts bytes that are no text into the texts of a run that are
// not keys.
func TestUnstorableTexts(t *testing.T) {
	t.Parallel()
	event := func(data run.EventData) func(string) error {
		return func(string) error {
			_, err := codec.EncodeEvent(run.Event{ID: uuid.New(), Environment: "e", RunID: "r", Sequence: 2, At: noon, Data: data})
			return err
		}
	}
	token := uuid.New()
	for _, bad := range []string{"\x00", "a\x00b", "\xff", "\xf0\x9f\x98", "\xed\xa0\x80", "\xc0\x80"} {
		good := run.Failure{Code: "code", Message: "message"}
		code, message, detail := good, good, good
		code.Code, message.Message, detail.Detail = bad, bad, bad
		for field, encode := range map[string]func(string) error{
			"failure_code":      event(run.Failed{Failure: code}),
			"failure_message":   event(run.Failed{Failure: message}),
			"failure_detail":    event(run.RetryScheduled{Token: token, Due: noon, Failure: detail}),
			"reason":            event(run.Cancelled{Reason: bad}),
			"metadata[\"key\"]": event(created("e", "r", run.Created{Metadata: map[string]string{"key": bad}}).Data),
			"metadata":          event(created("e", "r", run.Created{Metadata: map[string]string{bad: "value"}}).Data),
			"trace[\"key\"]":    event(created("e", "r", run.Created{Trace: map[string]string{"key": bad}}).Data),
			"trace":             event(created("e", "r", run.Created{Trace: map[string]string{bad: "value"}}).Data),
		} {
			requireRefused(t, encode(bad), storage.ErrInvalidDocument, field, "%q", bad)
		}
		// The same in the run itself.
		r := after(t, nil, created("e", "r", run.Created{}), run.Event{
			ID: uuid.New(), Environment: "e", RunID: "r", Sequence: 2, At: noon, Data: run.Failed{Failure: message},
		})
		_, err := codec.EncodeRun(r)
		requireRefused(t, err, storage.ErrInvalidDocument, "failure_message", "%q", bad)
	}
}

// TestUnstorableRecords gives the same to transactions, in documents of every
// collection: nothing of the transaction is written, however good the rest is.
func TestUnstorableRecords(t *testing.T) {
	t.Parallel()
	onBoth(t, func(s *store) {
		good := storage.Record{Key: storage.Key{Collection: storage.QueueSlots, Partition: "$e!", ID: "$good!"}, Document: []byte(`{"n":1}`)}
		present := storage.Record{Key: storage.Key{Collection: storage.Runs, Partition: "$e!", ID: "$present!"}, Document: []byte(`{"value":{"payload":1}}`)}
		s.create(present)
		before := s.rows()
		for name, bad := range unstorable {
			for _, collection := range storage.Collections() {
				for _, around := range []string{`{"value":{"payload":%s}}`, `{"value":{"event":{"payload":[%s]}}}`, `[%s]`} {
					doc := []byte(strings.Replace(around, "%s", bad, 1))
					key := storage.Key{Collection: collection, Partition: "$e!", ID: "$bad!"}
					_, err := s.transact(func(ctx context.Context, tx storage.Tx) error {
						if err := tx.Create(ctx, good); err != nil {
							return err
						}
						return tx.Create(ctx, storage.Record{Key: key, Document: doc})
					})
					s.refused(err, storage.ErrInvalidDocument, "", "%s in %v", name, collection)
					var input *storage.InputError
					require.ErrorAs(s, err, &input)
					require.Equal(s, key, input.Key)
				}
			}
			_, err := s.transact(replaces(storage.Record{Key: present.Key, Document: []byte(`{"value":{"payload":` + bad + `}}`)}))
			s.refused(err, storage.ErrInvalidDocument, "", name)
		}
		require.Equal(s, before, s.rows())
		require.NotContains(s, s.readAll(good.Key, present.Key), good.Key)
		require.JSONEq(s, string(present.Document), string(s.read(present.Key).Document))
	})
}

type letter struct {
	Text string            `json:"text"`
	More map[string]string `json:"more,omitempty"`
	Raw  json.RawMessage   `json:"raw,omitempty"`
}

// TestLaneRefusesPayloads: what cannot be stored is refused by Trigger, with its
// place, and nothing is stored, not even what came with it.
func TestLaneRefusesPayloads(t *testing.T) {
	t.Parallel()
	onBoth(t, func(s *store) {
		l, err := lane.New(s, lane.Config{Environment: "e"})
		require.NoError(s, err)
		task := lane.Define[letter, int](l, "task", nil, lane.TaskOptions{})
		for place, bad := range map[string]letter{
			"text":  {Text: "a\x00b"},
			".Text": {Text: "a\xffb"},
			"more":  {More: map[string]string{"key": "\x00"}},
			".More": {More: map[string]string{"key": "\xed\xa0\x80"}},
			"raw":   {Raw: []byte(`"\ud800"`)},
			"raw.a": {Raw: []byte(`{"a":1e131072}`)},
		} {
			_, err := task.Trigger(s.Context(), bad)
			s.refused(err, storage.ErrInvalidDocument, place, "%+v", bad)
			_, err = task.TriggerMany(s.Context(), []lane.Item[letter]{{Payload: letter{Text: "good"}}, {Payload: bad}})
			s.refused(err, storage.ErrInvalidDocument, place, "%+v", bad)
		}
		_, err = task.Trigger(s.Context(), letter{More: map[string]string{"\x00": "value"}})
		s.refused(err, storage.ErrInvalidDocument, "more")
		_, err = task.Trigger(s.Context(), letter{}, lane.TriggerOptions{Metadata: map[string]string{"key": "\x00"}})
		s.refused(err, storage.ErrInvalidDocument, "metadata")
		require.Zero(s, s.rows())
		require.Empty(s, s.listRuns(storage.RunFilter{Environment: "e"}))
	})
}

// TestLaneKeepsWhatHandlersSay lets handlers end in every hostile text, and in bytes
// that are no text. Whatever a handler says, its run ends and can be read.
func TestLaneKeepsWhatHandlersSay(t *testing.T) {
	t.Parallel()
	onBoth(t, func(s *store) {
		l, err := lane.New(s, lane.Config{Environment: "{table} $1 '"})
		require.NoError(s, err)
		said := append([]string{"a\x00b", "a\xffb", "\xed\xa0\x80", strings.Repeat("\x00", 5000), strings.Repeat("😀", 2000)}, texts...)
		fails := lane.Define(l, "$1; -- fails", func(_ context.Context, _ *lane.Attempt, n int) (string, error) {
			return "", lane.Permanent(errors.New(said[n]))
		}, lane.TaskOptions{Queue: `a"b'%_\`})
		panics := lane.Define(l, "panics {}", func(_ context.Context, _ *lane.Attempt, n int) (string, error) {
			panic(said[n])
		}, lane.TaskOptions{MaxAttempts: 1})
		answers := lane.Define(l, "answers\x01", func(_ context.Context, _ *lane.Attempt, n int) (string, error) {
			return said[n], nil
		}, lane.TaskOptions{Queue: "\u202e"})
		stop := s.work(l, lane.WorkerConfig{Name: texts[0] + "\x00\xff", Concurrency: 20})
		defer stop()

		var items []lane.Item[int]
		for n := range said {
			items = append(items, lane.Item[int]{Payload: n, Options: lane.TriggerOptions{IdempotencyKey: clipped(show("%d %s", n, texts[n%len(texts)]), 255)}})
		}
		ctx, cancel := context.WithTimeout(s.Context(), time.Minute)
		defer cancel()
		failed, err := fails.TriggerMany(ctx, items)
		require.NoError(s, err)
		panicked, err := panics.TriggerMany(ctx, items)
		require.NoError(s, err)
		answered, err := answers.TriggerMany(ctx, items)
		require.NoError(s, err)
		for n, text := range said {
			want := clipped(codec.CleanText(text), 4<<10)
			var ended *lane.RunError
			_, err := fails.Wait(ctx, failed[n].RunID)
			require.ErrorAs(s, err, &ended)
			require.Equal(s, want, ended.Failure.Message)
			_, err = panics.Wait(ctx, panicked[n].RunID)
			require.ErrorAs(s, err, &ended)
			require.Equal(s, want, ended.Failure.Message)
			require.Equal(s, lane.CodePanic, ended.Failure.Code)
			answer, err := answers.Wait(ctx, answered[n].RunID)
			if codec.CleanText(text) == text {
				require.NoError(s, err, "%q", text)
				require.Equal(s, text, answer)
				continue
			}
			require.ErrorAs(s, err, &ended, "%q", text)
			require.Equal(s, lane.CodeResult, ended.Failure.Code, "%q", text)
		}
	})
}

// clipped cuts a text to a limit without cutting a character.
func clipped(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	for !utf8.RuneStart(text[limit]) {
		limit--
	}
	return text[:limit]
}
