package wire_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/internal/pgtest"
	"github.com/seed4391e180/runlane/tests/wire"
)

// patience bounds what a test waits for.
const patience = 20 * time.Second

// bench is a client behind faults, a client without them, and a table of numbers.
type bench struct {
	*testing.T
	ctx    context.Context
	faults *wire.Faults
	pool   *pgxpool.Pool
	direct *pgxpool.Pool
}

func newBench(t *testing.T) *bench {
	db := pgtest.New(t, pgtest.Empty())
	config := db.Config(t)
	config.MaxConns = 1
	faults := wire.Inject(config)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	pool, err := pgxpool.NewWithConfig(ctx, config)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	t.Cleanup(faults.Close)
	b := &bench{t, ctx, faults, pool, db.Pool(t)}
	_, err = b.direct.Exec(ctx, "CREATE TABLE number (n int PRIMARY KEY)")
	require.NoError(t, err)
	_, err = b.add(0) // prepares the statements
	require.NoError(t, err)
	faults.Rewind()
	return b
}

// add inserts three numbers in one pipeline, which is one transaction, and says how
// many results came back.
func (b *bench) add(first int) (results int, err error) {
	batch := &pgx.Batch{}
	for i := range 3 {
		batch.Queue("INSERT INTO number VALUES ($1)", first+i).Exec(func(pgconn.CommandTag) error {
			results++
			return nil
		})
	}
	return results, b.pool.SendBatch(b.ctx, batch).Close()
}

// stored says how many of the three numbers there are.
func (b *bench) stored(first int) (n int) {
	b.Helper()
	require.NoError(b, b.direct.QueryRow(b.ctx, "SELECT count(*) FROM number WHERE n BETWEEN $1 AND $1 + 2", first).Scan(&n))
	return n
}

// gone waits until a backend has ended.
func (b *bench) gone(backend uint32) {
	b.Helper()
	require.Eventually(b, func() bool {
		var n int
		err := b.direct.QueryRow(b.ctx, "SELECT count(*) FROM pg_stat_activity WHERE pid = $1", backend).Scan(&n)
		return err == nil && n == 0
	}, patience, 5*time.Millisecond, "backend %d", backend)
}

func (b *bench) alive(backend uint32) bool {
	b.Helper()
	var alive bool
	require.NoError(b, b.direct.QueryRow(b.ctx, "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE pid = $1)", backend).Scan(&alive))
	return alive
}

func types(messages []wire.Message, d wire.Direction) (s string) {
	for _, m := range messages {
		if m.Direction == d {
			s += string(m.Type)
		}
	}
	return s
}

func TestMessagesAreCounted(t *testing.T) {
	b := newBench(t)
	results, err := b.add(10)
	require.NoError(t, err)
	require.Equal(t, 3, results)
	require.Equal(t, 3, b.stored(10))
	messages := b.faults.Messages()
	require.Equal(t, "BDEBDEBDES", types(messages, wire.ToServer))
	require.Equal(t, "2nC2nC2nCZ", types(messages, wire.ToClient))
	require.Equal(t, `'Z' of 6 bytes to the client`, messages[len(messages)-1].String())
}

// TestCutEverywhere cuts the connection before each message in each direction, and
// in the middle of each.
func TestCutEverywhere(t *testing.T) {
	b := newBench(t)
	_, err := b.add(10)
	require.NoError(t, err)
	messages, place := b.faults.Messages(), map[wire.Direction]int{}
	for i, m := range messages {
		for _, cut := range []int{0, m.Bytes - 1} {
			first := 1000*(i+1) + 10*cut
			shot := b.faults.Arm(wire.Fault{Action: wire.Cut, Direction: m.Direction, Message: place[m.Direction], Byte: cut})
			results, err := b.add(first)
			require.Error(t, err, "%d: %v", i, m)
			require.False(t, pgconn.SafeToRetry(err), "the client had written everything")
			require.True(t, shot.HasStruck())
			b.gone(shot.Backend())
			if m.Direction == wire.ToServer {
				require.Zero(t, results)
				require.Zero(t, b.stored(first), "%d: %v after %d bytes", i, m, cut)
			} else {
				require.Equal(t, place[m.Direction]/3, results, "each result is three messages")
				require.Equal(t, 3, b.stored(first), "%d: %v after %d bytes", i, m, cut)
			}
			_, err = b.add(first + 3) // on a new connection, whose statements it prepares
			require.NoError(t, err)
			b.faults.Rewind()
		}
		place[m.Direction]++
	}
}

// TestHalfOpen loses the client: it sees its connection reset, and the server goes on
// waiting for it, in the middle of a transaction.
func TestHalfOpen(t *testing.T) {
	b := newBench(t)
	b.faults.LoseCancels(true)
	shot := b.faults.Arm(wire.Fault{Action: wire.HalfOpen, Direction: wire.ToServer, Message: 9})
	_, err := b.add(10)
	require.Error(t, err)
	_, err = b.add(20)
	require.NoError(t, err, "a new connection works")
	require.True(t, b.alive(shot.Backend()))
	require.Equal(t, 1, b.faults.Cancels())
	require.Zero(t, b.stored(10), "the Sync did not arrive")
	// The open transaction still holds its rows.
	var locked bool
	require.NoError(t, b.direct.QueryRow(b.ctx, "SELECT EXISTS (SELECT FROM pg_locks WHERE pid = $1 AND locktype = 'transactionid')", shot.Backend()).Scan(&locked))
	require.True(t, locked)
	shot.Drop()
	b.gone(shot.Backend())
	require.Zero(t, b.stored(10))
}

// TestHold delivers what the client wrote only when it has already given up.
func TestHold(t *testing.T) {
	for _, place := range []wire.Fault{
		{Action: wire.Hold, Direction: wire.ToServer},
		{Action: wire.Hold, Direction: wire.ToServer, Message: 4},
		{Action: wire.Hold, Direction: wire.ToServer, Message: 5, Byte: 3},
		{Action: wire.Hold, Direction: wire.ToServer, Message: 9},
		{Action: wire.Hold, Direction: wire.ToServer, Message: 9, Byte: 4},
	} {
		t.Run(place.String(), func(t *testing.T) {
			b := newBench(t)
			b.faults.LoseCancels(true)
			shot := b.faults.Arm(place)
			_, err := b.add(10)
			require.Error(t, err)
			require.Zero(t, b.stored(10))
			require.True(t, b.alive(shot.Backend()))
			require.NoError(t, shot.Deliver(b.ctx))
			require.Equal(t, 3, b.stored(10))
			shot.Drop()
			b.gone(shot.Backend())
		})
	}
	t.Run("the server has hung up", func(t *testing.T) {
		b := newBench(t)
		shot := b.faults.Arm(wire.Fault{Action: wire.Hold, Direction: wire.ToServer, Message: 4})
		_, err := b.add(10)
		require.Error(t, err)
		_, err = b.direct.Exec(b.ctx, "SELECT pg_terminate_backend($1)", shot.Backend())
		require.NoError(t, err)
		require.NoError(t, shot.Deliver(b.ctx))
		require.Zero(t, b.stored(10))
	})
}

// TestStall leaves both ends open and forwards nothing: only the client's own patience
// ends its wait.
func TestStall(t *testing.T) {
	b := newBench(t)
	stalled := b.faults.Strike(wire.Stall)
	require.Len(t, stalled, 1)
	ctx, cancel := context.WithTimeout(b.ctx, 50*time.Millisecond)
	defer cancel()
	_, err := b.pool.Exec(ctx, "INSERT INTO number VALUES ($1)", 10)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.True(t, b.alive(stalled[0].Backend()))
	require.Zero(t, b.stored(10))

	stalled[0].Drop()
	b.gone(stalled[0].Backend())
	require.Equal(t, 1, b.faults.Cancels(), "the client asked the server to stop")
}

// TestStallStrikes stalls where the answer would begin.
func TestStallStrikes(t *testing.T) {
	b := newBench(t)
	shot := b.faults.Arm(wire.Fault{Action: wire.Stall, Direction: wire.ToClient})
	ended := make(chan error, 1)
	ctx, cancel := context.WithCancel(b.ctx)
	go func() {
		_, err := b.pool.Exec(ctx, "INSERT INTO number VALUES ($1)", 10)
		ended <- err
	}()
	b.await(shot)
	require.Equal(t, 1, b.stored(10))
	select {
	case err := <-ended:
		t.Fatalf("it ended: %v", err)
	default:
	}
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)
}

func (b *bench) await(shot *wire.Shot) {
	b.Helper()
	select {
	case <-shot.Struck():
	case <-b.ctx.Done():
		b.Fatal("the fault did not strike")
	}
}

// TestPause keeps one direction back, in the middle of a message, and lets it go on.
func TestPause(t *testing.T) {
	for _, fault := range []wire.Fault{
		{Action: wire.Pause, Direction: wire.ToServer},
		{Action: wire.Pause, Direction: wire.ToServer, Message: 4, Byte: 2},
		{Action: wire.Pause, Direction: wire.ToServer, Message: 9},
		{Action: wire.Pause, Direction: wire.ToClient},
		{Action: wire.Pause, Direction: wire.ToClient, Message: 9, Byte: 5},
	} {
		t.Run(fault.String(), func(t *testing.T) {
			b := newBench(t)
			shot := b.faults.Arm(fault)
			ended := make(chan error, 1)
			go func() {
				_, err := b.add(10)
				ended <- err
			}()
			b.await(shot)
			if fault.Direction == wire.ToServer {
				require.Zero(t, b.stored(10))
			} else {
				require.Equal(t, 3, b.stored(10))
			}
			shot.Release()
			require.NoError(t, <-ended)
			require.Equal(t, 3, b.stored(10))
			require.Equal(t, "BDEBDEBDES", types(b.faults.Messages(), wire.ToServer))
			require.Equal(t, "2nC2nC2nCZ", types(b.faults.Messages(), wire.ToClient))
		})
	}
	t.Run("delay", func(t *testing.T) {
		b := newBench(t)
		began := time.Now()
		b.faults.Arm(wire.Fault{Action: wire.Pause, Direction: wire.ToServer, Delay: 30 * time.Millisecond})
		_, err := b.add(10)
		require.NoError(t, err)
		require.GreaterOrEqual(t, time.Since(began), 30*time.Millisecond)
	})
	t.Run("the backend is killed meanwhile", func(t *testing.T) {
		b := newBench(t)
		shot := b.faults.Arm(wire.Fault{Action: wire.Pause, Direction: wire.ToServer, Message: 5})
		ended := make(chan error, 1)
		go func() {
			_, err := b.add(10)
			ended <- err
		}()
		b.await(shot)
		_, err := b.direct.Exec(b.ctx, "SELECT pg_terminate_backend($1)", shot.Backend())
		require.NoError(t, err)
		var pg *pgconn.PgError
		require.ErrorAs(t, <-ended, &pg)
		require.Equal(t, "57P01", pg.Code)
		require.Zero(t, b.stored(10))
		shot.Release()
	})
}

// TestReplace forwards another message than was sent, the second of its kind.
func TestReplace(t *testing.T) {
	b := newBench(t)
	shot := b.faults.Arm(wire.Fault{
		Action: wire.Replace, Direction: wire.ToClient, Message: 1,
		Match: func(message []byte) bool { return message[0] == 'C' },
		With: func(message []byte) []byte {
			require.Equal(t, "C\x00\x00\x00\x0fINSERT 0 1\x00", string(message))
			return []byte("C\x00\x00\x00\x0fINSERT 0 7\x00")
		},
	})
	batch, rows := &pgx.Batch{}, []int64{}
	for i := range 3 {
		batch.Queue("INSERT INTO number VALUES ($1)", 10+i).Exec(func(tag pgconn.CommandTag) error {
			rows = append(rows, tag.RowsAffected())
			return nil
		})
	}
	require.NoError(t, b.pool.SendBatch(b.ctx, batch).Close())
	require.True(t, shot.HasStruck())
	require.Equal(t, []int64{1, 7, 1}, rows)
}

// TestFaultsInSequence arms a second fault, which waits for the first.
func TestFaultsInSequence(t *testing.T) {
	b := newBench(t)
	first := b.faults.Arm(wire.Fault{Action: wire.Cut, Direction: wire.ToClient, Message: 2})
	second := b.faults.Arm(wire.Fault{Action: wire.Cut, Direction: wire.ToServer, Message: 3})
	_, err := b.add(10)
	require.Error(t, err)
	require.True(t, first.HasStruck())
	require.False(t, second.HasStruck())
	_, err = b.add(20) // Parse, Describe and Sync are the first messages of a new connection
	require.Error(t, err)
	require.True(t, second.HasStruck())
	require.Zero(t, b.stored(20))
	require.Equal(t, "PDS", types(b.faults.Since(first), wire.ToServer)[:3])
	require.Empty(t, b.faults.Since(second))
	_, err = b.add(30)
	require.NoError(t, err)
}

func TestRefuse(t *testing.T) {
	b := newBench(t)
	b.faults.Refuse(true)
	_, err := b.add(10)
	require.NoError(t, err, "an open connection stays")
	b.faults.Strike(wire.Cut)
	require.Eventually(t, func() bool {
		_, err = b.add(20)
		connect := (*pgconn.ConnectError)(nil)
		return errors.As(err, &connect)
	}, patience, time.Millisecond)
	require.Positive(t, b.faults.Refused())
	b.faults.Refuse(false)
	_, err = b.add(20)
	require.NoError(t, err)
}

// TestCancelRequests lets a request to cancel pass, or loses it.
func TestCancelRequests(t *testing.T) {
	for _, lose := range []bool{false, true} {
		b := newBench(t)
		b.faults.LoseCancels(lose)
		conn, err := b.pool.Acquire(b.ctx)
		require.NoError(t, err)
		pid := conn.Conn().PgConn().PID()
		var running sync.WaitGroup
		running.Go(func() { _, err = conn.Exec(b.ctx, "SELECT pg_sleep(100)") })
		require.Eventually(t, func() bool {
			var state string
			err := b.direct.QueryRow(b.ctx, "SELECT coalesce(wait_event, '') FROM pg_stat_activity WHERE pid = $1", pid).Scan(&state)
			return err == nil && state == "PgSleep"
		}, patience, time.Millisecond)
		require.NoError(t, conn.Conn().PgConn().CancelRequest(b.ctx))
		if lose {
			_, err := b.direct.Exec(b.ctx, "SELECT pg_terminate_backend($1)", pid)
			require.NoError(t, err)
		}
		running.Wait()
		var pg *pgconn.PgError
		require.ErrorAs(t, err, &pg)
		require.Equal(t, map[bool]string{false: "57014", true: "57P01"}[lose], pg.Code)
		require.Equal(t, 1, b.faults.Cancels())
		conn.Release()
	}
}

// TestCloseEndsEverything closes what faults left behind: half-open connections,
// pauses, and goroutines with them.
func TestCloseEndsEverything(t *testing.T) {
	b := newBench(t)
	half := b.faults.Arm(wire.Fault{Action: wire.HalfOpen, Direction: wire.ToClient})
	_, err := b.add(10)
	require.Error(t, err)
	paused := b.faults.Arm(wire.Fault{Action: wire.Pause, Direction: wire.ToServer, Message: 1})
	ended := make(chan error, 1)
	go func() {
		_, err := b.add(20)
		ended <- err
	}()
	b.await(paused)
	b.faults.Close()
	require.Error(t, <-ended)
	b.gone(half.Backend())
	b.gone(paused.Backend())
	_, err = b.add(30)
	require.Error(t, err)
}
