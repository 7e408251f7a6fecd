package postgres

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestBudgetIsNeverExceeded(t *testing.T) {
	b := newBudget(10)
	var held, most atomic.Int64
	var all sync.WaitGroup
	for i := range 50 {
		all.Go(func() {
			n := i%4 + 1
			if !assert.NoError(t, b.wait(context.Background(), n)) {
				return
			}
			now := held.Add(int64(n))
			for seen := most.Load(); now > seen && !most.CompareAndSwap(seen, now); seen = most.Load() {
			}
			held.Add(-int64(n))
			b.release(n)
		})
	}
	all.Wait()
	require.LessOrEqual(t, most.Load(), int64(10))
	require.Zero(t, b.held)
}

func TestBudgetWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBudget(10)
		require.NoError(t, b.wait(t.Context(), 8))
		require.False(t, b.try(3))
		require.True(t, b.try(2))
		got := make(chan error, 1)
		go func() { got <- b.wait(t.Context(), 5) }()
		synctest.Wait()
		require.Empty(t, got)
		b.release(2)
		synctest.Wait()
		require.Empty(t, got, "three are still missing")
		b.release(8)
		require.NoError(t, <-got)
		bounded, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, b.wait(bounded, 6), context.DeadlineExceeded)
		require.Equal(t, 5, b.held)
	})
}

// What exceeds the whole capacity must not wait for ever: it runs alone.
func TestBudgetOfLessThanOneTransaction(t *testing.T) {
	b := newBudget(10)
	require.True(t, b.try(100))
	require.False(t, b.try(1))
	b.release(100)
	require.True(t, b.try(1))
	require.False(t, b.try(100))
	b.resize(200)
	require.True(t, b.try(100))
}
