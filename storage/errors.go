package storage

import (
	"errors"
	"fmt"
)

// The errors of the contract. Match them with errors.Is; details come with the
// typed errors below, matched with errors.As. Nothing depends on an error's text.
var (
	ErrConflict          = errors.New("storage: conflict")                  // attempts used up; retryable
	ErrUnavailable       = errors.New("storage: unavailable")               // the database cannot be reached or does not take writes now; retryable
	ErrCommitUnknown     = errors.New("storage: outcome of commit unknown") // the caller must look
	ErrRecordExists      = errors.New("storage: record exists")             // Create of a record that is present
	ErrRecordNotRead     = errors.New("storage: record not read")           // Replace or Delete of what was not read present
	ErrReadOnlyKey       = errors.New("storage: key was read as read-only") // a write to such a key
	ErrDuplicateActive   = errors.New("storage: another active run")        // holds the singleton key
	ErrInvalidDocument   = errors.New("storage: invalid document")
	ErrInvalidKey        = errors.New("storage: invalid key")
	ErrInvalidQuery      = errors.New("storage: invalid query")
	ErrInvalidCursor     = errors.New("storage: invalid cursor")
	ErrUnsupportedFilter = errors.New("storage: unsupported filter")
	ErrTooLarge          = errors.New("storage: too large")
	ErrTooMany           = errors.New("storage: too many")
	ErrConfiguration     = errors.New("storage: configuration") // the message says the mend; never retried
	ErrNestedTransaction = errors.New("storage: nested transaction")
	ErrSealed            = errors.New("storage: read set is sealed")
	ErrAppendJoined      = errors.New("storage: append within a joined transaction") // it would hold the stream until the caller commits
	ErrClosed            = errors.New("storage: closed")
)

// Retryable reports whether the same call may succeed later, unchanged.
func Retryable(err error) bool {
	return !errors.Is(err, ErrCommitUnknown) && (errors.Is(err, ErrConflict) || errors.Is(err, ErrUnavailable))
}

// ConflictError says that a transaction used up its attempts. It is ErrConflict.
type ConflictError struct {
	Label    string
	Reason   Reason // of the last attempt
	Key      Key    // what the last attempt conflicted on; zero if not known
	Attempts int    // those included whose callback did not run, since their locks stayed busy
	Err      error  // the database's error; may be nil
}

// Reason is why an attempt had to be replayed.
type Reason string

// The reasons.
const (
	ReasonChanged       Reason = "dependency changed" // a record that was read was written, or an absent one created
	ReasonLocked        Reason = "lock busy"
	ReasonExists        Reason = "record created concurrently"
	ReasonSerialization Reason = "serialization failure" // reported by the database
	ReasonDeadlock      Reason = "deadlock"
	ReasonPool          Reason = "no free connection"
	ReasonConnection    Reason = "connection lost"
	ReasonDeadline      Reason = "commit arrived after its deadline"
	ReasonLockTable     Reason = "lock table full"
	ReasonWakes         Reason = "notification queue full" // the next attempt sends no hints
	ReasonSchema        Reason = "schema changed"          // under a prepared statement
)

func (e *ConflictError) Error() string {
	msg := fmt.Sprintf("storage: transaction %q conflicted after %d attempts: %s", e.Label, e.Attempts, e.Reason)
	if !e.Key.IsZero() {
		msg += " on " + e.Key.String()
	}
	if e.Err != nil {
		msg += ": " + e.Err.Error()
	}
	return msg
}

// Is makes every ConflictError an ErrConflict.
func (e *ConflictError) Is(target error) bool { return target == ErrConflict }

func (e *ConflictError) Unwrap() error { return e.Err }

// CommitUnknownError says that the outcome of a commit could not be learnt: the
// effect happened once or not at all. It is ErrCommitUnknown.
type CommitUnknownError struct {
	Label string
	Err   error
}

func (e *CommitUnknownError) Error() string {
	return fmt.Sprintf("storage: transaction %q: outcome of commit unknown: %v", e.Label, e.Err)
}

// Is makes every CommitUnknownError an ErrCommitUnknown.
func (e *CommitUnknownError) Is(target error) bool { return target == ErrCommitUnknown }

func (e *CommitUnknownError) Unwrap() error { return e.Err }

// DuplicateActiveError names the run that a write collided with. It is
// ErrDuplicateActive.
type DuplicateActiveError struct {
	Environment, Task, SingletonKey string
	RunID                           string // "" if the run has ended meanwhile, or belongs to the same transaction
	Detail                          string // the database's words
}

func (e *DuplicateActiveError) Error() string {
	return fmt.Sprintf("storage: another active run %q of task %q holds singleton key %q (environment %q)", e.RunID, e.Task, e.SingletonKey, e.Environment)
}

// Is makes every DuplicateActiveError an ErrDuplicateActive.
func (e *DuplicateActiveError) Is(target error) bool { return target == ErrDuplicateActive }

// InputError refuses a call before anything was sent. Kind is ErrInvalidDocument,
// ErrInvalidKey, ErrInvalidQuery, ErrInvalidCursor, ErrUnsupportedFilter,
// ErrTooLarge, ErrTooMany, ErrRecordExists, ErrRecordNotRead, ErrReadOnlyKey,
// ErrSealed or ErrAppendJoined.
type InputError struct {
	Kind   error
	Key    Key    // the record concerned; zero if none
	Field  string // what was wrong: a path within the document, or a field
	Reason string
	Limit  int // the limit exceeded; 0 if none
}

func (e *InputError) Error() string {
	msg := e.Kind.Error()
	if !e.Key.IsZero() {
		msg += " (" + e.Key.String() + ")"
	}
	if e.Field != "" {
		msg += ": " + e.Field
	}
	if e.Reason != "" {
		msg += ": " + e.Reason
	}
	if e.Limit != 0 {
		msg += fmt.Sprintf(" (limit %d)", e.Limit)
	}
	return msg
}

func (e *InputError) Unwrap() error { return e.Kind }

// ConfigurationError says what is wrong with the database and how to mend it. It
// is ErrConfiguration.
type ConfigurationError struct {
	Problem string
	Mend    string
	Err     error // the database's error; may be nil
}

func (e *ConfigurationError) Error() string {
	msg := "storage: configuration: " + e.Problem + "; " + e.Mend
	if e.Err != nil {
		msg += ": " + e.Err.Error()
	}
	return msg
}

// Is makes every ConfigurationError an ErrConfiguration.
func (e *ConfigurationError) Is(target error) bool { return target == ErrConfiguration }

func (e *ConfigurationError) Unwrap() error { return e.Err }
