package keys_test

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/seed4391e180/runlane/storage/keys"
)

// The benchmarks encode and decode what the hot path does: an environment and
// the text of a UUID.

var (
	benchID   = uuid.MustParse("018f4e2a-7c1b-7def-8a90-1234567890ab")
	benchTime = time.Date(2025, 3, 4, 5, 6, 7, 891234567, time.UTC)
	sink      string
	sinkErr   error
)

func BenchmarkTuple(b *testing.B) {
	id := benchID.String()
	b.ReportAllocs()
	for b.Loop() {
		sink, sinkErr = keys.New().String("prod").String(id).Text()
	}
}

func BenchmarkTupleUUIDTime(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		sink, sinkErr = keys.New().String("prod").UUID(benchID).Time(benchTime).Text()
	}
}

func BenchmarkEncode(b *testing.B) {
	id := benchID.String()
	b.ReportAllocs()
	for b.Loop() {
		sink, sinkErr = keys.Encode(
			keys.Element{Kind: keys.KindString, Str: "prod"},
			keys.Element{Kind: keys.KindString, Str: id})
	}
}

func BenchmarkAppend(b *testing.B) {
	id := benchID.String()
	dst := make([]byte, 0, 128)
	b.ReportAllocs()
	for b.Loop() {
		dst, sinkErr = keys.Append(dst[:0],
			keys.Element{Kind: keys.KindString, Str: "prod"},
			keys.Element{Kind: keys.KindString, Str: id})
	}
}

func BenchmarkString(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		sink, sinkErr = keys.String("prod")
	}
}

func BenchmarkEncodeTime(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		sink, sinkErr = keys.EncodeTime(benchTime)
	}
}

func BenchmarkNext(b *testing.B) {
	text, err := keys.New().String("prod").UUID(benchID).Text()
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		for rest := text; rest != ""; {
			_, rest, sinkErr = keys.Next(rest)
		}
	}
}

func BenchmarkCheck(b *testing.B) {
	text, err := keys.New().String("prod").String(benchID.String()).Text()
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		sinkErr = keys.Check(text)
	}
}
