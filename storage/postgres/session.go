package postgres

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed4391e180/runlane/internal/txn"
	"github.com/seed4391e180/runlane/storage"
)

// session is the input and output of one attempt. As long as no transaction is
// open it holds no connection between its steps.
type session struct {
	d          *Driver
	label      string
	conn       *pgx.Conn     // held while a transaction is open
	pooled     *pgxpool.Conn // what conn belongs to; nil within a joined transaction
	joined     *joined       // the transaction that the session is part of; nil if it makes its own
	open       bool          // a transaction, or the savepoint of a joined one, is open on conn
	budget     int           // how many locks are counted as held
	roundTrips int
}

var (
	_ txn.Store   = (*Driver)(nil)
	_ txn.Session = (*session)(nil)
)

// cleanupTimeout bounds the rollback of an attempt whose context has ended.
const cleanupTimeout = 5 * time.Second

// Begin is txn.Store.Begin. A replay opens its transaction at once and waits there
// for the locks of the attempt before.
func (d *Driver) Begin(ctx context.Context, label string, admit *txn.Plan) (txn.Session, error) {
	return (&session{d: d, label: label}).admit(ctx, admit)
}

// admit begins a replay; a first attempt begins with nothing.
func (s *session) admit(ctx context.Context, admit *txn.Plan) (txn.Session, error) {
	d := s.d
	if admit == nil || len(admit.Locks) == 0 {
		return s, nil
	}
	batch := &pgx.Batch{}
	s.begin(batch)
	groups := d.names.groupPlan(admit, make([]storage.Version, len(admit.Mutations)))
	texts, exclusive := d.locks(admit, groups)
	batch.Queue(d.statements.lockWait, texts, exclusive)
	if err := s.reserve(ctx, len(texts)); err != nil {
		return nil, err
	}
	if err := s.sendOpen(ctx, batch, nil, nil); err != nil {
		s.End(ctx)
		return nil, err
	}
	return s, nil
}

// begin queues the start of a transaction: explicit, with its timeouts. Within a
// joined one it is a savepoint.
func (s *session) begin(batch *pgx.Batch) {
	switch {
	case s.open:
	case s.joined != nil:
		s.joined.begin(batch)
	default:
		batch.Queue("BEGIN ISOLATION LEVEL READ COMMITTED")
		s.settings(batch)
	}
}

func (s *session) settings(batch *pgx.Batch) {
	c := s.d.config
	batch.Queue(s.d.statements.settings, milliseconds(c.LockTimeout), milliseconds(c.StatementTimeout), milliseconds(c.IdleTimeout))
}

func milliseconds(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

// locks spells the locks of a plan: its keys, and the payloads whose sharing it
// may change.
func (d *Driver) locks(p *txn.Plan, groups []*group) (texts []string, exclusive []bool) {
	for _, l := range p.Locks {
		texts, exclusive = append(texts, d.names.keyLock(l.Key)), append(exclusive, !l.Shared)
	}
	for _, text := range d.names.payloadLocks(p, groups) {
		texts, exclusive = append(texts, text), append(exclusive, true)
	}
	return texts, exclusive
}

func lockKeys(p *txn.Plan) []storage.Key {
	ks := make([]storage.Key, len(p.Locks))
	for i, l := range p.Locks {
		ks[i] = l.Key
	}
	return ks
}

// reserve counts n more locks as held, see budget. Whoever holds some already does
// not wait for more: two that did could wait for each other.
func (s *session) reserve(ctx context.Context, n int) error {
	if n == 0 {
		return nil
	}
	if s.budget > 0 {
		if !s.d.budget.try(n) {
			return &txn.Replay{Reason: storage.ReasonLockTable}
		}
	} else {
		bounded, cancel := context.WithTimeout(ctx, s.d.config.AcquireTimeout)
		defer cancel()
		if err := s.d.budget.wait(bounded, n); err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return &txn.Replay{Reason: storage.ReasonLockTable, Err: err, Final: unavailable(err)}
		}
	}
	s.budget += n
	return nil
}

// connect returns the session's connection, or takes one.
func (s *session) connect(ctx context.Context) (*pgx.Conn, error) {
	if s.conn != nil {
		return s.conn, nil
	}
	pooled, err := s.d.acquire(ctx)
	if err != nil {
		return nil, err
	}
	s.pooled, s.conn = pooled, pooled.Conn()
	return s.conn, nil
}

// free gives back what the session holds, unless a transaction is open.
func (s *session) free() {
	if s.open {
		return
	}
	s.d.budget.release(s.budget)
	s.budget = 0
	if s.pooled != nil {
		s.pooled.Release()
		s.pooled, s.conn = nil, nil
	}
}

// sendOpen sends a batch that belongs to an explicit transaction and leaves it open.
func (s *session) sendOpen(ctx context.Context, batch *pgx.Batch, groups []*group, keys []storage.Key) error {
	conn, err := s.connect(ctx)
	if err != nil {
		return err
	}
	return classify(ctx, s.send(ctx, conn, batch, true), groups, keys)
}

// send sends a batch. opens says that it begins with BEGIN, or with the savepoint of a
// joined transaction: then there is something to undo from here on, unless the batch
// never left this process.
func (s *session) send(ctx context.Context, conn *pgx.Conn, batch *pgx.Batch, opens bool) error {
	s.roundTrips++
	err := conn.SendBatch(ctx, batch).Close()
	if opens && (err == nil || !notSent(err)) {
		s.open = true
	}
	return err
}

// statement is one statement that only reads.
type statement struct {
	text   string
	args   []any
	groups []*group // whose checks it makes
	hold   bool     // what it locks is held: it opens a transaction
	keyed  bool     // it looks rows up by whole keys, see planner.sql
}

// query runs a reading statement, in the open transaction if there is one. Within
// a joined transaction everything happens behind the savepoint.
func (s *session) query(ctx context.Context, q statement, scan func(pgx.Rows) error) error {
	if (q.hold || s.joined != nil) && !s.open {
		batch := &pgx.Batch{}
		s.begin(batch)
		batch.Queue(q.text, q.args...).Query(func(rows pgx.Rows) error { return scanAll(rows, scan) })
		return s.sendOpen(ctx, batch, q.groups, nil)
	}
	conn, err := s.connect(ctx)
	if err != nil {
		return err
	}
	defer s.free()
	s.roundTrips++
	if q.keyed && !s.open {
		batch := &pgx.Batch{}
		batch.Queue(s.d.statements.planner)
		batch.Queue(q.text, q.args...).Query(func(rows pgx.Rows) error { return scanAll(rows, scan) })
		return classify(ctx, conn.SendBatch(ctx, batch).Close(), q.groups, nil)
	}
	rows, err := s.d.ask(conn).Query(ctx, q.text, q.args...)
	if err == nil {
		err = scanAll(rows, scan)
	}
	return classify(ctx, err, q.groups, nil)
}

func scanAll(rows pgx.Rows, scan func(pgx.Rows) error) error {
	defer rows.Close()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// End rolls back what is open and gives the connection back. It outlives the
// cancellation of ctx, but not for ever; a connection that does not answer is closed.
func (s *session) End(ctx context.Context) {
	if s.conn != nil && s.open && !s.conn.IsClosed() && s.conn.PgConn().TxStatus() != 'I' {
		cleanup, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
		defer cancel()
		s.roundTrips++
		if err := s.rollback(cleanup); err != nil {
			_ = s.conn.Close(cleanup) // and the pool drops it
		}
	}
	s.open = false
	s.free()
}

func (s *session) rollback(ctx context.Context) error {
	if s.joined != nil {
		return s.joined.rollback(ctx)
	}
	_, err := s.conn.Exec(ctx, "ROLLBACK")
	return err
}

// RoundTrips is txn.Session.RoundTrips.
func (s *session) RoundTrips() int { return s.roundTrips }

// notSent reports whether an error means that nothing reached the server.
func notSent(err error) bool { return pgconn.SafeToRetry(err) && !errors.As(err, new(*pgconn.PgError)) }
