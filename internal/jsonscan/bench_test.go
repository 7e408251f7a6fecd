package jsonscan_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/seed4391e180/runlane/internal/jsonscan"
)

// sample is a compact document of about size bytes, of the shape of a stored
// run, in jsonb's order of keys.
func sample(size int) []byte {
	doc := []byte(`{"v":1,"codec":"run","value":[`)
	for i := 0; len(doc) < size; i++ {
		if i > 0 {
			doc = append(doc, ',')
		}
		doc = fmt.Appendf(doc, `{"id":"018f4e2a-7c1b-7def-8a90-%012d","name":"order %d für Zoë","tries":%d,"ratio":0.%d,"ok":true,"last_error":null}`, i, i, i%7, i)
	}
	return append(doc, "]}"...)
}

var sizes = []int{1 << 10, 64 << 10}

func BenchmarkCheck(b *testing.B) {
	for _, size := range sizes {
		doc := sample(size)
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(doc)))
			for b.Loop() {
				if _, err := jsonscan.Check(doc, jsonscan.Limits{Marks: true}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkStandardValid is the yardstick: json.Valid checks less.
func BenchmarkStandardValid(b *testing.B) {
	for _, size := range sizes {
		doc := sample(size)
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(doc)))
			for b.Loop() {
				if !json.Valid(doc) {
					b.Fatal("invalid")
				}
			}
		})
	}
}

func BenchmarkField(b *testing.B) {
	for _, size := range sizes {
		doc := sample(size)
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(doc)))
			for b.Loop() {
				if _, ok := jsonscan.Field(doc, "value"); !ok {
					b.Fatal("not found")
				}
			}
		})
	}
}

func BenchmarkCutInsert(b *testing.B) {
	doc := sample(1 << 10)
	var rest, back []byte
	b.ReportAllocs()
	b.SetBytes(int64(len(doc)))
	for b.Loop() {
		var value []byte
		rest, value, _ = jsonscan.Cut(rest[:0], doc, "value")
		back, _ = jsonscan.Insert(back[:0], rest, "value", value)
	}
}

func BenchmarkCanonical(b *testing.B) {
	for _, size := range sizes {
		doc := sample(size)
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(doc)))
			for b.Loop() {
				if _, err := jsonscan.Canonical(doc); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkAppendString(b *testing.B) {
	dst := make([]byte, 0, 128)
	b.ReportAllocs()
	for b.Loop() {
		dst = jsonscan.AppendString(dst[:0], "order 7 für \"Zoë\"\n")
	}
}
