package codec_test

import (
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/seed4391e180/runlane/internal/jsonscan"
	"github.com/seed4391e180/runlane/run"
	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/codec"
	"github.com/seed4391e180/runlane/storage/keys"
)

func sampleHeads() map[string]codec.ObservationHead {
	return map[string]codec.ObservationHead{
		"head":       {Environment: "prod", Stream: "order:123", Position: 41},
		"head_first": {Environment: "prod", Stream: "order:123"},
		"head_last":  {Environment: "prod", Stream: "order:123", Position: math.MaxInt64},
	}
}

func sampleObservations() map[string]codec.Observation {
	o := codec.Observation{
		Environment: "prod", Stream: "order:123", Position: 41, At: at(60),
		Data: json.RawMessage(`{"n":9007199254740993,"f":0.1000,"s":"ü\n\u2028\u0001"}`),
	}
	first, last, commit, later, null := o, o, o, o, o
	first.Position, last.Position = 1, math.MaxInt64
	commit.At, later.At = run.AtCommit, run.AtCommit.Add(time.Hour)
	null.Data = json.RawMessage(`null`)
	return map[string]codec.Observation{
		"observation": o, "observation_first": first, "observation_last": last,
		"observation_commit_time": commit, "observation_later": later, "observation_null": null,
	}
}

func mustHead(t testing.TB, h codec.ObservationHead) storage.Record {
	t.Helper()
	rec, err := codec.EncodeObservationHead(h)
	if err != nil {
		t.Fatal(err)
	}
	return rec
}

func mustObservation(t testing.TB, o codec.Observation) storage.Record {
	t.Helper()
	rec, err := codec.EncodeObservation(o)
	if err != nil {
		t.Fatal(err)
	}
	return rec
}

func TestStreamOf(t *testing.T) {
	for _, stream := range append(nastyTexts, strings.Repeat("x", 255)) {
		key, err := codec.ObservationHeadKey("prod", stream)
		if err != nil {
			t.Fatal(err)
		}
		if env, got, err := codec.StreamOf(key); err != nil || env != "prod" || got != stream {
			t.Errorf("%v is the head of %q in %q (%v), not of %q", key, got, env, err, stream)
		}
	}
	head, err := codec.ObservationHeadKey("prod", "s")
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(k *storage.Key){
		"nothing":                   func(k *storage.Key) { *k = storage.Key{} },
		"another collection":        func(k *storage.Key) { k.Collection = storage.ObservationRecords },
		"a run":                     func(k *storage.Key) { k.Collection = storage.Runs },
		"a partition of two":        func(k *storage.Key) { k.Partition += k.Partition },
		"an environment that isn't": func(k *storage.Key) { k.Partition = "$a:b!" },
		"no environment":            func(k *storage.Key) { k.Partition = "$!" },
		"no stream":                 func(k *storage.Key) { k.ID = "$!" },
		"a stream and more":         func(k *storage.Key) { k.ID += keys.EncodeInt(1) },
		"a number":                  func(k *storage.Key) { k.ID = keys.EncodeInt(1) },
		"half an encoding":          func(k *storage.Key) { k.ID = "$s" },
		"a long stream":             func(k *storage.Key) { k.ID = "$" + strings.Repeat("x", 256) + "!" },
		"bytes":                     func(k *storage.Key) { k.ID = "\xff\x00" },
	} {
		key := head
		change(&key)
		env, stream, err := codec.StreamOf(key)
		wantInputError(t, err, storage.ErrInvalidKey, "head")
		if env != "" || stream != "" {
			t.Errorf("%s: refused, and yet %q in %q", name, stream, env)
		}
	}
}

func TestObservationsAreRefusedWithTheFieldNamed(t *testing.T) {
	long := strings.Repeat("x", 256)
	tests := []struct {
		field  string
		change func(o *codec.Observation)
		kind   error
	}{
		{"environment", func(o *codec.Observation) { o.Environment = "a:b" }, storage.ErrInvalidKey},
		{"environment", func(o *codec.Observation) { o.Environment = "" }, storage.ErrInvalidKey},
		{"stream", func(o *codec.Observation) { o.Stream = "" }, storage.ErrInvalidKey},
		{"stream", func(o *codec.Observation) { o.Stream = "a\x00" }, storage.ErrInvalidKey},
		{"stream", func(o *codec.Observation) { o.Stream = long }, storage.ErrTooLarge},
		{"position", func(o *codec.Observation) { o.Position = -1 }, storage.ErrInvalidKey},
		{"position", func(o *codec.Observation) { o.Position = 0 }, storage.ErrInvalidKey},
		{"at", func(o *codec.Observation) { o.At = time.Time{} }, storage.ErrInvalidDocument},
		{"at", func(o *codec.Observation) { o.At = time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC) }, storage.ErrInvalidDocument},
		{"data", func(o *codec.Observation) { o.Data = nil }, storage.ErrInvalidDocument},
		{"data", func(o *codec.Observation) { o.Data = json.RawMessage{} }, storage.ErrInvalidDocument},
		{"data", func(o *codec.Observation) { o.Data = json.RawMessage(`1},"injected":{`) }, storage.ErrInvalidDocument},
		{"data", func(o *codec.Observation) { o.Data = json.RawMessage("\"\x01\"") }, storage.ErrInvalidDocument},
		{"data.a[1]", func(o *codec.Observation) { o.Data = json.RawMessage(`{"a":[1,"\u0000"]}`) }, storage.ErrInvalidDocument},
		{"data[0].b", func(o *codec.Observation) { o.Data = json.RawMessage(`[{"b":"\ud800"}]`) }, storage.ErrInvalidDocument},
		{"data.n", func(o *codec.Observation) { o.Data = json.RawMessage(`{"n":1e131072}`) }, storage.ErrInvalidDocument},
	}
	for _, tt := range tests {
		t.Run(tt.field, func(t *testing.T) {
			o := sampleObservations()["observation"]
			tt.change(&o)
			rec, err := codec.EncodeObservation(o)
			wantInputError(t, err, tt.kind, tt.field)
			if rec.Document != nil {
				t.Errorf("a refused observation has the document %s", rec.Document)
			}
			if strings.HasPrefix(tt.field, "data") || tt.field == "at" || tt.field == "position" && o.Position == 0 {
				return
			}
			_, err = codec.EncodeObservationHead(codec.ObservationHead{Environment: o.Environment, Stream: o.Stream, Position: o.Position})
			wantInputError(t, err, tt.kind, tt.field)
		})
	}
	o := sampleObservations()["observation"]
	o.Data = nested(511)
	_, err := codec.EncodeObservation(o)
	if refused := (*storage.InputError)(nil); !errors.As(err, &refused) || !strings.HasPrefix(refused.Field, "data[0]") {
		t.Errorf("data that are nested too deep give %v", err)
	}
}

func nested(n int) json.RawMessage {
	return json.RawMessage(strings.Repeat(`[`, n) + strings.Repeat(`]`, n))
}

// TestWhatMayBeAppendedMayBeWritten: the largest and deepest items that the contract
// lets pass fit in their documents, whatever the names of environment and stream.
func TestWhatMayBeAppendedMayBeWritten(t *testing.T) {
	limits := storage.DefaultLimits()
	// Each of these takes six characters in JSON, and as many as possible fit in a key.
	longest := strings.Repeat("\x01", 255)
	for o := sampleObservations()["observation_last"]; ; longest = longest[1:] {
		o.Environment, o.Stream = longest, longest
		if _, err := codec.EncodeObservation(o); err == nil {
			break
		}
	}
	const envelope = 4 << 10
	text := func(n int) json.RawMessage { return json.RawMessage(`"` + strings.Repeat("x", n-2) + `"`) }
	for name, c := range map[string]struct {
		fits, not json.RawMessage
		kind      error
	}{
		"size":  {text(limits.MaxDocument - envelope), text(limits.MaxDocument - envelope + 1), storage.ErrTooLarge},
		"depth": {nested(limits.MaxDepth - 2), nested(limits.MaxDepth - 1), storage.ErrInvalidDocument},
	} {
		o := codec.Observation{Environment: longest, Stream: longest, Position: math.MaxInt64, At: at(0), Data: c.fits}
		rec := mustObservation(t, o)
		head := mustHead(t, codec.ObservationHead{Environment: longest, Stream: longest}).Key
		if err := limits.CheckItems(head, []json.RawMessage{c.fits}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err := limits.CheckRecord(rec); err != nil {
			t.Errorf("%s: what may be appended may not be written: %v", name, err)
		}
		printed, err := jsonscan.Printed(rec.Document)
		if err != nil {
			t.Fatal(err)
		}
		rec.Document = printed
		if err := limits.CheckRecord(rec); err != nil {
			t.Errorf("%s: what is read back may not be written again: %v", name, err)
		}
		wantKind(t, limits.CheckItems(head, []json.RawMessage{c.not}), c.kind)
	}
}

func wantKind(t *testing.T, err, kind error) {
	t.Helper()
	if refused, ok := err.(*storage.InputError); !ok || refused.Kind != kind {
		t.Errorf("got %v, want %v", err, kind)
	}
}

func TestObservationsSurviveTheRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := codec.Observation{
			Environment: drawName(t, "environment"), Stream: drawText(t, "stream"),
			Position: rapid.Int64Range(1, math.MaxInt64).Draw(t, "position"), At: drawTime(t, "at", drawLater(t)), Data: drawJSON(t, "data"),
		}
		rec, err := codec.EncodeObservation(o)
		if err != nil {
			t.Fatalf("%+v: %v", o, err)
		}
		if err := storage.DefaultLimits().CheckRecord(rec); err != nil {
			t.Fatalf("%s: %v", rec.Document, err)
		}
		o.Data = trimmed(o.Data)
		if got, kind := codec.DecodeObservation(rec); kind != codec.Canonical || !reflect.DeepEqual(got, o) {
			t.Fatalf("%s\nis %s\ngot  %+v\nwant %+v", rec.Document, kind, got, o)
		}
		printed := rec
		if printed.Document, err = jsonscan.Printed(rec.Document); err != nil {
			t.Fatal(err)
		}
		if o.Data, err = jsonscan.Printed(o.Data); err != nil {
			t.Fatal(err)
		}
		if got, kind := codec.DecodeObservation(printed); kind != codec.Canonical || !reflect.DeepEqual(got, o) {
			t.Fatalf("%s\nis %s\ngot  %+v\nwant %+v", printed.Document, kind, got, o)
		}

		h := codec.ObservationHead{Environment: o.Environment, Stream: o.Stream, Position: o.Position - 1}
		head, err := codec.EncodeObservationHead(h)
		if err != nil {
			t.Fatal(err)
		}
		if got, kind := codec.DecodeObservationHead(head); kind != codec.Canonical || got != h {
			t.Fatalf("%s\nis %s\ngot  %+v\nwant %+v", head.Document, kind, got, h)
		}
		if env, stream, err := codec.StreamOf(head.Key); err != nil || env != o.Environment || stream != o.Stream {
			t.Fatalf("%v is the head of %q in %q (%v)", head.Key, stream, env, err)
		}
	})
}

// Every way to be opaque: a canonical document with one part replaced.
func TestOpaqueObservations(t *testing.T) {
	const tombstone = `"v":1,"tombstone":true`
	for _, tt := range []struct {
		name, old, new string
		head, record   codec.Kind
	}{
		{"as written", `"v":1`, `"v":1`, codec.Canonical, codec.Canonical},
		{"spelt otherwise", `"position":41`, `"position":4.1e1`, codec.Canonical, codec.Canonical},
		{"the next version", `"v":1`, `"v":2`, codec.Opaque, codec.Opaque},
		{"a tombstone", `"v":1`, tombstone, codec.Opaque, codec.Opaque},
		{"each under the other's codec", `"codec":"observation`, `"codec":"_observation`, codec.Opaque, codec.Opaque},
		{"one more member", `"position":41`, `"position":41,"more":1`, codec.Opaque, codec.Opaque},
		{"a member twice", `"position":41`, `"position":41,"position":41`, codec.Opaque, codec.Opaque},
		{"another stream", `"stream":"order:123"`, `"stream":"order:124"`, codec.Opaque, codec.Opaque},
		{"another environment", `"environment":"prod"`, `"environment":"test"`, codec.Opaque, codec.Opaque},
		{"no stream", `"stream":"order:123",`, ``, codec.Opaque, codec.Opaque},
		{"a stream that is no text", `"stream":"order:123"`, `"stream":123`, codec.Opaque, codec.Opaque},
		{"no position", `,"position":41`, ``, codec.Opaque, codec.Opaque},
		{"another position", `"position":41`, `"position":42`, codec.Canonical, codec.Opaque},
		{"none yet", `"position":41`, `"position":0`, codec.Canonical, codec.Opaque},
		{"a position below", `"position":41`, `"position":-1`, codec.Opaque, codec.Opaque},
		{"a position between", `"position":41`, `"position":41.5`, codec.Opaque, codec.Opaque},
		{"a position that is text", `"position":41`, `"position":"41"`, codec.Opaque, codec.Opaque},
		{"a position that is nothing", `"position":41`, `"position":null`, codec.Opaque, codec.Opaque},
		{"a position beyond 64 bits", `"position":41`, `"position":9223372036854775808`, codec.Opaque, codec.Opaque},
		{"an array", `"value":{`, `"value":[],"x":{`, codec.Opaque, codec.Opaque},
	} {
		head, record := mustHead(t, sampleHeads()["head"]), mustObservation(t, sampleObservations()["observation"])
		head.Document = replaceOnce(t, head.Document, tt.old, tt.new)
		record.Document = replaceOnce(t, record.Document, tt.old, tt.new)
		if h, kind := codec.DecodeObservationHead(head); kind != tt.head || kind == codec.Opaque && h != (codec.ObservationHead{}) {
			t.Errorf("%s: the head is %s, %+v", tt.name, kind, h)
		}
		if o, kind := codec.DecodeObservation(record); kind != tt.record || kind == codec.Opaque && !reflect.DeepEqual(o, codec.Observation{}) {
			t.Errorf("%s: the record is %s, %+v", tt.name, kind, o)
		}
	}
	for _, tt := range []struct{ name, old, new string }{
		{"no time", `"at":"2030-05-06T07:09:09.123456Z",`, ``},
		{"a time that is none", `"at":"2030-05-06T07:09:09.123456Z"`, `"at":""`},
		{"a time spelt otherwise", `07:09:09.123456Z`, `07:09:09.123456+00:00`},
		{"no data", `,"data":{"n":9007199254740993,"f":0.1000,"s":"ü\n\u2028\u0001"}`, ``},
		{"a mark in the data", `"f":0.1000`, "\"f\":\"\x01\""},
		{"a NUL in the data", `"f":0.1000`, `"f":"\u0000"`},
	} {
		record := mustObservation(t, sampleObservations()["observation"])
		record.Document = replaceOnce(t, record.Document, tt.old, tt.new)
		if o, kind := codec.DecodeObservation(record); kind != codec.Opaque || !reflect.DeepEqual(o, codec.Observation{}) {
			t.Errorf("%s: %s, %+v", tt.name, kind, o)
		}
	}
	head, record := mustHead(t, sampleHeads()["head"]), mustObservation(t, sampleObservations()["observation"])
	if _, kind := codec.DecodeObservationHead(record); kind != codec.Opaque {
		t.Error("a record is taken for a head")
	}
	if _, kind := codec.DecodeObservation(head); kind != codec.Opaque {
		t.Error("a head is taken for a record")
	}
}

// TestDecodedDataIsApart: whoever appends to what was decoded does not write into
// the document.
func TestDecodedDataIsApart(t *testing.T) {
	rec := mustObservation(t, sampleObservations()["observation"])
	before := string(rec.Document)
	o, _ := codec.DecodeObservation(rec)
	_ = append(o.Data, `,"`...)
	if string(rec.Document) != before {
		t.Errorf("%s\nbecame\n%s", before, rec.Document)
	}
}
