package keys

import "strconv"

// Reason says why a value or a text was refused. It is a closed set; callers
// compare, they do not parse.
type Reason string

// The reasons of an [Error].
const (
	ReasonEmpty       Reason = "is empty"
	ReasonTooLong     Reason = "is longer than 255 bytes"
	ReasonNUL         Reason = "contains a NUL byte"
	ReasonInvalidUTF8 Reason = "is not valid UTF-8"
	ReasonColon       Reason = `contains ":"`
	ReasonTimeRange   Reason = "is a time outside the range of 64-bit microseconds"
	ReasonKind        Reason = "is an element of no known kind"
	ReasonMark        Reason = "holds a mark for the commit time where a value must stand"
	ReasonMalformed   Reason = "is not the encoding of a tuple"
	ReasonNotCanon    Reason = "is not the canonical encoding of a tuple"
	ReasonWrongKind   Reason = "is not the one element that is wanted here"
)

// Error is every error of this package.
type Error struct {
	// Field names what was checked, in the caller's words ("queue name"), or is
	// empty where the caller gave no name.
	Field string
	// Reason says what is wrong.
	Reason Reason
	// Offset is the byte in the given value or text where it went wrong; 0 when
	// the whole is meant.
	Offset int
}

// Error implements error. The value itself is left out: it may be long, and it
// may be private.
func (e *Error) Error() string {
	field := e.Field
	if field == "" {
		field = "value"
	}
	text := "keys: " + field + " " + string(e.Reason)
	if e.Offset > 0 {
		text += " (at byte " + strconv.Itoa(e.Offset) + ")"
	}
	return text
}
