package codec_test

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/seed4391e180/runlane/run"
	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/codec"
)

var (
	sampleOccurrence = codec.ScheduleOccurrence{Environment: "prod", Schedule: "nightly: all", Fire: at(0), RunID: "order:123", Created: run.AtCommit}
	sampleCursor     = codec.ScheduleCursor{Environment: "prod", Schedule: "nightly: all", Considered: at(0)}
)

func TestSchedulesAreRefusedWithTheFieldNamed(t *testing.T) {
	occurrence := func(change func(o *codec.ScheduleOccurrence)) error {
		o := sampleOccurrence
		change(&o)
		_, err := codec.EncodeScheduleOccurrence(o)
		return err
	}
	wantInputError(t, occurrence(func(o *codec.ScheduleOccurrence) { o.Environment = "" }), storage.ErrInvalidKey, "environment")
	wantInputError(t, occurrence(func(o *codec.ScheduleOccurrence) { o.Schedule = "\x00" }), storage.ErrInvalidKey, "schedule_id")
	wantInputError(t, occurrence(func(o *codec.ScheduleOccurrence) { o.Fire = run.AtCommit }), storage.ErrInvalidKey, "fire_time")
	wantInputError(t, occurrence(func(o *codec.ScheduleOccurrence) { o.RunID = "" }), storage.ErrInvalidKey, "run_id")
	wantInputError(t, occurrence(func(o *codec.ScheduleOccurrence) { o.Created = time.Time{} }), storage.ErrInvalidDocument, "created_at")
	c := sampleCursor
	c.Considered = time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)
	_, err := codec.EncodeScheduleCursor(c)
	wantInputError(t, err, storage.ErrInvalidDocument, "considered_at")
}

func TestSchedulesSurviveTheRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		later := drawLater(t)
		o := codec.ScheduleOccurrence{
			Environment: drawName(t, "environment"), Schedule: drawText(t, "schedule"), RunID: drawText(t, "run"),
			Fire: time.UnixMicro(rapid.Int64Range(0, 253402300799_999999).Draw(t, "fire")).UTC(), Created: drawTime(t, "created", later),
		}
		rec, err := codec.EncodeScheduleOccurrence(o)
		if err != nil {
			t.Fatal(err)
		}
		if got, kind := codec.DecodeScheduleOccurrence(rec); kind != codec.Canonical || got != o {
			t.Fatalf("%+v comes back as %s %+v", o, kind, got)
		}
		c := codec.ScheduleCursor{Environment: o.Environment, Schedule: o.Schedule, Considered: drawTime(t, "considered", later)}
		if rec, err = codec.EncodeScheduleCursor(c); err != nil {
			t.Fatal(err)
		}
		if got, kind := codec.DecodeScheduleCursor(rec); kind != codec.Canonical || got != c {
			t.Fatalf("%+v comes back as %s %+v", c, kind, got)
		}
	})
}

func TestOpaqueSchedules(t *testing.T) {
	occurrence := mustRecord(t, codec.EncodeScheduleOccurrence, sampleOccurrence)
	cursor := mustRecord(t, codec.EncodeScheduleCursor, sampleCursor)
	for _, tt := range []struct {
		rec      storage.Record
		old, new string
	}{
		{occurrence, `"schedule_id":"nightly: all"`, `"schedule_id":"other"`},
		{occurrence, `08:09.123456Z"`, `08:09.123457Z"`},
		{occurrence, `"run_id":"order:123",`, ``},
		{occurrence, `"run_id":"order:123"`, `"run_id":""`},
		{occurrence, `"v":1`, `"v":2`},
		{occurrence, `}}`, `,"slot":1}}`},
		{cursor, `"schedule_id":"nightly: all"`, `"schedule_id":"other"`},
		{cursor, `"considered_at":`, `"at":`},
		{cursor, `"considered_at":"2030`, `"considered_at":"20300`},
	} {
		rec := tt.rec
		rec.Document = []byte(strings.Replace(string(rec.Document), tt.old, tt.new, 1))
		if string(rec.Document) == string(tt.rec.Document) {
			t.Fatalf("%s is not in %s", tt.old, rec.Document)
		}
		_, o := codec.DecodeScheduleOccurrence(rec)
		_, c := codec.DecodeScheduleCursor(rec)
		if o != codec.Opaque || c != codec.Opaque {
			t.Errorf("%s is %s, %s", rec.Document, o, c)
		}
	}
}

func FuzzDecodeSchedules(f *testing.F) {
	addGoldenDocuments(f, func(doc []byte) { f.Add(doc, "prod", "nightly: all", at(0).UnixMicro()) })
	f.Fuzz(func(t *testing.T, doc []byte, env, schedule string, fire int64) {
		rec := storage.Record{Document: doc}
		rec.Key, _ = codec.ScheduleOccurrenceKey(env, schedule, time.UnixMicro(fire))
		if o, kind := codec.DecodeScheduleOccurrence(rec); kind == codec.Canonical {
			if again, err := codec.EncodeScheduleOccurrence(o); err != nil || again.Key != rec.Key {
				t.Fatalf("%q is canonical, but: %v", doc, err)
			}
		}
		rec.Key, _ = codec.ScheduleCursorKey(env, schedule)
		if c, kind := codec.DecodeScheduleCursor(rec); kind == codec.Canonical {
			if again, err := codec.EncodeScheduleCursor(c); err != nil || again.Key != rec.Key {
				t.Fatalf("%q is canonical, but: %v", doc, err)
			}
		}
	})
}
