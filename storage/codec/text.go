package codec

import (
	"encoding/json"
	"errors"
	"math"
	"strings"

	"github.com/seed4391e180/runlane/internal/jsonscan"
	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/keys"
)

// CleanText returns s with NUL and invalid UTF-8 replaced by U+FFFD, so that
// whatever a worker has to say, the message of a panic for instance, can be stored.
func CleanText(s string) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	return strings.ReplaceAll(s, "\x00", "\uFFFD")
}

// PrintedSize is the size of JSON text with its numbers written out, as a database
// gives it back. Text that no document can hold has its own size; it is refused where
// it is encoded.
func PrintedSize(text json.RawMessage) int {
	info, err := jsonscan.Check(text, jsonscan.Limits{MaxBytes: math.MaxInt})
	if err != nil {
		return len(text)
	}
	return len(text) + info.Growth
}

func checkName(f field, s string) error { return inputError(f.String(), keys.CheckName(f.String(), s)) }

func checkText(f field, s string) error { return inputError(f.String(), keys.CheckText(f.String(), s)) }

// checkOptional is checkText for a text that may be absent.
func checkOptional(f field, s string) error {
	if s == "" {
		return nil
	}
	return checkText(f, s)
}

// checkFree checks a text of any length, "" included.
func checkFree(f field, s string) error { return jsonError(f, jsonscan.CheckString(s)) }

// checkJSON checks raw JSON that stands in a document under so many levels; nil
// is none. Its size counts when the whole document is checked, which is the
// driver's to do.
func checkJSON(f field, text json.RawMessage, levels int) error {
	if text == nil {
		return nil
	}
	_, err := jsonscan.Check(text, jsonscan.Limits{MaxBytes: math.MaxInt, MaxDepth: jsonscan.DefaultMaxDepth - levels})
	return jsonError(f, err)
}

func invalid(f field, reason string) error {
	return &storage.InputError{Kind: storage.ErrInvalidDocument, Field: f.String(), Reason: reason}
}

// jsonError says in the words of the contract what package jsonscan refused; the
// path begins with the field.
func jsonError(f field, err error) error {
	if err == nil {
		return nil
	}
	refused := &storage.InputError{Kind: storage.ErrInvalidDocument, Field: f.String(), Reason: err.Error()}
	if e := (*jsonscan.Error)(nil); errors.As(err, &e) {
		refused.Reason = string(e.Reason)
		if e.Path != "" && e.Path[0] != '[' {
			refused.Field += "."
		}
		refused.Field += e.Path
	}
	return refused
}
