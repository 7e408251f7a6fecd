package postgres

import (
	"context"
	"errors"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed4391e180/runlane/internal/txn"
	"github.com/seed4391e180/runlane/storage"
)

// Driver is a storage.Driver on PostgreSQL. Make one with New or Open.
type Driver struct {
	pool       *pgxpool.Pool
	ownsPool   bool
	config     Config
	names      *names
	statements *statements
	engine     *txn.Engine
	limits     storage.Limits
	channel    string // of notifications
	execMode   pgx.QueryExecMode
	listen     *pgx.ConnConfig // of Config.ListenURL; nil: as the pool connects
	block      versionBlock
	clock      clock
	budget     *budget
	hints      hints
	commits    *batcher[*commit] // nil: each goes alone
	appends    *batcher[*commit]
	reads      *batcher[*pointRead]

	closing context.Context // ends when Close is called
	close   context.CancelFunc
	calls   sync.WaitGroup
	mu      sync.Mutex // guards closed against calls
	closed  bool
}

var _ storage.Driver = (*Driver)(nil)

// Profile says yes to everything.
func (d *Driver) Profile() storage.Profile {
	return storage.Profile{Durable: true, StrongIndexes: true, AuthoritativeClock: true, Shared: true}
}

// Transact is storage.Transactor.Transact.
func (d *Driver) Transact(ctx context.Context, label string, fn func(context.Context, storage.Tx) error) (storage.Commit, error) {
	done, err := d.begin()
	if err != nil {
		return storage.Commit{}, err
	}
	defer done()
	commit, err := d.engine.Transact(ctx, label, fn)
	d.explain(ctx, nil, err)
	return commit, err
}

// Stats says how commits, commits that only append, and point reads have gone to the database since the driver
// was made: those that may share a trip, see Config.SeparateCommits. A call counts once
// for each trip.
type Stats struct{ Commits, Appends, Reads Trips }

// Stats returns the current Stats.
func (d *Driver) Stats() Stats {
	return Stats{Commits: d.commits.stats(), Appends: d.appends.stats(), Reads: d.reads.stats()}
}

// explain adds to an error what takes another question to know, asked on conn or,
// if that is nil, on any connection.
func (d *Driver) explain(ctx context.Context, conn *pgx.Conn, err error) {
	if dup := (*storage.DuplicateActiveError)(nil); errors.As(err, &dup) {
		d.nameHolder(ctx, conn, dup)
	}
}

// begin counts a call, unless the driver is closed.
func (d *Driver) begin() (done func(), err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, storage.ErrClosed
	}
	d.calls.Add(1)
	return d.calls.Done, nil
}

// Close ends listeners, waits for running calls, and closes the pool if Open made
// it. It is harmless to close twice.
func (d *Driver) Close() error {
	d.mu.Lock()
	first := !d.closed
	d.closed = true
	d.mu.Unlock()
	d.close()
	d.calls.Wait()
	if first && d.ownsPool {
		d.pool.Close()
	}
	return nil
}

// acquire takes a connection from the pool, waiting a bounded time.
func (d *Driver) acquire(ctx context.Context) (*pgxpool.Conn, error) {
	bounded, cancel := context.WithTimeout(ctx, d.config.AcquireTimeout)
	defer cancel()
	conn, err := d.pool.Acquire(bounded)
	switch {
	case err == nil:
		if err := fit(conn.Conn(), d.execMode); err != nil {
			conn.Release()
			return nil, err
		}
		return conn, nil
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case errors.Is(err, context.DeadlineExceeded) && d.pool.Stat().AcquiredConns() >= d.pool.Config().MaxConns:
		return nil, &txn.Replay{Reason: storage.ReasonPool, Err: err}
	}
	return nil, connectError(err)
}
