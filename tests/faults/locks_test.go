package faults_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/internal/pgtest"
	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/codec"
	"github.com/seed4391e180/runlane/storage/keys"
	"github.com/seed4391e180/runlane/storage/postgres"
	"github.com/seed4391e180/runlane/tests/wire"
)

// session is a driver with a pool of its own, as another process would have. deadlock
// strikes when the server reports one.
func (w *world) session(conns int32, c postgres.Config) (d *postgres.Driver, deadlock *wire.Shot) {
	w.Helper()
	config := w.db.Config(w)
	config.MaxConns = conns
	faults := wire.Inject(config)
	w.Cleanup(faults.Close)
	deadlock = faults.Arm(wire.Fault{
		Action: wire.Replace, Direction: wire.ToClient,
		Match: func(message []byte) bool { return message[0] == 'E' && bytes.Contains(message, []byte("C40P01\x00")) },
		With:  func(message []byte) []byte { return message },
	})
	pool, err := pgxpool.NewWithConfig(w.ctx, config)
	require.NoError(w, err)
	w.Cleanup(pool.Close)
	d, err = postgres.New(pool, c)
	require.NoError(w, err)
	w.Cleanup(func() { require.NoError(w, d.Close()) })
	return d, deadlock
}

// TestSameKeysShuffled lets two sessions, each with several transactions at a time,
// write the same 200 records, in another order each time, in every way of locking them.
// All commit, each number counts the commits that wrote it, and the server reports no
// deadlock.
func TestSameKeysShuffled(t *testing.T) {
	t.Parallel()
	const (
		records = 200
		atATime = 3
		rounds  = 10
	)
	w := newWorld(t)
	env := w.environment()
	partition, err := codec.QueueSlotExpiryPartition(env)
	require.NoError(t, err)
	var all []storage.Key
	var recs []storage.Record
	for i := range records {
		rec := number(slotKey(env, i), 0)
		rec.Entries = []storage.Entry{{Index: storage.QueueSlotsByExpiry, Partition: partition, Sort: keys.EncodeInt(int64(i))}}
		recs, all = append(recs, rec), append(all, rec.Key)
	}
	require.NoError(t, w.put(recs...))

	ways := []func(ctx context.Context, tx storage.Tx, shuffled []storage.Key) (map[storage.Key]storage.Record, error){
		func(ctx context.Context, tx storage.Tx, shuffled []storage.Key) (map[storage.Key]storage.Record, error) {
			return tx.GetMany(ctx, shuffled)
		},
		func(ctx context.Context, tx storage.Tx, shuffled []storage.Key) (map[storage.Key]storage.Record, error) {
			found, err := tx.GetMany(ctx, shuffled)
			if err == nil {
				_, err = tx.Now(ctx)
			}
			return found, err
		},
		func(ctx context.Context, tx storage.Tx, _ []storage.Key) (map[storage.Key]storage.Record, error) {
			page, err := tx.Query(ctx, storage.Query{Index: storage.QueueSlotsByExpiry, Partition: partition, Limit: 60, Lock: storage.Exclusive})
			found := map[storage.Key]storage.Record{}
			for _, rec := range page.Records {
				found[rec.Key] = rec
			}
			return found, err
		},
		func(ctx context.Context, tx storage.Tx, shuffled []storage.Key) (map[storage.Key]storage.Record, error) {
			found, err := tx.GetMany(ctx, shuffled[:100], storage.ReadOnly)
			if err != nil {
				return nil, err
			}
			clear(found) // read, and not to be written
			more, err := tx.GetMany(ctx, shuffled[100:])
			for key, rec := range more {
				found[key] = rec
			}
			return found, err
		},
	}
	var (
		working  sync.WaitGroup
		written  atomic.Int64
		attempts atomic.Int64

		deadlocks []*wire.Shot
	)
	for session := range 2 {
		d, deadlock := w.session(atATime, postgres.Config{MaxTransactionAttempts: 20})
		deadlocks = append(deadlocks, deadlock)
		for worker := range atATime {
			random := rand.New(rand.NewPCG(uint64(session), uint64(worker)))
			working.Go(func() {
				for round := 0; round < rounds && !t.Failed(); round++ {
					shuffled := append([]storage.Key(nil), all...)
					n := 0
					commit, err := d.Transact(w.ctx, "shuffled", func(ctx context.Context, tx storage.Tx) error {
						random.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
						found, err := ways[(round+session+worker)%len(ways)](ctx, tx, shuffled)
						n = len(found)
						for _, key := range shuffled {
							if rec, ok := found[key]; ok && err == nil {
								next := number(key, numberIn(rec)+1)
								next.Entries = recs[0].Entries
								err = tx.Replace(ctx, next)
							}
						}
						return err
					})
					if err != nil {
						t.Errorf("session %d, round %d: %v", session, round, err)
						continue
					}
					written.Add(int64(n))
					attempts.Add(int64(commit.Attempts))
				}
			})
		}
	}
	working.Wait()

	var sum int64
	require.NoError(t, w.pool.QueryRow(w.ctx, "SELECT sum((record_document ->> 'n')::bigint) FROM runlane.runlane_record_queue_slots").Scan(&sum))
	require.Equal(t, written.Load(), sum)
	for _, deadlock := range deadlocks {
		require.False(t, deadlock.HasStruck(), "a deadlock")
	}
	t.Logf("%d transactions wrote %d records in %d attempts", 2*atATime*rounds, written.Load(), attempts.Load())
}

// TestLockTableFull asks a server with a small lock table for more locks than fit.
// That is told by name, and whoever wants less gets it.
func TestLockTableFull(t *testing.T) {
	t.Parallel()
	cluster := pgtest.Private(t, pgtest.Options{Volatile: true, Settings: map[string]string{"max_locks_per_transaction": "10", "max_connections": "20"}})
	w := newWorld(t, pgtest.On(cluster))
	env := w.environment()
	create := func(d *postgres.Driver, from, n int) error {
		_, err := d.Transact(w.ctx, "batch", func(ctx context.Context, tx storage.Tx) error {
			for i := range n {
				if err := tx.Create(ctx, number(slotKey(env, from+i), i)); err != nil {
					return err
				}
			}
			return nil
		})
		return err
	}
	d, _ := w.session(4, postgres.Config{MaxHeldLocks: 10_000})
	for range 3 {
		err := create(d, 0, 2500)
		require.ErrorIs(t, err, storage.ErrUnavailable)
		require.True(t, storage.Retryable(err))
		require.NoError(t, create(d, int(w.lastName.Add(10)), 5))
	}
	now, err := w.look(env)
	require.NoError(t, err)
	require.Len(t, now.versions, 3*5, "nothing of the big batches")

	// While big batches fail, small ones may be told the same, and no worse.
	var working sync.WaitGroup
	working.Go(func() {
		for range 3 {
			if err := create(d, 100_000, 2500); !errors.Is(err, storage.ErrUnavailable) {
				t.Errorf("a big batch: %v", err)
			}
		}
	})
	var ok, unavailable atomic.Int64
	for range 2 {
		working.Go(func() {
			for range 20 {
				err := create(d, int(w.lastName.Add(10)), 5)
				switch {
				case err == nil:
					ok.Add(1)
				case errors.Is(err, storage.ErrUnavailable), errors.Is(err, storage.ErrConflict):
					unavailable.Add(1)
				default:
					t.Errorf("a small batch: %v", err)
				}
			}
		})
	}
	working.Wait()
	require.NoError(t, create(d, int(w.lastName.Add(10)), 5))
	t.Logf("beside big batches %d small ones went through, %d were unavailable", ok.Load(), unavailable.Load())
	now, err = w.look(env)
	require.NoError(t, err)
	require.Len(t, now.versions, (3+int(ok.Load())+1)*5)
}

// TestOneConnection runs transactions of every shape at once over a pool of one
// connection: none needs a second one while it holds it.
func TestOneConnection(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b, err := w.broken(postgres.Config{AcquireTimeout: patience})
	require.NoError(t, err)
	defer func() { require.NoError(t, b.end()) }()
	w.listen(w.ctx, b.Driver) // has a connection of its own
	var working sync.WaitGroup
	for _, s := range shapes() {
		working.Go(func() {
			for range 3 {
				if err := w.warm(b, &s); err != nil {
					t.Errorf("%s: %v", s.name, err)
				}
			}
		})
	}
	working.Wait()
	require.Zero(t, b.pool.Stat().AcquiredConns())
	require.EqualValues(t, 1, b.pool.Stat().MaxConns())

	// Who asks for a second connection all the same is not made to wait for ever.
	c, err := w.broken(postgres.Config{AcquireTimeout: time.Second})
	require.NoError(t, err)
	defer func() { require.NoError(t, c.end()) }()
	env := w.environment()
	require.NoError(t, numbers(w, env))
	_, err = c.Transact(w.ctx, "second connection", func(ctx context.Context, tx storage.Tx) error {
		if _, err := tx.Now(ctx); err != nil {
			return err
		}
		_, _, err := c.GetRun(ctx, env, "run")
		return err
	})
	require.True(t, storage.Retryable(err), "%v", err)
	_, err = c.pool.Exec(w.ctx, "SELECT 1")
	require.NoError(t, err, "the connection was given back")
}

// TestFailedStatementThenCommit lets a callback pass over the failure of a statement
// and return as if nothing had happened. Nothing is committed.
func TestFailedStatementThenCommit(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name  string
		first func(ctx context.Context, tx storage.Tx, env string) error
	}{
		{"nothing is open", func(context.Context, storage.Tx, string) error { return nil }},
		{"a transaction is open", func(ctx context.Context, tx storage.Tx, env string) error {
			partition, err := codec.QueueSlotExpiryPartition(env)
			if err != nil {
				return err
			}
			_, err = tx.Query(ctx, storage.Query{Index: storage.QueueSlotsByExpiry, Partition: partition, Lock: storage.Exclusive})
			return err
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t)
			b, err := w.broken(postgres.Config{})
			require.NoError(t, err)
			defer func() { require.NoError(t, b.end()) }()
			env := w.environment()
			require.NoError(t, numbers(w, env))
			before, err := w.look(env)
			require.NoError(t, err)
			head, err := codec.ObservationHeadKey(env, "stream")
			require.NoError(t, err)
			rename := func(from, to string) {
				_, err := w.pool.Exec(w.ctx, fmt.Sprintf("ALTER TABLE runlane.%s RENAME TO %s", from, to))
				require.NoError(t, err)
			}
			heads := postgres.TableName(storage.ObservationHeads)
			rename(heads, "away")
			_, err = b.Transact(w.ctx, "failed statement", func(ctx context.Context, tx storage.Tx) error {
				if err := all(test.first(ctx, tx, env), increment(ctx, tx, slotKey(env, 1))); err != nil {
					return err
				}
				_, _, err := tx.Get(ctx, head)
				require.ErrorIs(t, err, storage.ErrConfiguration)
				require.ErrorIs(t, mark(ctx, tx, env), storage.ErrConfiguration, "the attempt is lost")
				return nil
			})
			require.ErrorIs(t, err, storage.ErrConfiguration)
			rename("away", heads)
			after, err := w.look(env)
			require.NoError(t, err)
			require.Equal(t, before.raw, after.raw)
			require.NoError(t, w.warm(b, shapeNamed("append")), "the connection is good")
		})
	}
	t.Run("a busy lock", func(t *testing.T) {
		w := newWorld(t)
		env := w.environment()
		require.NoError(t, numbers(w, env))
		held, release, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
		go func() {
			_, err := w.driver.Transact(w.ctx, "holder", func(ctx context.Context, tx storage.Tx) error {
				if err := increment(ctx, tx, slotKey(env, 1)); err != nil {
					return err
				}
				_, err := tx.Now(ctx)
				close(held)
				<-release
				return err
			})
			done <- err
		}()
		<-held
		attempts := 0
		commit, err := w.driver.Transact(w.ctx, "passes over it", func(ctx context.Context, tx storage.Tx) error {
			attempts++
			if err := increment(ctx, tx, slotKey(env, 1)); err != nil {
				return err
			}
			if _, err := tx.Now(ctx); attempts == 1 {
				require.Error(t, err)
				close(release)
			}
			return nil
		})
		require.NoError(t, <-done)
		require.NoError(t, err)
		require.Equal(t, 2, commit.Attempts)
		now, err := w.look(env)
		require.NoError(t, err)
		require.Contains(t, now.text, `{"n": 12}`, "10 and two increments")
	})
}
