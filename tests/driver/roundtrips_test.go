package driver_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/internal/pgtest"
	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/codec"
	"github.com/seed4391e180/runlane/storage/postgres"
	"github.com/seed4391e180/runlane/tests/wire"
)

// TestRoundTrips holds the number of network round trips of each shape of callback,
// counted as ReadyForQuery messages, and the driver's own count beside it.
func TestRoundTrips(t *testing.T) {
	ctx := context.Background()
	config := pgtest.New(t).Config(t)
	counter := wire.Count(config)
	pool, err := pgxpool.NewWithConfig(ctx, config)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	d, err := postgres.New(pool, postgres.Config{})
	require.NoError(t, err)

	due, err := codec.DuePartition("prod", "default", 2)
	require.NoError(t, err)
	create := func(t *testing.T, id string) (storage.Record, storage.Commit) {
		_, recs := newRun(t, id, `{"a":1}`)
		commit, err := d.Transact(ctx, "create", func(ctx context.Context, tx storage.Tx) error {
			for _, rec := range recs {
				if err := tx.Create(ctx, rec); err != nil {
					return err
				}
			}
			return tx.Wake("queue")
		})
		require.NoError(t, err)
		return storage.Record{Key: recs[0].Key, Version: commit.Versions[recs[0].Key], Document: recs[0].Document}, commit
	}
	replace := func(ctx context.Context, tx storage.Tx, rec storage.Record) error {
		r, kind := codec.DecodeRun(rec)
		require.Equal(t, codec.Canonical, kind)
		rec, err := codec.EncodeRun(r)
		require.NoError(t, err)
		return tx.Replace(ctx, rec)
	}
	read := func(t *testing.T, key storage.Key) storage.Record {
		var rec storage.Record
		_, err := d.Transact(ctx, "read", func(ctx context.Context, tx storage.Tx) (err error) {
			rec, _, err = tx.Get(ctx, key)
			return err
		})
		require.NoError(t, err)
		return rec
	}

	shapes := []struct {
		name  string
		trips int
		fn    func(t *testing.T, rec storage.Record, id string) storage.Commit
	}{
		{"blind creates, commit times and a wake", 1, func(t *testing.T, _ storage.Record, id string) storage.Commit {
			_, commit := create(t, id+" again")
			return commit
		}},
		{"an assumed read, then a write", 1, func(t *testing.T, rec storage.Record, _ string) storage.Commit {
			commit, err := d.Transact(ctx, "assume", func(ctx context.Context, tx storage.Tx) error {
				now, found, err := tx.Assume(ctx, rec)
				require.True(t, found)
				require.NoError(t, err)
				return replace(ctx, tx, now)
			})
			require.NoError(t, err)
			return commit
		}},
		{"one read of two collections, then a write", 2, func(t *testing.T, rec storage.Record, id string) storage.Commit {
			owner, err := codec.SingletonKey("prod", "mail", id)
			require.NoError(t, err)
			commit, err := d.Transact(ctx, "get", func(ctx context.Context, tx storage.Tx) error {
				found, err := tx.GetMany(ctx, []storage.Key{rec.Key, owner})
				require.NoError(t, err)
				return replace(ctx, tx, found[rec.Key])
			})
			require.NoError(t, err)
			return commit
		}},
		{"exclusive candidates, then writes", 2, func(t *testing.T, _ storage.Record, _ string) storage.Commit {
			commit, err := d.Transact(ctx, "claim", func(ctx context.Context, tx storage.Tx) error {
				page, err := tx.Query(ctx, storage.Query{Index: storage.RunsByDue, Partition: due, Until: storage.ServerNow(), Lock: storage.Exclusive})
				require.NoError(t, err)
				require.NotEmpty(t, page.Records)
				now, err := tx.Now(ctx)
				require.NoError(t, err)
				require.Equal(t, page.Time, now)
				for _, rec := range page.Records {
					if err := replace(ctx, tx, rec); err != nil {
						return err
					}
				}
				return nil
			})
			require.NoError(t, err)
			return commit
		}},
		{"a read, Now, a write", 3, func(t *testing.T, rec storage.Record, _ string) storage.Commit {
			commit, err := d.Transact(ctx, "now", func(ctx context.Context, tx storage.Tx) error {
				found, _, err := tx.Get(ctx, rec.Key)
				require.NoError(t, err)
				_, err = tx.Now(ctx)
				require.NoError(t, err)
				return replace(ctx, tx, found)
			})
			require.NoError(t, err)
			return commit
		}},
		{"one read and nothing else", 1, func(t *testing.T, rec storage.Record, _ string) storage.Commit {
			commit, err := d.Transact(ctx, "read", func(ctx context.Context, tx storage.Tx) error {
				_, _, err := tx.Get(ctx, rec.Key)
				return err
			})
			require.NoError(t, err)
			return commit
		}},
		{"two separate reads, validated", 3, func(t *testing.T, rec storage.Record, id string) storage.Commit {
			owner, err := codec.SingletonKey("prod", "mail", id)
			require.NoError(t, err)
			commit, err := d.Transact(ctx, "reads", func(ctx context.Context, tx storage.Tx) error {
				_, _, err := tx.Get(ctx, rec.Key)
				require.NoError(t, err)
				_, _, err = tx.Get(ctx, owner)
				return err
			})
			require.NoError(t, err)
			return commit
		}},
	}
	for i, shape := range shapes {
		t.Run(shape.name, func(t *testing.T) {
			id := fmt.Sprintf("run-%d", i)
			created, _ := create(t, id)
			shape.fn(t, read(t, created.Key), id) // prepares the statements
			rec := read(t, created.Key)
			before := counter.Ready()
			commit := shape.fn(t, rec, id+"'")
			require.Equal(t, shape.trips, counter.Ready()-before, "ReadyForQuery messages")
			require.Equal(t, shape.trips, commit.RoundTrips, "the driver's own count")
			require.Equal(t, 1, commit.Attempts)
		})
	}
}
