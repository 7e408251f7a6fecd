package jsonscan

import "strconv"

// Reason says why a document was refused. It is a closed set; callers compare,
// they do not parse.
type Reason string

// The reasons of an [Error].
const (
	ReasonSyntax      Reason = "is not valid JSON"
	ReasonControl     Reason = "holds a raw control character in a string"
	ReasonNUL         Reason = `holds the character \u0000, which PostgreSQL cannot store`
	ReasonSurrogate   Reason = "holds half of a surrogate pair"
	ReasonInvalidUTF8 Reason = "is not valid UTF-8"
	ReasonNumber      Reason = "holds a number outside the range of PostgreSQL's numeric"
	ReasonDepth       Reason = "is nested too deep"
	ReasonSize        Reason = "is too large"
	ReasonExpansion   Reason = "holds numbers that are too large when written out"
	ReasonNotString   Reason = "is not a JSON string"
)

// Error is every error of this package.
type Error struct {
	// Path leads from the root to the value at fault, as in
	// value.items[3].name or value["odd key"]. It is empty for the root. If a
	// key is at fault, it is the path of the object that has the key. Long
	// keys and long paths are shortened.
	Path string
	// Offset is the byte at which the document stops being acceptable.
	Offset int
	// Reason says what is wrong.
	Reason Reason
}

// Error implements error. It shows no part of the document but its keys.
func (e *Error) Error() string {
	what := e.Path
	if what == "" {
		what = "document"
	}
	return "json: " + what + " " + string(e.Reason) + " (at byte " + strconv.Itoa(e.Offset) + ")"
}
