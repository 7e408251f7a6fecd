package postgres

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/seed4391e180/runlane/internal/txn"
	"github.com/seed4391e180/runlane/storage"
)

// SQLSTATEs that the driver tells apart, see
// https://www.postgresql.org/docs/current/errcodes-appendix.html
const (
	stateSerialization  = "40001"
	stateDeadlock       = "40P01"
	stateLockTimeout    = "55P03"
	stateIdleTimeout    = "25P03"
	stateUnique         = "23505"
	stateQueryCanceled  = "57014"
	stateReadOnly       = "25006"
	stateOutOfMemory    = "53200" // also: no slot left in the lock table
	stateNoSchema       = "3F000"
	stateNoTable        = "42P01"
	stateNoColumn       = "42703"
	stateNoFunction     = "42883"
	stateNoPrivilege    = "42501"
	stateInvalidText    = "22P02"
	stateUntranslatable = "22P05"
	stateOutOfRange     = "22003"
	stateNoStatement    = "26000"
	stateTwoStatements  = "42P05"
	stateNoDatabase     = "3D000"
	stateInvalidAuth    = "28000"
	stateInvalidPass    = "28P01"
	stateTooMuch        = "54000" // also: no room left in the notification queue
	stateUnsupported    = "0A000" // also: a prepared statement's result would change its type
)

const mendMigrate = "apply the migrations to this schema (`runlane migrate apply`, or `atlas migrate apply --env deploy`) or name the right schema"

const mendPooler = "if a pooler in transaction mode stands before the database that knows no prepared statements, as PgBouncer before 1.21, choose another of pgx's exec modes, such as default_query_exec_mode=cache_describe in the URL"

const mendGrants = "run, as the schema's owner, what `runlane migrate grants` prints for the role that the application connects as"

// classify turns an error of a statement that did not commit into the contract's.
// groups are those of the statement, to find the key that a failed check is about;
// lockKeys the keys whose locks were tried.
func classify(ctx context.Context, err error, groups []*group, lockKeys []storage.Key) error {
	if err == nil {
		return nil
	}
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return ctx.Err()
	}
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		if stale := (*txn.Replay)(nil); errors.As(err, &stale) {
			return err
		}
		return lostConnection(err)
	}
	switch pg.Code {
	case stateSerialization:
		return failedCheck(pg, groups, lockKeys)
	case stateDeadlock:
		return &txn.Replay{Reason: storage.ReasonDeadlock, Err: pg}
	case stateLockTimeout:
		return &txn.Replay{Reason: storage.ReasonLocked, Err: pg}
	case stateIdleTimeout:
		return lostConnection(pg)
	case stateUnique:
		return uniqueViolation(pg, groups)
	case stateQueryCanceled:
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return unavailable(pg)
	case stateReadOnly:
		return unavailable(pg)
	case stateOutOfMemory:
		return &txn.Replay{Reason: storage.ReasonLockTable, Err: pg, Final: unavailable(pg)}
	case stateTooMuch:
		return &txn.Replay{Reason: storage.ReasonWakes, Err: pg, Final: unavailable(pg), Quiet: true}
	case stateUnsupported:
		if pg.Routine == "RevalidateCachedQuery" { // pgx has dropped the statement
			return &txn.Replay{Reason: storage.ReasonSchema, Err: pg, Final: unavailable(pg)}
		}
	case stateInvalidText, stateUntranslatable, stateOutOfRange:
		return &storage.InputError{Kind: storage.ErrInvalidDocument, Reason: "refused by the database: " + pg.Message}
	}
	if known := configuration(pg); known != nil {
		return known
	}
	if class := pg.Code[:2]; class == "08" || class == "53" || class == "57" {
		if pg.SeverityUnlocalized == "FATAL" {
			return lostConnection(pg)
		}
		return unavailable(pg)
	}
	return fmt.Errorf("storage/postgres: %w", pg)
}

// deadlineCode is the code of a commit that arrived too late.
const deadlineCode = "deadline"

// failedCheck reads the code that runlane_assert_record_write left in the detail.
func failedCheck(pg *pgconn.PgError, groups []*group, lockKeys []storage.Key) error {
	code := pg.Detail
	if code == "isolation" {
		return &storage.ConfigurationError{
			Problem: "the default transaction isolation is not read committed",
			Mend:    "set default_transaction_isolation to 'read committed' for this role and database",
		}
	}
	switch code {
	case deadlineCode:
		return &txn.Replay{Reason: storage.ReasonDeadline}
	case "busy":
		return &txn.Replay{Reason: storage.ReasonLocked}
	case "items", "heads":
		return &txn.Replay{Reason: storage.ReasonExists}
	}
	if place, ok := strings.CutPrefix(code, "busy "); ok {
		stale := &txn.Replay{Reason: storage.ReasonLocked}
		if i, err := strconv.Atoi(place); err == nil && i >= 1 && i <= len(lockKeys) {
			stale.Key = lockKeys[i-1]
		}
		return stale
	}
	g := groupAt(groups, code)
	if g == nil {
		return &txn.Replay{Reason: storage.ReasonSerialization, Err: pg}
	}
	stale := &txn.Replay{Reason: storage.ReasonChanged}
	if g.kind == insertGroup {
		stale.Reason = storage.ReasonExists
	}
	if len(g.keys) == 1 {
		stale.Key = g.keys[0]
	}
	return stale
}

// uniqueViolation is a key that was created between the check and the write, or
// the rule of one active run for a singleton key. The second is told to the caller
// when it happens again in a new attempt, whose reads could have seen it.
func uniqueViolation(pg *pgconn.PgError, groups []*group) error {
	if pg.ConstraintName == "runlane_runs_active_singleton" {
		return &txn.Replay{Reason: storage.ReasonExists, Err: pg, Final: duplicateActive(pg, groups)}
	}
	return &txn.Replay{Reason: storage.ReasonExists, Err: pg}
}

// duplicateActive finds out which write was refused. The detail has the index's key,
// "Key (environment_key, task, singleton_key)=(…, …, …) already exists." in the
// language of the server, but its parts may contain what separates them. So it is
// compared with what was to be written; if that leaves a choice, the detail is all that
// is known.
func duplicateActive(pg *pgconn.PgError, groups []*group) error {
	dup := &storage.DuplicateActiveError{Detail: pg.Detail}
	refused := make(map[storage.RunColumns]bool)
	for _, g := range groups {
		for _, h := range g.holders {
			if strings.Contains(pg.Detail, "=("+g.partition+", "+h.Task+", "+h.SingletonKey+")") {
				refused[h] = true
			}
		}
	}
	if len(refused) == 1 {
		for h := range refused {
			dup.Environment, dup.Task, dup.SingletonKey = h.Environment, h.Task, h.SingletonKey
		}
	}
	return dup
}

// configuration recognises what a person has to mend; nil for anything else.
func configuration(pg *pgconn.PgError) error {
	var mend string
	switch pg.Code {
	case stateNoSchema, stateNoTable, stateNoColumn, stateNoFunction:
		mend = mendMigrate
	case stateNoPrivilege:
		mend = mendGrants
	case stateNoStatement, stateTwoStatements:
		mend = mendPooler
	case stateNoDatabase:
		mend = "create the database or correct the URL"
	case stateInvalidAuth, stateInvalidPass:
		mend = "correct user and password in the URL, or pg_hba.conf"
	default:
		return nil
	}
	return &storage.ConfigurationError{Problem: pg.Message, Mend: mend, Err: pg}
}

// lostConnection is a connection that died before anything was committed on it:
// the attempt replays once on another one.
func lostConnection(err error) error {
	return &txn.Replay{Reason: storage.ReasonConnection, Err: err, Final: unavailable(err)}
}

// connectError is a connection that could not be made.
func connectError(err error) error {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		if known := configuration(pg); known != nil {
			return known
		}
	}
	return unavailable(err)
}

func unavailable(err error) error {
	return fmt.Errorf("%w: %w", storage.ErrUnavailable, err)
}

// readError is the answer to an operator read, which is not replayed: what makes a
// transaction stale is unavailability here.
func readError(err error) error {
	var stale *txn.Replay
	if errors.As(err, &stale) {
		if stale.Final != nil {
			return stale.Final
		}
		return unavailable(stale)
	}
	return err
}
