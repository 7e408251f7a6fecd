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
	conn       *pgxpool.Conn // held while a transaction is open
	open       bool          // a transaction is open on conn
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
	s := &session{d: d, label: label}
	if admit == nil || len(admit.Locks) == 0 {
		return s, nil
	}
	batch := &pgx.Batch{}
	s.begin(batch)
	groups := d.names.groupPlan(admit, make([]storage.Version, len(admit.Mutations)))
	texts, exclusive := d.locks(admit, groups)
	batch.Queue(d.statements.lockWait, texts, exclusive)
	if err := s.sendOpen(ctx, batch, nil, nil); err != nil {
		s.End(ctx)
		return nil, err
	}
	return s, nil
}

// begin queues the start of a transaction: explicit, with its timeouts.
func (s *session) begin(batch *pgx.Batch) {
	if s.open {
		return
	}
	batch.Queue("BEGIN ISOLATION LEVEL READ COMMITTED")
	s.settings(batch)
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

// connect returns the session's connection, or takes one.
func (s *session) connect(ctx context.Context) (*pgxpool.Conn, error) {
	if s.conn != nil {
		return s.conn, nil
	}
	conn, err := s.d.acquire(ctx)
	if err != nil {
		return nil, err
	}
	s.conn = conn
	return conn, nil
}

// free gives the connection back unless a transaction is open on it.
func (s *session) free() {
	if s.conn != nil && !s.open {
		s.conn.Release()
		s.conn = nil
	}
}

// sendOpen sends a batch that belongs to an explicit transaction and leaves it open.
func (s *session) sendOpen(ctx context.Context, batch *pgx.Batch, groups []*group, keys []storage.Key) error {
	conn, err := s.connect(ctx)
	if err != nil {
		return err
	}
	s.open = true
	s.roundTrips++
	return classify(ctx, conn.SendBatch(ctx, batch).Close(), groups, keys)
}

// query runs one reading statement, in the open transaction if there is one.
func (s *session) query(ctx context.Context, scan func(pgx.Rows) error, sql string, args ...any) error {
	conn, err := s.connect(ctx)
	if err != nil {
		return err
	}
	defer s.free()
	s.roundTrips++
	rows, err := conn.Query(ctx, sql, args...)
	if err == nil {
		err = scanAll(rows, scan)
	}
	return classify(ctx, err, nil, nil)
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
	if s.conn == nil {
		return
	}
	if s.open && !s.conn.Conn().IsClosed() && s.conn.Conn().PgConn().TxStatus() != 'I' {
		cleanup, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
		defer cancel()
		s.roundTrips++
		if _, err := s.conn.Exec(cleanup, "ROLLBACK"); err != nil {
			s.conn.Conn().Close(cleanup) // and the pool drops it
		}
	}
	s.open = false
	s.free()
}

// RoundTrips is txn.Session.RoundTrips.
func (s *session) RoundTrips() int { return s.roundTrips }

// notSent reports whether an error means that nothing reached the server.
func notSent(err error) bool { return pgconn.SafeToRetry(err) && !errors.As(err, new(*pgconn.PgError)) }
