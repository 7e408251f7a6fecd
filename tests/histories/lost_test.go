package histories_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/internal/pgtest"
	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/codec"
	"github.com/seed4391e180/runlane/storage/postgres"
	"github.com/seed4391e180/runlane/tests/wire"
)

// TestLostCommitThatOthersUndid loses the answer to a commit that created a record,
// and has somebody delete the record before the driver can look. The absence proves
// nothing then: the transaction must not take effect once more. Histories showed it.
func TestLostCommitThatOthersUndid(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	w := newWorld(t, pgtest.New(t))
	config := impatient
	config.OutcomeTimeout = 10 * time.Second
	d := w.open(config, func(c *pgxpool.Config) { w.wire, c.MaxConns = wire.Inject(c), 1 })
	others, err := postgres.New(w.db.Pool(t), postgres.Config{})
	require.NoError(t, err)
	key, err := codec.QueueSlotKey("env", "q", "", 1)
	require.NoError(t, err)
	remove := func() error {
		_, err := others.Transact(ctx, "undo", func(ctx context.Context, tx storage.Tx) error {
			if _, found, err := tx.Get(ctx, key); err != nil || !found {
				return errors.Join(err, errors.New("there is nothing to undo"))
			}
			return tx.Delete(ctx, key)
		})
		return err
	}
	runs := 0
	create := func() error {
		_, err := d.Transact(ctx, "create", func(ctx context.Context, tx storage.Tx) error {
			runs++
			if _, found, err := tx.Get(ctx, key); err != nil || found {
				return errors.Join(err, errors.New("it is there already"))
			}
			return tx.Create(ctx, storage.Record{Key: key, Document: []byte(`{}`)})
		})
		return err
	}
	require.NoError(t, create()) // now the statements are prepared
	require.NoError(t, remove())

	runs = 0
	shot := w.wire.Arm(wire.Fault{Action: wire.Cut, Direction: wire.ToClient, Match: transactionSettings})
	w.wire.Refuse(true) // there is a connection, and no other until the record is gone
	undone := make(chan error, 1)
	go func() {
		<-shot.Struck()
		undone <- remove()
		w.wire.Refuse(false)
	}()
	err = create()
	require.NoError(t, <-undone)
	if err != nil {
		require.ErrorIs(t, err, storage.ErrCommitUnknown)
	}
	require.Equal(t, 1, runs, "it took effect, was undone, and ran again")
	require.ErrorContains(t, remove(), "nothing to undo", "it took effect again")

	require.NoError(t, d.Close())
	w.pool.Close()
	w.wire.Close()
	require.NoError(t, others.Close())
}
