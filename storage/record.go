package storage

import (
	"encoding/json"
	"strings"
	"time"
)

// Key names one record. Partition and ID are canonical encodings made by package
// keys; the partition of every collection is the environment and nothing else.
// Keys are compared with == and may be map keys.
type Key struct {
	Collection Collection
	Partition  string
	ID         string
}

// String shows the key in errors and logs.
func (k Key) String() string { return k.Collection.String() + "/" + k.Partition + "/" + k.ID }

// IsZero reports whether k names nothing.
func (k Key) IsZero() bool { return k == Key{} }

// Compare orders keys by collection, partition and id, byte by byte.
func (k Key) Compare(o Key) int {
	if d := k.Collection.Ordinal() - o.Collection.Ordinal(); d != 0 {
		return d
	}
	if d := strings.Compare(k.Partition, o.Partition); d != 0 {
		return d
	}
	return strings.Compare(k.ID, o.ID)
}

// Version is an opaque fence: a record that was written again has another
// version. Versions support equality and nothing else; they carry no order. The
// zero value is the version of no stored record.
type Version struct{ n int64 }

// MakeVersion is for drivers, which store versions as integers other than 0.
func MakeVersion(n int64) Version { return Version{n} }

// Int64 is for drivers; see [MakeVersion].
func (v Version) Int64() int64 { return v.n }

// IsZero reports whether v is the version of no stored record.
func (v Version) IsZero() bool { return v.n == 0 }

// Record is a key with a JSON document and its entries in named indexes.
//
// Reads fill Key, Version and Document. Entries go in and never come out: whoever
// writes a document derives them from it.
type Record struct {
	Key     Key
	Version Version // of what was read; ignored when writing
	// Document is JSON text. What is read back has the same value, not the same
	// bytes: key order, insignificant space and the spelling of numbers may change,
	// duplicate keys are resolved to the last one; no number loses a digit. The
	// caller must not modify a document that it handed in or was handed.
	//
	// A written document may contain [CommitTime] and [CommitTimeLater].
	Document json.RawMessage
	// Entries has at most one entry for each named index of the collection. An index
	// without one omits the record.
	Entries []Entry
	// Later is what CommitTimeLater adds to the commit time, in this record.
	Later time.Duration
}

// Entry places a record in a named index. An entry has both a partition and a
// sort value: half a pair is refused with ErrInvalidKey. The partition begins
// with the partition of the record's key, so no entry leaves its environment.
type Entry struct {
	Index     Index
	Partition string
	Sort      string // may be CommitTime or CommitTimeLater, as a whole or within a tuple
}

// The marks that the committing statement replaces with a time. Neither byte can
// stand in valid JSON text or in an encoded key, so nothing stored can be mistaken
// for one. In a document a mark is a whole string value, `"\x01"` with the raw
// byte between the quotes, and becomes the time as "2006-01-02T15:04:05.000000Z".
// In the sort value of an entry it is one element of the tuple and becomes the
// encoded time. All marks of one transaction get one time, read from the
// database's clock after the locks of the transaction were taken.
const (
	CommitTime      = "\x01" // the time at which the transaction commits
	CommitTimeLater = "\x02" // that time plus the record's Later
)

// TimeFormat is how times stand in documents: UTC with microseconds.
const TimeFormat = "2006-01-02T15:04:05.000000Z"
