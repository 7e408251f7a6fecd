package driver_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/internal/pgtest"
	"github.com/seed4391e180/runlane/run"
	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/codec"
	"github.com/seed4391e180/runlane/storage/postgres"
)

func benchRun(b *testing.B, id string) []storage.Record {
	event := run.Event{ID: uuid.New(), Environment: "prod", RunID: id, Sequence: 1, At: run.AtCommit, Data: run.Created{
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
