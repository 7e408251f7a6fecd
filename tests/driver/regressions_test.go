package driver_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/memory"
	"github.com/seed4391e180/runlane/storage/postgres"
)

// TestBlindCreateAfterNow creates a record blindly, after Now, that is there
// already. The replay may look at it although its read set is sealed, and so says
// that it exists; an attempt that could not look would collide for ever.
func TestBlindCreateAfterNow(t *testing.T) {
	l := newLab(t, postgres.Config{})
	l.transact(creates(plain(slot("there"))))
	commit, err := l.d.Transact(t.Context(), "lab", steps(now, creates(plain(slot("there")))))
	require.ErrorIs(t, err, storage.ErrRecordExists)
	require.Equal(t, 2, commit.Attempts)
}

// TestBlindCreateAndDelete creates a record blindly that is there already, and
// deletes it again. That may not pass for a transaction that did nothing.
func TestBlindCreateAndDelete(t *testing.T) {
	l := newLab(t, postgres.Config{})
	l.transact(creates(plain(slot("there"))))
	for name, more := range map[string]callbackFunc{"alone": creates(), "beside a write": creates(plain(slot("beside")))} {
		remove := func(ctx context.Context, tx storage.Tx) error { return tx.Delete(ctx, slot("there")) }
		commit, err := l.d.Transact(t.Context(), "lab", steps(creates(plain(slot("there"))), remove, more))
		require.ErrorIs(t, err, storage.ErrRecordExists, name)
		require.Equal(t, 2, commit.Attempts, name)
	}
	_, found, err := get(t.Context(), l.d, slot("there"))
	require.NoError(t, err)
	require.True(t, found)
}

// gate holds back what a connection writes that contains a text.
type gate struct {
	text    []byte
	reached chan struct{} // holds a token when something was held back
	open    chan struct{} // closed to let everything pass
}

func (g *gate) on(config *pgxpool.Config) {
	dial := config.ConnConfig.DialFunc
	config.ConnConfig.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		return &gatedConn{conn, g}, err
	}
}

type gatedConn struct {
	net.Conn
	gate *gate
}

func (c *gatedConn) Write(p []byte) (int, error) {
	if bytes.Contains(p, c.gate.text) {
		select {
		case c.gate.reached <- struct{}{}:
		default:
		}
		<-c.gate.open
	}
	return c.Conn.Write(p)
}

// TestListenerPollsOnceItListens holds LISTEN back. Until the server has it hints
// are lost, so a poll of everything that is asked for earlier misses what is sent
// in between.
func TestListenerPollsOnceItListens(t *testing.T) {
	g := &gate{text: []byte("LISTEN"), reached: make(chan struct{}, 1), open: make(chan struct{})}
	l := newLab(t, postgres.Config{}, g.on)
	open := sync.OnceFunc(func() { close(g.open) })
	t.Cleanup(open) // a test that fails must not keep the driver from closing
	ctx, stop := context.WithCancel(t.Context())
	heard := make(chan string, 10)
	ended := make(chan error, 1)
	go func() { ended <- l.d.Listen(ctx, func(topic string) { heard <- topic }) }()
	<-g.reached
	l.transact(wakes("too early"))
	require.Empty(t, heard, "a poll was asked for before anything could be heard")
	open()
	for _, want := range []string{"", "heard"} {
		select {
		case topic := <-heard:
			require.Equal(t, want, topic)
		case <-time.After(20 * time.Second):
			require.Fail(t, "nothing is heard")
		}
		if want == "" {
			l.transact(wakes("heard"))
		}
	}
	stop()
	require.ErrorIs(t, <-ended, context.Canceled)
}

// TestMemoryHintsFollowTheLocks: whoever hears a hint of the memory driver finds
// nothing locked any more by the transaction that sent it. There are many locks, so
// that giving them back takes a while.
func TestMemoryHintsFollowTheLocks(t *testing.T) {
	const n = 400
	d := memory.New(memory.Config{})
	var recs []storage.Record
	for i := range n {
		recs = append(recs, plain(item(storage.Runs, fmt.Sprint(i)), dueIn("q", fmt.Sprint(i))))
	}
	_, err := d.Transact(t.Context(), "lab", creates(recs...))
	require.NoError(t, err)
	listens, found := make(chan bool, 1), make(chan int)
	go func() {
		_ = d.Listen(t.Context(), func(topic string) {
			if topic == "" {
				listens <- true
				return
			}
			free := 0
			_, _ = d.Transact(t.Context(), "claim", func(ctx context.Context, tx storage.Tx) error {
				page, err := tx.Query(ctx, storage.Query{Index: storage.RunsByDue, Partition: tuple("prod", "q"), Limit: n, Lock: storage.Exclusive})
				free = len(page.Records)
				return err
			})
			found <- free
		})
	}()
	<-listens
	for range 200 {
		_, err := d.Transact(t.Context(), "lab", steps(replaces(recs...), wakes("topic")))
		require.NoError(t, err)
		require.Equal(t, n, <-found, "records that are not locked")
	}
}
