package driver_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/internal/pgtest"
	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/postgres"
)

// BenchmarkShared stores single runs from many callers, on a server that waits for the
// disk: with commits that share transactions, and with a transaction for each.
func BenchmarkShared(b *testing.B) {
	cluster := pgtest.Private(b, pgtest.Options{})
	for _, callers := range []int{1, 2, 8, 64} {
		for name, separate := range map[string]bool{"shared": false, "separate": true} {
			b.Run(fmt.Sprintf("callers=%d/%s", callers, name), func(b *testing.B) {
				config := pgtest.New(b, pgtest.On(cluster)).Config(b)
				config.MaxConns = 16
				d := newDriver(b, config, postgres.Config{SeparateCommits: separate})
				var next atomic.Int64
				b.ReportAllocs()
				b.SetParallelism((callers + 1) / 2) // of two processors
				b.ResetTimer()
				b.RunParallel(func(pb *testing.PB) {
					for pb.Next() {
						recs := benchRun(b, fmt.Sprint(next.Add(1)))
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
}

// BenchmarkReads reads single records from many callers.
func BenchmarkReads(b *testing.B) {
	for _, callers := range []int{1, 2, 8, 64} {
		for name, separate := range map[string]bool{"shared": false, "separate": true} {
			b.Run(fmt.Sprintf("callers=%d/%s", callers, name), func(b *testing.B) {
				config := pgtest.New(b).Config(b)
				config.MaxConns = 16
				d := newDriver(b, config, postgres.Config{SeparateCommits: separate})
				var keys []storage.Key
				for i := range 1000 {
					recs := benchRun(b, fmt.Sprint(i))
					keys = append(keys, recs[0].Key)
					_, err := d.Transact(context.Background(), "create", func(ctx context.Context, tx storage.Tx) error { return tx.Create(ctx, recs[0]) })
					require.NoError(b, err)
				}
				var next atomic.Int64
				b.ReportAllocs()
				b.SetParallelism((callers + 1) / 2)
				b.ResetTimer()
				b.RunParallel(func(pb *testing.PB) {
					for pb.Next() {
						key := keys[next.Add(1)%1000]
						_, err := d.Transact(context.Background(), "read", func(ctx context.Context, tx storage.Tx) error {
							_, found, err := tx.Get(ctx, key)
							if !found {
								b.Error("not found")
							}
							return err
						})
						if err != nil {
							b.Error(err)
							return
						}
					}
				})
				b.ReportMetric(float64(next.Load())/b.Elapsed().Seconds(), "reads/s")
			})
		}
	}
}

func newDriver(t testing.TB, config *pgxpool.Config, c postgres.Config) *postgres.Driver {
	t.Helper()
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	d, err := postgres.New(pool, c)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	return d
}
