package driver_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/internal/pgtest"
	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/postgres"
)

// TestServerRestart restarts the server under a driver that has pooled connections
// and a listener: what was committed is there, work goes on, and the listener is
// told to poll everything and then hears hints again.
func TestServerRestart(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cluster := pgtest.Private(t, pgtest.Options{})
	d, err := postgres.New(pgtest.New(t, pgtest.On(cluster)).Pool(t), postgres.Config{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	w := &world{t: t, d: d}

	topics := make(chan string, 100)
	ended := make(chan error, 1)
	listening, stop := context.WithCancel(ctx)
	go func() { ended <- d.Listen(listening, func(topic string) { topics <- topic }) }()
	hear := func(want string) {
		t.Helper()
		for {
			select {
			case got := <-topics:
				if got == want {
					return
				}
			case <-ctx.Done():
				t.Fatalf("did not hear %q", want)
			}
		}
	}
	hear("")
	_, before, _ := w.trigger("before", `{"n": 1}`)

	for _, how := range []pgtest.Mode{pgtest.Fast, pgtest.Immediate} {
		require.NoError(t, cluster.Restart(ctx, how))
		// Each pooled connection is dead and nobody has noticed. One attempt replays on
		// another connection; more dead ones are a retryable answer.
		_, found, err := get(ctx, d, before)
		for storage.Retryable(err) && ctx.Err() == nil {
			_, found, err = get(ctx, d, before)
		}
		require.NoError(t, err)
		require.True(t, found)
		hear("")
		w.must(func(_ context.Context, tx storage.Tx) error { return tx.Wake("after the restart") })
		hear("after the restart")
	}
	stop()
	require.ErrorIs(t, <-ended, context.Canceled)
}
