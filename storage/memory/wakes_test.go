package memory

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/storage"
)

func TestASlowListenerIsToldToPollEverything(t *testing.T) {
	d := New(Config{})
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	busy, resume := make(chan struct{}), make(chan struct{})
	var heard []string
	done := make(chan error, 1)
	go func() {
		done <- d.Listen(ctx, func(topic string) {
			heard = append(heard, topic)
			switch len(heard) {
			case 1:
				close(busy)
				<-resume
			case 3:
				cancel()
			}
		})
	}()
	<-busy
	for i := range maxPending + 1 {
		d.wakes.send([]string{fmt.Sprint(i)})
	}
	d.wakes.send([]string{"after"})
	close(resume)
	require.ErrorIs(t, <-done, context.Canceled)
	assert.Equal(t, []string{"", "", "after"}, heard)
	assert.Empty(t, d.wakes.listeners)
}

func TestCloseEndsListeners(t *testing.T) {
	d := New(Config{})
	ready, done := make(chan struct{}), make(chan error, 1)
	go func() { done <- d.Listen(context.Background(), func(string) { close(ready) }) }()
	<-ready
	require.NoError(t, d.Close())
	assert.ErrorIs(t, <-done, storage.ErrClosed)
}

func TestCloseWaitsForTransactions(t *testing.T) {
	d := New(Config{})
	var closed chan struct{}
	commit, err := d.Transact(context.Background(), "test", func(ctx context.Context, tx storage.Tx) error {
		closed = make(chan struct{})
		go func() {
			_ = d.Close()
			close(closed)
		}()
		<-d.closing
		select {
		case <-closed:
			t.Error("Close did not wait for a transaction")
		default:
		}
		_, err := d.Transact(context.Background(), "late", func(context.Context, storage.Tx) error { return nil })
		assert.ErrorIs(t, err, storage.ErrClosed)
		return tx.Create(ctx, record(slot("x")))
	})
	require.NoError(t, err)
	assert.Len(t, commit.Versions, 1, "a transaction that was running could not end")
	<-closed
}
