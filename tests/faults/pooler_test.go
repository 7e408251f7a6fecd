package faults_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/internal/pgtest"
	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/postgres"
	"github.com/seed4391e180/runlane/tests/wire"
)

// TestOutcomeThroughAPooler loses the connection of a commit behind PgBouncer, where
// the driver knows no server process that it could end. What is on its way may arrive
// after everything else, and the transaction leaves nothing that a second one of its
// kind would collide with.
func TestOutcomeThroughAPooler(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	through := *w
	through.db = pgtest.Bounce(t, w.db, 4)
	through.db.URL += "&default_query_exec_mode=cache_describe"
	s := &shape{name: "an event alone", before: nothing, run: func(ctx context.Context, tx storage.Tx, env string, _ func(func() error) error, _ *world) error {
		return mark(ctx, tx, env)
	}}
	b, err := through.broken(postgres.Config{CommitTimeout: time.Second})
	require.NoError(t, err)
	ref, err := through.refer(b, s)
	require.NoError(t, err)
	sync := 0
	for _, m := range places(ref.commit) {
		if m.Direction == wire.ToServer {
			sync = m.number
		}
	}
	for _, c := range []struct {
		name      string
		message   int
		meanwhile func(ctx context.Context, w *world, b *broken, shot *wire.Shot) error
	}{
		// It arrives when the driver has answered: only its deadline keeps it from taking effect.
		{name: "before the server reads it", message: 0},
		// It holds its locks: the driver has to wait for them, whatever the deadline.
		{name: "before the server ends it", message: sync, meanwhile: deliverToTheWaiting},
	} {
		t.Run(c.name, func(t *testing.T) {
			tr := trial{shape: s, ref: ref, fault: wire.Fault{Action: wire.Hold, Direction: wire.ToServer, Message: c.message}, meanwhile: c.meanwhile}
			o, err := tr.run(&through, b)
			require.NoError(t, err)
			require.Zero(t, o.unknown)
		})
	}
	require.NoError(t, b.end())
}

// deliverToTheWaiting lets what was held arrive once the driver waits for its locks.
func deliverToTheWaiting(ctx context.Context, w *world, _ *broken, shot *wire.Shot) error {
	err := eventually(ctx, "the driver waits for a lock", func() (waits bool, err error) {
		err = w.pool.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_locks l JOIN pg_database d ON d.oid = l.database
WHERE d.datname = current_database() AND l.locktype = 'advisory' AND NOT l.granted)`).Scan(&waits)
		return waits, err
	})
	return all(err, shot.Deliver(ctx))
}
