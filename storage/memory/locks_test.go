package memory

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/storage"
)

func slot(id string) storage.Key {
	return storage.Key{Collection: storage.QueueSlots, Partition: "$env!", ID: "$" + id + "!"}
}

func record(key storage.Key) storage.Record {
	return storage.Record{Key: key, Document: []byte(`{}`)}
}

func owners(n int) []*attempt {
	all := make([]*attempt, n)
	for i := range all {
		all[i] = New(Config{}).newAttempt("test", 1)
	}
	return all
}

func TestLocksAreSharedOrExclusive(t *testing.T) {
	table, o, x := lockTable{}, owners(3), slot("x")
	require.True(t, table.try(o[0], x, shared))
	require.True(t, table.try(o[1], x, shared))
	assert.False(t, table.try(o[2], x, exclusive))
	assert.False(t, table.try(o[0], x, exclusive), "an upgrade past another holder")
	table.release(o[1])
	assert.True(t, table.try(o[0], x, exclusive), "an upgrade of the only holder")
	assert.True(t, table.try(o[0], x, shared), "exclusive includes shared")
	assert.False(t, table.try(o[2], x, shared))
	table.release(o[0])
	assert.Empty(t, table, "a lock that nobody holds is kept")
}

func TestWaitersAreServedInOrder(t *testing.T) {
	table, o, x := lockTable{}, owners(6), slot("x")
	require.True(t, table.try(o[0], x, shared))
	writer := table.enqueue(o[1], x, exclusive)
	reader, another := table.enqueue(o[2], x, shared), table.enqueue(o[3], x, shared)
	last := table.enqueue(o[4], x, exclusive)
	assert.False(t, table.try(o[5], x, shared), "somebody overtook a writer that waits")

	table.release(o[0])
	assert.Equal(t, []bool{true, false, false, false}, granted(writer, reader, another, last))
	table.release(o[1])
	assert.Equal(t, []bool{true, true, true, false}, granted(writer, reader, another, last))
	table.release(o[2])
	assert.False(t, granted(last)[0])
	table.release(o[3])
	assert.True(t, granted(last)[0])
	table.release(o[4])
	assert.Empty(t, table)
}

func granted(waiters ...*waiter) []bool {
	out := make([]bool, len(waiters))
	for i, w := range waiters {
		select {
		case <-w.granted:
			out[i] = true
		default:
		}
	}
	return out
}

func TestWhoLeavesTheLineLetsOthersPass(t *testing.T) {
	table, o, x := lockTable{}, owners(3), slot("x")
	require.True(t, table.try(o[0], x, shared))
	writer, reader := table.enqueue(o[1], x, exclusive), table.enqueue(o[2], x, shared)
	require.False(t, table.leave(x, writer))
	assert.True(t, granted(reader)[0], "a reader still waits for a writer that has left")
	assert.True(t, table.leave(x, reader), "it had been granted")
	table.release(o[0])
	table.release(o[2])
	assert.Empty(t, table)
}

// holding runs body while another transaction holds the key.
func holding(t *testing.T, d *Driver, key storage.Key, body func()) {
	t.Helper()
	_, err := d.Transact(context.Background(), "holder", func(ctx context.Context, tx storage.Tx) error {
		if _, _, err := tx.Get(ctx, key); err != nil {
			return err
		}
		if _, err := tx.Now(ctx); err != nil {
			return err
		}
		body()
		return nil
	})
	require.NoError(t, err)
}

func TestALockThatIsNotGivenBackIsAConflict(t *testing.T) {
	d := New(Config{LockTimeout: time.Millisecond, MaxAttempts: 3, Sleep: func(context.Context, time.Duration) error { return nil }})
	holding(t, d, slot("x"), func() {
		calls := 0
		commit, err := d.Transact(context.Background(), "writer", func(ctx context.Context, tx storage.Tx) error {
			calls++
			return tx.Create(ctx, record(slot("x")))
		})
		var conflict *storage.ConflictError
		require.ErrorAs(t, err, &conflict)
		assert.Equal(t, storage.ConflictError{Label: "writer", Reason: storage.ReasonLocked, Key: slot("x"), Attempts: 3}, *conflict)
		assert.Equal(t, 1, calls, "an attempt without its locks ran")
		assert.Equal(t, 1, commit.Attempts)
	})
	assert.Empty(t, d.locks)
}

func TestCancellingEndsTheWaitForALock(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	d := New(Config{LockTimeout: time.Hour, Sleep: func(context.Context, time.Duration) error { cancel(); return nil }})
	holding(t, d, slot("x"), func() {
		_, err := d.Transact(ctx, "writer", func(ctx context.Context, tx storage.Tx) error {
			return tx.Create(ctx, record(slot("x")))
		})
		assert.ErrorIs(t, err, context.Canceled)
	})
	assert.Empty(t, d.locks)
}

// TestAReplayHoldsWhatTheAttemptBeforeTouched also shows the order of the locks and
// that records which a query locked are left out.
func TestAReplayHoldsWhatTheAttemptBeforeTouched(t *testing.T) {
	d := New(Config{})
	ctx := context.Background()
	claimed := storage.Key{Collection: storage.Runs, Partition: "$env!", ID: "$claimed!"}
	_, err := d.Transact(ctx, "set up", func(ctx context.Context, tx storage.Tx) error {
		rec := record(claimed)
		rec.Entries = []storage.Entry{{Index: storage.RunsByDue, Partition: "$env!", Sort: "$s!"}}
		return errors.Join(tx.Create(ctx, rec), tx.Create(ctx, record(slot("read"))), tx.Create(ctx, record(slot("only"))))
	})
	require.NoError(t, err)
	number := 0
	_, err = d.Transact(ctx, "test", func(ctx context.Context, tx storage.Tx) error {
		number++
		a := tx.(*attempt)
		if number == 2 {
			assert.Equal(t, map[storage.Key]lockMode{
				slot("blind"): exclusive, slot("only"): shared, slot("read"): exclusive, slot("absent"): exclusive,
			}, a.held)
			return nil
		}
		_, err := tx.Query(ctx, storage.Query{Index: storage.RunsByDue, Partition: "$env!", Lock: storage.Exclusive})
		require.NoError(t, err)
		require.NoError(t, tx.Delete(ctx, claimed))
		_, _, err = tx.Get(ctx, slot("only"), storage.ReadOnly)
		require.NoError(t, err)
		_, err = tx.GetMany(ctx, []storage.Key{slot("read"), slot("absent")})
		require.NoError(t, err)
		require.NoError(t, tx.Create(ctx, record(slot("blind"))))
		_, err = d.Transact(context.Background(), "aside", func(ctx context.Context, tx storage.Tx) error {
			return tx.Create(ctx, record(slot("absent")))
		})
		require.NoError(t, err)
		want := []lockRequest{{slot("absent"), exclusive}, {slot("blind"), exclusive}, {slot("only"), shared}, {slot("read"), exclusive}}
		assert.Equal(t, want, a.nextLocks())
		return nil
	})
	require.NoError(t, err)
	require.Equal(t, 2, number)
	assert.Empty(t, d.locks)
}

// TestNowLocksForWriting: two that share a key and then both want to write it could
// only fail, so what is sealed may be written unless that was renounced.
func TestNowLocksForWriting(t *testing.T) {
	d := New(Config{})
	_, err := d.Transact(context.Background(), "test", func(ctx context.Context, tx storage.Tx) error {
		_, _, err := tx.Get(ctx, slot("read"))
		require.NoError(t, err)
		_, _, err = tx.Get(ctx, slot("only"), storage.ReadOnly)
		require.NoError(t, err)
		require.NoError(t, tx.Create(ctx, record(slot("created"))))
		assert.Empty(t, tx.(*attempt).held, "something was locked before Now")
		_, err = tx.Now(ctx)
		assert.Equal(t, map[storage.Key]lockMode{
			slot("read"): exclusive, slot("only"): shared, slot("created"): exclusive,
		}, tx.(*attempt).held)
		return err
	})
	require.NoError(t, err)
}
