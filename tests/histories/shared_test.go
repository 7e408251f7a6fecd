package histories_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/internal/pgtest"
	"github.com/seed4391e180/runlane/storage/postgres"
	"github.com/seed4391e180/runlane/tests/histories/play"
	"github.com/seed4391e180/runlane/tests/wire"
)

// crowd is so many clients that most of their commits share transactions.
const crowd = 32

// requireShared makes sure that the driver's commits have shared transactions.
func requireShared(t *testing.T, d *postgres.Driver) {
	t.Cleanup(func() {
		s := d.Stats()
		t.Logf("commits: %+v, reads: %+v", s.Commits, s.Reads)
		require.Greater(t, s.Commits.Together, int64(30), "commits hardly shared transactions")
		require.Positive(t, s.Reads.Shared)
	})
}

// TestPostgresShared has so many clients on so few records that transactions are
// shared all the time, by commits that get into each other's way.
func TestPostgresShared(t *testing.T) {
	o := play.Options{Transactions: 2000, Slots: 30, Runs: 20, Owners: 20, Pairs: 10, Streams: 2, Evidence: true, MaxAttempts: attempts}
	histories(t, o, func(t *testing.T, o *play.Options) stage {
		o.Clients = crowd
		w := newWorld(t, pgtest.New(t))
		d := w.open(postgres.Config{MaxTransactionAttempts: attempts}, nil)
		requireShared(t, d)
		return stage{store: d, settle: w.settle, faults: &w.faults}
	})
}

// TestPostgresSharedLost cuts the connections of shared transactions, ends their server
// processes, holds rows that they write, and has clients leave them.
func TestPostgresSharedLost(t *testing.T) {
	t.Parallel()
	o := play.Options{Transactions: 1000, Slots: 20, Runs: 12, Owners: 12, Pairs: 6, Streams: 2, Evidence: true, Cancel: 0.03, Faults: true, MaxAttempts: attempts}
	histories(t, o, func(t *testing.T, o *play.Options) stage {
		o.Clients = crowd
		w := newWorld(t, pgtest.New(t))
		d := w.open(impatient, func(c *pgxpool.Config) { w.wire = wire.Inject(c) })
		requireShared(t, d)
		cut, kill := w.every(12, o.Seed, w.cut), w.every(17, o.Seed+1, w.killOrHold)
		o.Before = both(cut, kill)
		return stage{store: d, settle: w.settle, faults: &w.faults, expect: []string{killed, held, wire.Cut.String(), wire.HalfOpen.String()}}
	})
}

// TestPostgresSeparate gives every commit a transaction of its own.
func TestPostgresSeparate(t *testing.T) {
	o := play.Options{Transactions: 1000, Slots: 6, Runs: 5, Owners: 5, Pairs: 2, Streams: 2, Evidence: true, MaxAttempts: attempts}
	histories(t, o, func(t *testing.T, _ *play.Options) stage {
		w := newWorld(t, pgtest.New(t))
		d := w.open(postgres.Config{MaxTransactionAttempts: attempts, SeparateCommits: true}, nil)
		t.Cleanup(func() { require.Zero(t, d.Stats()) })
		return stage{store: d, settle: w.settle, faults: &w.faults}
	})
}

// both does two things before every transaction.
func both(a, b func(context.Context, int) error) func(context.Context, int) error {
	return func(ctx context.Context, begun int) error {
		if err := a(ctx, begun); err != nil {
			return err
		}
		return b(ctx, begun)
	}
}
