package faults_test

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/migrations"
	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/postgres"
	"github.com/seed4391e180/runlane/tests/wire"
)

// pollEverything is the hint that stands for all that may have been lost.
const pollEverything = ""

// ear is a listener that remembers what it heard.
type ear struct {
	w     *world
	stop  context.CancelFunc
	ended chan struct{}
	err   error // why it ended

	mu      sync.Mutex
	heard   map[string]int
	changed chan struct{} // closed and replaced with every hint
}

// listen starts a listener and waits until it is told to poll everything.
func (w *world) listen(ctx context.Context, d *postgres.Driver) *ear {
	w.Helper()
	ctx, stop := context.WithCancel(ctx)
	e := &ear{w: w, stop: stop, ended: make(chan struct{}), heard: map[string]int{}, changed: make(chan struct{})}
	go func() {
		defer close(e.ended)
		e.err = d.Listen(ctx, e.hint)
	}()
	w.Cleanup(func() {
		stop()
		<-e.ended
	})
	e.hears(pollEverything, 1)
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

// hears waits until a topic has been heard so many times.
func (e *ear) hears(topic string, times int) {
	e.w.Helper()
	timer := time.NewTimer(2 * patience)
	defer timer.Stop()
	for {
		n, changed := e.count(topic)
		if n >= times {
			return
		}
		select {
		case <-changed:
		case <-e.ended:
			e.w.Fatalf("the listener ended with %v", e.err)
		case <-timer.C:
			e.w.Fatalf("heard %q %d times, not %d", topic, n, times)
		}
	}
}

// topics is what was heard, but for the hint to poll everything.
func (e *ear) topics() map[string]bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	all := map[string]bool{}
	for topic := range e.heard {
		if topic != pollEverything {
			all[topic] = true
		}
	}
	return all
}

func (w *world) wake(topics ...string) error {
	_, err := w.driver.Transact(w.ctx, "wake", func(_ context.Context, tx storage.Tx) error {
		for _, topic := range topics {
			if err := tx.Wake(topic); err != nil {
				return err
			}
		}
		return nil
	})
	return err
}

// listeners kills the backends that listen, if asked to, and returns their number.
func (w *world) listeners(kill bool) (n int) {
	w.Helper()
	what := "count(*)"
	if kill {
		what = "count(pg_terminate_backend(pid))"
	}
	require.NoError(w, w.pool.QueryRow(w.ctx, "SELECT "+what+" FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'LISTEN %' AND pid <> pg_backend_pid()").Scan(&n))
	return n
}

// TestListenerKilled ends the backends of four listeners five times. The pool, which
// has four connections, loses none, and Close returns.
func TestListenerKilled(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	config := w.db.Config(t)
	config.MaxConns = 4
	pool, err := pgxpool.NewWithConfig(w.ctx, config)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	d, err := postgres.New(pool, postgres.Config{})
	require.NoError(t, err)

	var ears []*ear
	for range 4 {
		ears = append(ears, w.listen(w.ctx, d))
	}
	killed := 0
	for round := range 5 {
		killed += w.listeners(true)
		for _, e := range ears {
			e.hears(pollEverything, round+2)
		}
		topic := fmt.Sprintf("round %d", round)
		require.NoError(t, w.wake(topic))
		for _, e := range ears {
			e.hears(topic, 1)
		}
		require.Zero(t, pool.Stat().AcquiredConns())
	}
	require.Equal(t, 20, killed)

	var conns []*pgxpool.Conn
	for range 4 {
		conn, err := pool.Acquire(w.ctx)
		require.NoError(t, err)
		conns = append(conns, conn)
	}
	for _, conn := range conns {
		conn.Release()
	}
	w.listeners(true) // and Close comes while they are lost
	closed := make(chan error, 1)
	go func() { closed <- d.Close() }()
	select {
	case err := <-closed:
		require.NoError(t, err)
	case <-time.After(patience):
		t.Fatal("Close does not return")
	}
	for _, e := range ears {
		<-e.ended
		require.ErrorIs(t, e.err, storage.ErrClosed)
	}
	require.NoError(t, eventually(w.ctx, "no listener is left", func() (bool, error) { return w.listeners(false) == 0, nil }))
}

// TestListenerHalfOpen stops forwarding without closing anything, as a network does
// that has lost a connection. The listener notices at its next heartbeat, connects
// anew, and has everything polled.
func TestListenerHalfOpen(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b, err := w.broken(postgres.Config{ListenHeartbeat: 300 * time.Millisecond})
	require.NoError(t, err)
	e := w.listen(w.ctx, b.Driver)
	require.Len(t, b.faults.Strike(wire.Stall), 1)
	require.NoError(t, w.wake("unheard"))
	began := time.Now()
	e.hears(pollEverything, 2)
	t.Logf("noticed after %v", time.Since(began).Round(time.Second))
	require.NoError(t, w.wake("heard"))
	e.hears("heard", 1)
	require.NotContains(t, e.topics(), "unheard")
	require.NoError(t, b.end())
}

// TestListenerWaitsForTheNetwork lets no new connection be made for a while.
func TestListenerWaitsForTheNetwork(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b, err := w.broken(postgres.Config{})
	require.NoError(t, err)
	e := w.listen(w.ctx, b.Driver)
	b.faults.Refuse(true)
	require.Len(t, b.faults.Strike(wire.Cut), 1)
	require.NoError(t, eventually(w.ctx, "the listener has tried in vain", func() (bool, error) { return b.faults.Refused() > 1, nil }))
	require.Zero(t, w.listeners(false))
	require.NoError(t, w.wake("unheard"))
	b.faults.Refuse(false)
	e.hears(pollEverything, 2)
	require.NoError(t, w.wake("heard"))
	e.hears("heard", 1)
	require.NotContains(t, e.topics(), "unheard")
	require.NoError(t, b.end())
}

// expiring is a context whose deadline passes when the test says.
type expiring struct {
	context.Context
	done chan struct{}
}

func (e *expiring) Done() <-chan struct{} { return e.done }

func (e *expiring) Err() error {
	select {
	case <-e.done:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

// TestWaitersWithDifferentDeadlines has three listeners wait for one topic. Each ends
// at its own deadline, and those that are left go on hearing.
func TestWaitersWithDifferentDeadlines(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	d, err := postgres.New(w.pool, postgres.Config{})
	require.NoError(t, err)
	var waiters []*ear
	var deadlines []*expiring
	for range 3 {
		deadline := &expiring{w.ctx, make(chan struct{})}
		waiters, deadlines = append(waiters, w.listen(deadline, d)), append(deadlines, deadline)
	}
	for left := 3; left > 0; left-- {
		topic := fmt.Sprintf("while %d wait", left)
		require.NoError(t, w.wake(topic))
		for _, e := range waiters[:left] {
			e.hears(topic, 1)
		}
		close(deadlines[left-1].done)
		began := time.Now()
		<-waiters[left-1].ended
		require.ErrorIs(t, waiters[left-1].err, context.DeadlineExceeded)
		require.Less(t, time.Since(began), patience/2)
		for _, e := range waiters[:left-1] {
			n, _ := e.count(pollEverything)
			require.Equal(t, 1, n, "the others do not notice")
		}
	}
	require.NoError(t, d.Close())
	require.NoError(t, eventually(w.ctx, "no listener is left", func() (bool, error) { return w.listeners(false) == 0, nil }))
}

// TestTopicsThatCollideInSpelling sends topics that a careless spelling would take for
// one another, or for SQL. Each is heard as it is.
func TestTopicsThatCollideInSpelling(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e := w.listen(w.ctx, w.driver)
	topics := []string{
		"a", "A", " a", "a ", "a\x01", "a:b", "a::b", "a:b:", "a,b", "a/b", "a b", "a\tb", "a\nb", `a\nb`,
		"é", "e\u0301", "ss", "ß", "i", "ı", "İ", "K", "\u212a", "0", "00", "null", "NULL", "*", "%", "_",
		"'", `"`, "''", "'; NOTIFY x --", "$1", "{}", strings.Repeat("x", 511), strings.Repeat("x", 512), strings.Repeat("ä", 256),
	}
	want := map[string]bool{}
	for _, topic := range topics {
		want[topic] = true
	}
	require.Len(t, want, len(topics))
	for _, topic := range topics {
		require.NoError(t, w.wake(topic))
		e.hears(topic, 1)
	}
	require.Equal(t, want, e.topics())
	require.NoError(t, w.wake(append(topics, topics...)...))
	for _, topic := range topics {
		e.hears(topic, 2)
	}
	require.NoError(t, w.wake("the last"))
	e.hears("the last", 1)
	for _, topic := range topics {
		n, _ := e.count(topic)
		require.Equal(t, 2, n, "%q: one hint in a transaction", topic)
	}
	n, _ := e.count(pollEverything)
	require.Equal(t, 1, n)
}

// TestSchemasThatCollideInSpelling has two drivers in one database, whose schemas
// differ where a channel's name would be cut off or folded.
func TestSchemasThatCollideInSpelling(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	long := strings.Repeat("s", 62)
	var drivers []*postgres.Driver
	var ears []*ear
	for _, schema := range []string{long + "1", long + "2", "Runlane"} {
		conn, err := pgx.Connect(w.ctx, w.db.URL)
		require.NoError(t, err)
		_, err = migrations.Apply(w.ctx, conn, migrations.Options{Schema: schema})
		require.NoError(t, err)
		require.NoError(t, conn.Close(w.ctx))
		d, err := postgres.New(w.pool, postgres.Config{Schema: schema})
		require.NoError(t, err)
		drivers, ears = append(drivers, d), append(ears, w.listen(w.ctx, d))
	}
	drivers, ears = append(drivers, w.driver), append(ears, w.listen(w.ctx, w.driver))
	for i, d := range drivers {
		_, err := d.Transact(w.ctx, "wake", func(_ context.Context, tx storage.Tx) error { return tx.Wake(fmt.Sprintf("of %d", i)) })
		require.NoError(t, err)
	}
	for i, e := range ears {
		topic := fmt.Sprintf("of %d", i)
		e.hears(topic, 1)
		// What another schema sent was sent before this one's last.
		_, err := drivers[i].Transact(w.ctx, "wake", func(_ context.Context, tx storage.Tx) error { return tx.Wake("the last") })
		require.NoError(t, err)
		e.hears("the last", 1)
		require.Equal(t, map[string]bool{topic: true, "the last": true}, e.topics())
	}
}

// TestForeignNotification puts onto the channel what no driver sends: as much as a
// notification can hold, and nothing.
func TestForeignNotification(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e := w.listen(w.ctx, w.driver)
	var listening string
	require.NoError(t, w.pool.QueryRow(w.ctx, "SELECT query FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'LISTEN %' AND pid <> pg_backend_pid()").Scan(&listening))
	channel := regexp.MustCompile(`"(.*)"`).FindStringSubmatch(listening)[1]
	foreign := strings.Repeat("x", 7999)
	for round := range 3 {
		_, err := w.pool.Exec(w.ctx, "SELECT pg_notify($1, $2)", channel, foreign)
		require.NoError(t, err)
		topic := fmt.Sprintf("round %d", round)
		require.NoError(t, w.wake(topic))
		e.hears(topic, 1)
	}
	n, _ := e.count(pollEverything)
	require.Equal(t, 1, n, "the connection was not lost")
	_, err := w.pool.Exec(w.ctx, "SELECT pg_notify($1, '')", channel)
	require.NoError(t, err)
	e.hears(pollEverything, 2)
	require.NoError(t, w.wake("the last"))
	e.hears("the last", 1)
}

// TestTopicTooLarge refuses a topic before anything is sent.
func TestTopicTooLarge(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b, err := w.broken(postgres.Config{})
	require.NoError(t, err)
	defer func() { require.NoError(t, b.end()) }()
	require.Equal(t, 512, storage.DefaultLimits().MaxTopic)
	for _, topic := range []string{strings.Repeat("x", 513), strings.Repeat("ä", 257)} {
		_, err = b.Transact(w.ctx, "wake", func(_ context.Context, tx storage.Tx) error { return tx.Wake(topic) })
		require.ErrorIs(t, err, storage.ErrTooLarge)
	}
	require.Empty(t, b.faults.Messages())
	require.Zero(t, b.pool.Stat().TotalConns())
	_, err = b.Transact(w.ctx, "wake", func(_ context.Context, tx storage.Tx) error { return tx.Wake(strings.Repeat("x", 512)) })
	require.NoError(t, err)
	require.NotEmpty(t, b.faults.Messages())
}
