package codec_test

import (
	"bytes"
	"encoding/json"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"github.com/seed4391e180/runlane/internal/jsonscan"
	"github.com/seed4391e180/runlane/run"
	"github.com/seed4391e180/runlane/storage/codec"
)

type (
	splitter func(doc []byte) (rest, payload []byte, ok bool)
	joiner   func(rest, payload []byte) []byte
)

// modelValue reads JSON with the standard library: of duplicate keys the last
// counts, and no number loses a digit.
func modelValue(t interface{ Fatalf(string, ...any) }, doc []byte) any {
	d := json.NewDecoder(bytes.NewReader(doc))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%s: %v", doc, err)
	}
	return v
}

// modelCut takes the member at a path out of a value.
func modelCut(v any, path ...string) (cut any, ok bool) {
	for len(path) > 1 {
		object, isObject := v.(map[string]any)
		if !isObject {
			return nil, false
		}
		v, path = object[path[0]], path[1:]
	}
	object, isObject := v.(map[string]any)
	if !isObject {
		return nil, false
	}
	cut, ok = object[path[0]]
	delete(object, path[0])
	return cut, ok
}

func TestSplitAndJoinAgainstAModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		doc := []byte(drawJSON(t, "document"))
		if rapid.Bool().Draw(t, "deeper") {
			doc = []byte(`{"value":` + string(doc) + `}`)
		}
		checkSplit(t, doc, codec.SplitPayload, codec.JoinPayload, "value", "payload")
		checkSplit(t, doc, codec.SplitEventPayload, codec.JoinEventPayload, "value", "event", "payload")
	})
}

func checkSplit(t interface{ Fatalf(string, ...any) }, doc []byte, split splitter, join joiner, path ...string) {
	before := bytes.Clone(doc)
	rest, payload, ok := split(doc)
	wantRest := modelValue(t, doc)
	wantPayload, wantOK := modelCut(wantRest, path...)
	if ok != wantOK {
		t.Fatalf("split of %s is %v, not %v", doc, ok, wantOK)
	}
	if !ok && (!bytes.Equal(rest, doc) || payload != nil) {
		t.Fatalf("nothing to split off, yet %s becomes %s and %s", doc, rest, payload)
	}
	if ok && !reflect.DeepEqual(modelValue(t, payload), wantPayload) {
		t.Fatalf("the payload of %s is %s, not %v", doc, payload, wantPayload)
	}
	if !reflect.DeepEqual(modelValue(t, rest), wantRest) {
		t.Fatalf("the rest of %s is %s, not %v", doc, rest, wantRest)
	}
	if joined := join(rest, payload); !reflect.DeepEqual(modelValue(t, joined), modelValue(t, doc)) {
		t.Fatalf("%s comes back as %s", doc, joined)
	}
	if !bytes.Equal(doc, before) {
		t.Fatalf("splitting changed %s to %s", before, doc)
	}
}

func TestSplitPayload(t *testing.T) {
	tests := []struct {
		name, doc, rest, payload string
	}{
		{"last", `{"codec":"run","v":1,"value":{"id":"r","payload":[1, 2]}}`, `{"codec":"run","v":1,"value":{"id":"r"}}`, `[1, 2]`},
		{"first", `{"value":{"payload":1,"id":"r"},"v":1}`, `{"value":{"id":"r"},"v":1}`, `1`},
		{"alone", `{"value":{"payload":null}}`, `{"value":{}}`, `null`},
		{"of an opaque document", `{"value":{"payload":"x","y":1},"what":[]}`, `{"value":{"y":1},"what":[]}`, `"x"`},
		{"an escaped key", `{"v\u0061lue":{"p\u0061yload":1}}`, `{"v\u0061lue":{}}`, `1`},
		{"twice", `{"value":{"payload":1,"id":2,"payload":3}}`, `{"value":{"id":2}}`, `3`},
		{"of the last value", `{"value":{"payload":1},"value":{"payload":2}}`, `{"value":{"payload":1},"value":{}}`, `2`},
		{"with a mark", "{\"value\":{\"at\":\"\x01\",\"payload\":\"\x02\"}}", "{\"value\":{\"at\":\"\x01\"}}", "\"\x02\""},
		{"not of a value that is no object", `{"value":[{"payload":1}]}`, `{"value":[{"payload":1}]}`, ``},
		{"not of an earlier value", `{"value":{"payload":1},"value":5}`, `{"value":{"payload":1},"value":5}`, ``},
		{"not of the envelope", `{"payload":1,"value":{}}`, `{"payload":1,"value":{}}`, ``},
		{"not of an array", `[{"value":{"payload":1}}]`, `[{"value":{"payload":1}}]`, ``},
		{"not of deeper objects", `{"value":{"value":{"payload":1}}}`, `{"value":{"value":{"payload":1}}}`, ``},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			rest, payload, ok := codec.SplitPayload([]byte(tt.doc))
			if string(rest) != tt.rest || string(payload) != tt.payload || ok != (tt.payload != "") {
				t.Errorf("%s becomes %s and %s (%v)", tt.doc, rest, payload, ok)
			}
			joined, err := jsonscan.Canonical(codec.JoinPayload(rest, payload))
			if err != nil {
				t.Fatal(err)
			}
			if want, _ := jsonscan.Canonical([]byte(tt.doc)); !bytes.Equal(joined, want) {
				t.Errorf("%s comes back as %s", tt.doc, joined)
			}
		})
	}
}

// What a payload is joined to can be anything that somebody wrote by hand.
func TestJoinPayloadToWhatCannotTakeIt(t *testing.T) {
	for _, rest := range []string{``, `{}`, `{"value":[]}`, `{"value":1}`, `[]`, `{"value":`} {
		if got := codec.JoinPayload([]byte(rest), []byte(`1`)); string(got) != rest {
			t.Errorf("%s becomes %s", rest, got)
		}
	}
	if got := codec.JoinEventPayload([]byte(`{"value":{}}`), []byte(`1`)); string(got) != `{"value":{}}` {
		t.Errorf("without an event it becomes %s", got)
	}
	if got := codec.JoinPayload([]byte(`{"value":{"payload":1}}`), []byte(`2`)); string(got) != `{"value":{"payload":1,"payload":2}}` {
		t.Errorf("a payload that is there already is joined as %s", got)
	}
}

func TestThePayloadOfARunComesOffInOnePiece(t *testing.T) {
	r := sampleRun(run.StatusFailed)
	rest, payload, ok := codec.SplitPayload(mustRun(t, r).Document)
	if !ok || !bytes.Equal(payload, r.Payload) {
		t.Errorf("split off %s (%v)", payload, ok)
	}
	r.Payload = nil
	if want := mustRun(t, r).Document; !bytes.Equal(rest, want) {
		t.Errorf("got  %s\nwant %s", rest, want)
	}
}
