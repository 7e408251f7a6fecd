package histories_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/internal/pgtest"
	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/postgres"
	"github.com/seed4391e180/runlane/tests/histories/play"
	"github.com/seed4391e180/runlane/tests/wire"
)

// attempts is how often a callback may run here: a key space this small would use up
// the default now and then, which is right but teaches nothing.
const attempts = 12

func TestPostgres(t *testing.T) {
	o := play.Options{Transactions: 5500, Slots: 6, Runs: 5, Owners: 5, Pairs: 2, Streams: 2, Evidence: true, MaxAttempts: attempts}
	histories(t, o, func(t *testing.T, _ *play.Options) stage {
		w := newWorld(t, pgtest.New(t))
		d := w.open(postgres.Config{MaxTransactionAttempts: attempts}, nil)
		return stage{store: d, settle: w.settle, faults: &w.faults}
	})
}

// TestPostgresJoined has every other transaction run inside a transaction that the
// client has open.
func TestPostgresJoined(t *testing.T) {
	o := play.Options{Transactions: 1500, Slots: 4, Runs: 3, Owners: 4, Pairs: 2, Evidence: true, MaxAttempts: attempts}
	histories(t, o, func(t *testing.T, _ *play.Options) stage {
		w := newWorld(t, pgtest.New(t))
		d := w.open(postgres.Config{MaxTransactionAttempts: attempts}, nil)
		return stage{store: &half{driver: d, pool: w.pool}, settle: w.settle, faults: &w.faults}
	})
}

// half is a driver of whose transactions every other one is joined to another.
type half struct {
	driver *postgres.Driver
	pool   *pgxpool.Pool
	calls  atomic.Int64
}

func (h *half) Transact(ctx context.Context, label string, fn func(context.Context, storage.Tx) error) (storage.Commit, error) {
	if h.calls.Add(1)%2 == 0 {
		return h.driver.Transact(ctx, label, fn)
	}
	var commit storage.Commit
	err := pgx.BeginFunc(ctx, h.pool, func(tx pgx.Tx) error {
		joined, err := h.driver.Join(ctx, tx)
		if err != nil {
			return err
		}
		commit, err = joined.Transact(ctx, label, fn)
		return err
	})
	return commit, err
}

// world is a database under test and a connection beside it.
type world struct {
	*testing.T
	db     *pgtest.DB
	driver *postgres.Driver
	pool   *pgxpool.Pool
	beside *pgx.Conn    // of kill
	holder *pgx.Conn    // of hold
	wire   *wire.Faults // of cut
	shot   *wire.Shot   // the fault that was armed last
	faults disturbances
}

// application is the name under which the connections of the driver can be found.
const application = "runlane histories"

func newWorld(t *testing.T, db *pgtest.DB) *world { return &world{T: t, db: db} }

// open makes the driver that the clients use.
func (w *world) open(c postgres.Config, change func(*pgxpool.Config)) *postgres.Driver {
	config := w.db.Config(w)
	config.MaxConns = int32(*clients) + 2
	config.ConnConfig.RuntimeParams["application_name"] = application
	config.ConnConfig.Tracer = &w.faults
	if change != nil {
		change(config)
	}
	var err error
	w.pool, err = pgxpool.NewWithConfig(context.Background(), config)
	require.NoError(w, err)
	w.driver, err = postgres.New(w.pool, c)
	require.NoError(w, err)
	return w.driver
}

// settle closes the driver, waits until the server has ended all that it had been
// doing for it, and opens another.
func (w *world) settle(ctx context.Context) storage.Transactor {
	if w.holder != nil {
		require.NoError(w, w.holder.Close(ctx))
	}
	require.NoError(w, w.driver.Close())
	w.pool.Close()
	if w.wire != nil {
		w.wire.Close()
	}
	conn, err := pgx.Connect(ctx, w.db.URL)
	require.NoError(w, err)
	defer func() { require.NoError(w, conn.Close(ctx)) }()
	for {
		var left int
		require.NoError(w, conn.QueryRow(ctx, "select count(*) from pg_stat_activity where application_name = $1 and datname = current_database()", application).Scan(&left))
		if left == 0 {
			break
		}
		_, err := conn.Exec(ctx, "select pg_sleep(0.01)")
		require.NoError(w, err)
	}
	d, err := postgres.New(w.db.Pool(w), postgres.Config{})
	require.NoError(w, err)
	w.Cleanup(func() { require.NoError(w, d.Close()) })
	return d
}
