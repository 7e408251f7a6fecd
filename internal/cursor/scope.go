package cursor

import (
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"slices"
	"time"

	"github.com/seed4391e180/runlane/storage"
)

// Runs is the scope of a listing of runs. Limit, Full and Cursor do not take part.
func Runs(f storage.RunFilter) Scope {
	d := newDigest()
	d.text(f.Environment)
	texts(d, f.Statuses)
	texts(d, f.Tasks)
	texts(d, f.Queues)
	texts(d, f.SourceTypes)
	d.text(f.SourceRun)
	d.text(f.Schedule)
	d.text(f.IdempotencyKey)
	d.text(f.SingletonKey)
	d.text(f.ConcurrencyKey)
	d.span(f.Created)
	d.span(f.Updated)
	d.span(f.Due)
	d.span(f.LeaseExpiry)
	d.number(int64(f.Sort))
	d.number(int64(f.Direction))
	return d.scope(kindRuns)
}

// Events is the scope of a listing of events. Limit and Cursor do not take part.
func Events(f storage.EventFilter) Scope {
	d := newDigest()
	d.text(f.Environment)
	d.text(f.RunID)
	texts(d, f.Types)
	d.span(f.Occurred)
	d.number(int64(f.Sort))
	d.number(int64(f.Direction))
	return d.scope(kindEvents)
}

// digest hashes fields so that different filters never feed it the same bytes:
// each field has a fixed size or begins with its length.
type digest struct{ hash hash.Hash }

func newDigest() digest { return digest{sha256.New()} }

func (d digest) number(n int64) {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], uint64(n))
	d.hash.Write(b[:])
}

func (d digest) text(s string) {
	d.number(int64(len(s)))
	d.hash.Write([]byte(s))
}

// texts hashes a choice of values, whose order and repetitions mean nothing.
func texts[S ~string](d digest, values []S) {
	sorted := slices.Clone(values)
	slices.Sort(sorted)
	sorted = slices.Compact(sorted)
	d.number(int64(len(sorted)))
	for _, v := range sorted {
		d.text(string(v))
	}
}

func (d digest) span(r storage.TimeRange) {
	d.moment(r.From)
	d.moment(r.Until)
}

// moment hashes an instant, whatever its location.
func (d digest) moment(t time.Time) {
	d.number(t.Unix())
	d.number(int64(t.Nanosecond()))
}

func (d digest) scope(kind byte) Scope {
	s := Scope{kind: kind}
	copy(s.digest[:], d.hash.Sum(nil))
	return s
}
