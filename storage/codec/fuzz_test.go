package codec_test

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/seed4391e180/runlane/internal/jsonscan"
	"github.com/seed4391e180/runlane/run"
	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/codec"
)

// addGoldenDocuments seeds a fuzz test with the documents that we write.
func addGoldenDocuments(f *testing.F, add func(doc []byte)) {
	files, err := filepath.Glob(filepath.Join("testdata", "*.golden"))
	if err != nil || len(files) == 0 {
		f.Fatalf("no golden records: %v", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		_, doc, _ := strings.Cut(string(text), "document ")
		add([]byte(hideMarks.Replace(strings.TrimSuffix(doc, "\n"))))
	}
}

// legal tells whether a document may come to a driver at all.
func legal(doc []byte) bool {
	_, err := jsonscan.Check(doc, jsonscan.Limits{Marks: true})
	return err == nil
}

func FuzzDecodeRun(f *testing.F) {
	addGoldenDocuments(f, func(doc []byte) { f.Add(doc, "prod", "order:123", int64(0)) })
	f.Add([]byte(`{"codec":"run","v":1e0,"value":{"id":"\u0041"}}`), "e", "A", int64(time.Hour))
	f.Fuzz(func(t *testing.T, doc []byte, env, id string, later int64) {
		key, err := codec.RunKey(env, id)
		if err != nil {
			key = storage.Key{Collection: storage.Runs, Partition: env, ID: id}
		}
		rec := storage.Record{Key: key, Document: doc, Later: time.Duration(later)}
		r, kind := codec.DecodeRun(rec)
		columns, ok := codec.RunColumns(rec)
		if legal(doc) && ok != (kind == codec.Canonical) {
			t.Fatalf("%q is %s and has columns: %v", doc, kind, ok)
		}
		switch kind {
		case codec.Canonical:
			again, err := codec.EncodeRun(r)
			if err != nil {
				t.Fatalf("%q is canonical, but: %v", doc, err)
			}
			got, kind := codec.DecodeRun(again)
			if kind != codec.Canonical || !reflect.DeepEqual(got, r) || again.Key != key {
				t.Fatalf("%q decodes to %+v, and that to %+v", doc, r, got)
			}
			if ok && columns != columnsOf(r) {
				t.Fatalf("%q has the columns %+v", doc, columns)
			}
		case codec.Tombstone:
			again, err := codec.EncodeTombstone(r.Environment, r.ID)
			if err != nil || again.Key != key {
				t.Fatalf("%q is a tombstone of %v, but: %v", doc, again.Key, err)
			}
		default:
			if !reflect.DeepEqual(r, run.Run{}) {
				t.Fatalf("%q is opaque, yet decodes to %+v", doc, r)
			}
		}
	})
}

func FuzzDecodeEvent(f *testing.F) {
	addGoldenDocuments(f, func(doc []byte) { f.Add(doc, "prod", eventID[:], int64(0)) })
	f.Fuzz(func(t *testing.T, doc []byte, env string, id []byte, later int64) {
		e := run.Event{Environment: env}
		copy(e.ID[:], id)
		key, err := codec.EventKey(env, e.ID)
		if err != nil {
			key = storage.Key{Collection: storage.RunEvents, Partition: env, ID: string(id)}
		}
		rec := storage.Record{Key: key, Document: doc, Later: time.Duration(later)}
		e, kind := codec.DecodeEvent(rec)
		_, ok := codec.EventColumns(rec)
		if legal(doc) && ok != (kind == codec.Canonical) {
			t.Fatalf("%q is %s and has columns: %v", doc, kind, ok)
		}
		if kind != codec.Canonical {
			return
		}
		again, err := codec.EncodeEvent(e)
		if err != nil {
			t.Fatalf("%q is canonical, but: %v", doc, err)
		}
		got, kind := codec.DecodeEvent(again)
		if kind != codec.Canonical || !reflect.DeepEqual(got, e) || again.Key != key {
			t.Fatalf("%q decodes to %+v, and that to %+v", doc, e, got)
		}
	})
}

func FuzzDecodeOwners(f *testing.F) {
	addGoldenDocuments(f, func(doc []byte) { f.Add(doc, "prod", "emails.welcome", "i:1") })
	f.Fuzz(func(t *testing.T, doc []byte, env, task, key string) {
		rec := storage.Record{Document: doc}
		rec.Key, _ = codec.IdempotencyKey(env, task, key)
		if o, kind := codec.DecodeIdempotencyOwner(rec); kind == codec.Canonical {
			again, err := codec.EncodeIdempotencyOwner(o)
			if err != nil || again.Key != rec.Key {
				t.Fatalf("%q is canonical, but: %v", doc, err)
			}
			if got, kind := codec.DecodeIdempotencyOwner(again); kind != codec.Canonical || got != o {
				t.Fatalf("%q decodes to %+v, and that to %+v", doc, o, got)
			}
		}
		rec.Key, _ = codec.SingletonKey(env, task, key)
		if o, kind := codec.DecodeSingletonOwner(rec); kind == codec.Canonical {
			if again, err := codec.EncodeSingletonOwner(o); err != nil || again.Key != rec.Key {
				t.Fatalf("%q is canonical, but: %v", doc, err)
			}
		}
	})
}

func FuzzDecodeObservations(f *testing.F) {
	addGoldenDocuments(f, func(doc []byte) { f.Add(doc, "prod", "order:123", int64(41), int64(0)) })
	f.Fuzz(func(t *testing.T, doc []byte, env, stream string, position, later int64) {
		rec := storage.Record{Document: doc, Later: time.Duration(later)}
		rec.Key, _ = codec.ObservationHeadKey(env, stream)
		if h, kind := codec.DecodeObservationHead(rec); kind == codec.Canonical {
			again, err := codec.EncodeObservationHead(h)
			if err != nil || again.Key != rec.Key {
				t.Fatalf("%q is canonical, but: %v", doc, err)
			}
			if got, kind := codec.DecodeObservationHead(again); kind != codec.Canonical || got != h {
				t.Fatalf("%q decodes to %+v, and that to %+v", doc, h, got)
			}
		}
		rec.Key, _ = codec.ObservationKey(env, stream, position)
		if o, kind := codec.DecodeObservation(rec); kind == codec.Canonical {
			again, err := codec.EncodeObservation(o)
			if err != nil || again.Key != rec.Key {
				t.Fatalf("%q is canonical, but: %v", doc, err)
			}
			if got, kind := codec.DecodeObservation(again); kind != codec.Canonical || !reflect.DeepEqual(got, o) {
				t.Fatalf("%q decodes to %+v, and that to %+v", doc, o, got)
			}
		}
	})
}

func FuzzStreamOf(f *testing.F) {
	f.Add("$prod!", "$order:123!")
	f.Fuzz(func(t *testing.T, partition, id string) {
		key := storage.Key{Collection: storage.ObservationHeads, Partition: partition, ID: id}
		env, stream, err := codec.StreamOf(key)
		if err != nil {
			return
		}
		if again, err := codec.ObservationHeadKey(env, stream); err != nil || again != key {
			t.Fatalf("%v is the head of %q in %q, whose key is %v (%v)", key, stream, env, again, err)
		}
	})
}

// Splitting and joining keep the value of every document that a driver can get,
// and of anything else they make something, but no panic.
func FuzzSplitPayload(f *testing.F) {
	addGoldenDocuments(f, func(doc []byte) { f.Add(doc) })
	f.Add([]byte(`{"value":{"p\u0061yload":1,"payload":{"payload":2}},"value":{}}`))
	f.Fuzz(func(t *testing.T, doc []byte) {
		for _, pair := range []struct {
			split splitter
			join  joiner
		}{{codec.SplitPayload, codec.JoinPayload}, {codec.SplitEventPayload, codec.JoinEventPayload}} {
			rest, payload, ok := pair.split(doc)
			joined := pair.join(rest, payload)
			if !legal(doc) {
				continue
			}
			if ok && (!legal(rest) || !legal(payload)) {
				t.Fatalf("%q becomes %q and %q", doc, rest, payload)
			}
			want, err := jsonscan.Canonical(doc)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := jsonscan.Canonical(joined); err != nil || !bytes.Equal(got, want) {
				t.Fatalf("%q comes back as %q (%v)", doc, joined, err)
			}
			if _, _, more := pair.split(rest); ok && more {
				t.Fatalf("%q still has a payload in %q", doc, rest)
			}
		}
	})
}
