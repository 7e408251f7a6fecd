// Package migrations holds the versioned schema of runlane's PostgreSQL driver
// and applies it.
//
// The files beside this package are planned from ent/schema and are never edited
// once released. [Apply] brings a database up to date, [Plan] and [Status]
// say what it would do and what was done, [Verify] proves that a database is
// exactly where this build wants it. The same directory can be applied with the
// Atlas CLI: both keep one ledger, atlas_schema_revisions in the target schema,
// exclude each other by locks, and can take turns on one database.
//
//	conn, err := pgx.Connect(ctx, url)
//	…
//	result, err := migrations.Apply(ctx, conn, migrations.Options{})
//
// Every refusal is an [*Error] that names the file and says the mend; its kind is
// one of the sentinels, such as [ErrChanged], for errors.Is.
package migrations

import (
	"context"
	"embed"
	"io/fs"
	"time"

	"github.com/jackc/pgx/v5"
)

// Files is the migration directory: all files and atlas.sum.
//
//go:embed *.sql atlas.sum
var Files embed.FS

// SchemaVersion counts the released schemas. The baseline is version 1; a file
// that a driver of the version before cannot work with raises it.
const SchemaVersion = 1

// DefaultSchema is the schema that is used when Options names none.
const DefaultSchema = "runlane"

// DefaultLockWait bounds the wait for other runners when Options sets no bound.
const DefaultLockWait = 10 * time.Second

// DefaultIndexWait bounds each wait of an index build when Options sets no bound.
const DefaultIndexWait = 5 * time.Minute

// Options says where and how to migrate. The zero value is ready to use.
type Options struct {
	// Schema is the schema that holds runlane's tables, [DefaultSchema] if empty.
	// Any name that PostgreSQL accepts works, however it must be quoted.
	Schema string
	// Dir is the migration directory with its atlas.sum, [Files] if nil.
	Dir fs.FS
	// LockWait bounds the wait for other runners and for tables that others hold. It
	// is spent in short tries: whoever needs a table that a migration waits for is
	// held up by 100 ms at a time, and then has its turn. Zero is [DefaultLockWait];
	// below zero is one try.
	LockWait time.Duration
	// IndexWait bounds each wait of CREATE INDEX CONCURRENTLY for a transaction that
	// began before it, and holds nobody up. Zero or less is [DefaultIndexWait].
	IndexWait time.Duration
	// Progress, if set, is told of each step as it happens, on the caller's
	// goroutine. It must not use the connection.
	Progress func(Event)
}

// File is one file of the migration directory.
type File struct {
	Version    string // "20261130164122"
	Name       string // "20261130164122_initial.sql"
	Statements int
}

// Stage is a step that Progress is told of.
type Stage string

// The stages, in the order in which they come.
const (
	Waiting  Stage = "waiting"  // another runner holds the migration lock, or a session a table; files may begin anew after it
	Applying Stage = "applying" // the statement Event.Statement of a file is about to run
	Applied  Stage = "applied"  // all statements of a file have run; an index is built, anything else is not committed yet
)

// Event is one step of [Apply].
type Event struct {
	Stage     Stage
	File      File // empty while waiting
	Statement int  // from 1 to File.Statements, when Stage is Applying
}

// Result says what [Apply] did.
type Result struct {
	Schema  string
	Created bool   // the schema did not exist before
	Applied []File // in order; empty if there was nothing to do
	Version string // of the last file that the database now has
}

// Revision is a file that the database has.
type Revision struct {
	File
	AppliedAt time.Time
	Took      time.Duration
	By        string // the tool that applied it, as it names itself
}

// State is what a database has of the directory.
type State struct {
	Schema  string
	Exists  bool // whether the schema exists
	Applied []Revision
	Pending []File
	// Started says that the first of Pending, which builds an index, was begun: it is
	// under way, or its runner failed or was killed. [Apply] continues.
	Started bool
	// Invalid names indexes of runlane's tables that are not used because their
	// build was interrupted or is under way.
	Invalid []string
}

// Apply applies all pending files, in order. They and their ledger rows commit
// in one transaction: it applies everything or, on any error, nothing (if the
// connection dies during the commit itself the outcome is unknown, and calling
// Apply again is right in both cases). It creates the schema if there is none.
//
// A file marked "-- atlas:txmode none", which builds an index on a populated table,
// is the exception: it runs alone, and so the files before it commit together, and
// those after it do. With an error, Result says what was committed before it. Such a
// file needs a connection to the server itself: through a pooler nothing is applied
// and the error is [ErrPooled]. A build that fails is undone; what one leaves behind whose
// runner was killed is undone by the next Apply, which builds anew.
//
// Before a statement runs, the history in the ledger is proved to be a complete,
// unchanged prefix of the directory; see [Verify] for the errors. Any number of
// runners may call it at once: one migrates, the others wait, up to
// Options.LockWait, and find nothing to do. A wait that ends is [ErrLocked]. A
// database that has everything is only looked at; that needs no lock and no right
// but to read the ledger.
//
// It needs only conn, in any exec mode, also through a pooler in transaction
// mode (but for indexes), and leaves the session's settings as they were. conn must not be in a
// transaction.
func Apply(ctx context.Context, conn *pgx.Conn, o Options) (Result, error) {
	r, err := newRunner(conn, o)
	if err != nil {
		return Result{}, err
	}
	return r.apply(ctx)
}

// Plan returns the files that [Apply] would apply, in order. It takes no locks,
// changes nothing, and fails where Apply would refuse the history.
func Plan(ctx context.Context, conn *pgx.Conn, o Options) ([]File, error) {
	s, err := Status(ctx, conn, o)
	return s.Pending, err
}

// Status returns what the database has and what is pending. A database without
// the schema or without a ledger has nothing. A history that [Apply] would refuse is
// the same error here. It takes no locks, changes nothing, and works on a replica.
func Status(ctx context.Context, conn *pgx.Conn, o Options) (State, error) {
	r, err := newRunner(conn, o)
	if err != nil {
		return State{}, err
	}
	return r.status(ctx)
}

// Verify returns nil if the database has every file of the directory, complete and
// unchanged, and nothing else. Otherwise the error is one of
//
//   - [ErrInvalidIndex]: a build of an index was interrupted, or is under way
//   - [ErrPending]: files have not been applied
//   - [ErrChanged]: a file is not what was applied, or not what atlas.sum says
//   - [ErrIncomplete]: a file was applied in part, or only marked as applied
//   - [ErrMissing]: a file that was applied is gone from the directory
//   - [ErrReordered]: a file stands before one that was applied without it
//   - [ErrNewer]: the database has files from after the directory's last
//   - [ErrForeign]: tables of runlane without a ledger, or another tool's ledger
//   - [ErrPermission]: the role may not read the ledger
func Verify(ctx context.Context, conn *pgx.Conn, o Options) error {
	s, err := Status(ctx, conn, o)
	if err != nil {
		return err
	}
	switch {
	case len(s.Invalid) > 0:
		return invalidError(s)
	case len(s.Pending) > 0:
		return pendingError(s)
	}
	return nil
}
