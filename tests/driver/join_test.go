package driver_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/internal/pgtest"
	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/codec"
	"github.com/seed4391e180/runlane/storage/postgres"
)

// application is a transaction that an application has open, on pgx or on
// database/sql, over a driver whose pool has no connection to spare.
type application struct {
	exec     func(t *testing.T, text string)
	show     func(t *testing.T, setting string) string
	join     func(ctx context.Context) (storage.Transactor, error)
	commit   func() error
	rollback func() error
}

// beginApplication begins the transaction and makes a table for its own rows.
type beginApplication func(t *testing.T, isolation string) (*postgres.Driver, *pgtest.DB, *application)

func beginPgx(t *testing.T, isolation string) (*postgres.Driver, *pgtest.DB, *application) {
	ctx := context.Background()
	db := pgtest.New(t)
	config := db.Config(t)
	config.MaxConns = 1
	pool, err := pgxpool.NewWithConfig(ctx, config)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	d, err := postgres.New(pool, postgres.Config{LockTimeout: 300 * time.Millisecond})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	tx, err := pool.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.TxIsoLevel(isolation)})
	require.NoError(t, err)
	t.Cleanup(func() { _ = tx.Rollback(ctx) })
	return d, db, &application{
		exec: func(t *testing.T, text string) {
			_, err := tx.Exec(ctx, text)
			require.NoError(t, err)
		},
		show: func(t *testing.T, setting string) (value string) {
			require.NoError(t, tx.QueryRow(ctx, "SELECT current_setting($1)", setting).Scan(&value))
			return value
		},
		join:     func(ctx context.Context) (storage.Transactor, error) { return d.Join(ctx, tx) },
		commit:   func() error { return tx.Commit(ctx) },
		rollback: func() error { return tx.Rollback(ctx) },
	}
}

func beginSQL(t *testing.T, isolation string) (*postgres.Driver, *pgtest.DB, *application) {
	ctx := context.Background()
	db := pgtest.New(t)
	config := db.Config(t)
	config.MaxConns = 1
	pool, err := pgxpool.NewWithConfig(ctx, config)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	d, err := postgres.New(pool, postgres.Config{LockTimeout: 300 * time.Millisecond})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	standard := stdlib.OpenDBFromPool(pool)
	t.Cleanup(func() { require.NoError(t, standard.Close()) })
	conn, err := standard.Conn(ctx)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	level := sql.LevelReadCommitted
	if isolation != "read committed" {
		level = sql.LevelRepeatableRead
	}
	tx, err := conn.BeginTx(ctx, &sql.TxOptions{Isolation: level})
	require.NoError(t, err)
	t.Cleanup(func() { _ = tx.Rollback() })
	return d, db, &application{
		exec: func(t *testing.T, text string) {
			_, err := tx.ExecContext(ctx, text)
			require.NoError(t, err)
		},
		show: func(t *testing.T, setting string) (value string) {
			require.NoError(t, tx.QueryRowContext(ctx, "SELECT current_setting($1)", setting).Scan(&value))
			return value
		},
		join:     func(ctx context.Context) (storage.Transactor, error) { return d.JoinSQL(ctx, conn) },
		commit:   tx.Commit,
		rollback: tx.Rollback,
	}
}

func TestJoin(t *testing.T) {
	for name, begin := range map[string]beginApplication{"pgx": beginPgx, "database sql": beginSQL} {
		t.Run(name, func(t *testing.T) {
			for _, c := range joinTests {
				t.Run(c.name, func(t *testing.T) { c.run(t, begin) })
			}
		})
	}
}

var joinTests = []struct {
	name string
	run  func(t *testing.T, begin beginApplication)
}{
	{"commits with the caller", joinCommits},
	{"is undone with the caller", joinRollsBack},
	{"a conflict replays behind the savepoint", joinReplays},
	{"a failure leaves the caller's transaction as it was", joinFails},
	{"a panic leaves the caller's transaction as it was", joinPanics},
	{"other isolation levels are refused", joinRefusesIsolation},
	{"append is refused", joinRefusesAppend},
	{"wakes are sent by the caller's commit", joinWakes},
	{"a transaction that has ended is of no use", joinEnded},
	{"no transaction within a callback", joinNested},
	{"a duplicate singleton key is named", joinDuplicate},
	{"a lost connection", joinLostConnection},
}

// another is a second client of the same database.
func another(t *testing.T, db *pgtest.DB) *postgres.Driver {
	d, err := postgres.New(db.Pool(t), postgres.Config{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	return d
}

func createAll(recs []storage.Record) func(context.Context, storage.Tx) error {
	return func(ctx context.Context, tx storage.Tx) error {
		for _, rec := range recs {
			if err := tx.Create(ctx, rec); err != nil {
				return err
			}
		}
		return nil
	}
}

func stored(t *testing.T, d storage.Transactor, key storage.Key) bool {
	t.Helper()
	var found bool
	_, err := d.Transact(context.Background(), "look", func(ctx context.Context, tx storage.Tx) (err error) {
		_, found, err = tx.Get(ctx, key)
		return err
	})
	require.NoError(t, err)
	return found
}

func joinCommits(t *testing.T, begin beginApplication) {
	ctx := context.Background()
	_, db, app := begin(t, "read committed")
	other := another(t, db)
	app.exec(t, "CREATE TABLE orders (id text)")
	app.exec(t, "SET LOCAL lock_timeout = '7s'")
	app.exec(t, "INSERT INTO orders VALUES ('o1')")
	joined, err := app.join(ctx)
	require.NoError(t, err)
	_, recs := newRun(t, "r1", `{"order":"o1"}`)
	commit, err := joined.Transact(ctx, "trigger", createAll(recs))
	require.NoError(t, err)
	require.Equal(t, 1, commit.Attempts)
	require.False(t, commit.Time.IsZero())
	require.Len(t, commit.Versions, 2)
	require.Equal(t, "7s", app.show(t, "lock_timeout"), "the caller's setting is back")
	require.True(t, stored(t, joined, recs[0].Key), "the transaction sees its own work")
	require.False(t, stored(t, other, recs[0].Key), "nobody else does")
	require.Equal(t, "7s", app.show(t, "lock_timeout"))
	// What was written may be read and written again before the caller commits.
	_, err = joined.Transact(ctx, "replace", func(ctx context.Context, tx storage.Tx) error {
		if _, _, err := tx.Get(ctx, recs[0].Key); err != nil {
			return err
		}
		if _, err := tx.Now(ctx); err != nil {
			return err
		}
		return tx.Replace(ctx, recs[0])
	})
	require.NoError(t, err)
	require.NoError(t, app.commit())
	require.True(t, stored(t, other, recs[0].Key))
	var orders int
	require.NoError(t, db.Pool(t).QueryRow(ctx, "SELECT count(*) FROM orders").Scan(&orders))
	require.Equal(t, 1, orders)
}

func joinRollsBack(t *testing.T, begin beginApplication) {
	ctx := context.Background()
	_, db, app := begin(t, "read committed")
	joined, err := app.join(ctx)
	require.NoError(t, err)
	_, recs := newRun(t, "r1", `{}`)
	_, err = joined.Transact(ctx, "trigger", createAll(recs))
	require.NoError(t, err)
	require.NoError(t, app.rollback())
	other := another(t, db)
	require.False(t, stored(t, other, recs[0].Key))
	require.False(t, stored(t, other, recs[1].Key))
}

func joinReplays(t *testing.T, begin beginApplication) {
	ctx := context.Background()
	_, db, app := begin(t, "read committed")
	other := another(t, db)
	_, recs := newRun(t, "r1", `{}`)
	_, err := other.Transact(ctx, "create", createAll(recs))
	require.NoError(t, err)
	app.exec(t, "CREATE TABLE orders (id text)")
	joined, err := app.join(ctx)
	require.NoError(t, err)
	before := app.show(t, "lock_timeout")
	_, mine := newRun(t, "r2", `{}`)
	attempts := 0
	commit, err := joined.Transact(ctx, "both", func(ctx context.Context, tx storage.Tx) error {
		if _, _, err := tx.Get(ctx, recs[0].Key); err != nil {
			return err
		}
		if attempts++; attempts == 1 { // another client writes what was just read
			_, err := other.Transact(context.Background(), "interfere", func(ctx context.Context, tx storage.Tx) error {
				if _, _, err := tx.Get(ctx, recs[0].Key); err != nil {
					return err
				}
				return tx.Replace(ctx, recs[0])
			})
			require.NoError(t, err)
		}
		if err := tx.Replace(ctx, recs[0]); err != nil {
			return err
		}
		return createAll(mine)(ctx, tx)
	})
	require.NoError(t, err)
	require.Equal(t, 2, commit.Attempts)
	require.Equal(t, before, app.show(t, "lock_timeout"))
	app.exec(t, "INSERT INTO orders VALUES ('o1')")
	require.NoError(t, app.commit())
	require.True(t, stored(t, other, mine[0].Key))
}

func joinFails(t *testing.T, begin beginApplication) {
	ctx := context.Background()
	_, db, app := begin(t, "read committed")
	other := another(t, db)
	_, recs := newRun(t, "r1", `{}`)
	_, err := other.Transact(ctx, "create", createAll(recs))
	require.NoError(t, err)
	app.exec(t, "CREATE TABLE orders (id text)")
	app.exec(t, "INSERT INTO orders VALUES ('o1')")
	joined, err := app.join(ctx)
	require.NoError(t, err)
	_, mine := newRun(t, "r2", `{}`)
	_, err = joined.Transact(ctx, "exists", createAll(append(mine, recs[0])))
	require.ErrorIs(t, err, storage.ErrRecordExists)
	// Once more, now that the driver has versions in hand: the commit is the first thing
	// that is sent, and its failure leaves a savepoint to go back to all the same.
	_, err = joined.Transact(ctx, "exists", createAll(append(mine, recs[0])))
	require.ErrorIs(t, err, storage.ErrRecordExists)
	own := errors.New("the callback's own")
	_, err = joined.Transact(ctx, "own", func(ctx context.Context, tx storage.Tx) error {
		if err := createAll(mine)(ctx, tx); err != nil {
			return err
		}
		if _, err := tx.Now(ctx); err != nil {
			return err
		}
		return own
	})
	require.Same(t, own, err)
	app.exec(t, "INSERT INTO orders VALUES ('o2')")
	require.NoError(t, app.commit())
	var orders int
	require.NoError(t, db.Pool(t).QueryRow(ctx, "SELECT count(*) FROM orders").Scan(&orders))
	require.Equal(t, 2, orders)
	require.False(t, stored(t, other, mine[0].Key))
}

// joinPanics: a panic passes through, and the caller may go on with its transaction.
func joinPanics(t *testing.T, begin beginApplication) {
	ctx := context.Background()
	_, db, app := begin(t, "read committed")
	joined, err := app.join(ctx)
	require.NoError(t, err)
	_, recs := newRun(t, "r1", `{}`)
	_, mine := newRun(t, "r2", `{}`)
	panicking := errors.New("the callback's own")
	require.PanicsWithValue(t, panicking, func() {
		_, _ = joined.Transact(ctx, "panic", func(ctx context.Context, tx storage.Tx) error {
			if err := createAll(recs)(ctx, tx); err != nil {
				return err
			}
			if _, err := tx.Now(ctx); err != nil {
				return err
			}
			panic(panicking)
		})
	})
	_, err = joined.Transact(ctx, "create", createAll(mine))
	require.NoError(t, err)
	require.NoError(t, app.commit())
	other := another(t, db)
	require.True(t, stored(t, other, mine[0].Key))
	require.False(t, stored(t, other, recs[0].Key))
}

func joinRefusesIsolation(t *testing.T, begin beginApplication) {
	_, _, app := begin(t, "repeatable read")
	_, err := app.join(context.Background())
	require.ErrorIs(t, err, storage.ErrConfiguration)
	require.ErrorContains(t, err, "READ COMMITTED")
}

func joinRefusesAppend(t *testing.T, begin beginApplication) {
	ctx := context.Background()
	_, db, app := begin(t, "read committed")
	joined, err := app.join(ctx)
	require.NoError(t, err)
	head, err := codec.ObservationHeadKey("prod", "s")
	require.NoError(t, err)
	_, recs := newRun(t, "r1", `{}`)
	_, err = joined.Transact(ctx, "append", func(ctx context.Context, tx storage.Tx) error {
		err := tx.Append(ctx, head, []byte(`1`))
		require.ErrorIs(t, err, storage.ErrAppendJoined)
		return createAll(recs)(ctx, tx) // the refusal left the transaction as it was
	})
	require.NoError(t, err)
	require.NoError(t, app.commit())
	require.True(t, stored(t, another(t, db), recs[0].Key))
}

func joinWakes(t *testing.T, begin beginApplication) {
	ctx, cancel := context.WithCancel(context.Background())
	_, db, app := begin(t, "read committed")
	other := another(t, db)
	topics := make(chan string, 100)
	listening := make(chan error, 1)
	go func() { listening <- other.Listen(ctx, func(topic string) { topics <- topic }) }()
	require.Equal(t, "", <-topics)
	joined, err := app.join(ctx)
	require.NoError(t, err)
	_, err = joined.Transact(ctx, "wake", func(_ context.Context, tx storage.Tx) error { return tx.Wake("joined") })
	require.NoError(t, err)
	// The other client's wake is sent later and arrives first: the first is not sent yet.
	_, err = other.Transact(ctx, "wake", func(_ context.Context, tx storage.Tx) error { return tx.Wake("other") })
	require.NoError(t, err)
	require.Equal(t, "other", <-topics)
	require.NoError(t, app.commit())
	require.Equal(t, "joined", <-topics)
	cancel()
	require.ErrorIs(t, <-listening, context.Canceled)
}

func joinEnded(t *testing.T, begin beginApplication) {
	ctx := context.Background()
	_, _, app := begin(t, "read committed")
	joined, err := app.join(ctx)
	require.NoError(t, err)
	require.NoError(t, app.commit())
	_, recs := newRun(t, "r1", `{}`)
	_, err = joined.Transact(ctx, "late", createAll(recs))
	require.ErrorIs(t, err, storage.ErrClosed)
	_, err = app.join(ctx)
	require.ErrorIs(t, err, storage.ErrClosed)
}

func joinNested(t *testing.T, begin beginApplication) {
	ctx := context.Background()
	d, _, app := begin(t, "read committed")
	joined, err := app.join(ctx)
	require.NoError(t, err)
	_, err = joined.Transact(ctx, "outer", func(ctx context.Context, _ storage.Tx) error {
		for _, inner := range []storage.Transactor{d, joined} {
			_, err := inner.Transact(ctx, "inner", func(context.Context, storage.Tx) error { return nil })
			require.ErrorIs(t, err, storage.ErrNestedTransaction)
		}
		return nil
	})
	require.NoError(t, err)
}

func joinDuplicate(t *testing.T, begin beginApplication) {
	ctx := context.Background()
	_, db, app := begin(t, "read committed")
	other := another(t, db)
	single := func(id string) []storage.Record {
		r, recs := newRun(t, id, `{}`)
		r.SingletonKey = "only"
		rec, err := codec.EncodeRun(r)
		require.NoError(t, err)
		return []storage.Record{rec, recs[1]}
	}
	_, err := other.Transact(ctx, "create", createAll(single("r1")))
	require.NoError(t, err)
	joined, err := app.join(ctx)
	require.NoError(t, err)
	_, err = joined.Transact(ctx, "again", createAll(single("r2")))
	var dup *storage.DuplicateActiveError
	require.ErrorAs(t, err, &dup)
	require.Equal(t, "r1", dup.RunID)
	require.NoError(t, app.commit())
}

func joinLostConnection(t *testing.T, begin beginApplication) {
	ctx := context.Background()
	_, db, app := begin(t, "read committed")
	joined, err := app.join(ctx)
	require.NoError(t, err)
	var gone bool
	require.NoError(t, db.Pool(t).QueryRow(ctx,
		`SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = current_database() AND state = 'idle in transaction'`).Scan(&gone))
	require.True(t, gone)
	_, recs := newRun(t, "r1", `{}`)
	_, err = joined.Transact(ctx, "late", createAll(recs))
	require.ErrorIs(t, err, storage.ErrUnavailable)
	require.False(t, stored(t, another(t, db), recs[0].Key))
}
