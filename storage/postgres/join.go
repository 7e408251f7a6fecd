package postgres

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/seed4391e180/runlane/internal/txn"
	"github.com/seed4391e180/runlane/storage"
)

// Join gives a transactor whose transactions are part of tx, which the application
// has open and commits: runs and the application's own rows exist together or not
// at all.
//
// Each Transact works behind a savepoint and may replay there, so a conflict leaves
// tx as it was. Locks stay until tx ends, so commit soon. Wakes are sent when tx
// commits. Append is storage.ErrAppendJoined: it would hold the stream until then.
// Commit.Time is the time of the statement, not of tx's commit.
//
// Tx must be READ COMMITTED and on the database of the driver's schema; another
// isolation level is storage.ErrConfiguration, before anything is written. The
// transactor is for the goroutine that uses tx, and of no use once tx has ended
// (storage.ErrClosed).
func (d *Driver) Join(ctx context.Context, tx pgx.Tx) (storage.Transactor, error) {
	j := &joined{driver: d, use: func(fn func(*pgx.Conn) error) error { return fn(tx.Conn()) }}
	return j, j.check(ctx)
}

// JoinSQL is [Driver.Join] for a transaction of database/sql, begun on conn, which
// must come from package stdlib of pgx.
//
// While Transact runs, conn is lent to the driver, as [sql.Conn.Raw] lends it: a
// callback that uses conn or its transaction waits for itself, and so does one that is
// left by [runtime.Goexit], which is what FailNow of package testing does.
func (d *Driver) JoinSQL(ctx context.Context, conn *sql.Conn) (storage.Transactor, error) {
	j := &joined{driver: d, use: func(fn func(*pgx.Conn) error) error { return lend(conn, fn) }}
	return j, j.check(ctx)
}

// lend lends the connection below conn. A panic of fn passes through, but not through
// Raw: that would close conn, and wait there for the very transaction that is joined.
func lend(conn *sql.Conn, fn func(*pgx.Conn) error) error {
	var panicked any
	err := conn.Raw(func(raw any) error {
		c, ok := raw.(*stdlib.Conn)
		if !ok {
			return configError(fmt.Sprintf("the connection is a %T", raw), "open the database with the driver of github.com/jackc/pgx/v5/stdlib")
		}
		defer func() { panicked = recover() }()
		return fn(c.Conn())
	})
	if panicked != nil {
		panic(panicked)
	}
	return err
}

// joined is a transaction that the application has open.
type joined struct {
	driver      *Driver
	use         func(func(*pgx.Conn) error) error // lends the connection
	lockTimeout string                            // the application's
	conn        *pgx.Conn                         // while a transaction of ours runs
}

// check reads what must be put back, and refuses what would not be safe.
func (j *joined) check(ctx context.Context) error {
	return j.use(func(conn *pgx.Conn) error {
		if err := inTransaction(conn); err != nil {
			return err
		}
		if err := fit(conn, conn.Config().DefaultQueryExecMode); err != nil {
			return err
		}
		var isolation string
		err := conn.QueryRow(ctx, "SELECT current_setting('lock_timeout'), current_setting('transaction_isolation')").Scan(&j.lockTimeout, &isolation)
		if err != nil {
			return readError(classify(ctx, err, nil, nil))
		}
		if isolation != "read committed" {
			return configError("the transaction to join is "+isolation, "begin it as READ COMMITTED")
		}
		return nil
	})
}

func inTransaction(conn *pgx.Conn) error {
	if conn.IsClosed() || conn.PgConn().TxStatus() == 'I' {
		return fmt.Errorf("%w: the transaction to join is not open", storage.ErrClosed)
	}
	return nil
}

// Transact is storage.Transactor.Transact.
func (j *joined) Transact(ctx context.Context, label string, fn func(context.Context, storage.Tx) error) (commit storage.Commit, err error) {
	done, err := j.driver.begin()
	if err != nil {
		return storage.Commit{}, err
	}
	defer done()
	if j.conn != nil {
		return storage.Commit{}, storage.ErrNestedTransaction
	}
	err = j.use(func(conn *pgx.Conn) error {
		if err := inTransaction(conn); err != nil {
			return err
		}
		j.conn = conn
		defer func() { j.conn = nil }()
		e := j.driver.engine
		inner := txn.Engine{Store: j, MaxAttempts: e.MaxAttempts, Limits: e.Limits, Rand: e.Rand, Sleep: e.Sleep, Joined: true, Scope: e}.WithDefaults()
		var err error
		commit, err = inner.Transact(ctx, label, fn)
		j.driver.explain(ctx, conn, err)
		return err
	})
	return commit, err
}

// Begin is txn.Store.Begin.
func (j *joined) Begin(ctx context.Context, label string, admit *txn.Plan) (txn.Session, error) {
	return (&session{d: j.driver, label: label, joined: j, conn: j.conn}).admit(ctx, admit)
}

// begin queues the savepoint that everything happens behind.
func (j *joined) begin(batch *pgx.Batch) {
	batch.Queue("SAVEPOINT runlane")
	batch.Queue(j.driver.statements.settingsJoined, milliseconds(j.driver.config.LockTimeout))
}

// release queues what makes the work part of the transaction for good.
func (j *joined) release(batch *pgx.Batch) {
	batch.Queue("RELEASE SAVEPOINT runlane")
	batch.Queue("SELECT set_config('lock_timeout', $1, true)", j.lockTimeout)
}

// rollback leaves the transaction as it was, its lock_timeout included. It is sent
// without preparing: in a failed transaction nothing else can be prepared.
func (j *joined) rollback(ctx context.Context) error {
	return j.conn.PgConn().Exec(ctx, "ROLLBACK TO SAVEPOINT runlane; RELEASE SAVEPOINT runlane").Close()
}
