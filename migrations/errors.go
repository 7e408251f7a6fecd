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
	// ErrInvalidIndex means that a build of an index was interrupted, or is under way:
	// the server keeps the index up to date and does not use it.
	ErrInvalidIndex = errors.New("index is invalid")
	// ErrPooled means that the file needs a session of its own, and that a pooler
	// stands between it and the server.
	ErrPooled = errors.New("connection goes through a pooler")
	// ErrSchemaName means that Options.Schema cannot be the name of a schema.
	ErrSchemaName = errors.New("invalid schema name")
)

// Error says why a migration was refused, or failed. Nothing of its file has been
// changed when it is returned, unless it says so.
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
func (r *runner) wrap(err error, file, detail, mend string) *Error {
	e := &Error{Schema: r.schema, File: file, Detail: detail, Cause: err}
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		switch pg.Code {
		case "42501": // insufficient_privilege
			e.Kind, e.Mend = ErrPermission, mend
		case "55P03": // lock_not_available
			e.Kind = ErrLocked
			e.Mend = "a session holds a table that the file changes; end its transaction, or raise LockWait"
		case "25001": // active_sql_transaction
			e.Mend = "begin a file that builds an index with the line -- atlas:txmode none"
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

func (r *runner) ledgerError(err error, m migration) error {
	return r.wrap(err, m.Name, "write the ledger", "GRANT INSERT, UPDATE ON "+quote(r.schema)+"."+ledgerTable+" TO …")
}

// invalidError says of an index that it is of no use, and what to do about it.
func invalidError(s State) error {
	e := &Error{Kind: ErrInvalidIndex, Schema: s.Schema, File: s.Invalid[0],
		Detail: "its build was interrupted, or is under way; nothing uses it, every write keeps it up to date"}
	if s.Started {
		e.Detail += "; the file that builds it is " + s.Pending[0].Name
		e.Mend = "apply the migrations again, which drops it and builds it anew, or wait for the runner that is at it"
		return e
	}
	e.Mend = "REINDEX INDEX CONCURRENTLY " + quote(s.Schema) + "." + quote(e.File) + ", or drop it if no migration made it"
	return e
}
