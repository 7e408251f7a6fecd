package driver_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/internal/pgtest"
	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/postgres"
)

// listen collects topics until the test ends; the first hint has come when it returns.
func listen(t *testing.T, d *postgres.Driver) <-chan string {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	topics := make(chan string, 10000)
	ended := make(chan error, 1)
	go func() { ended <- d.Listen(ctx, func(topic string) { topics <- topic }) }()
	t.Cleanup(func() {
		cancel()
		require.ErrorIs(t, <-ended, context.Canceled)
	})
	require.Equal(t, "", receive(t, topics))
	return topics
}

func receive(t *testing.T, topics <-chan string) string {
	t.Helper()
	select {
	case topic := <-topics:
		return topic
	case <-time.After(20 * time.Second):
		t.Fatal("no hint came")
		return ""
	}
}

func wake(t *testing.T, d storage.Transactor, topics ...string) {
	t.Helper()
	_, err := d.Transact(context.Background(), "wake", func(_ context.Context, tx storage.Tx) error {
		for _, topic := range topics {
			if err := tx.Wake(topic); err != nil {
				return err
			}
		}
		return nil
	})
	require.NoError(t, err)
}

func TestCoalescedWakes(t *testing.T) {
	d, db := open(t, postgres.Config{Wakes: postgres.WakeCoalesced})
	other := another(t, db)
	topics := listen(t, other)
	const commits = 400
	for i := range commits {
		wake(t, d, "busy")
		if i == commits/2 {
			wake(t, d, "other")
		}
	}
	require.NoError(t, d.Close()) // it sends what is left
	wake(t, other, "end")
	seen := map[string]int{}
	for topic := ""; topic != "end"; topic = receive(t, topics) {
		seen[topic]++
	}
	require.Positive(t, seen["busy"])
	require.Less(t, seen["busy"], commits/2, "a topic that is woken all the time is sent now and then")
	require.Equal(t, 1, seen["other"])
}

func TestWakesOff(t *testing.T) {
	d, db := open(t, postgres.Config{Wakes: postgres.WakeOff})
	loud := another(t, db)
	topics := listen(t, loud)
	wake(t, d, "silent")
	wake(t, loud, "loud")
	require.Equal(t, "loud", receive(t, topics))
}

// TestManyTopicsInOneTransaction holds the promise of at most one notification for a
// topic in a transaction.
func TestManyTopicsInOneTransaction(t *testing.T) {
	d, _ := open(t, postgres.Config{})
	topics := listen(t, d)
	var all []string
	for i := range 100 {
		all = append(all, fmt.Sprintf("topic %d", i), "same")
	}
	wake(t, d, all[:198]...)
	seen := map[string]int{}
	for range 100 {
		seen[receive(t, topics)]++
	}
	require.Len(t, seen, 100)
	wake(t, d, "end")
	require.Equal(t, "end", receive(t, topics))
}

// A listener asks for the password that holds when it connects, as the pool does, and
// connects to where Config.ListenURL says.
func TestListenersConnectAsTold(t *testing.T) {
	_, db := open(t, postgres.Config{})
	config := db.Config(t)
	password := config.ConnConfig.Password
	config.ConnConfig.Password = "that of yesterday"
	config.BeforeConnect = func(_ context.Context, c *pgx.ConnConfig) error {
		c.Password = password
		return nil
	}
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	today, err := postgres.New(pool, postgres.Config{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, today.Close()) })
	topics := listen(t, today)

	// The pool of the next one reaches no database of runlane's.
	elsewhere := pgtest.New(t, pgtest.Empty())
	past, err := postgres.New(elsewhere.Pool(t), postgres.Config{ListenURL: db.URL})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, past.Close()) })
	direct := listen(t, past)
	wake(t, today, "both")
	require.Equal(t, "both", receive(t, topics))
	require.Equal(t, "both", receive(t, direct))

	_, err = postgres.New(pool, postgres.Config{ListenURL: "postgres://user:secret@host:port/"})
	require.ErrorIs(t, err, storage.ErrConfiguration)
	require.ErrorContains(t, err, "ListenURL")
	require.NotContains(t, err.Error(), "secret")
}
