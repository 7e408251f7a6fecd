package histories_test

import (
	"bytes"
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/seed4391e180/runlane/internal/pgtest"
	"github.com/seed4391e180/runlane/storage/postgres"
	"github.com/seed4391e180/runlane/tests/histories/play"
	"github.com/seed4391e180/runlane/tests/wire"
)

// impatient waits for little: locks are soon busy, and the outcome of a lost commit
// is soon known.
var impatient = postgres.Config{MaxTransactionAttempts: attempts, LockTimeout: 50 * time.Millisecond, CommitTimeout: 2 * time.Second, IdleTimeout: 9876 * time.Millisecond}

// idleTimeout is the idle timeout of impatient on the wire.
const idleTimeout = "9876"

// TestPostgresKilled ends server processes of the driver under the clients, and their
// contexts, and has rows locked beside them for longer than they wait.
func TestPostgresKilled(t *testing.T) {
	t.Parallel() // much of it is waiting
	o := play.Options{Transactions: 1000, Slots: 4, Runs: 3, Owners: 4, Pairs: 2, Streams: 2, Evidence: true, Cancel: 0.06, Faults: true, MaxAttempts: attempts}
	histories(t, o, func(t *testing.T, o *play.Options) stage {
		w := newWorld(t, pgtest.New(t))
		d := w.open(impatient, nil)
		o.Before = w.every(10, o.Seed, w.killOrHold)
		return stage{store: d, settle: w.settle, faults: &w.faults, expect: []string{killed, held, lockNotAvailable}}
	})
}

// TestPostgresCut cuts connections at any byte of what they carry. The transactions
// leave no evidence of themselves, so that what the driver finds out about a lost
// commit depends on records that others write and delete.
func TestPostgresCut(t *testing.T) {
	t.Parallel()
	o := play.Options{Transactions: 1000, Slots: 3, Runs: 2, Owners: 2, Pairs: 2, Streams: 1, Lasting: true, Faults: true, MaxAttempts: attempts}
	histories(t, o, func(t *testing.T, o *play.Options) stage {
		w := newWorld(t, pgtest.New(t))
		d := w.open(impatient, func(c *pgxpool.Config) { w.wire = wire.Inject(c) })
		o.Before = w.every(6, o.Seed, w.cut)
		return stage{store: d, settle: w.settle, faults: &w.faults, expect: []string{wire.Cut.String(), wire.HalfOpen.String()}}
	})
}

// TestPostgresRestarted restarts the server under the clients: without a shutdown, and
// by killing its main process.
func TestPostgresRestarted(t *testing.T) {
	t.Parallel()
	o := play.Options{Transactions: 1000, Slots: 4, Runs: 3, Owners: 4, Pairs: 2, Streams: 2, Evidence: true, Faults: true, MaxAttempts: attempts}
	cluster := pgtest.Private(t, pgtest.Options{})
	histories(t, o, func(t *testing.T, o *play.Options) stage {
		w := newWorld(t, pgtest.New(t, pgtest.On(cluster)))
		d := w.open(impatient, nil)
		o.Before = w.restart(cluster, o.Transactions)
		return stage{store: d, settle: w.settle, faults: &w.faults, expect: []string{restarts[pgtest.Immediate], restarts[pgtest.Crash]}}
	})
}

// every does something before every n-th transaction, one at a time.
func (w *world) every(n int, seed uint64, do func(context.Context, *rand.Rand) error) func(context.Context, int) error {
	var mu sync.Mutex
	r := rand.New(rand.NewPCG(seed, 1))
	return func(ctx context.Context, begun int) error {
		if begun%n != n-1 {
			return nil
		}
		mu.Lock()
		defer mu.Unlock()
		return do(ctx, r)
	}
}

// What killOrHold does, by name.
const (
	killed = "killed server process"
	held   = "held row"
)

func (w *world) killOrHold(ctx context.Context, r *rand.Rand) error {
	if r.IntN(2) == 0 {
		return w.hold(ctx, r)
	}
	return w.kill(ctx, r)
}

// hold locks a row until it is called again. Whoever needs the row waits for as long
// as the driver's lock timeout, once in each attempt.
func (w *world) hold(ctx context.Context, r *rand.Rand) (err error) {
	if w.holder == nil {
		if w.holder, err = pgx.Connect(ctx, w.db.URL); err != nil {
			return err
		}
	}
	table := []string{"runlane_runs", "runlane_record_queue_slots", "runlane_record_run_events"}[r.IntN(3)]
	row := "select from " + pgx.Identifier{postgres.DefaultSchema, table}.Sanitize() + " order by random() limit 1 for update skip locked"
	if _, err = w.holder.Exec(ctx, "rollback; begin; "+row); err == nil {
		w.faults.note(held)
	}
	return err
}

// kill ends one server process of the driver, mostly one that is at work.
func (w *world) kill(ctx context.Context, r *rand.Rand) error {
	conn, err := w.side(ctx)
	if err != nil {
		return err
	}
	order := "random()"
	if r.IntN(4) > 0 {
		order = "state = 'active' desc, random()"
	}
	tag, err := conn.Exec(ctx, "select pg_terminate_backend(pid) from pg_stat_activity where application_name = $1 and datname = current_database() order by "+order+" limit 1", application)
	if tag.RowsAffected() > 0 {
		w.faults.note(killed)
	}
	return err
}

// side returns a connection beside the driver's.
func (w *world) side(ctx context.Context) (*pgx.Conn, error) {
	if w.beside == nil {
		conn, err := pgx.Connect(ctx, w.db.URL)
		if err != nil {
			return nil, err
		}
		w.beside = conn
		w.Cleanup(func() { _ = conn.Close(context.Background()) })
	}
	return w.beside, nil
}

// cut arms the next fault of the wire: mostly a connection that is cut within the
// answer to a commit, otherwise somewhere in what either side says. The server of some
// does not notice until the next.
func (w *world) cut(_ context.Context, r *rand.Rand) error {
	if w.shot != nil {
		if !w.shot.HasStruck() {
			return nil
		}
		w.faults.note(w.shot.Fault().Action.String())
		if w.shot.Fault().Action == wire.HalfOpen {
			w.shot.Drop()
		}
		w.wire.Rewind()
	}
	fault := wire.Fault{Action: wire.Cut, Direction: wire.ToClient, Message: r.IntN(60)}
	switch r.IntN(6) {
	case 0:
	case 1:
		fault.Direction = wire.ToServer
	case 2, 3:
		fault.Match, fault.Message = explicitCommit, r.IntN(3)
	default:
		fault.Match, fault.Message = transactionSettings, r.IntN(3)
	}
	if r.IntN(4) == 0 {
		fault.Action = wire.HalfOpen
	}
	if r.IntN(3) == 0 {
		fault.Byte = r.IntN(40)
	}
	w.shot = w.wire.Arm(fault)
	return nil
}

// explicitCommit reports whether a message of the server is the answer to COMMIT.
func explicitCommit(message []byte) bool {
	return message[0] == 'C' && bytes.Contains(message, []byte("COMMIT"))
}

// transactionSettings reports whether a message of the server is the row of the
// statement that begins every transaction which writes or locks. Those that commit by
// themselves have committed before any of it is sent.
func transactionSettings(message []byte) bool {
	return message[0] == 'D' && bytes.Contains(message, []byte(idleTimeout))
}

// restarts names the ways in which the server is restarted.
var restarts = map[pgtest.Mode]string{pgtest.Immediate: "restart without a shutdown", pgtest.Crash: "restart after a crash"}

// restart restarts the server when a third and when two thirds of the transactions
// have begun. The clients run into its end and wait for its return.
func (w *world) restart(cluster *pgtest.Cluster, transactions int) func(context.Context, int) error {
	var gate sync.RWMutex // held by whoever restarts
	return func(ctx context.Context, begun int) error {
		how := map[int]pgtest.Mode{transactions / 3: pgtest.Immediate, 2 * transactions / 3: pgtest.Crash}
		if mode, now := how[begun]; now {
			gate.Lock()
			defer gate.Unlock()
			w.faults.note(restarts[mode])
			return cluster.Restart(ctx, mode)
		}
		gate.RLock()
		defer gate.RUnlock()
		return ctx.Err()
	}
}
