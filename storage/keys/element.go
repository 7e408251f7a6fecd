package keys

import (
	"encoding/hex"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
)

// Kind is the type of an [Element].
type Kind uint8

// The kinds of elements. The two marks are placeholders: they encode, but no
// stored key or sort value holds one, and [Decode] refuses them.
const (
	KindInt Kind = iota + 1
	KindString
	KindUUID
	KindTime
	KindCommitTime
	KindCommitTimeLater
)

// The encodings of the two marks. A sort value that holds one is completed by
// the server, which puts an encoded time in its place. Neither byte occurs in
// the encoding of anything else.
const (
	MarkCommitTime      = "\x01"
	MarkCommitTimeLater = "\x02"
)

// The bytes of the format. Their order is what makes the encoding preserve
// order: terminator < escape < every content byte that stands for itself.
const (
	tagInt     = '#'
	tagString  = '$'
	tagUUID    = '%'
	tagTime    = '@'
	terminator = '!'
	escape     = '"'
	firstPlain = '#' // bytes below it are escaped inside strings

	hexDigits = "0123456789abcdef"
	intSize   = 1 + 16
	uuidSize  = 1 + 36
	signBit   = 1 << 63
)

// Element is one decoded element of a tuple. Only the field of its kind is
// set, so elements compare with ==.
type Element struct {
	Kind Kind
	// Str is the value of a KindString, unescaped.
	Str string
	// Int is the value of a KindInt, and of a KindTime the microseconds since
	// the Unix epoch.
	Int int64
	// UUID is the value of a KindUUID.
	UUID uuid.UUID
}

// Time returns the value of a KindTime, in UTC.
func (e Element) Time() time.Time { return time.UnixMicro(e.Int).UTC() }

// Append appends the encoding of the elements to dst. On an error it returns
// dst as it was. It allocates only if dst has no room.
func Append(dst []byte, elems ...Element) ([]byte, error) {
	out := dst
	for i := range elems {
		e := &elems[i]
		switch e.Kind {
		case KindInt:
			out = appendHex(out, tagInt, e.Int)
		case KindTime:
			out = appendHex(out, tagTime, e.Int)
		case KindUUID:
			out = appendUUID(out, e.UUID)
		case KindCommitTime:
			out = append(out, MarkCommitTime...)
		case KindCommitTimeLater:
			out = append(out, MarkCommitTimeLater...)
		case KindString:
			if _, err := measure(e.Str); err != nil {
				return dst, err
			}
			out = appendString(out, e.Str)
		default:
			return dst, &Error{Reason: ReasonKind, Offset: i}
		}
	}
	return out, nil
}

// Encode returns the encoding of the elements. Encode of no elements is "".
func Encode(elems ...Element) (string, error) {
	var room [inlineSize]byte
	out, err := Append(room[:0], elems...)
	if err != nil {
		return "", err
	}
	return string(out), nil
}

// micros floors t to microseconds since the Unix epoch. UnixMicro of the time
// package wraps around silently instead of failing.
func micros(t time.Time) (int64, bool) {
	const (
		perSecond          = 1_000_000
		minSecond, minRest = -9223372036855, 224192
		maxSecond, maxRest = 9223372036854, 775807
	)
	second, rest := t.Unix(), int64(t.Nanosecond()/1000)
	switch {
	case second < minSecond || second == minSecond && rest < minRest:
		return 0, false
	case second > maxSecond || second == maxSecond && rest > maxRest:
		return 0, false
	}
	// At minSecond the product alone overflows; the sum does not, and addition
	// of two's complements does not mind the order.
	return second*perSecond + rest, true
}

// measure checks a string and returns the size of its encoding.
func measure(s string) (int, error) {
	size := len(s) + 2
	for i := 0; i < len(s); i++ {
		if s[i] >= firstPlain {
			continue
		}
		if s[i] == 0 {
			return 0, &Error{Reason: ReasonNUL, Offset: i}
		}
		size += 2
	}
	if !utf8.ValidString(s) {
		return 0, &Error{Reason: ReasonInvalidUTF8, Offset: invalidUTF8At(s)}
	}
	return size, nil
}

func appendString(dst []byte, s string) []byte {
	dst = append(dst, tagString)
	from := 0
	for i := 0; i < len(s); i++ {
		if c := s[i]; c < firstPlain {
			dst = append(dst, s[from:i]...)
			dst = append(dst, escape, hexDigits[c>>4], hexDigits[c&15])
			from = i + 1
		}
	}
	dst = append(dst, s[from:]...)
	return append(dst, terminator)
}

// appendHex flips the sign bit, so that negative numbers sort first, and
// writes a fixed width, so that text order is number order.
func appendHex(dst []byte, tag byte, n int64) []byte {
	dst = append(dst, tag)
	bits := uint64(n) ^ signBit
	for shift := 60; shift >= 0; shift -= 4 {
		dst = append(dst, hexDigits[bits>>shift&15])
	}
	return dst
}

func appendUUID(dst []byte, id uuid.UUID) []byte {
	var text [uuidSize]byte
	text[0] = tagUUID
	hex.Encode(text[1:9], id[0:4])
	text[9] = '-'
	hex.Encode(text[10:14], id[4:6])
	text[14] = '-'
	hex.Encode(text[15:19], id[6:8])
	text[19] = '-'
	hex.Encode(text[20:24], id[8:10])
	text[24] = '-'
	hex.Encode(text[25:37], id[10:16])
	return append(dst, text[:]...)
}

// String encodes the tuple of one string.
func String(s string) (string, error) {
	size, err := measure(s)
	if err != nil {
		return "", err
	}
	if size == len(s)+2 {
		return string(tagString) + s + string(terminator), nil
	}
	return string(appendString(make([]byte, 0, size), s)), nil
}

// EncodeInt encodes the tuple of one integer.
func EncodeInt(n int64) string {
	var room [intSize]byte
	return string(appendHex(room[:0], tagInt, n))
}

// EncodeTime encodes the tuple of one time, floored to microseconds. It fails
// only for a time about 292,000 years away.
func EncodeTime(t time.Time) (string, error) {
	n, ok := micros(t)
	if !ok {
		return "", &Error{Reason: ReasonTimeRange}
	}
	var room [intSize]byte
	return string(appendHex(room[:0], tagTime, n)), nil
}

// EncodeUUID encodes the tuple of one UUID.
func EncodeUUID(id uuid.UUID) string {
	var room [uuidSize]byte
	return string(appendUUID(room[:0], id))
}
