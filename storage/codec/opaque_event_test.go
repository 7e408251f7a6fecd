package codec_test

import (
	"reflect"
	"testing"

	"github.com/google/uuid"

	"github.com/seed4391e180/runlane/internal/jsonscan"
	"github.com/seed4391e180/runlane/run"
	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/codec"
)

// checkEventKind checks all that speaks of the kind of an event's document.
func checkEventKind(t *testing.T, rec storage.Record, want codec.Kind) {
	t.Helper()
	e, kind := codec.DecodeEvent(rec)
	if kind != want {
		t.Errorf("%s\nis %s, not %s", rec.Document, kind, want)
	}
	if kind == codec.Opaque && !reflect.DeepEqual(e, run.Event{}) {
		t.Errorf("an opaque document decodes to %+v", e)
	}
	if _, err := jsonscan.Check(rec.Document, jsonscan.Limits{Marks: true}); err == nil {
		if _, ok := codec.EventColumns(rec); ok != (want == codec.Canonical) {
			t.Errorf("%s\nhas columns: %v", rec.Document, ok)
		}
	}
}

func TestOpaqueEvents(t *testing.T) {
	tokenText := `"token":"` + token.String() + `"`
	tests := []struct {
		name     string
		event    string
		old, new string
		want     codec.Kind
	}{
		{"as written", "resumed", `"v":1`, `"v":1`, codec.Canonical},
		{"another codec", "resumed", `"codec":"event"`, `"codec":"run"`, codec.Opaque},
		{"the next version", "resumed", `"v":1`, `"v":2`, codec.Opaque},
		{"a tombstone", "resumed", `"v":1`, `"v":1,"tombstone":true`, codec.Opaque},
		{"one more member in the envelope", "resumed", `"v":1`, `"v":1,"id":"x"`, codec.Opaque},
		{"one more member in the value", "resumed", `"sequence":3`, `"sequence":3,"id":"x"`, codec.Opaque},
		{"a value given twice", "resumed", `"v":1`, `"v":1,"value":{}`, codec.Opaque},
		{"an event given twice", "resumed", `"sequence":3`, `"sequence":3,"event":{}`, codec.Opaque},
		{"a member given twice", "resumed", `"type"`, `"at":"2030-05-06T07:09:09.123456Z","type"`, codec.Opaque},
		{"no environment", "resumed", `"environment":"prod",`, ``, codec.Opaque},
		{"another environment", "resumed", `"environment":"prod"`, `"environment":"dev"`, codec.Opaque},
		{"no run", "resumed", `"run_id":"order:123",`, ``, codec.Opaque},
		{"a run that is no text", "resumed", `"run_id":"order:123"`, `"run_id":123`, codec.Opaque},
		{"another run", "resumed", `"run_id":"order:123"`, `"run_id":"order:124"`, codec.Canonical},
		{"sequence 0", "resumed", `"sequence":3`, `"sequence":0`, codec.Opaque},
		{"the last sequence", "resumed", `"sequence":3`, `"sequence":9223372036854775807`, codec.Canonical},
		{"a sequence beyond 64 bits", "resumed", `"sequence":3`, `"sequence":9223372036854775808`, codec.Opaque},
		{"no sequence", "resumed", `"sequence":3,`, ``, codec.Opaque},
		{"another id", "resumed", eventID.String(), token.String(), codec.Opaque},
		{"no id", "resumed", `"id":"` + eventID.String() + `",`, ``, codec.Opaque},
		{"an unknown type", "resumed", `run.resumed`, `run.paused`, codec.Opaque},
		{"another type", "resumed", `run.resumed`, `run.cancelled`, codec.Canonical},
		{"no type", "resumed", `"type":"run.resumed",`, ``, codec.Opaque},
		{"no time", "resumed", `,"at":"2030-05-06T07:09:09.123456Z"`, ``, codec.Opaque},
		{"a member of another type", "resumed", `"type"`, `"reason":"x","type"`, codec.Opaque},
		{"a member of runs", "created", `"task"`, `"status":"queued","task"`, codec.Opaque},
		{"an unknown member", "created", `"task"`, `"colour":"red","task"`, codec.Opaque},

		{"no task", "created", `"task":"emails.welcome",`, ``, codec.Opaque},
		{"a queue that is no name", "created", `"queue":"emails"`, `"queue":"a:b"`, codec.Opaque},
		{"priority 0", "created", `"priority":3`, `"priority":0`, codec.Opaque},
		{"a negative limit", "created", `"max_attempts":10`, `"max_attempts":-10`, codec.Opaque},
		{"a time to run that is none", "created", `"run_at":"2030-05-06T07:09:39.123456Z"`, `"run_at":""`, codec.Opaque},
		{"no time to run", "created", `"run_at":"2030-05-06T07:09:39.123456Z",`, ``, codec.Canonical},
		{"a schedule without a name", "created", `"schedule_id":"nightly",`, ``, codec.Opaque},
		{"a negative time to live", "created", `"idempotency_ttl_ns":36`, `"idempotency_ttl_ns":-36`, codec.Opaque},
		{"a payload that holds a mark", "created", `{"n":1e2}`, "{\"n\":\"\x01\"}", codec.Opaque},
		{"a payload that is null", "created", `{"n":1e2}`, `null`, codec.Canonical},

		{"no lease", "started", `"lease_token":"` + token.String() + `",`, ``, codec.Opaque},
		{"no worker", "started", `"lease_worker":"w:1",`, ``, codec.Opaque},
		{"attempt 0", "started", `"lease_attempt":5`, `"lease_attempt":0`, codec.Opaque},
		{"no expiry", "started", `,"lease_expires_at":"2030-05-06T07:09:39.123456Z"`, ``, codec.Opaque},
		{"a success without a token", "succeeded_small", `,` + tokenText, ``, codec.Opaque},
		{"a retry without a token", "retry_scheduled", tokenText + `,`, ``, codec.Opaque},
		{"a retry without a time", "retry_scheduled", `"due_at":"2030-05-06T07:09:39.123456Z",`, ``, codec.Opaque},
		{"a release without a token", "released", tokenText + `,`, ``, codec.Canonical},
		{"a release with the zero token", "released", tokenText, `"token":"00000000-0000-0000-0000-000000000000"`, codec.Opaque},
		{"a creation with a negative timeout", "created_options", `"timeout_ns":90000000000`, `"timeout_ns":-1`, codec.Opaque},
		{"a lease with a negative slot", "started_slots", `"lease_queue_slot":2`, `"lease_queue_slot":-2`, codec.Opaque},
		{"a release without a time", "released", `"due_at":"2030-05-06T07:09:39.123456Z",`, ``, codec.Opaque},
		{"a release for a mark", "released", `"reason":"later"`, "\"reason\":\"\x01\"", codec.Opaque},
		{"a wait without a token", "waiting", tokenText + `,`, ``, codec.Opaque},
		{"a wait for nothing", "waiting", `,"waiting_for":"order:1"`, ``, codec.Opaque},
		{"a wait for itself", "waiting", `"waiting_for":"order:1"`, `"waiting_for":"order:123"`, codec.Opaque},
		{"an expiry without a token", "lease_expired", tokenText + `,`, ``, codec.Opaque},
		{"an expiry without a time", "lease_expired", `,"due_at":"2030-05-06T07:09:39.123456Z"`, ``, codec.Opaque},
		{"a failure without a token", "failed", tokenText + `,`, ``, codec.Canonical},
		{"a failure with a token of zeros", "failed", token.String(), uuid.Nil.String(), codec.Opaque},
		{"a cancellation with a token of zeros", "cancelled", token.String(), uuid.Nil.String(), codec.Opaque},
		{"a request with a token", "cancellation_requested", `"reason"`, tokenText + `,"reason"`, codec.Opaque},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			rec := mustEvent(t, sampleEvents()[tt.event])
			rec.Document = replaceOnce(t, rec.Document, tt.old, tt.new)
			checkEventKind(t, rec, tt.want)
		})
	}
}

func TestEventsUnderAnotherKeyAreOpaque(t *testing.T) {
	rec := mustEvent(t, sampleEvents()["resumed"])
	other, err := codec.EventKey("prod", token)
	if err != nil {
		t.Fatal(err)
	}
	elsewhere, err := codec.EventKey("dev", eventID)
	if err != nil {
		t.Fatal(err)
	}
	runs := rec.Key
	runs.Collection = storage.Runs
	for _, key := range []storage.Key{other, elsewhere, runs, {}} {
		doc := rec
		doc.Key = key
		checkEventKind(t, doc, codec.Opaque)
	}
}
