package storagetest

import (
	"context"
	"sync"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var wakes = topic{"Wakes", []test{
	{name: "BeginWithPollEverything", run: wakesBeginWithPollEverything},
	{name: "FollowACommit", run: wakesFollowACommit},
	{name: "DoNotFollowAFailure", run: wakesDoNotFollowAFailure},
	{name: "OfALostAttemptAreLost", run: wakesOfALostAttemptAreLost},
	{name: "ReachEveryListener", run: wakesReachEveryListener},
	{name: "EndWithTheContext", run: wakesEndWithTheContext},
}}

// ear is a listener that remembers what it heard.
type ear struct {
	stop context.CancelFunc
	done chan error

	mu      sync.Mutex
	heard   map[string]int
	changed chan struct{} // closed and replaced with every hint
}

// listen starts a listener and waits until it hears the first hint.
func (f *fixture) listen() *ear {
	f.Helper()
	ctx, stop := context.WithCancel(f.ctx)
	e := &ear{stop: stop, done: make(chan error, 1), heard: map[string]int{}, changed: make(chan struct{})}
	go func() { e.done <- f.store.Listen(ctx, e.hint) }()
	f.Cleanup(func() {
		stop()
		if err := <-e.done; err == nil {
			f.Error("a listener ended without saying why")
		}
	})
	require.NoError(f, e.wait(f.ctx, ""), "a listener is told to poll everything when it begins")
	return e
}

func (e *ear) hint(topic string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.heard[topic]++
	close(e.changed)
	e.changed = make(chan struct{})
}

func (e *ear) count(topic string) (int, <-chan struct{}) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.heard[topic], e.changed
}

// wait returns when the topic has been heard.
func (e *ear) wait(ctx context.Context, topic string) error {
	for {
		n, changed := e.count(topic)
		if n > 0 {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		case err := <-e.done:
			e.done <- err
			return err
		}
	}
}

func wakesBeginWithPollEverything(f *fixture) {
	f.listen()
	f.listen()
}

func wakesFollowACommit(f *fixture) {
	e := f.listen()
	f.transact(func(c *call) {
		c.create(number(slot("x"), 1))
		c.wake("with a write")
		c.wake("with a write")
		c.wake("another: ä/$1'")
	})
	f.transact(func(c *call) { c.wake("alone") })
	for _, topic := range []string{"with a write", "another: ä/$1'", "alone"} {
		require.NoError(f, e.wait(f.ctx, topic), topic)
	}
}

func wakesDoNotFollowAFailure(f *fixture) {
	e := f.listen()
	_, err := f.try(func(c *call) {
		c.create(number(slot("x"), 1))
		c.wake("failed")
		c.stop(errStop)
	})
	require.True(f, err == errStop)
	// What is heard later than the failed one could have been.
	f.transact(func(c *call) { c.wake("after") })
	require.NoError(f, e.wait(f.ctx, "after"))
	n, _ := e.count("failed")
	assert.Zero(f, n, "a transaction that failed woke somebody")
}

func wakesOfALostAttemptAreLost(f *fixture) {
	e := f.listen()
	key := slot("x")
	f.put(number(key, 1))
	f.transact(func(c *call) {
		n := c.number(key)
		if c.attempt == 1 {
			c.wake("first attempt")
			f.aside(func(c *call) { c.add(key, 1) })
		} else {
			c.wake("second attempt")
		}
		c.replace(number(key, n+1))
	})
	require.NoError(f, e.wait(f.ctx, "second attempt"))
	n, _ := e.count("first attempt")
	assert.Zero(f, n, "an attempt that was lost woke somebody")
}

func wakesReachEveryListener(f *fixture) {
	first, second := f.listen(), f.listen()
	f.transact(func(c *call) { c.wake("topic") })
	require.NoError(f, first.wait(f.ctx, "topic"))
	require.NoError(f, second.wait(f.ctx, "topic"))
}

func wakesEndWithTheContext(f *fixture) {
	e := f.listen()
	e.stop()
	err := <-e.done
	e.done <- err
	assert.ErrorIs(f, err, context.Canceled)
	f.transact(func(c *call) { c.wake("nobody listens") })
}
