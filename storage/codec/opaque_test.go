package codec_test

import (
	"bytes"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/seed4391e180/runlane/internal/jsonscan"
	"github.com/seed4391e180/runlane/run"
	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/codec"
	"github.com/seed4391e180/runlane/storage/keys"
)

// replaceOnce replaces a part of a document that must be there exactly once.
func replaceOnce(t *testing.T, doc []byte, old, with string) []byte {
	t.Helper()
	if n := bytes.Count(doc, []byte(old)); n != 1 {
		t.Fatalf("%q stands %d times in %s", old, n, doc)
	}
	return bytes.Replace(doc, []byte(old), []byte(with), 1)
}

// checkRunKind checks all that speaks of the kind of a run's document.
func checkRunKind(t *testing.T, rec storage.Record, want codec.Kind) {
	t.Helper()
	r, kind := codec.DecodeRun(rec)
	if kind != want {
		t.Errorf("%s\nis %s, not %s", rec.Document, kind, want)
	}
	if kind == codec.Opaque && !reflect.DeepEqual(r, run.Run{}) {
		t.Errorf("an opaque document decodes to %+v", r)
	}
	if _, err := jsonscan.Check(rec.Document, jsonscan.Limits{Marks: true}); err == nil {
		if _, ok := codec.RunColumns(rec); ok != (want == codec.Canonical) {
			t.Errorf("%s\nhas columns: %v", rec.Document, ok)
		}
	}
}

// Every way to be opaque: a canonical document of a status, with one part replaced.
func TestOpaqueRuns(t *testing.T) {
	const due, end = `"due_at":"2030-05-06T07:09:39.123456Z",`, `}}`
	tests := []struct {
		name     string
		status   run.Status
		old, new string
		want     codec.Kind
	}{
		{"as written", run.StatusQueued, `"v":1`, `"v":1`, codec.Canonical},
		{"another codec", run.StatusQueued, `"codec":"run"`, `"codec":"runs"`, codec.Opaque},
		{"a codec that is no text", run.StatusQueued, `"codec":"run"`, `"codec":1`, codec.Opaque},
		{"no codec", run.StatusQueued, `"codec":"run",`, ``, codec.Opaque},
		{"the next version", run.StatusQueued, `"v":1`, `"v":2`, codec.Opaque},
		{"a version that is text", run.StatusQueued, `"v":1`, `"v":"1"`, codec.Opaque},
		{"a version that is no whole number", run.StatusQueued, `"v":1`, `"v":1.5`, codec.Opaque},
		{"a version spelt like a fraction", run.StatusQueued, `"v":1`, `"v":1.0`, codec.Opaque},
		{"a version spelt with an exponent", run.StatusQueued, `"v":1`, `"v":10e-1`, codec.Opaque},
		{"a version that jsonb prints as 1", run.StatusQueued, `"v":1`, `"v":1e0`, codec.Canonical},
		{"no version", run.StatusQueued, `"v":1,`, ``, codec.Opaque},
		{"no value", run.StatusQueued, `"value"`, `"values"`, codec.Opaque},
		{"one more member in the envelope", run.StatusQueued, `"v":1`, `"v":1,"w":1`, codec.Opaque},
		{"a codec given twice", run.StatusQueued, `"v":1`, `"v":1,"codec":"run"`, codec.Opaque},
		{"a version given twice", run.StatusQueued, `"v":1`, `"v":1,"\u0076":1`, codec.Opaque},
		{"a value given twice", run.StatusQueued, `"v":1`, `"v":1,"value":{}`, codec.Opaque},
		{"no tombstone", run.StatusQueued, `"v":1`, `"v":1,"tombstone":false`, codec.Opaque},
		{"a tombstone with a run", run.StatusQueued, `"v":1`, `"v":1,"tombstone":true`, codec.Opaque},
		{"no member order", run.StatusQueued, `{"codec":"run","v":1,`, "{\n\"v\" : 1 , \"c\\u006fdec\":\"r\\u0075n\",", codec.Canonical},

		{"one more member", run.StatusQueued, `"task"`, `"colour":"red","task"`, codec.Opaque},
		{"a member of another object", run.StatusQueued, `"task"`, `"event":{},"task"`, codec.Opaque},
		{"a member given twice", run.StatusQueued, `"task"`, `"t\u0061sk":"emails.welcome","task"`, codec.Opaque},
		{"a payload given twice", run.StatusQueued, `"payload"`, `"payload":1,"payload"`, codec.Opaque},
		{"a member spelt otherwise", run.StatusQueued, `"task"`, `"Task"`, codec.Opaque},
		{"a key in a text given twice", run.StatusQueued, `"by":"ops"`, `"by":"ops","by":"me"`, codec.Opaque},
		{"the first key given again", run.StatusQueued, `"by":"ops"`, `"by":"ops","":"empty"`, codec.Opaque},
		{"metadata that is no object", run.StatusQueued, `"metadata":{"":"empty","by":"ops"}`, `"metadata":[]`, codec.Opaque},
		{"metadata that is null", run.StatusQueued, `"metadata":{"":"empty","by":"ops"}`, `"metadata":null`, codec.Opaque},
		{"metadata that holds no texts", run.StatusQueued, `"by":"ops"`, `"by":7`, codec.Opaque},
		{"metadata that begins with a mark", run.StatusQueued, `"":"empty"`, "\"\":\"\x01\"", codec.Opaque},
		{"metadata with a mark", run.StatusQueued, `"by":"ops"`, "\"by\":\"\x01\"", codec.Opaque},
		{"metadata with an escape", run.StatusQueued, `"by":"ops"`, `"by":"\u0001"`, codec.Canonical},
		{"empty metadata", run.StatusQueued, `"metadata":{"":"empty","by":"ops"}`, `"metadata":{}`, codec.Canonical},

		{"another run", run.StatusQueued, `"id":"order:123"`, `"id":"order:124"`, codec.Opaque},
		{"another environment", run.StatusQueued, `"environment":"prod"`, `"environment":"dev"`, codec.Opaque},
		{"no environment", run.StatusQueued, `"environment":"prod",`, ``, codec.Opaque},
		{"no id", run.StatusQueued, `"id":"order:123",`, ``, codec.Opaque},
		{"an id that is no text", run.StatusQueued, `"id":"order:123"`, `"id":123`, codec.Opaque},
		{"an id spelt with an escape", run.StatusQueued, `"id":"order:123"`, `"id":"\u006frder:123"`, codec.Canonical},
		{"no task", run.StatusQueued, `"task":"emails.welcome",`, ``, codec.Opaque},
		{"a task that is no name", run.StatusQueued, `"task":"emails.welcome"`, `"task":"emails:welcome"`, codec.Opaque},
		{"a task that is a mark", run.StatusQueued, `"task":"emails.welcome"`, "\"task\":\"\x01\"", codec.Opaque},
		{"no queue", run.StatusQueued, `"queue":"emails",`, ``, codec.Opaque},
		{"priority 0", run.StatusQueued, `"priority":3`, `"priority":0`, codec.Opaque},
		{"priority 5", run.StatusQueued, `"priority":3`, `"priority":5`, codec.Opaque},
		{"a priority with a leading zero", run.StatusQueued, `"priority":3`, `"priority":03`, codec.Opaque},
		{"a priority that is text", run.StatusQueued, `"priority":3`, `"priority":"3"`, codec.Opaque},
		{"an unknown status", run.StatusQueued, `"status":"queued"`, `"status":"paused"`, codec.Opaque},
		{"an empty status", run.StatusQueued, `"status":"queued"`, `"status":""`, codec.Opaque},
		{"a status that is no text", run.StatusQueued, `"status":"queued"`, `"status":true`, codec.Opaque},
		{"a status spelt with an escape", run.StatusQueued, `"status":"queued"`, `"status":"\u0071ueued"`, codec.Canonical},
		{"no status", run.StatusQueued, `"status":"queued",`, ``, codec.Opaque},
		{"sequence 0", run.StatusQueued, `"sequence":9007199254740993`, `"sequence":0`, codec.Opaque},
		{"a negative sequence", run.StatusQueued, `"sequence":9007199254740993`, `"sequence":-1`, codec.Opaque},
		{"the last sequence", run.StatusQueued, `"sequence":9007199254740993`, `"sequence":9223372036854775807`, codec.Canonical},
		{"a sequence beyond 64 bits", run.StatusQueued, `"sequence":9007199254740993`, `"sequence":9223372036854775808`, codec.Opaque},
		{"a sequence far beyond", run.StatusQueued, `"sequence":9007199254740993`, `"sequence":1e131071`, codec.Opaque},
		{"a negative counter", run.StatusQueued, `"attempts":5`, `"attempts":-5`, codec.Opaque},
		{"a counter of 0", run.StatusQueued, `"max_attempts":10`, `"max_attempts":0`, codec.Canonical},
		{"a negative limit", run.StatusQueued, `"max_attempts":10`, `"max_attempts":-1`, codec.Opaque},
		{"more retries than failures", run.StatusQueued, `"failures":3`, `"failures":2`, codec.Opaque},
		{"more ends than attempts", run.StatusQueued, `"releases":1`, `"releases":3`, codec.Opaque},
		{"a negative time to live", run.StatusQueued, `"idempotency_ttl_ns":2592`, `"idempotency_ttl_ns":-2592`, codec.Opaque},
		{"a key with NUL", run.StatusQueued, `"idempotency_key":"i:1"`, `"idempotency_key":"i\u0000"`, codec.Opaque},
		{"a key that is too long", run.StatusQueued, `"singleton_key":"s:1"`, `"singleton_key":"` + strings.Repeat("x", 256) + `"`, codec.Opaque},
		{"a key that is null", run.StatusQueued, `"concurrency_key":"c:1"`, `"concurrency_key":null`, codec.Opaque},
		{"an unknown source", run.StatusQueued, `"source_type":"rerun"`, `"source_type":"cron"`, codec.Opaque},
		{"a rerun of nothing", run.StatusQueued, `"source_run_id":"order:122",`, ``, codec.Opaque},
		{"a trigger with a source", run.StatusQueued, `"source_type":"rerun"`, `"source_type":"trigger"`, codec.Opaque},
		{"a rerun of a schedule", run.StatusQueued, `"source_run_id"`, `"schedule_id":"s","source_run_id"`, codec.Opaque},
		{"a payload that is a mark", run.StatusQueued, `"payload":{`, "\"payload\":\"\x01\"}}{", codec.Opaque},
		{"a payload that holds a mark", run.StatusQueued, `"n":9007199254740993,"f"`, "\"n\":\"\x01\",\"f\"", codec.Opaque},
		{"a payload that holds a later mark", run.StatusQueued, `"n":9007199254740993,"f"`, "\"n\":\"\x02\",\"f\"", codec.Opaque},
		{"no payload", run.StatusQueued, `,"payload":{"n":9007199254740993,"f":0.1000,"s":"ü\n\u2028"}`, ``, codec.Canonical},

		{"no due time", run.StatusQueued, due, ``, codec.Opaque},
		{"a due time of null", run.StatusQueued, due, `"due_at":null,`, codec.Opaque},
		{"a due time while running", run.StatusRunning, `"created_at"`, due + `"created_at"`, codec.Opaque},
		{"no time of creation", run.StatusQueued, `"created_at":"2030-05-06T07:08:09.123456Z",`, ``, codec.Opaque},
		{"no time of the last event", run.StatusQueued, `"updated_at":"2030-05-06T07:09:09.123456Z",`, ``, codec.Opaque},
		{"a finish of what is queued", run.StatusQueued, `"created_at"`, `"finished_at":"2030-05-06T07:08:09.123456Z","created_at"`, codec.Opaque},
		{"no finish", run.StatusSucceeded, `"finished_at":"2030-05-06T07:09:09.123456Z",`, ``, codec.Opaque},
		{"a lease of what is queued", run.StatusQueued, `"source_type"`, `"lease_worker":"w","source_type"`, codec.Opaque},
		{"no token", run.StatusRunning, `"lease_token":"018f4e2a-7c1b-4def-8a90-1234567890ab",`, ``, codec.Opaque},
		{"a token of zeros", run.StatusRunning, `018f4e2a-7c1b-4def-8a90-1234567890ab`, uuid.Nil.String(), codec.Opaque},
		{"a token in capitals", run.StatusRunning, `018f4e2a-7c1b-4def-8a90-1234567890ab`, `018F4E2A-7C1B-4DEF-8A90-1234567890AB`, codec.Opaque},
		{"a token without dashes", run.StatusRunning, `018f4e2a-7c1b-4def-8a90-1234567890ab`, `018f4e2a7c1b4def8a901234567890ab`, codec.Opaque},
		{"a token in braces", run.StatusRunning, `018f4e2a-7c1b-4def-8a90-1234567890ab`, `{018f4e2a-7c1b-4def-8a90-1234567890ab}`, codec.Opaque},
		{"no worker", run.StatusRunning, `"lease_worker":"w:1",`, ``, codec.Opaque},
		{"no attempt", run.StatusRunning, `"lease_attempt":5,`, ``, codec.Opaque},
		{"another attempt", run.StatusRunning, `"lease_attempt":5`, `"lease_attempt":4`, codec.Opaque},
		{"no expiry", run.StatusRunning, `,"lease_expires_at":"2030-05-06T07:09:39.123456Z"`, ``, codec.Opaque},
		{"nothing waited for", run.StatusWaiting, `"waiting_for":"order:1",`, ``, codec.Opaque},
		{"itself waited for", run.StatusWaiting, `"waiting_for":"order:1"`, `"waiting_for":"order:123"`, codec.Opaque},
		{"a wait of what is queued", run.StatusQueued, `"source_type"`, `"waiting_for":"order:1","source_type"`, codec.Opaque},
		{"a result of what failed", run.StatusFailed, `"payload"`, `"result":1,"payload"`, codec.Opaque},
		{"a result that is a mark", run.StatusSucceeded, `"result":[1e400,-0,null]`, "\"result\":\"\x01\"", codec.Opaque},
		{"no result", run.StatusSucceeded, `"result":[1e400,-0,null],`, ``, codec.Canonical},
		{"a failure of what succeeded", run.StatusSucceeded, `"payload"`, `"failure_detail":"x","payload"`, codec.Opaque},
		{"an outcome that is no truth", run.StatusFailed, `"failure_retryable":true`, `"failure_retryable":1`, codec.Opaque},
		{"a message that is a mark", run.StatusFailed, `"failure_code":"panic"`, "\"failure_code\":\"\x01\"", codec.Opaque},
		{"a detail that is a mark", run.StatusFailed, `"failure_detail":"goroutine 1\n\tmain.go:1"`, "\"failure_detail\":\"\x02\"", codec.Opaque},
		{"a detail that is a number", run.StatusFailed, `"failure_detail":"goroutine 1\n\tmain.go:1"`, `"failure_detail":1`, codec.Opaque},
		{"something behind it", run.StatusQueued, end, `}}x`, codec.Opaque},
		{"two documents", run.StatusQueued, end, `}}{}`, codec.Opaque},
		{"half a document", run.StatusQueued, end, `}`, codec.Opaque},
		{"a comma too many", run.StatusQueued, end, `},}`, codec.Opaque},
		{"a wrong bracket", run.StatusQueued, end, `]}`, codec.Opaque},
		{"space around it", run.StatusQueued, end, " }\n } \n", codec.Canonical},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			rec := mustRun(t, sampleRun(tt.status))
			if doc, ok := bytes.CutSuffix(rec.Document, []byte(end)); ok && tt.old == end {
				rec.Document = slices.Concat(doc, []byte(tt.new))
			} else {
				rec.Document = replaceOnce(t, rec.Document, tt.old, tt.new)
			}
			checkRunKind(t, rec, tt.want)
		})
	}
}

func TestRunsUnderAnotherKeyAreOpaque(t *testing.T) {
	r := sampleRun(run.StatusQueued)
	rec := mustRun(t, r)
	other, err := codec.RunKey("prod", "order:12")
	if err != nil {
		t.Fatal(err)
	}
	elsewhere, err := codec.RunKey("pro", "order:123")
	if err != nil {
		t.Fatal(err)
	}
	events := rec.Key
	events.Collection = storage.RunEvents
	for _, key := range []storage.Key{other, elsewhere, events, {}} {
		doc := rec
		doc.Key = key
		checkRunKind(t, doc, codec.Opaque)
	}
}

func TestDocumentsThatAreNoObjects(t *testing.T) {
	rec := mustRun(t, smallRun())
	event := mustEvent(t, sampleEvents()["resumed"])
	for _, doc := range []string{"", " ", "{", "}", "{}", "[]", "null", "1", `"run"`, "\x00", "\xff", `{"codec":"run","v":1,"value":null}`,
		`{"codec":"run","v":1,"value":[]}`, `{"codec":"run","v":1,"value":{}}`, `{"codec":"run","v":1,"value":{"codec":"run"}}`,
		`{"codec":"event","v":1,"value":{}}`, `{"codec":"event","v":1,"value":{"environment":"prod","run_id":"order:123","sequence":3,"event":null}}`} {
		rec.Document, event.Document = []byte(doc), []byte(doc)
		checkRunKind(t, rec, codec.Opaque)
		checkEventKind(t, event, codec.Opaque)
	}
}

func TestTombstones(t *testing.T) {
	rec, err := codec.EncodeTombstone("prod", "order:123")
	if err != nil {
		t.Fatal(err)
	}
	checkRunKind(t, rec, codec.Tombstone)
	if len(rec.Entries) != 0 {
		t.Errorf("a tombstone has the entries %v", rec.Entries)
	}
	whole := rec.Document
	for name, change := range map[string][2]string{
		"a payload":            {`"id"`, `"payload":1,"id"`},
		"a task":               {`"id"`, `"task":"t","id"`},
		"another run":          {`order:123`, `order:124`},
		"no environment":       {`"environment":"prod",`, ``},
		"not true":             {`"tombstone":true`, `"tombstone":"true"`},
		"given twice":          {`"tombstone":true`, `"tombstone":true,"tombstone":true`},
		"of another codec":     {`"codec":"run"`, `"codec":"event"`},
		"of the next version":  {`"v":1`, `"v":2`},
		"with one more member": {`"v":1`, `"v":1,"by":"ops"`},
	} {
		t.Run(name, func(t *testing.T) {
			rec.Document = replaceOnce(t, whole, change[0], change[1])
			checkRunKind(t, rec, codec.Opaque)
		})
	}
	rec.Document = replaceOnce(t, whole, `"prod"`, `"pr:od"`)
	if rec.Key.Partition, err = keys.String("pr:od"); err != nil {
		t.Fatal(err)
	}
	checkRunKind(t, rec, codec.Opaque)
	_, err = codec.EncodeTombstone("prod:", "r")
	wantInputError(t, err, storage.ErrInvalidKey, "environment")
	_, err = codec.EncodeTombstone("prod", "")
	wantInputError(t, err, storage.ErrInvalidKey, "run_id")
}

// Raw JSON shares the document's bytes, but appending to it must not write there.
func TestAppendingToAPayloadLeavesTheDocumentAlone(t *testing.T) {
	rec := mustRun(t, sampleRun(run.StatusQueued))
	before := bytes.Clone(rec.Document)
	r, _ := codec.DecodeRun(rec)
	_ = append(r.Payload, "xx"...)
	if !bytes.Equal(rec.Document, before) {
		t.Errorf("the document has become %s", rec.Document)
	}
}
