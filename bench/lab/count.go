package lab

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/seed4391e180/runlane/bench/measure"
)

// A position at which the log can be read from, or up to, is the end of a record that is
// on the disk. The server's own writer stops at the end of a page, in the middle of a
// record; a commit does not, so one is made of a message that nobody reads.
const (
	queryMessage  = `SELECT pg_logical_emit_message(true, 'runlane bench', '')::text`
	queryPosition = `SELECT pg_current_wal_flush_lsn()::text`
	queryInserted = `SELECT pg_current_wal_insert_lsn()::text`
)

// queryRows are the rows that were written, whatever became of them.
const queryRows = `SELECT coalesce(sum(n_tup_ins + n_tup_upd + n_tup_del), 0)::bigint FROM pg_stat_user_tables`

// queryLog counts log records between two positions. A record of a split carries the
// entry that split the page. Entries of inner pages, which splits cause, are left out.
const queryLog = `
SELECT
	coalesce(sum(count) FILTER (WHERE kind IN ('Transaction/COMMIT', 'Transaction/COMMIT_PREPARED')), 0)::bigint,
	coalesce(sum(count) FILTER (WHERE kind IN ('Btree/INSERT_LEAF', 'Btree/INSERT_POST', 'Btree/SPLIT_L', 'Btree/SPLIT_R',
		'Gin/INSERT', 'Gin/UPDATE_META_PAGE')), 0)::bigint
FROM (SELECT "resource_manager/record_type" AS kind, count FROM pg_get_wal_stats($1::text::pg_lsn, $2::text::pg_lsn, true)) AS records`

// mark is where the counters stand.
type mark struct {
	inserted string // the end of the log before the message
	position string // and behind it
	rows     int64
	trips    int
}

// Count runs work, which must use nothing but pools of this database, and counts what
// it cost the server. Nobody else may be at work meanwhile: the log is the server's.
// A checkpoint comes first: no turn pays for what the one before it left unwritten, and
// all of them write whole pages anew.
func (db *Database) Count(ctx context.Context, work func(ctx context.Context) (measure.Sample, error), pools ...*Pool) (measure.Sample, error) {
	if err := db.Exec(ctx, "CHECKPOINT"); err != nil {
		return measure.Sample{}, err
	}
	before, err := db.before(ctx, pools)
	if err != nil {
		return measure.Sample{}, err
	}
	s, err := work(ctx)
	if err != nil {
		return measure.Sample{}, err
	}
	after, err := db.after(ctx, pools)
	if err != nil {
		return measure.Sample{}, err
	}
	s.Cost = measure.Cost{Units: s.Units, Counted: true, Rows: after.rows - before.rows, RoundTrips: int64(after.trips - before.trips)}
	return s, db.readLog(ctx, before, after, &s.Cost)
}

func tripsOf(pools []*Pool) (n int) {
	for _, p := range pools {
		n += p.trips.Ready()
	}
	return n
}

// flush makes the pools' sessions hand in their counters, which they otherwise do now
// and then. A connection that is in use, such as a listener's, is left alone.
func flush(ctx context.Context, pools []*Pool) error {
	var errs []error
	for _, p := range pools {
		for _, conn := range p.AcquireAllIdle(ctx) {
			_, err := conn.Exec(ctx, "SELECT pg_stat_force_next_flush()", pgx.QueryExecModeSimpleProtocol)
			errs = append(errs, err)
			conn.Release()
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("handing in counters: %w", err)
	}
	return ctx.Err()
}

// settle reads the counter of rows until it stands still: a session that is at work,
// such as one that sends a hint, hands in its counters a moment later. A side that goes
// on working is read as it is after a while.
func (db *Database) settle(ctx context.Context, pools []*Pool) (rows int64, err error) {
	const (
		most  = 20
		pause = 20 * time.Millisecond
	)
	last := int64(-1)
	for range most {
		if err := flush(ctx, pools); err != nil {
			return 0, err
		}
		if rows, err = db.Scalar(ctx, queryRows); err != nil || rows == last {
			return rows, err
		}
		last = rows
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
	return rows, nil
}

// before marks the beginning of what is counted.
func (db *Database) before(ctx context.Context, pools []*Pool) (m mark, err error) {
	if m.rows, err = db.settle(ctx, pools); err != nil {
		return m, err
	}
	if m.inserted, m.position, err = db.position(ctx); err != nil {
		return m, err
	}
	m.trips = tripsOf(pools) // last: what the counting asked is not counted
	return m, nil
}

// after marks its end.
func (db *Database) after(ctx context.Context, pools []*Pool) (m mark, err error) {
	m.trips = tripsOf(pools) // first
	if m.inserted, m.position, err = db.position(ctx); err != nil {
		return m, err
	}
	m.rows, err = db.settle(ctx, pools)
	return m, err
}

// position is the end of the log before a message and behind it.
func (db *Database) position(ctx context.Context) (inserted, behind string, err error) {
	db.mu.Lock()
	defer db.mu.Unlock()
	if err := db.watch.QueryRow(ctx, queryInserted).Scan(&inserted); err != nil {
		return "", "", err
	}
	if _, err := db.watch.Exec(ctx, queryMessage); err != nil {
		return "", "", err
	}
	return inserted, behind, db.watch.QueryRow(ctx, queryPosition).Scan(&behind)
}

// readLog counts what the log says between two marks, less the message of the second.
func (db *Database) readLog(ctx context.Context, from, to mark, c *measure.Cost) error {
	db.mu.Lock()
	defer db.mu.Unlock()
	err := db.watch.QueryRow(ctx, "SELECT ($2::text::pg_lsn - $1::text::pg_lsn)::bigint", from.position, to.inserted).Scan(&c.WALBytes)
	if err != nil {
		return err
	}
	if err := db.watch.QueryRow(ctx, queryLog, from.position, to.position).Scan(&c.Commits, &c.Entries); err != nil {
		return fmt.Errorf("reading the write-ahead log: %w", err)
	}
	c.Commits--
	return nil
}
