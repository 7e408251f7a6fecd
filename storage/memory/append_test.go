package memory

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/codec"
)

func head(stream string) storage.Key {
	key, err := codec.ObservationHeadKey("env", stream)
	if err != nil {
		panic(err)
	}
	return key
}

func observation(d *Driver, stream string, position int64) codec.Observation {
	key, err := codec.ObservationKey("env", stream, position)
	if err != nil {
		panic(err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	o, _ := codec.DecodeObservation(d.state.get(key).record(key))
	return o
}

type outcome struct {
	commit storage.Commit
	err    error
}

// appending appends one item to each stream, in another goroutine.
func appending(ctx context.Context, d *Driver, streams ...string) <-chan outcome {
	done := make(chan outcome, 1)
	go func() {
		commit, err := d.Transact(ctx, "append", func(ctx context.Context, tx storage.Tx) error {
			for _, stream := range streams {
				if err := tx.Append(ctx, head(stream), json.RawMessage(`1`)); err != nil {
					return err
				}
			}
			return nil
		})
		done <- outcome{commit, err}
	}()
	return done
}

// waiting returns when so many attempts wait for the key.
func waiting(t *testing.T, d *Driver, key storage.Key, n int) {
	t.Helper()
	require.Eventually(t, func() bool {
		d.mu.Lock()
		defer d.mu.Unlock()
		l := d.locks[key]
		return l != nil && len(l.queue) == n
	}, time.Minute, time.Millisecond)
}

// TestAnAppendWaitsForItsHead: it is not repeated, and its items have the time at
// which the wait was over.
func TestAnAppendWaitsForItsHead(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	d := New(Config{LockTimeout: time.Hour, Clock: func() time.Time { return now }})
	var first, second <-chan outcome
	holding(t, d, head("s"), func() {
		first = appending(context.Background(), d, "s")
		waiting(t, d, head("s"), 1)
		second = appending(context.Background(), d, "s")
		waiting(t, d, head("s"), 2)
		d.mu.Lock()
		now = now.Add(time.Hour)
		d.mu.Unlock()
	})
	for i, done := range []<-chan outcome{first, second} {
		got := <-done
		require.NoError(t, got.err)
		position := int64(i + 1)
		assert.Equal(t, []storage.Appended{{Head: head("s"), First: position, Last: position}}, got.commit.Appended)
		assert.Equal(t, 1, got.commit.Attempts)
		assert.Equal(t, now, got.commit.Time)
		assert.Equal(t, now, observation(d, "s", position).At)
	}
	assert.Empty(t, d.locks)
}

func TestAHeadThatIsNotGivenBackIsAConflict(t *testing.T) {
	d := New(Config{LockTimeout: time.Millisecond, MaxAttempts: 3, Sleep: func(context.Context, time.Duration) error { return nil }})
	holding(t, d, head("s"), func() {
		got := <-appending(context.Background(), d, "other", "s")
		assert.Equal(t, &storage.ConflictError{Label: "append", Reason: storage.ReasonLocked, Key: head("s"), Attempts: 3}, got.err)
		assert.Equal(t, 3, got.commit.Attempts, "a head is part of the locks with which a replay begins")
	})
	assert.Empty(t, d.locks)
	assert.Nil(t, d.state.get(head("other")))
}

func TestCancellingEndsTheWaitForAHead(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	d := New(Config{LockTimeout: time.Hour})
	holding(t, d, head("s"), func() {
		done := appending(ctx, d, "s")
		waiting(t, d, head("s"), 1)
		cancel()
		assert.ErrorIs(t, (<-done).err, context.Canceled)
	})
	assert.Empty(t, d.locks)
	assert.Nil(t, d.state.get(head("s")))
}

// TestHeadsAreLockedInOrder whatever the order of the calls, so that nobody waits in a
// circle.
func TestHeadsAreLockedInOrder(t *testing.T) {
	a := New(Config{}).newAttempt("test", 1)
	for _, stream := range []string{"c", "a", "d", "b", "a"} {
		require.NoError(t, a.Append(context.Background(), head(stream), json.RawMessage(`1`)))
	}
	assert.Equal(t, []lockRequest{{head("a"), exclusive}, {head("b"), exclusive}, {head("c"), exclusive}, {head("d"), exclusive}}, a.headLocks())
	assert.Empty(t, a.nextLocks(), "heads that are only appended to")
}

// TestWhoWouldWaitInACircleGivesUp: each holds the head that the other appends to. The
// locks never time out here, so only giving up gets them out.
func TestWhoWouldWaitInACircleGivesUp(t *testing.T) {
	d := New(Config{LockTimeout: time.Hour})
	cross := func(read, write string, more func(tx storage.Tx)) outcome {
		commit, err := d.Transact(context.Background(), "cross", func(ctx context.Context, tx storage.Tx) error {
			if _, _, err := tx.Get(ctx, head(read)); err != nil {
				return err
			}
			more(tx)
			return tx.Append(ctx, head(write), json.RawMessage(`1`))
		})
		return outcome{commit, err}
	}
	first := make(chan outcome, 1)
	second := cross("s", "t", func(tx storage.Tx) {
		if tx.(*attempt).number > 1 {
			return
		}
		_, err := tx.Now(context.Background())
		require.NoError(t, err)
		go func() { first <- cross("t", "s", func(storage.Tx) {}) }()
		waiting(t, d, head("s"), 1)
	})
	require.NoError(t, second.err)
	assert.Equal(t, 2, second.commit.Attempts, "who closed the circle")
	got := <-first
	require.NoError(t, got.err)
	assert.Equal(t, 1, got.commit.Attempts, "who was there before")
	assert.Empty(t, d.locks)
}

// TestAHeadThatIsReadAndAppendedToIsWritten: two that shared it could only fail.
func TestAHeadThatIsReadAndAppendedToIsWritten(t *testing.T) {
	a := New(Config{}).newAttempt("test", 1)
	ctx := context.Background()
	_, err := a.GetMany(ctx, []storage.Key{head("s"), head("t"), head("u")})
	require.NoError(t, err)
	require.NoError(t, a.Append(ctx, head("s"), json.RawMessage(`1`)))
	require.NoError(t, a.Append(ctx, head("t")))
	_, _, err = a.Get(ctx, head("u"), storage.ReadOnly)
	require.NoError(t, err)
	require.Nil(t, a.lockedSeal())
	assert.Equal(t, map[storage.Key]lockMode{head("s"): exclusive, head("t"): shared, head("u"): shared}, a.held)
}

func TestCirclesAreFound(t *testing.T) {
	table, o := lockTable{}, owners(4)
	keys := make([]storage.Key, len(o))
	for i := range o {
		keys[i] = slot(fmt.Sprint(i))
		require.True(t, table.try(o[i], keys[i], exclusive))
	}
	wait := func(who, key int, mode lockMode) *waiter {
		require.False(t, table.try(o[who], keys[key], mode))
		return table.enqueue(o[who], keys[key], mode)
	}
	wait(0, 1, exclusive)
	assert.False(t, table.circular(o[0]))
	last := wait(1, 2, shared)
	assert.False(t, table.circular(o[1]))
	closing := wait(2, 0, exclusive)
	assert.True(t, table.circular(o[2]), "0 waits for 1, 1 for 2 and 2 for 0")
	table.leave(keys[0], closing)
	assert.False(t, table.circular(o[2]))

	// Who stands in front counts as well: 3 waits behind 1, who waits for 2.
	wait(3, 2, shared)
	assert.False(t, table.circular(o[3]))
	wait(2, 3, exclusive)
	assert.True(t, table.circular(o[2]))
	assert.False(t, table.circular(o[0]), "0 waits for a circle that it is not part of")
	table.leave(keys[2], last)
}

// TestGivenErrorsAreTheTransactionsOwn: only what a method returned passes without a
// look at what was read.
func TestGivenErrorsAreTheTransactionsOwn(t *testing.T) {
	a := New(Config{}).newAttempt("test", 1)
	ctx := context.Background()
	require.NoError(t, a.Create(ctx, record(slot("x"))))
	err := a.Create(ctx, record(slot("x")))
	require.ErrorIs(t, err, storage.ErrRecordExists)
	assert.True(t, a.gave(err))
	assert.True(t, a.gave(fmt.Errorf("because: %w", err)))
	assert.False(t, a.gave(storage.ErrRecordExists))
	for name, refused := range map[string]error{
		"Append": a.Append(ctx, slot("x")),
		"Wake":   a.Wake(""),
		"Delete": a.Delete(ctx, slot("y")),
	} {
		require.Error(t, refused, name)
		assert.True(t, a.gave(refused), name)
	}
}
