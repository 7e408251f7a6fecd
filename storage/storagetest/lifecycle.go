package storagetest

import (
	"context"
	"errors"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/storage"
)

var lifecycle = topic{"Lifecycle", []test{
	{name: "Closed", run: closed},
	{name: "CancelledBefore", run: cancelledBefore},
	{name: "CancelledInTheCallback", run: cancelledInTheCallback},
	{name: "CancelledWhileWaiting", run: cancelledWhileWaiting, twoOpen: true},
	{name: "AFailedMethodEndsTheTransaction", run: aFailedMethodEndsTheTransaction},
}}

func closed(f *fixture) {
	f.put(number(slot("x"), 1))
	require.NoError(f, f.store.Close())
	require.NoError(f, f.store.Close(), "closing twice is harmless")

	ran := false
	_, err := f.try(func(*call) { ran = true })
	assert.ErrorIs(f, err, storage.ErrClosed)
	assert.False(f, ran, "the callback ran")
	_, _, err = f.store.GetRun(f.ctx, env, "run")
	assert.ErrorIs(f, err, storage.ErrClosed)
	_, err = f.store.ListRuns(f.ctx, storage.RunFilter{Environment: env})
	assert.ErrorIs(f, err, storage.ErrClosed)
	_, err = f.store.ListEvents(f.ctx, storage.EventFilter{Environment: env, RunID: "run"})
	assert.ErrorIs(f, err, storage.ErrClosed)
	_, err = f.store.CountRuns(f.ctx, storage.RunFilter{Environment: env}, 0)
	assert.ErrorIs(f, err, storage.ErrClosed)
	assert.ErrorIs(f, f.store.Listen(f.ctx, func(string) {}), storage.ErrClosed)
}

func cancelledBefore(f *fixture) {
	ctx, cancel := context.WithCancel(f.ctx)
	cancel()
	ran := false
	_, err := transact(ctx, f.store, label, func(*call) { ran = true })
	assert.ErrorIs(f, err, context.Canceled)
	assert.False(f, ran, "the callback ran")
}

func cancelledInTheCallback(f *fixture) {
	key := slot("x")
	f.put(number(key, 1))
	for name, before := range map[string]func(c *call){
		"at once":     func(*call) {},
		"after reads": func(c *call) { c.get(key); c.get(slot("y")) },
		"after Now":   func(c *call) { c.get(key); c.now() },
		"after writes": func(c *call) {
			c.add(key, 1)
		},
		"after an exclusive query": func(c *call) {
			c.query(storage.Query{Index: storage.RunsByDue, Partition: partitionOf(), Lock: storage.Exclusive})
		},
	} {
		ctx, cancel := context.WithCancel(f.ctx)
		_, err := transact(ctx, f.store, label, func(c *call) {
			before(c)
			c.create(number(slot("z"), 1))
			cancel()
		})
		assert.ErrorIs(f, err, context.Canceled, name)
	}
	f.holds(key, `{"n":1}`)
	f.absent(slot("z"))
	commit := f.transact(func(c *call) { c.add(key, 1) })
	assert.Equal(f, 1, commit.Attempts, "a cancelled transaction left a lock behind")
}

// cancelledWhileWaiting: whoever waits for a lock that another transaction has need not
// wait for that transaction.
func cancelledWhileWaiting(f *fixture) {
	for name, wait := range map[string]func(c *call, key storage.Key, stream string){
		"record": func(c *call, key storage.Key, _ string) { c.add(key, 100) },
		"head":   func(c *call, _ storage.Key, stream string) { c.append(stream, `"waited"`) },
	} {
		key, stream := slot(name), name
		f.put(number(key, 1))
		var err error
		commit := f.transact(func(c *call) {
			c.getMany(key, headOf(stream))
			c.now()
			ctx, cancel := context.WithCancel(f.ctx)
			defer cancel()
			asked := make(signal)
			waiting := f.startIn(ctx, func(c *call) {
				wait(c, key, stream)
				if c.attempt == 1 {
					close(asked)
				}
			})
			asked.wait(c)
			f.busily(func(*call) {})
			cancel()
			_, err = waiting.wait()
			c.add(key, 1)
		})
		assert.Equal(f, 1, commit.Attempts, name)
		require.ErrorIs(f, err, context.Canceled, name)
		if !errors.Is(err, storage.ErrCommitUnknown) {
			f.holds(key, `{"n":2}`)
			f.streamHolds(stream)
		}
	}
}

// aFailedMethodEndsTheTransaction: whoever ignores an error of the store cannot
// commit by accident.
func aFailedMethodEndsTheTransaction(f *fixture) {
	key := slot("x")
	f.put(number(key, 1))
	_, err := f.try(func(c *call) {
		c.add(key, 1)
		ctx, cancel := context.WithCancel(c)
		cancel()
		_, _, err := c.tx.Get(ctx, slot("y"))
		c.want(err != nil, "a read under a cancelled context succeeded")
	})
	assert.ErrorIs(f, err, context.Canceled)
	f.holds(key, `{"n":1}`)
}
