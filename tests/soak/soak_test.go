// Package soak_test works a driver for a long time while everything beneath it breaks,
// and then looks for what was lost, done twice, or never given back.
package soak_test

import (
	"context"
	"flag"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/internal/pgtest"
	"github.com/seed4391e180/runlane/storage/postgres"
	"github.com/seed4391e180/runlane/tests/wire"
)

var (
	length = flag.Duration("soak", 15*time.Second, "for how long clients work")
	alone  = flag.Bool("separate", false, "give each commit a transaction of its own")
	seed   = flag.Uint64("seed", uint64(time.Now().UnixNano()), "of what clients and faults do")
)

const (
	clients  = 16
	patience = time.Minute // bounds what is waited for when everything is over
)

// world is a driver on a server of its own, with faults on the way between them.
type world struct {
	*testing.T
	cluster *pgtest.Cluster
	side    *pgxpool.Pool // breaks and judges; it does not pass the faults
	pool    *pgxpool.Pool
	faults  *wire.Faults
	driver  *postgres.Driver
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{T: t, cluster: pgtest.Private(t, pgtest.Options{})}
	db := pgtest.New(t, pgtest.On(w.cluster))
	w.side = db.Pool(t)
	config := db.Config(t)
	config.MaxConns = clients
	config.ConnConfig.RuntimeParams["application_name"] = soaked
	w.faults = wire.Inject(config)
	var err error
	w.pool, err = pgxpool.NewWithConfig(context.Background(), config)
	require.NoError(t, err)
	w.driver, err = postgres.New(w.pool, postgres.Config{SeparateCommits: *alone})
	require.NoError(t, err)
	return w
}

// close ends the driver and everything that it had.
func (w *world) close() {
	require.NoError(w, w.driver.Close())
	w.pool.Close()
	w.faults.Close()
}

func TestSoak(t *testing.T) {
	t.Logf("-seed %d", *seed)
	w := newWorld(t)
	w.side.Reset() // the goroutines that come with connections are not the driver's
	before := runtime.NumGoroutine()
	w.begin()

	ctx, stop := context.WithTimeout(t.Context(), *length)
	defer stop()
	var working, breaking sync.WaitGroup
	all := make([]*client, clients)
	for i := range all {
		all[i] = &client{world: w, number: i, rng: rand.New(rand.NewPCG(*seed, uint64(i)))}
		working.Go(func() { all[i].work(ctx) })
	}
	b := &breaker{world: w, rng: rand.New(rand.NewPCG(*seed, clients)), done: map[string]int{}}
	breaking.Go(func() { b.work(ctx) })
	early := heapAfter(ctx, *length/4)
	working.Wait()
	breaking.Wait()
	if t.Failed() {
		return
	}
	late := heap()

	var total tally
	for _, c := range all {
		total.add(&c.tally)
	}
	slices.Sort(total.took)
	t.Logf("%v: %d commits by %d clients, %.2f attempts each, median %v, p99 %v; %d told to try again, %d unknown",
		*length, total.commits, clients, float64(total.attempts)/float64(total.commits), total.quantile(0.5), total.quantile(0.99), total.retries, total.unknown)
	t.Logf("faults: %v; heap %d kB after a quarter of the time, %d kB in the end", b.done, early>>10, late>>10)
	require.NotZero(t, total.commits)
	require.NotEmpty(t, b.done)
	require.Zero(t, total.unknown, "the server comes back, so every outcome can be learnt")
	w.nothingHeld() // and so nothing can commit any more
	w.judge(all)
	require.Less(t, late, early+8<<20, "memory that is not given back")
	w.close()
	w.nothingOpen(before)
}

// heap is how much memory is in use.
func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func heapAfter(ctx context.Context, d time.Duration) uint64 {
	ctx, stop := context.WithTimeout(ctx, d)
	defer stop()
	<-ctx.Done()
	return heap()
}
