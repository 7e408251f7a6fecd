package keys

import (
	"errors"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
)

// Next decodes the first element of text and returns what follows it. Empty
// text, a mark, and anything that [Append] would not have written is an
// [*Error]. It allocates only for a string that has escapes.
func Next(text string) (e Element, rest string, err error) {
	kind, end, escapes, err := scan(text)
	if err != nil {
		return Element{}, "", err
	}
	e.Kind = kind
	switch kind {
	case KindInt, KindTime:
		e.Int = hexInt(text[1:end])
	case KindUUID:
		e.UUID = hexUUID(text[1:end])
	case KindString:
		e.Str = unescape(text[1:end-1], escapes)
	default:
		return Element{}, "", &Error{Reason: ReasonMark}
	}
	return e, text[end:], nil
}

// Decode returns the elements of an encoded tuple. It is total: any text gives
// elements or an [*Error]. It is canonical: if Decode(x) succeeds, Encode of
// its elements is x. A text with a mark is refused; "" is the empty tuple.
func Decode(text string) ([]Element, error) {
	var elems []Element
	for rest := text; rest != ""; {
		e, after, err := Next(rest)
		if err != nil {
			return nil, at(err, len(text)-len(rest))
		}
		elems, rest = append(elems, e), after
	}
	return elems, nil
}

// Check tells whether [Decode] would succeed, without decoding or allocating.
func Check(text string) error {
	_, err := check(text, false)
	return err
}

// CheckSort is [Check] for a sort value that is about to be written, in which
// marks may stand; marked says whether one does.
func CheckSort(text string) (marked bool, err error) { return check(text, true) }

func check(text string, marks bool) (marked bool, err error) {
	for pos := 0; pos < len(text); {
		kind, end, _, err := scan(text[pos:])
		if err != nil {
			return false, at(err, pos)
		}
		if kind >= KindCommitTime {
			if !marks {
				return false, &Error{Reason: ReasonMark, Offset: pos}
			}
			marked = true
		}
		pos += end
	}
	return marked, nil
}

// First returns the encoding of the first element alone: the prefix of text
// that all tuples with the same first element share.
func First(text string) (prefix string, err error) {
	kind, end, _, err := scan(text)
	if err != nil {
		return "", err
	}
	if kind >= KindCommitTime {
		return "", &Error{Reason: ReasonMark}
	}
	return text[:end], nil
}

// DecodeString decodes a tuple of exactly one string.
func DecodeString(text string) (string, error) {
	e, err := only(text, KindString)
	return e.Str, err
}

// DecodeInt decodes a tuple of exactly one integer.
func DecodeInt(text string) (int64, error) {
	e, err := only(text, KindInt)
	return e.Int, err
}

// DecodeTime decodes a tuple of exactly one time, in UTC.
func DecodeTime(text string) (time.Time, error) {
	e, err := only(text, KindTime)
	if err != nil {
		return time.Time{}, err
	}
	return e.Time(), nil
}

// DecodeUUID decodes a tuple of exactly one UUID.
func DecodeUUID(text string) (uuid.UUID, error) {
	e, err := only(text, KindUUID)
	return e.UUID, err
}

func only(text string, want Kind) (Element, error) {
	e, rest, err := Next(text)
	switch {
	case err != nil:
		return Element{}, err
	case e.Kind != want:
		return Element{}, &Error{Reason: ReasonWrongKind}
	case rest != "":
		return Element{}, &Error{Reason: ReasonWrongKind, Offset: len(text) - len(rest)}
	}
	return e, nil
}

// at moves an error found in a part of a text to its place in the whole.
func at(err error, offset int) error {
	var e *Error
	if errors.As(err, &e) {
		e.Offset += offset
	}
	return err
}

// scan finds the end of the first element and checks that it is canonical. It
// also counts the escapes of a string.
func scan(text string) (kind Kind, end, escapes int, err error) {
	if text == "" {
		return 0, 0, 0, &Error{Reason: ReasonEmpty}
	}
	switch text[0] {
	case tagInt:
		end, err = scanHex(text)
		return KindInt, end, 0, err
	case tagTime:
		end, err = scanHex(text)
		return KindTime, end, 0, err
	case tagUUID:
		end, err = scanUUID(text)
		return KindUUID, end, 0, err
	case tagString:
		end, escapes, err = scanString(text)
		return KindString, end, escapes, err
	case MarkCommitTime[0]:
		return KindCommitTime, 1, 0, nil
	case MarkCommitTimeLater[0]:
		return KindCommitTimeLater, 1, 0, nil
	}
	return 0, 0, 0, &Error{Reason: ReasonMalformed}
}

func scanHex(text string) (end int, err error) {
	if len(text) < intSize {
		return 0, &Error{Reason: ReasonMalformed, Offset: len(text)}
	}
	for i := 1; i < intSize; i++ {
		if nibble(text[i]) > 15 {
			return 0, refusedDigit(text, i)
		}
	}
	return intSize, nil
}

func scanUUID(text string) (end int, err error) {
	if len(text) < uuidSize {
		return 0, &Error{Reason: ReasonMalformed, Offset: len(text)}
	}
	for i := 1; i < uuidSize; i++ {
		switch i {
		case 9, 14, 19, 24:
			if text[i] != '-' {
				return 0, &Error{Reason: ReasonMalformed, Offset: i}
			}
		default:
			if nibble(text[i]) > 15 {
				return 0, refusedDigit(text, i)
			}
		}
	}
	return uuidSize, nil
}

func scanString(text string) (end, escapes int, err error) {
	for i := 1; i < len(text); i++ {
		switch c := text[i]; {
		case c >= firstPlain:
		case c == escape:
			if len(text) < i+3 {
				return 0, 0, &Error{Reason: ReasonMalformed, Offset: len(text)}
			}
			high, low := nibble(text[i+1]), nibble(text[i+2])
			switch c := high<<4 | low; {
			case high > 15:
				return 0, 0, refusedDigit(text, i+1)
			case low > 15:
				return 0, 0, refusedDigit(text, i+2)
			case c == 0:
				return 0, 0, &Error{Reason: ReasonNUL, Offset: i}
			case c >= firstPlain:
				return 0, 0, &Error{Reason: ReasonNotCanon, Offset: i}
			}
			escapes++
			i += 2
		case c == terminator:
			// Escapes are ASCII and stand for ASCII, so the escaped content is
			// valid UTF-8 exactly if the content is.
			if !utf8.ValidString(text[1:i]) {
				return 0, 0, &Error{Reason: ReasonInvalidUTF8, Offset: 1 + invalidUTF8At(text[1:i])}
			}
			return i + 1, escapes, nil
		case c == 0:
			return 0, 0, &Error{Reason: ReasonNUL, Offset: i}
		default:
			return 0, 0, &Error{Reason: ReasonNotCanon, Offset: i}
		}
	}
	return 0, 0, &Error{Reason: ReasonMalformed, Offset: len(text)}
}

// refusedDigit tells an uppercase digit, which means something but is not
// canonical, from a byte that is no digit at all.
func refusedDigit(text string, i int) error {
	if c := text[i]; c >= 'A' && c <= 'F' {
		return &Error{Reason: ReasonNotCanon, Offset: i}
	}
	return &Error{Reason: ReasonMalformed, Offset: i}
}

// nibble returns the value of a lowercase hexadecimal digit, or 255.
func nibble(c byte) byte {
	switch {
	case c >= '0' && c <= '9':
		return c - '0'
	case c >= 'a' && c <= 'f':
		return c - 'a' + 10
	}
	return 255
}

func hexInt(digits string) int64 {
	var bits uint64
	for i := 0; i < len(digits); i++ {
		bits = bits<<4 | uint64(nibble(digits[i]))
	}
	return int64(bits ^ signBit)
}

func hexUUID(text string) (id uuid.UUID) {
	n := 0
	for i := 0; i < len(text); i++ {
		if text[i] == '-' {
			continue
		}
		id[n] = nibble(text[i])<<4 | nibble(text[i+1])
		n++
		i++
	}
	return id
}

func unescape(content string, escapes int) string {
	if escapes == 0 {
		return content
	}
	var b strings.Builder
	b.Grow(len(content) - 2*escapes)
	for i := 0; i < len(content); i++ {
		c := content[i]
		if c == escape {
			c = nibble(content[i+1])<<4 | nibble(content[i+2])
			i += 2
		}
		b.WriteByte(c)
	}
	return b.String()
}
