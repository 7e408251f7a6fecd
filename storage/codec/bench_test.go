package codec_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/seed4391e180/runlane/run"
	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/codec"
)

// benchRun is a run as workers hold it, with a document of about 700 bytes.
func benchRun() run.Run {
	at := time.Date(2030, 5, 6, 7, 8, 9, 123456000, time.UTC)
	return run.Run{
		Environment: "prod", ID: "0197f3a2-7c1b-7def-8a90-1234567890ab", Task: "emails.welcome", Queue: "emails",
		Priority: 2, Payload: json.RawMessage(`{"user_id":"u_123","locale":"en","n":9007199254740993}`),
		Status: run.StatusRunning, Sequence: 2, MaxAttempts: 5, Attempts: 1, Created: at, Updated: at.Add(time.Second),
		Lease: &run.Lease{
			Token: uuid.MustParse("018f4e2a-7c1b-4def-8a90-1234567890ab"), Worker: "worker-7f9c-12",
			Attempt: 1, Expires: at.Add(30 * time.Second), Duration: 30 * time.Second,
		},
		Source: run.Source{Type: run.SourceTrigger}, IdempotencyKey: "order:123", IdempotencyTTL: 30 * 24 * time.Hour,
		Trace: map[string]string{"traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"},
	}
}

func benchEvent() run.Event {
	r := benchRun()
	return run.Event{
		ID: r.Lease.Token, Environment: r.Environment, RunID: r.ID, Sequence: 2, At: r.Updated,
		Data: run.Started{Lease: *r.Lease},
	}
}

func encoded(b *testing.B) storage.Record {
	b.Helper()
	rec, err := codec.EncodeRun(benchRun())
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(rec.Document)))
	b.ReportAllocs()
	return rec
}

func BenchmarkEncodeRun(b *testing.B) {
	encoded(b)
	r := benchRun()
	for b.Loop() {
		if _, err := codec.EncodeRun(r); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDecodeRun(b *testing.B) {
	rec := encoded(b)
	for b.Loop() {
		if _, kind := codec.DecodeRun(rec); kind != codec.Canonical {
			b.Fatal(kind)
		}
	}
}

func BenchmarkRunColumns(b *testing.B) {
	rec := encoded(b)
	for b.Loop() {
		if _, ok := codec.RunColumns(rec); !ok {
			b.Fatal("opaque")
		}
	}
}

// A document that is not ours at all must cost next to nothing.
func BenchmarkRunColumnsOpaque(b *testing.B) {
	rec := encoded(b)
	rec.Document = []byte(`{"codec":"other","v":1,"value":{"payload":[1,2,3]}}`)
	for b.Loop() {
		if _, ok := codec.RunColumns(rec); ok {
			b.Fatal("canonical")
		}
	}
}

func BenchmarkSplitPayload(b *testing.B) {
	rec := encoded(b)
	for b.Loop() {
		if _, _, ok := codec.SplitPayload(rec.Document); !ok {
			b.Fatal("no payload")
		}
	}
}

func BenchmarkJoinPayload(b *testing.B) {
	rec := encoded(b)
	rest, payload, _ := codec.SplitPayload(rec.Document)
	for b.Loop() {
		codec.JoinPayload(rest, payload)
	}
}

func BenchmarkEncodeEvent(b *testing.B) {
	e := benchEvent()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := codec.EncodeEvent(e); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkEventColumns(b *testing.B) {
	rec, err := codec.EncodeEvent(benchEvent())
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(rec.Document)))
	b.ReportAllocs()
	for b.Loop() {
		if _, ok := codec.EventColumns(rec); !ok {
			b.Fatal("opaque")
		}
	}
}
