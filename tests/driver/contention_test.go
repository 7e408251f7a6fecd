package driver_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/internal/pgtest"
	"github.com/seed4391e180/runlane/run"
	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/codec"
	"github.com/seed4391e180/runlane/storage/postgres"
)

const contenders = 32

// crowd is a driver with a connection for each of many clients.
func crowd(t testing.TB, clients int, opts ...pgtest.Option) (*postgres.Driver, *pgxpool.Pool) {
	t.Helper()
	config := pgtest.New(t, opts...).Config(t)
	config.MaxConns = int32(clients)
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	d, err := postgres.New(pool, postgres.Config{AcquireTimeout: time.Minute})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	return d, pool
}

func counterKey(t testing.TB, i int) storage.Key {
	key, err := codec.ScheduleCursorKey("prod", fmt.Sprintf("counter %d", i))
	require.NoError(t, err)
	return key
}

func createCounters(t testing.TB, d *postgres.Driver, n int) {
	_, err := d.Transact(context.Background(), "create", func(ctx context.Context, tx storage.Tx) error {
		for i := range n {
			if err := tx.Create(ctx, storage.Record{Key: counterKey(t, i), Document: []byte("0")}); err != nil {
				return err
			}
		}
		return nil
	})
	require.NoError(t, err)
}

// increment adds one to a counter.
func increment(ctx context.Context, d storage.Transactor, key storage.Key) (storage.Commit, error) {
	return d.Transact(ctx, "increment", func(ctx context.Context, tx storage.Tx) error {
		rec, _, err := tx.Get(ctx, key)
		if err != nil {
			return err
		}
		n, err := strconv.Atoi(string(rec.Document))
		if err != nil {
			return err
		}
		return tx.Replace(ctx, storage.Record{Key: key, Document: json.RawMessage(strconv.Itoa(n + 1))})
	})
}

// work is what one client of a contention did.
type work struct {
	commits, attempts int
	took              []time.Duration
}

// contend lets the clients do n pieces of work each.
func contend(clients, n int, do func(client, i int) (attempts int, err error)) (total work, failed []error) {
	var (
		all sync.WaitGroup
		mu  sync.Mutex
	)
	for client := range clients {
		all.Go(func() {
			var w work
			for i := range n {
				began := time.Now()
				attempts, err := do(client, i)
				if err != nil {
					mu.Lock()
					failed = append(failed, err)
					mu.Unlock()
					return
				}
				w.commits, w.attempts = w.commits+1, w.attempts+attempts
				w.took = append(w.took, time.Since(began))
			}
			mu.Lock()
			defer mu.Unlock()
			total.commits, total.attempts = total.commits+w.commits, total.attempts+w.attempts
			total.took = append(total.took, w.took...)
		})
	}
	all.Wait()
	slices.Sort(total.took)
	return total, failed
}

func (w work) quantile(q float64) time.Duration { return w.took[int(q*float64(len(w.took)-1))] }

func TestContention(t *testing.T) {
	ctx := context.Background()
	for _, c := range []struct {
		name     string
		counters int
	}{{"one record", 1}, {"a thousand records", 1000}} {
		t.Run(c.name, func(t *testing.T) {
			d, pool := crowd(t, contenders)
			createCounters(t, d, c.counters)
			const each = 20
			total, failed := contend(contenders, each, func(client, i int) (int, error) {
				commit, err := increment(ctx, d, counterKey(t, (client*each+i*7)%c.counters))
				return commit.Attempts, err
			})
			require.Empty(t, failed, "no increment gives up")
			require.Equal(t, contenders*each, total.commits)
			var sum int
			require.NoError(t, pool.QueryRow(ctx, "SELECT sum(record_document::int) FROM runlane.runlane_record_schedule_cursors").Scan(&sum))
			require.Equal(t, contenders*each, sum)
			t.Logf("%d commits, %.2f attempts each, median %v, p99 %v", total.commits, float64(total.attempts)/float64(total.commits), total.quantile(0.5), total.quantile(0.99))
		})
	}
}

// TestClaimsBesidePointWriters claims pages of 500 while point writers cancel runs of
// the same queue. A claim leaves out what a point writer holds, and is never lost as
// a whole; in the end each run was either claimed or cancelled, once.
func TestClaimsBesidePointWriters(t *testing.T) {
	ctx := context.Background()
	const runs, page, writers = 1500, 500, 8
	d, pool := crowd(t, writers+2)
	ids := make([]string, runs)
	for i := range ids {
		ids[i] = fmt.Sprintf("r%04d", i)
	}
	for batch := range slices.Chunk(ids, 500) {
		var recs []storage.Record
		for _, id := range batch {
			_, both := newRun(t, id, `{}`)
			recs = append(recs, both...)
		}
		_, err := d.Transact(ctx, "create", createAll(recs))
		require.NoError(t, err)
	}
	due, err := codec.DuePartition("prod", "default", 2)
	require.NoError(t, err)

	var (
		all       sync.WaitGroup
		mu        sync.Mutex
		owner     = map[string]string{}
		attempts  int
		claims    int
		exhausted bool
	)
	took := func(who string, ids ...string) {
		mu.Lock()
		defer mu.Unlock()
		for _, id := range ids {
			assert.Empty(t, owner[id], "%s twice", id)
			owner[id] = who
		}
	}
	for w := range writers {
		all.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(w), 1))
			for {
				mu.Lock()
				done := exhausted
				mu.Unlock()
				if done {
					return
				}
				id := ids[rng.IntN(runs)]
				done, err := cancelRun(ctx, d, id)
				if !assert.NoError(t, err) {
					return
				}
				if done {
					took("writer", id)
				}
			}
		})
	}
	all.Go(func() {
		defer func() { mu.Lock(); exhausted = true; mu.Unlock() }()
		for {
			var claimed []string
			commit, err := d.Transact(ctx, "claim", func(ctx context.Context, tx storage.Tx) error {
				claimed = nil
				found, err := tx.Query(ctx, storage.Query{Index: storage.RunsByDue, Partition: due, Until: storage.ServerNow(), Limit: page, Lock: storage.Exclusive})
				if err != nil {
					return err
				}
				for _, rec := range found.Records {
					r, _ := codec.DecodeRun(rec)
					if err := leaveQueue(ctx, tx, r); err != nil {
						return err
					}
					claimed = append(claimed, r.ID)
				}
				return nil
			})
			if !assert.NoError(t, err) {
				return
			}
			attempts, claims = attempts+commit.Attempts, claims+1
			took("claim", claimed...)
			var left int
			if !assert.NoError(t, pool.QueryRow(ctx, "SELECT count(*) FROM runlane.runlane_runs WHERE runs_by_due_partition IS NOT NULL").Scan(&left)) || left == 0 {
				return
			}
		}
	})
	all.Wait()
	require.Equal(t, runs, len(owner)) //nolint:testifylint // the map is too long to be shown
	require.Equal(t, claims, attempts, "no claim had to be made again")
}

// leaveQueue marks a run and takes it out of its index, which is all that matters here.
func leaveQueue(ctx context.Context, tx storage.Tx, r run.Run) error {
	r.Metadata = map[string]string{"left": "true"}
	rec, err := codec.EncodeRun(r)
	if err != nil {
		return err
	}
	rec.Entries = nil
	return tx.Replace(ctx, rec)
}

// cancelRun takes a run out of its queue; done is false if it had left already.
func cancelRun(ctx context.Context, d storage.Transactor, id string) (done bool, err error) {
	key, err := codec.RunKey("prod", id)
	if err != nil {
		return false, err
	}
	done, _, err = storage.Transact(ctx, d, "cancel", func(ctx context.Context, tx storage.Tx) (bool, error) {
		rec, _, err := tx.Get(ctx, key)
		if err != nil {
			return false, err
		}
		r, _ := codec.DecodeRun(rec)
		if r.Metadata["left"] != "" {
			return false, nil
		}
		return true, leaveQueue(ctx, tx, r)
	})
	return done, err
}

// BenchmarkContention compares increments by 32 clients with the same by hand:
// SELECT … FOR UPDATE, then UPDATE.
func BenchmarkContention(b *testing.B) {
	ctx := context.Background()
	for _, counters := range []int{1, 1000} {
		byHand := func(pool *pgxpool.Pool, key storage.Key) error {
			return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
				var n int
				err := tx.QueryRow(ctx, `SELECT record_document::int FROM runlane.runlane_record_schedule_cursors
					WHERE partition_key = $1 AND record_id = $2 FOR UPDATE`, key.Partition, key.ID).Scan(&n)
				if err != nil {
					return err
				}
				_, err = tx.Exec(ctx, `UPDATE runlane.runlane_record_schedule_cursors SET record_document = $3
					WHERE partition_key = $1 AND record_id = $2`, key.Partition, key.ID, strconv.Itoa(n+1))
				return err
			})
		}
		for _, hand := range []bool{false, true} {
			b.Run(fmt.Sprintf("records=%d/byhand=%v", counters, hand), func(b *testing.B) {
				d, pool := crowd(b, contenders)
				createCounters(b, d, counters)
				each := b.N/contenders + 1
				b.ResetTimer()
				total, failed := contend(contenders, each, func(client, i int) (int, error) {
					key := counterKey(b, (client*each+i*7)%counters)
					if hand {
						return 1, byHand(pool, key)
					}
					commit, err := increment(ctx, d, key)
					return commit.Attempts, err
				})
				b.StopTimer()
				require.Empty(b, failed)
				b.ReportMetric(float64(total.commits)/b.Elapsed().Seconds(), "commits/s")
				b.ReportMetric(float64(total.attempts)/float64(total.commits), "attempts/commit")
				b.ReportMetric(float64(total.quantile(0.99).Microseconds())/1000, "p99-ms")
			})
		}
	}
}
