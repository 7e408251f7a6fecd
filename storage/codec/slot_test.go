package codec_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"github.com/seed4391e180/runlane/run"
	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/codec"
)

var (
	samplePause    = codec.QueuePause{Environment: "prod", Queue: "emails", At: run.AtCommit, Reason: "provider is down"}
	samplePresence = codec.WaitPresence{Environment: "prod", SourceRun: "order:123"}
)

func sampleSlots() map[string]codec.QueueSlot {
	slot := codec.QueueSlot{Environment: "prod", Queue: "emails", ConcurrencyKey: "c:1", Slot: 2, RunID: "order:123", Token: token, Expires: at(90)}
	whole := slot
	whole.ConcurrencyKey = ""
	return map[string]codec.QueueSlot{"queue_slot": slot, "queue_slot_whole": whole}
}

func mustRecord[T any](t testing.TB, encode func(T) (storage.Record, error), v T) storage.Record {
	t.Helper()
	rec, err := encode(v)
	if err != nil {
		t.Fatal(err)
	}
	return rec
}

func TestSlotsAreRefusedWithTheFieldNamed(t *testing.T) {
	tests := []struct {
		field  string
		change func(s *codec.QueueSlot)
		kind   error
	}{
		{"environment", func(s *codec.QueueSlot) { s.Environment = "a:b" }, storage.ErrInvalidKey},
		{"queue", func(s *codec.QueueSlot) { s.Queue = "" }, storage.ErrInvalidKey},
		{"concurrency_key", func(s *codec.QueueSlot) { s.ConcurrencyKey = "\x00" }, storage.ErrInvalidKey},
		{"slot", func(s *codec.QueueSlot) { s.Slot = 0 }, storage.ErrInvalidDocument},
		{"run_id", func(s *codec.QueueSlot) { s.RunID = "" }, storage.ErrInvalidKey},
		{"lease_token", func(s *codec.QueueSlot) { s.Token = uuid.Nil }, storage.ErrInvalidDocument},
		{"expires_at", func(s *codec.QueueSlot) { s.Expires = time.Time{} }, storage.ErrInvalidDocument},
	}
	for _, tt := range tests {
		t.Run(tt.field, func(t *testing.T) {
			s := sampleSlots()["queue_slot"]
			tt.change(&s)
			_, err := codec.EncodeQueueSlot(s)
			wantInputError(t, err, tt.kind, tt.field)
		})
	}
	_, err := codec.EncodeQueuePause(codec.QueuePause{Environment: "prod", Queue: "emails", At: at(0), Reason: "\xff"})
	wantInputError(t, err, storage.ErrInvalidDocument, "reason")
	_, err = codec.EncodeQueuePause(codec.QueuePause{Environment: "prod", Queue: "emails"})
	wantInputError(t, err, storage.ErrInvalidDocument, "at")
	_, err = codec.EncodeWaitPresence(codec.WaitPresence{Environment: "prod"})
	wantInputError(t, err, storage.ErrInvalidKey, "source_run_id")
}

func TestSlotsSurviveTheRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		later := drawLater(t)
		s := codec.QueueSlot{
			Environment: drawName(t, "environment"), Queue: drawName(t, "queue"), ConcurrencyKey: drawOptional(t, "key"),
			Slot: rapid.IntRange(1, 1<<40).Draw(t, "slot"), RunID: drawText(t, "run"), Token: drawUUID(t, "token"), Expires: drawTime(t, "expires", later),
		}
		rec, err := codec.EncodeQueueSlot(s)
		if err != nil {
			t.Fatal(err)
		}
		if got, kind := codec.DecodeQueueSlot(rec); kind != codec.Canonical || got != s {
			t.Fatalf("%+v comes back as %s %+v", s, kind, got)
		}
		if _, kind := codec.DecodeQueuePause(rec); kind != codec.Opaque {
			t.Fatalf("a slot is a pause: %s", kind)
		}
		p := codec.QueuePause{Environment: s.Environment, Queue: s.Queue, At: drawTime(t, "at", later), Reason: drawFree(t, "reason")}
		if rec, err = codec.EncodeQueuePause(p); err != nil {
			t.Fatal(err)
		}
		if got, kind := codec.DecodeQueuePause(rec); kind != codec.Canonical || got != p {
			t.Fatalf("%+v comes back as %s %+v", p, kind, got)
		}
		if _, kind := codec.DecodeQueueSlot(rec); kind != codec.Opaque {
			t.Fatalf("a pause is a slot: %s", kind)
		}
		w := codec.WaitPresence{Environment: s.Environment, SourceRun: s.RunID}
		if rec, err = codec.EncodeWaitPresence(w); err != nil {
			t.Fatal(err)
		}
		if got, kind := codec.DecodeWaitPresence(rec); kind != codec.Canonical || got != w {
			t.Fatalf("%+v comes back as %s %+v", w, kind, got)
		}
	})
}

// A document that says less, more or something else than its key is opaque.
func TestOpaqueSlots(t *testing.T) {
	slot := mustRecord(t, codec.EncodeQueueSlot, sampleSlots()["queue_slot"])
	pause := mustRecord(t, codec.EncodeQueuePause, samplePause)
	presence := mustRecord(t, codec.EncodeWaitPresence, samplePresence)
	tests := []struct {
		rec      storage.Record
		old, new string
	}{
		{slot, `"slot":2`, `"slot":3`},
		{slot, `"slot":2,`, ``},
		{slot, `"concurrency_key":"c:1"`, `"concurrency_key":""`},
		{slot, `"run_id":"order:123"`, `"run_id":""`},
		{slot, `"expires_at":`, `"at":`},
		{slot, `"v":1`, `"v":2`},
		{slot, `"queue":"emails"`, `"queue":"other"`},
		{pause, `"queue":"emails"`, `"queue":"other"`},
		{pause, `"reason":"provider is down"`, `"reason":1`},
		{pause, `"at":`, `"expires_at":`},
		{pause, `}}`, `,"slot":0}}`},
		{presence, `"source_run_id":"order:123"`, `"source_run_id":"order:124"`},
		{presence, `}}`, `,"queue":"q"}}`},
	}
	for _, tt := range tests {
		rec := tt.rec
		rec.Document = []byte(strings.Replace(string(rec.Document), tt.old, tt.new, 1))
		if reflect.DeepEqual(rec.Document, tt.rec.Document) {
			t.Fatalf("%s is not in %s", tt.old, rec.Document)
		}
		_, s := codec.DecodeQueueSlot(rec)
		_, p := codec.DecodeQueuePause(rec)
		_, w := codec.DecodeWaitPresence(rec)
		if s != codec.Opaque || p != codec.Opaque || w != codec.Opaque {
			t.Errorf("%s is %s, %s, %s", rec.Document, s, p, w)
		}
	}
}

func FuzzDecodeSlots(f *testing.F) {
	addGoldenDocuments(f, func(doc []byte) { f.Add(doc, "prod", "emails", "c:1", 2) })
	f.Fuzz(func(t *testing.T, doc []byte, env, queue, key string, slot int) {
		rec := storage.Record{Document: doc}
		rec.Key, _ = codec.QueueSlotKey(env, queue, key, slot)
		if s, kind := codec.DecodeQueueSlot(rec); kind == codec.Canonical {
			again, err := codec.EncodeQueueSlot(s)
			if err != nil || again.Key != rec.Key {
				t.Fatalf("%q is canonical, but: %v", doc, err)
			}
		}
		if p, kind := codec.DecodeQueuePause(rec); kind == codec.Canonical {
			again, err := codec.EncodeQueuePause(p)
			if err != nil || again.Key != rec.Key {
				t.Fatalf("%q is canonical, but: %v", doc, err)
			}
		}
		rec.Key, _ = codec.WaitPresenceKey(env, queue)
		if p, kind := codec.DecodeWaitPresence(rec); kind == codec.Canonical {
			again, err := codec.EncodeWaitPresence(p)
			if err != nil || again.Key != rec.Key {
				t.Fatalf("%q is canonical, but: %v", doc, err)
			}
		}
	})
}
