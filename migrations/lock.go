package migrations

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// tryLocks takes the two locks of a runner, or says that one of them is held.
//
// The first is the session lock that `atlas migrate apply` holds (FNV-1 of
// "atlas_migrate_execute", for the whole database); a lock of a transaction
// conflicts with it. The second is the schema's own, for runners that do not know
// the first. Both end with the transaction, however it ends.
const tryLocks = `SELECT CASE WHEN pg_catalog.pg_try_advisory_xact_lock(2686470616)
  THEN pg_catalog.pg_try_advisory_xact_lock(pg_catalog.hashtextextended('runlane_migrations:' || $1::text, 0))
  ELSE false END`

// lockHolders names the sessions that hold either lock.
const lockHolders = `SELECT DISTINCT l.pid, coalesce(a.application_name, '')
FROM pg_catalog.pg_locks l
LEFT JOIN pg_catalog.pg_stat_activity a ON a.pid = l.pid
CROSS JOIN (SELECT pg_catalog.hashtextextended('runlane_migrations:' || $1::text, 0) AS key) AS own
WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 1
  AND l.database = (SELECT oid FROM pg_catalog.pg_database WHERE datname = pg_catalog.current_database())
  AND ((l.classid::bigint << 32) | l.objid::bigint) IN (2686470616, own.key)
ORDER BY 1`

const (
	lockPoll       = 40 * time.Millisecond
	cleanupTimeout = 5 * time.Second

	// tableTry bounds one wait for a table: whoever needs the table meanwhile waits
	// as long. Many short tries keep others up less than a long one.
	tableTry = 100 * time.Millisecond
)

// tryLocked returns nil without an error when another runner holds a lock.
func (r *runner) tryLocked(ctx context.Context) (pgx.Tx, error) {
	tx, err := r.conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted, AccessMode: pgx.ReadWrite})
	if err != nil {
		return nil, r.wrap(err, "", "begin", "")
	}
	var locked bool
	if err := tx.QueryRow(ctx, tryLocks, r.mode, r.schema).Scan(&locked); err != nil {
		return nil, errors.Join(r.wrap(err, "", "take the migration lock", ""), r.rollback(ctx, tx))
	}
	if locked {
		return tx, nil
	}
	return nil, r.rollback(ctx, tx)
}

// lockedError names the sessions that hold the locks, as far as can be seen.
func (r *runner) lockedError(ctx context.Context) error {
	e := &Error{Kind: ErrLocked, Schema: r.schema, Detail: fmt.Sprintf("another runner held it for %s", r.lockWait),
		Mend: "wait for the other runner and try again, or raise LockWait"}
	rows, err := r.conn.Query(ctx, lockHolders, r.mode, r.schema)
	if err != nil {
		return e
	}
	holders, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (string, error) {
		var (
			pid  int32
			name string
		)
		err := row.Scan(&pid, &name)
		return strings.TrimSpace(fmt.Sprintf("backend %d %s", pid, name)), err
	})
	if err == nil && len(holders) > 0 {
		e.Detail += " (" + strings.Join(holders, ", ") + ")"
	}
	return e
}

// rollback ends a transaction although its context may be cancelled, but not for
// ever. Without an answer pgx closes the connection, which ends it as well.
func (r *runner) rollback(ctx context.Context, tx pgx.Tx) error {
	if r.conn.IsClosed() {
		return nil // the server has ended the transaction, or will when it notices
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
	defer cancel()
	if err := tx.Rollback(ctx); err != nil && !errors.Is(err, pgx.ErrTxClosed) {
		return err
	}
	return nil
}
