package demo

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

func TestGateTellsWhenNothingButTheCrowdIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		told := 0
		g := newGate(2, 3, func() { told++ })
		passed := make(chan error, 10)
		enter := func() {
			go func() { passed <- g.pass(t.Context()) }()
			synctest.Wait()
		}
		for range 5 {
			enter()
		}
		require.Len(t, passed, 2)
		require.Zero(t, told, "two that passed are still at work")
		g.stored()
		require.Zero(t, told)
		g.stored()
		require.Equal(t, 1, told)
		enter()
		require.Equal(t, 1, told, "it tells once")

		g.unlock()
		synctest.Wait()
		require.Len(t, passed, 6)
		enter()
		require.Len(t, passed, 7)
	})
}

func TestGateWithoutCrowdTellsNothing(t *testing.T) {
	g := newGate(1, 0, func() { t.Error("it told") })
	require.NoError(t, g.pass(t.Context()))
	g.stored()
}

func TestWhoGivesUpWaitsNoMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		told := 0
		g := newGate(0, 2, func() { told++ })
		reason := errors.New("the lease is lost")
		ctx, cancel := context.WithCancelCause(t.Context())
		gone := make(chan error, 1)
		go func() { gone <- g.pass(ctx) }()
		synctest.Wait()
		cancel(reason)
		require.ErrorIs(t, <-gone, reason)
		go func() { gone <- g.pass(t.Context()) }()
		synctest.Wait()
		require.Zero(t, told, "one waits, not two")
		g.unlock()
		require.NoError(t, <-gone)
	})
}
