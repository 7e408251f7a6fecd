package driver_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/internal/pgtest"
	"github.com/seed4391e180/runlane/run"
	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/codec"
	"github.com/seed4391e180/runlane/storage/postgres"
)

func benchRun(b *testing.B, id string) []storage.Record {
	event := run.Event{ID: uuid.Must(uuid.NewV7()), Environment: "prod", RunID: id, Sequence: 1, At: run.AtCommit, Data: run.Created{
		Task: "mail", Queue: "default", Priority: 2, Payload: []byte(`{"user":"u_123","template":"welcome"}`), Source: run.Source{Type: run.SourceTrigger},
	}}
	r, err := run.Reduce(nil, 1, event)
	require.NoError(b, err)
	rec, err := codec.EncodeRun(r)
	require.NoError(b, err)
	ev, err := codec.EncodeEvent(event)
	require.NoError(b, err)
	return []storage.Record{rec, ev}
}

// BenchmarkCreate stores runs with their Created event, batch runs a transaction.
func BenchmarkCreate(b *testing.B) {
	for _, batch := range []int{1, 50, 500} {
		b.Run(fmt.Sprintf("batch=%d", batch), func(b *testing.B) {
			d, err := postgres.New(pgtest.New(b).Pool(b), postgres.Config{})
			require.NoError(b, err)
			var next atomic.Int64
			b.ReportAllocs()
			b.ResetTimer()
			b.SetParallelism(8)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					var recs []storage.Record
					for range batch {
						recs = append(recs, benchRun(b, fmt.Sprint(next.Add(1)))...)
					}
					_, err := d.Transact(context.Background(), "create", func(ctx context.Context, tx storage.Tx) error {
						for _, rec := range recs {
							if err := tx.Create(ctx, rec); err != nil {
								return err
							}
						}
						return nil
					})
					if err != nil {
						b.Error(err)
						return
					}
				}
			})
			b.ReportMetric(float64(next.Load())/b.Elapsed().Seconds(), "runs/s")
		})
	}
}

// BenchmarkLifecycle takes runs through their life in batches of 250 on one
// connection: create, claim, finish. It reports the time of each step for one run.
func BenchmarkLifecycle(b *testing.B) {
	const size = 250
	ctx := context.Background()
	d, err := postgres.New(pgtest.New(b).Pool(b), postgres.Config{})
	require.NoError(b, err)
	due, err := codec.DuePartition("prod", "default", 2)
	require.NoError(b, err)
	var create, claim, finish time.Duration
	timed := func(total *time.Duration, fn func(ctx context.Context, tx storage.Tx) error) storage.Commit {
		start := time.Now()
		commit, err := d.Transact(ctx, "bench", fn)
		require.NoError(b, err)
		*total += time.Since(start)
		return commit
	}
	b.ResetTimer()
	for n := range b.N {
		var recs []storage.Record
		for i := range size {
			recs = append(recs, benchRun(b, fmt.Sprintf("%08d-%04d", n, i))...)
		}
		timed(&create, func(ctx context.Context, tx storage.Tx) error {
			for _, rec := range recs {
				if err := tx.Create(ctx, rec); err != nil {
					return err
				}
			}
			return nil
		})
		var held []storage.Record
		commit := timed(&claim, func(ctx context.Context, tx storage.Tx) error {
			page, err := tx.Query(ctx, storage.Query{Index: storage.RunsByDue, Partition: due, Until: storage.ServerNow(), Limit: size, Lock: storage.Exclusive})
			if err != nil {
				return err
			}
			now, err := tx.Now(ctx)
			if err != nil {
				return err
			}
			held = held[:0]
			for _, rec := range page.Records {
				next, err := step(ctx, tx, rec, now, func(r *run.Run) run.EventData {
					return run.Started{Lease: run.Lease{Token: uuid.New(), Worker: "w", Attempt: 1, Expires: now.Add(time.Minute), Duration: time.Minute}}
				})
				if err != nil {
					return err
				}
				held = append(held, next)
			}
			return nil
		})
		require.Len(b, held, size)
		timed(&finish, func(ctx context.Context, tx storage.Tx) error {
			for _, rec := range held {
				rec.Version = commit.Versions[rec.Key]
				now, _, err := tx.Assume(ctx, rec)
				if err != nil {
					return err
				}
				if _, err := step(ctx, tx, now, run.AtCommit, func(r *run.Run) run.EventData {
					return run.Succeeded{Token: r.Lease.Token, Result: []byte(`{"sha256":"9f49a346e98ee8501cf407037b89c7d278cfa8594abb83339c24740247993524"}`)}
				}); err != nil {
					return err
				}
			}
			return nil
		})
	}
	for name, total := range map[string]time.Duration{"create": create, "claim": claim, "finish": finish} {
		b.ReportMetric(float64(total.Microseconds())/float64(b.N*size), name+"-us/run")
	}
}

// step stages the next event of a run and the run that it makes.
func step(ctx context.Context, tx storage.Tx, rec storage.Record, at time.Time, data func(r *run.Run) run.EventData) (storage.Record, error) {
	r, kind := codec.DecodeRun(rec)
	if kind != codec.Canonical {
		return storage.Record{}, fmt.Errorf("%v is %v", rec.Key, kind)
	}
	event := run.Event{ID: uuid.Must(uuid.NewV7()), Environment: r.Environment, RunID: r.ID, Sequence: r.Sequence + 1, At: at, Data: data(&r)}
	r, err := run.Reduce(&r, event.Sequence, event)
	if err != nil {
		return storage.Record{}, err
	}
	next, err := codec.EncodeRun(r)
	if err != nil {
		return storage.Record{}, err
	}
	if err := tx.Replace(ctx, next); err != nil {
		return storage.Record{}, err
	}
	created, err := codec.EncodeEvent(event)
	if err != nil {
		return storage.Record{}, err
	}
	return next, tx.Create(ctx, created)
}
