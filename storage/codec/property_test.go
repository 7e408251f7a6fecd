package codec_test

import (
	"bytes"
	"encoding/json"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"github.com/seed4391e180/runlane/internal/jsonscan"
	"github.com/seed4391e180/runlane/run"
	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/codec"
)

func TestRunsSurviveTheRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := drawRun(t)
		rec, err := codec.EncodeRun(r)
		if err != nil {
			t.Fatalf("%+v: %v", r, err)
		}
		if err := storage.DefaultLimits().CheckRecord(rec); err != nil {
			t.Fatalf("%s: %v", rec.Document, err)
		}
		r.Payload, r.Result = trimmed(r.Payload), trimmed(r.Result)
		got, kind := codec.DecodeRun(rec)
		if kind != codec.Canonical || !reflect.DeepEqual(got, r) {
			t.Fatalf("%s\nis %s\ngot  %+v\nwant %+v", rec.Document, kind, got, r)
		}
		columns, ok := codec.RunColumns(rec)
		if want := columnsOf(r); !ok || columns != want {
			t.Fatalf("columns %v %+v\nwant    %+v", ok, columns, want)
		}
		again, err := codec.EncodeRun(got)
		if err != nil || !reflect.DeepEqual(again, rec) {
			t.Fatalf("encoded again: %v\n%s\n%s", err, again.Document, rec.Document)
		}
		checkPrinted(t, rec, r)
	})
}

// trimmed is raw JSON without the space around it, which is not kept.
func trimmed(raw json.RawMessage) json.RawMessage {
	if raw == nil {
		return nil
	}
	return bytes.Trim(raw, " \t\r\n")
}

func columnsOf(r run.Run) storage.RunColumns {
	c := storage.RunColumns{
		Environment: r.Environment, ID: r.ID, Task: r.Task, Queue: r.Queue, Status: r.Status, Priority: r.Priority,
		Created: r.Created, Updated: r.Updated, Due: r.Due,
		IdempotencyKey: r.IdempotencyKey, SingletonKey: r.SingletonKey, ConcurrencyKey: r.ConcurrencyKey,
		SourceType: r.Source.Type, SourceRun: r.Source.RunID, Schedule: r.Source.Schedule,
	}
	if r.Lease != nil {
		c.LeaseExpires = r.Lease.Expires
	}
	return c
}

// checkPrinted decodes what a database makes of the document: members in another
// order, other spaces, payload split off and put back.
func checkPrinted(t *rapid.T, rec storage.Record, r run.Run) {
	rest, payload, _ := codec.SplitPayload(rec.Document)
	printed, err := jsonscan.Printed(rest)
	if err != nil {
		t.Fatal(err)
	}
	rec.Document = codec.JoinPayload(printed, payload)
	got, kind := codec.DecodeRun(rec)
	if r.Result != nil {
		if r.Result, err = jsonscan.Printed(r.Result); err != nil {
			t.Fatal(err)
		}
	}
	if kind != codec.Canonical || !reflect.DeepEqual(got, r) {
		t.Fatalf("%s\nis %s\ngot  %+v\nwant %+v", rec.Document, kind, got, r)
	}
}

func TestEventsSurviveTheRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := drawEvent(t)
		rec, err := codec.EncodeEvent(e)
		if err != nil {
			t.Fatalf("%+v: %v", e, err)
		}
		if err := storage.DefaultLimits().CheckRecord(rec); err != nil {
			t.Fatalf("%s: %v", rec.Document, err)
		}
		switch d := e.Data.(type) {
		case run.Created:
			d.Payload = trimmed(d.Payload)
			e.Data = d
		case run.Succeeded:
			d.Result = trimmed(d.Result)
			e.Data = d
		}
		got, kind := codec.DecodeEvent(rec)
		if kind != codec.Canonical || !reflect.DeepEqual(got, e) {
			t.Fatalf("%s\nis %s\ngot  %+v\nwant %+v", rec.Document, kind, got, e)
		}
		columns, ok := codec.EventColumns(rec)
		want := storage.EventColumns{Environment: e.Environment, RunID: e.RunID, EventID: e.ID, Sequence: e.Sequence, Type: e.Type(), At: e.At}
		if !ok || columns != want {
			t.Fatalf("columns %v %+v\nwant    %+v", ok, columns, want)
		}
		rest, payload, split := codec.SplitEventPayload(rec.Document)
		created, _ := e.Data.(run.Created)
		if split != (created.Payload != nil) || !bytes.Equal(payload, created.Payload) {
			t.Fatalf("split %v %s of %s", split, payload, rec.Document)
		}
		printed, err := jsonscan.Printed(rest)
		if err != nil {
			t.Fatal(err)
		}
		rec.Document = codec.JoinEventPayload(printed, payload)
		if _, kind := codec.DecodeEvent(rec); kind != codec.Canonical {
			t.Fatalf("%s is %s", rec.Document, kind)
		}
	})
}

// Each status is found by whoever looks for it, and by nobody else.
func TestEntriesOfEveryStatus(t *testing.T) {
	want := map[run.Status]storage.Index{
		run.StatusQueued: storage.RunsByDue, run.StatusScheduled: storage.RunsByDue,
		run.StatusReleased: storage.RunsByDue, run.StatusRetrying: storage.RunsByDue,
		run.StatusRunning: storage.RunsByLeaseExpiry, run.StatusCancellationRequested: storage.RunsByLeaseExpiry,
		run.StatusWaiting:   storage.RunsWaitingForCompletion,
		run.StatusSucceeded: storage.RunsByRetention, run.StatusFailed: storage.RunsByRetention, run.StatusCancelled: storage.RunsByRetention,
	}
	for _, s := range run.Statuses() {
		r := sampleRun(s)
		r.WaitingFor = map[bool]string{true: "r:1"}[s == run.StatusWaiting]
		rec := mustRun(t, r)
		if len(rec.Entries) != 1 || rec.Entries[0].Index != want[s] {
			t.Errorf("a run that is %s has the entries %v", s, rec.Entries)
			continue
		}
		partition, err := partitionOf(want[s], "prod", "r:1", "emails", 3, "", "")
		if err != nil || rec.Entries[0].Partition != partition {
			t.Errorf("the partition of %s is %q, not %q (%v)", s, rec.Entries[0].Partition, partition, err)
		}
	}
}

// Equal maps give equal documents, so that a record written twice is one datum.
func TestDocumentsDoNotDependOnMapOrder(t *testing.T) {
	r := sampleRun(run.StatusQueued)
	r.Metadata = make(map[string]string)
	for c := 'a'; c <= 'z'; c++ {
		r.Metadata[string(c)] = "x"
	}
	first := mustRun(t, r).Document
	for range 20 {
		if again := mustRun(t, r).Document; !bytes.Equal(first, again) {
			t.Fatalf("%s\n%s", first, again)
		}
	}
}
