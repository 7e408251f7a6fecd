// Package usage tells a command line that makes no sense from work that failed.
package usage

import "fmt"

// Error says what is wrong with the command line.
type Error struct{ text string }

func (e *Error) Error() string { return e.text }

// Errorf makes an Error.
func Errorf(format string, args ...any) error { return &Error{fmt.Sprintf(format, args...)} }
