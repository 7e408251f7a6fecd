package memory

import (
	"bytes"
	"slices"
	"strings"
	"time"

	"github.com/seed4391e180/runlane/internal/jsonscan"
	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/codec"
	"github.com/seed4391e180/runlane/storage/keys"
)

// complete makes the committed form of a staged record: the marks become times,
// and what is seen of a run or an event is derived from the document as it will be
// read.
func complete(rec storage.Record, now time.Time) *stored {
	at := fill{now, now.Add(rec.Later)}
	r := &stored{
		document: at.document(rec.Document),
		entries:  slices.Clone(rec.Entries),
	}
	for i := range r.entries {
		r.entries[i].Sort = at.sort(r.entries[i].Sort)
	}
	switch rec.Key.Collection {
	case storage.Runs:
		if columns, ok := codec.RunColumns(r.record(rec.Key)); ok {
			r.run = &columns
		}
	case storage.RunEvents:
		if columns, ok := codec.EventColumns(r.record(rec.Key)); ok && r.inHistory(&columns) {
			r.event = &columns
		}
	}
	return r
}

// inHistory reports whether an event stands in the history of its run, where its
// document says. One that does not is no event of the run for operators either.
func (r *stored) inHistory(e *storage.EventColumns) bool {
	partition, err := codec.EventsPartition(e.Environment, e.RunID)
	return err == nil && slices.Contains(r.entries, storage.Entry{
		Index: storage.RunEventsBySequence, Partition: partition, Sort: codec.SequenceSort(e.Sequence),
	})
}

// fill holds what the two marks stand for.
type fill struct{ commit, later time.Time }

// document replaces the marks of a document. They are strings of one raw control
// byte, which can stand nowhere else in checked JSON text.
func (f fill) document(doc []byte) []byte {
	doc = bytes.ReplaceAll(doc, []byte(storage.CommitTime), []byte(f.commit.Format(storage.TimeFormat)))
	return bytes.ReplaceAll(doc, []byte(storage.CommitTimeLater), []byte(f.later.Format(storage.TimeFormat)))
}

// sort replaces the marks of a sort value. Their bytes stand in no encoded element.
func (f fill) sort(sort string) string {
	sort = strings.ReplaceAll(sort, storage.CommitTime, sortTime(f.commit))
	return strings.ReplaceAll(sort, storage.CommitTimeLater, sortTime(f.later))
}

func sortTime(t time.Time) string {
	sort, err := keys.EncodeTime(t)
	if err != nil {
		panic("storage/memory: the clock is out of range: " + err.Error())
	}
	return sort
}

// canonical spells a checked document as a database gives it back. Marks stay.
func canonical(rec storage.Record) ([]byte, error) {
	doc, err := jsonscan.Canonical(rec.Document)
	if err != nil {
		return nil, &storage.InputError{Kind: storage.ErrInvalidDocument, Key: rec.Key, Field: "document", Reason: err.Error()}
	}
	return doc, nil
}
