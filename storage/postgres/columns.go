package postgres

import (
	"bytes"

	"github.com/seed4391e180/runlane/internal/jsonscan"
	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/codec"
)

// runColumns is codec.RunColumns of what a reader will see of a record.
func runColumns(rec storage.Record) (storage.RunColumns, bool) {
	if columns, ok := codec.RunColumns(rec); ok {
		return columns, true
	}
	return codec.RunColumns(asRead(rec))
}

// eventColumns is codec.EventColumns of what a reader will see of a record.
func eventColumns(rec storage.Record) (storage.EventColumns, bool) {
	if columns, ok := codec.EventColumns(rec); ok {
		return columns, true
	}
	return codec.EventColumns(asRead(rec))
}

// asRead is a record as jsonb will print it: duplicate members are resolved, and
// marks have become times, which one does not matter here. Almost every document
// decodes as it was written; this is for the others.
func asRead(rec storage.Record) storage.Record {
	const someTime = "2000-01-01T00:00:00.000000Z"
	doc := bytes.ReplaceAll(rec.Document, []byte(storage.CommitTime), []byte(someTime))
	doc = bytes.ReplaceAll(doc, []byte(storage.CommitTimeLater), []byte(someTime))
	if canonical, err := jsonscan.Canonical(doc); err == nil {
		rec.Document = canonical
	}
	return rec
}
