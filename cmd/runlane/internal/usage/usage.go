// Package usage tells a command line that makes no sense from work that failed.
package usage

import (
	"errors"
	"fmt"
	"strings"

	"github.com/seed4391e180/runlane/storage"
)

// Error says what is wrong with the command line.
type Error struct{ text string }

func (e *Error) Error() string { return e.text }

// Errorf makes an Error.
func Errorf(format string, args ...any) error { return &Error{fmt.Sprintf(format, args...)} }

// OfStore makes an Error of what a store refuses to be asked; other errors pass.
func OfStore(err error) error {
	for _, kind := range []error{storage.ErrInvalidQuery, storage.ErrInvalidCursor, storage.ErrUnsupportedFilter, storage.ErrInvalidKey, storage.ErrTooLarge} {
		if errors.Is(err, kind) {
			return Errorf("%s", strings.TrimPrefix(err.Error(), "storage: "))
		}
	}
	return err
}
