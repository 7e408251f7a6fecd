package migrations

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// CREATE INDEX CONCURRENTLY runs in several transactions of its own. So its file is
// alone, its locks are the session's, and its row is written twice, as the Atlas CLI
// does: before the statement, and after it.

// trySessionLocks takes the locks of [tryLocks] for the session, both or none.
const trySessionLocks = `SELECT CASE WHEN pg_catalog.pg_try_advisory_lock(2686470616)
  THEN CASE WHEN pg_catalog.pg_try_advisory_lock(pg_catalog.hashtextextended('runlane_migrations:' || $1::text, 0)) THEN true
    ELSE NOT pg_catalog.pg_advisory_unlock(2686470616) END
  ELSE false END`

const sessionUnlock = `SELECT pg_catalog.pg_advisory_unlock(pg_catalog.hashtextextended('runlane_migrations:' || $1::text, 0)),
  pg_catalog.pg_advisory_unlock(2686470616)`

// alone builds the index of the next file, which seems to be m.
func (r *runner) alone(ctx context.Context, m migration, res *Result) (next step, err error) {
	if err := r.requireDirect(ctx, r.conn, m); err != nil {
		return finished, err
	}
	var locked bool
	if err := r.conn.QueryRow(ctx, trySessionLocks, r.mode, r.schema).Scan(&locked); err != nil {
		return finished, r.wrap(err, "", "take the migration lock", "")
	}
	if !locked {
		return busy, nil
	}
	defer func() { err = errors.Join(err, r.afterwards(ctx, sessionUnlock, r.schema)) }()
	restore, err := r.setSession(ctx)
	if err != nil {
		return finished, err
	}
	defer func() { err = errors.Join(err, restore()) }()

	m, started, found, err := r.begin(ctx)
	if err != nil || m.index == "" {
		return advanced, err
	}
	if err := r.build(ctx, m, started && found.valid, found.exists && !found.valid); err != nil {
		return finished, err
	}
	res.did(false, m.File)
	return advanced, nil
}

// querier is the part of a connection and of a transaction that asks for one row.
type querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// requireDirect refuses a pooler, before anything is left in a session that may be
// somebody else's in a moment. A server tells its client the number of its process
// when the client connects; a pooler tells one of its own making, whatever process
// serves a statement.
func (r *runner) requireDirect(ctx context.Context, q querier, m migration) error {
	var pid int64
	if err := q.QueryRow(ctx, `SELECT pg_catalog.pg_backend_pid()::bigint`, r.mode).Scan(&pid); err != nil {
		return r.wrap(err, "", "look for a pooler", "")
	}
	if told := int64(r.conn.PgConn().PID()); told != pid {
		return &Error{Kind: ErrPooled, Schema: r.schema, File: m.Name,
			Detail: fmt.Sprintf("it builds an index in a session of its own, but the process that serves the connection is %d, and the one it was told of is %d", pid, told),
			Mend:   "connect to the server itself for migrations"}
	}
	return nil
}

// afterwards runs a statement although the context may be cancelled. A session that
// it cannot clean up is closed, which ends it as well.
func (r *runner) afterwards(ctx context.Context, sql string, args ...any) error {
	if r.conn.IsClosed() {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
	defer cancel()
	if _, err := r.conn.Exec(ctx, sql, append([]any{r.mode}, args...)...); err != nil {
		return errors.Join(r.wrap(err, "", "clean up the session", ""), r.conn.Close(ctx))
	}
	return nil
}

// begin proves the history, now under the locks, and writes that the file is begun.
// The migration is empty if somebody else has come first.
func (r *runner) begin(ctx context.Context) (m migration, started bool, found index, err error) {
	tx, err := r.conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted, AccessMode: pgx.ReadWrite})
	if err != nil {
		return m, false, found, r.wrap(err, "", "begin", "")
	}
	defer func() { err = errors.Join(err, r.rollback(ctx, tx)) }() // does nothing after the commit
	s, err := r.prepare(ctx, tx)
	if err != nil || len(s.pending) == 0 || s.pending[0].index == "" {
		return m, false, found, err
	}
	m = s.pending[0]
	if found, err = r.findIndex(ctx, tx, m.index); err != nil {
		return m, false, found, err
	}
	if found.valid && !s.started {
		return m, false, found, &Error{Kind: ErrForeign, Schema: r.schema, File: m.Name,
			Detail: fmt.Sprintf("there is an index %q already, and no migration made it", m.index),
			Mend:   "DROP INDEX CONCURRENTLY " + quote(r.schema) + "." + quote(m.index)}
	}
	if !s.started {
		if err := r.writeRevision(ctx, tx, m, 0, 0); err != nil {
			return m, false, found, r.ledgerError(err, m)
		}
	}
	if err := tx.Commit(ctx); err != nil {
		return m, false, found, r.wrap(err, m.Name, "commit", "")
	}
	return m, s.started, found, nil
}

// build runs the statement of the file, unless that was done by a runner that was
// killed before it could write it down, and completes its row.
func (r *runner) build(ctx context.Context, m migration, built, leftover bool) error {
	start := time.Now()
	if leftover {
		if err := r.dropIndex(ctx, m.index); err != nil {
			return r.indexError(ctx, err, m, "drop the index that an interrupted build left behind")
		}
	}
	r.progress(Event{Stage: Applying, File: m.File, Statement: 1})
	if !built {
		if _, err := r.conn.Exec(ctx, m.statements[0].Text, pgx.QueryExecModeSimpleProtocol); err != nil {
			failure := r.indexError(ctx, err, m, "build the index")
			return errors.Join(failure, r.undo(ctx, m, failure))
		}
	}
	if err := r.updateRevision(ctx, m, 1, time.Since(start), nil); err != nil {
		return r.ledgerError(err, m)
	}
	r.progress(Event{Stage: Applied, File: m.File})
	return nil
}

// undo drops what a failed build left behind and writes down why it failed. What it
// cannot drop at once stays: the next Apply does it, and Verify reports it.
func (r *runner) undo(ctx context.Context, m migration, failure *Error) error {
	if r.conn.IsClosed() {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
	defer cancel()
	_, err := r.conn.Exec(ctx, `SELECT pg_catalog.set_config('lock_timeout', $1::text, false)`, r.mode, milliseconds(cleanupTimeout/5))
	if err == nil {
		err = r.dropIndex(ctx, m.index)
	}
	if err != nil {
		failure.Detail += fmt.Sprintf("; the index %q is left behind, invalid", m.index)
	}
	if r.conn.IsClosed() {
		return nil
	}
	if err := r.updateRevision(ctx, m, 0, 0, failure.Cause); err != nil {
		return r.ledgerError(err, m)
	}
	return nil
}

func (r *runner) dropIndex(ctx context.Context, name string) error {
	_, err := r.conn.Exec(ctx, "DROP INDEX CONCURRENTLY IF EXISTS "+quote(r.schema)+"."+quote(name), pgx.QueryExecModeSimpleProtocol)
	return err
}

// indexError says whom a build waited for in vain.
func (r *runner) indexError(ctx context.Context, err error, m migration, detail string) *Error {
	e := r.wrap(err, m.Name, detail, "migrate as the owner of the schema")
	var pg *pgconn.PgError
	if !errors.As(err, &pg) || e.Kind != ErrLocked { //nolint:errorlint // the kind as it was given
		if e.Mend == "" {
			e.Mend = "mend the cause and apply again"
		}
		return e
	}
	e.Detail += fmt.Sprintf(" (it waited %s for the transactions of others%s)", r.indexWait, r.oldTransactions(ctx))
	e.Mend = "end the old transactions or raise IndexWait, and apply again"
	return e
}

const oldTransactions = `SELECT pid, coalesce(application_name, ''), xact_start
FROM pg_catalog.pg_stat_activity
WHERE datname = pg_catalog.current_database() AND pid <> pg_catalog.pg_backend_pid() AND xact_start < pg_catalog.clock_timestamp() - $1::interval
ORDER BY xact_start LIMIT 5`

// oldTransactions lists the sessions that a build may have waited for, as far as can
// be seen.
func (r *runner) oldTransactions(ctx context.Context) string {
	rows, err := r.conn.Query(ctx, oldTransactions, r.mode, milliseconds(r.indexWait)+" ms")
	if err != nil {
		return ""
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (string, error) {
		var (
			pid   int32
			name  string
			since time.Time
		)
		err := row.Scan(&pid, &name, &since)
		return strings.TrimSpace(fmt.Sprintf("backend %d %s", pid, name)) + " since " + since.UTC().Format(time.RFC3339), err
	})
	if err != nil || len(list) == 0 {
		return ""
	}
	return ": " + strings.Join(list, ", ")
}
