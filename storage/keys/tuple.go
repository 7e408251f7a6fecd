package keys

import (
	"time"

	"github.com/google/uuid"
)

// inlineSize holds an ordinary key without the heap: a name and two UUIDs.
const inlineSize = 112

// Tuple builds the text of a tuple, element after element. It is a value: each
// method returns a longer tuple and leaves the one it was called on alone, so
// a common beginning can be kept and extended in several ways.
//
// The first error sticks and is returned by [Tuple.Text].
type Tuple struct {
	err  error
	size int
	// The text is in room as long as it fits, and then in spill, which is never
	// written to again once a Tuple holds it.
	room  [inlineSize]byte
	spill []byte
}

// New returns the empty tuple. The zero Tuple is the same.
func New() Tuple { return Tuple{} }

// String adds a string: valid UTF-8 without NUL, of any length.
func (t Tuple) String(s string) Tuple {
	if t.err != nil {
		return t
	}
	size, err := measure(s)
	if err != nil {
		t.err = err
		return t
	}
	if dst, ok := t.inline(size); ok {
		appendString(dst, s)
		return t
	}
	t.spill = appendString(t.moved(size), s)
	return t
}

// Int adds a signed integer.
func (t Tuple) Int(n int64) Tuple { return t.hex(tagInt, n) }

// Time adds a time, floored to microseconds; its location does not matter. A
// time whose microseconds do not fit 64 bits is an error.
func (t Tuple) Time(at time.Time) Tuple {
	n, ok := micros(at)
	if !ok {
		if t.err == nil {
			t.err = &Error{Reason: ReasonTimeRange}
		}
		return t
	}
	return t.hex(tagTime, n)
}

// UUID adds a UUID.
func (t Tuple) UUID(id uuid.UUID) Tuple {
	if t.err != nil {
		return t
	}
	if dst, ok := t.inline(uuidSize); ok {
		appendUUID(dst, id)
		return t
	}
	t.spill = appendUUID(t.moved(uuidSize), id)
	return t
}

// CommitTime adds the mark for the commit time. It belongs in sort values
// only: the server puts the encoded time in its place.
func (t Tuple) CommitTime() Tuple { return t.mark(MarkCommitTime) }

// CommitTimeLater adds the mark for a time that the server derives from the
// commit time. It belongs in sort values only.
func (t Tuple) CommitTimeLater() Tuple { return t.mark(MarkCommitTimeLater) }

// Text returns the encoding, or the first error. The empty tuple is "".
func (t Tuple) Text() (string, error) {
	switch {
	case t.err != nil:
		return "", t.err
	case t.spill != nil:
		return string(t.spill), nil
	}
	return string(t.room[:t.size]), nil
}

func (t Tuple) hex(tag byte, n int64) Tuple {
	if t.err != nil {
		return t
	}
	if dst, ok := t.inline(intSize); ok {
		appendHex(dst, tag, n)
		return t
	}
	t.spill = appendHex(t.moved(intSize), tag, n)
	return t
}

func (t Tuple) mark(mark string) Tuple {
	if t.err != nil {
		return t
	}
	if dst, ok := t.inline(len(mark)); ok {
		_ = append(dst, mark...)
		return t
	}
	t.spill = append(t.moved(len(mark)), mark...)
	return t
}

// inline reserves size bytes of room, if there are as many.
func (t *Tuple) inline(size int) ([]byte, bool) {
	if t.spill != nil || t.size+size > inlineSize {
		return nil, false
	}
	dst := t.room[t.size:t.size:inlineSize]
	t.size += size
	return dst, true
}

// moved copies what there is to a slice of its own with space for size more:
// sharing one with another Tuple would let two extensions overwrite each other.
func (t *Tuple) moved(size int) []byte {
	from := t.spill
	if from == nil {
		from = t.room[:t.size]
	}
	return append(make([]byte, 0, len(from)+size), from...)
}
