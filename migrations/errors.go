package migrations

import (
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// The kinds of an [*Error], to be matched with errors.Is.
var (
	// ErrPending means that files of the directory have not been applied.
	ErrPending = errors.New("migrations are pending")
	// ErrChanged means that a file is not the one that was applied or planned.
	ErrChanged = errors.New("migration file was changed")
	// ErrIncomplete means that the ledger has a file that was not applied to its end.
	ErrIncomplete = errors.New("migration is incomplete")
	// ErrMissing means that a file that was applied is not in the directory.
	ErrMissing = errors.New("applied migration is missing")
	// ErrReordered means that a file stands before files that were applied without it.
	ErrReordered = errors.New("migrations are out of order")
	// ErrNewer means that the database was migrated by a later build.
	ErrNewer = errors.New("database is newer")
	// ErrForeign means that the schema is not runlane's to migrate.
	ErrForeign = errors.New("schema has a history of its own")
	// ErrLocked means that the wait for a lock ended.
	ErrLocked = errors.New("migration lock is held")
	// ErrPermission means that the role may not do what the migration needs.
	ErrPermission = errors.New("permission denied")
	// ErrSchemaName means that Options.Schema cannot be the name of a schema.
	ErrSchemaName = errors.New("invalid schema name")
)

// Error says why a migration was refused. Nothing has been changed when it is
// returned.
type Error struct {
	Kind   error  // one of the sentinels of this package, or nil for a statement that failed
	Schema string // the target schema, as given
	File   string // the file it is about, or else the version in the ledger; may be empty
	Detail string // what was found
	Mend   string // what to do about it
	Cause  error  // the error beneath, if there is one
}

// Error names the file, what is wrong with it, and the mend.
func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "migrations: schema %q", e.Schema)
	if e.File != "" {
		fmt.Fprintf(&b, ": %s", e.File)
	}
	if e.Kind != nil {
		fmt.Fprintf(&b, ": %v", e.Kind)
	}
	if e.Detail != "" {
		fmt.Fprintf(&b, ": %s", e.Detail)
	}
	if e.Cause != nil {
		fmt.Fprintf(&b, ": %v", e.Cause)
	}
	if e.Mend != "" {
		fmt.Fprintf(&b, " (%s)", e.Mend)
	}
	return b.String()
}

// Unwrap makes errors.Is match the kind and errors.As find the cause.
func (e *Error) Unwrap() []error {
	var errs []error
	if e.Kind != nil {
		errs = append(errs, e.Kind)
	}
	if e.Cause != nil {
		errs = append(errs, e.Cause)
	}
	return errs
}

// wrap gives an error of the server its kind. mend is said only where the role
// lacks a permission.
func (r *runner) wrap(err error, file, detail, mend string) error {
	e := &Error{Schema: r.schema, File: file, Detail: detail, Cause: err}
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		switch pg.Code {
		case "42501": // insufficient_privilege
			e.Kind, e.Mend = ErrPermission, mend
		case "55P03": // lock_not_available
			e.Kind = ErrLocked
			e.Mend = "a session holds a table that the file changes; end its transaction, or raise LockWait"
		}
	}
	return e
}

func pendingError(s State) error {
	names := make([]string, len(s.Pending))
	for i, f := range s.Pending {
		names[i] = f.Name
	}
	detail := strings.Join(names, ", ")
	if !s.Exists {
		detail = "the schema does not exist; pending are " + detail
	}
	return &Error{Kind: ErrPending, Schema: s.Schema, File: s.Pending[0].Name, Detail: detail,
		Mend: "apply the migrations: `runlane migrate apply`, migrations.Apply, or `atlas migrate apply`"}
}
