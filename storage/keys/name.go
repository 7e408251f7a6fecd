package keys

import (
	"strings"
	"unicode/utf8"
)

// Limits on encoded text, in bytes. The storage package applies them, because
// only there partition, sort value and id meet.
const (
	// MaxPart bounds one encoded part: a partition, a sort value or an id.
	MaxPart = 1024
	// MaxTotal bounds partition, sort value and id together: a B-tree entry of
	// PostgreSQL holds 2,704 bytes, its own header among them.
	MaxTotal = 2600
	// MaxText bounds one name or key before encoding.
	MaxText = 255
)

// CheckText checks a key that a user chose (an idempotency key, say): valid
// UTF-8 without NUL, 1 to 255 bytes. The error is an [*Error] that carries
// field.
func CheckText(field, value string) error {
	switch {
	case value == "":
		return &Error{Field: field, Reason: ReasonEmpty}
	case len(value) > MaxText:
		return &Error{Field: field, Reason: ReasonTooLong}
	}
	if at := strings.IndexByte(value, 0); at >= 0 {
		return &Error{Field: field, Reason: ReasonNUL, Offset: at}
	}
	if !utf8.ValidString(value) {
		return &Error{Field: field, Reason: ReasonInvalidUTF8, Offset: invalidUTF8At(value)}
	}
	return nil
}

// CheckName checks the name of an environment, task or queue: as [CheckText],
// and without ":", which wake topics and command lines use to join names.
func CheckName(field, value string) error {
	if err := CheckText(field, value); err != nil {
		return err
	}
	if at := strings.IndexByte(value, ':'); at >= 0 {
		return &Error{Field: field, Reason: ReasonColon, Offset: at}
	}
	return nil
}

// invalidUTF8At finds the first byte that is not part of valid UTF-8, or -1.
func invalidUTF8At(s string) int {
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		if r == utf8.RuneError && size == 1 {
			return i
		}
		i += size
	}
	return -1
}
