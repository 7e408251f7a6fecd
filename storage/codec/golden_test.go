package codec_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/seed4391e180/runlane/run"
	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/codec"
)

var update = flag.Bool("update", false, "write the golden records anew")

// The golden records are what databases hold: a document that could be read once
// must be readable for ever, so a change to a file of version 1 is a mistake.
func TestGoldenRecords(t *testing.T) {
	records := make(map[string]storage.Record)
	decode := make(map[string]func(storage.Record) (any, codec.Kind))
	want := make(map[string]any)
	for _, s := range run.Statuses() {
		r := sampleRun(s)
		addGolden(records, want, "run_"+string(s), mustRun(t, r), r)
	}
	addGolden(records, want, "run_small", mustRun(t, smallRun()), smallRun())
	addGolden(records, want, "run_options", mustRun(t, optionsRun()), optionsRun())
	addGolden(records, want, "run_commit_times", mustRun(t, relativeRun()), relativeRun())
	for name, e := range sampleEvents() {
		addGolden(records, want, "event_"+name, mustEvent(t, e), e)
	}
	tombstone, err := codec.EncodeTombstone("prod", "order:123")
	if err != nil {
		t.Fatal(err)
	}
	addGolden(records, want, "tombstone", tombstone, run.Run{Environment: "prod", ID: "order:123"})
	for name, o := range sampleIdempotencyOwners() {
		addGolden(records, want, name, mustIdempotencyOwner(t, o), o)
	}
	addGolden(records, want, "singleton_owner", mustSingletonOwner(t, sampleSingletonOwner), sampleSingletonOwner)
	for name, h := range sampleHeads() {
		addGolden(records, want, name, mustHead(t, h), h)
	}
	for name, o := range sampleObservations() {
		addGolden(records, want, name, mustObservation(t, o), o)
	}
	for name, s := range sampleSlots() {
		addGolden(records, want, name, mustRecord(t, codec.EncodeQueueSlot, s), s)
	}
	addGolden(records, want, "schedule_occurrence", mustRecord(t, codec.EncodeScheduleOccurrence, sampleOccurrence), sampleOccurrence)
	addGolden(records, want, "schedule_cursor", mustRecord(t, codec.EncodeScheduleCursor, sampleCursor), sampleCursor)
	addGolden(records, want, "queue_pause", mustRecord(t, codec.EncodeQueuePause, samplePause), samplePause)
	addGolden(records, want, "wait_presence", mustRecord(t, codec.EncodeWaitPresence, samplePresence), samplePresence)
	for prefix, f := range decoders {
		for name := range records {
			if strings.HasPrefix(name, prefix) {
				decode[name] = f
			}
		}
	}
	for name, rec := range records {
		t.Run(name, func(t *testing.T) { checkGolden(t, name, rec, want[name], decode[name]) })
	}
	checkNoOtherFiles(t, records)
}

var decoders = map[string]func(storage.Record) (any, codec.Kind){
	"run_": func(rec storage.Record) (any, codec.Kind) {
		r, kind := codec.DecodeRun(rec)
		return r, kind
	},
	"tombstone": func(rec storage.Record) (any, codec.Kind) {
		r, kind := codec.DecodeRun(rec)
		return r, kind
	},
	"event_": func(rec storage.Record) (any, codec.Kind) {
		e, kind := codec.DecodeEvent(rec)
		return e, kind
	},
	"idempotency_owner": func(rec storage.Record) (any, codec.Kind) {
		o, kind := codec.DecodeIdempotencyOwner(rec)
		return o, kind
	},
	"singleton_owner": func(rec storage.Record) (any, codec.Kind) {
		o, kind := codec.DecodeSingletonOwner(rec)
		return o, kind
	},
	"queue_slot": func(rec storage.Record) (any, codec.Kind) {
		s, kind := codec.DecodeQueueSlot(rec)
		return s, kind
	},
	"schedule_occurrence": func(rec storage.Record) (any, codec.Kind) {
		o, kind := codec.DecodeScheduleOccurrence(rec)
		return o, kind
	},
	"schedule_cursor": func(rec storage.Record) (any, codec.Kind) {
		c, kind := codec.DecodeScheduleCursor(rec)
		return c, kind
	},
	"queue_pause": func(rec storage.Record) (any, codec.Kind) {
		p, kind := codec.DecodeQueuePause(rec)
		return p, kind
	},
	"wait_presence": func(rec storage.Record) (any, codec.Kind) {
		p, kind := codec.DecodeWaitPresence(rec)
		return p, kind
	},
	"head": func(rec storage.Record) (any, codec.Kind) {
		h, kind := codec.DecodeObservationHead(rec)
		return h, kind
	},
	"observation": func(rec storage.Record) (any, codec.Kind) {
		o, kind := codec.DecodeObservation(rec)
		return o, kind
	},
}

func addGolden(records map[string]storage.Record, want map[string]any, name string, rec storage.Record, value any) {
	records[name], want[name] = rec, value
}

func checkGolden(t *testing.T, name string, rec storage.Record, want any, decode func(storage.Record) (any, codec.Kind)) {
	path := filepath.Join("testdata", name+".golden")
	if *update {
		if err := os.WriteFile(path, []byte(showRecord(rec)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got := showRecord(rec); got != string(text) {
		t.Errorf("got\n%s\nwant\n%s", got, text)
	}
	_, doc, _ := strings.Cut(string(text), "document ")
	stored := storage.Record{Key: rec.Key, Document: []byte(hideMarks.Replace(strings.TrimSuffix(doc, "\n"))), Later: rec.Later}
	got, kind := decode(stored)
	wantKind := codec.Canonical
	if name == "tombstone" {
		wantKind = codec.Tombstone
	}
	if kind != wantKind || !reflect.DeepEqual(got, want) {
		t.Errorf("the golden document decodes to %s\n     %+v\nwant %+v", kind, got, want)
	}
}

// In golden files the marks are the pictures of the control characters.
var (
	showMarks = strings.NewReplacer(storage.CommitTime, "\u2401", storage.CommitTimeLater, "\u2402")
	hideMarks = strings.NewReplacer("\u2401", storage.CommitTime, "\u2402", storage.CommitTimeLater)
)

func showRecord(rec storage.Record) string {
	var b strings.Builder
	fmt.Fprintf(&b, "key %s %s %s\n", rec.Key.Collection, rec.Key.Partition, rec.Key.ID)
	for _, e := range rec.Entries {
		fmt.Fprintf(&b, "entry %s %s %s\n", e.Index, e.Partition, e.Sort)
	}
	fmt.Fprintf(&b, "later %s\ndocument %s\n", rec.Later, rec.Document)
	return showMarks.Replace(b.String())
}

func checkNoOtherFiles(t *testing.T, records map[string]storage.Record) {
	files, err := filepath.Glob(filepath.Join("testdata", "*.golden"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if _, ok := records[strings.TrimSuffix(filepath.Base(file), ".golden")]; !ok {
			t.Errorf("%s belongs to no record", file)
		}
	}
}
