package faults_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/internal/pgtest"
	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/postgres"
	"github.com/seed4391e180/runlane/tests/wire"
)

// TestServer breaks a server of its own under commits.
func TestServer(t *testing.T) {
	t.Parallel()
	cluster := pgtest.Private(t, pgtest.Options{})
	w := newWorld(t, pgtest.On(cluster))
	t.Run("shuts down at once", func(t *testing.T) {
		testCrash(w.in(t), cluster, pgtest.Immediate, beforeSync, atSync, beforeAnswer)
	})
	t.Run("is killed", func(t *testing.T) { testCrash(w.in(t), cluster, pgtest.Crash, atSync) })
	t.Run("does not come back", func(t *testing.T) { testNoServer(w.in(t), cluster) })
	t.Run("becomes read-only", func(t *testing.T) { testReadOnly(w.in(t)) })
	t.Run("becomes read-only under a commit", func(t *testing.T) { testReadOnlyUnderCommit(w.in(t)) })
}

// When the server crashes: just after a commit was sent, but for what a fault holds back.
const (
	beforeSync   = "before the Sync arrives"
	atSync       = "while the Sync arrives"
	beforeAnswer = "before the answer arrives"
)

// crash is one crash of the server, under several commits that are as far as a fault
// lets them come.
type crash struct {
	ready sync.WaitGroup // the commits that have not come that far
	now   chan struct{}  // closed when the server is about to crash
	over  chan struct{}  // closed when it is back
}

// testCrash crashes the server under one commit of every shape at a time.
func testCrash(w *world, cluster *pgtest.Cluster, how pgtest.Mode, whens ...string) {
	var total outcomes
	for _, when := range whens {
		c := &crash{now: make(chan struct{}), over: make(chan struct{})}
		var (
			running  sync.WaitGroup
			mu       sync.Mutex
			sum      outcomes
			failures []error
		)
		for _, s := range shapes() {
			if !s.core {
				continue
			}
			c.ready.Add(1)
			running.Go(func() {
				o, err := c.under(w, &s, when)
				mu.Lock()
				defer mu.Unlock()
				sum.add(o)
				if err != nil {
					failures = append(failures, err)
				}
			})
		}
		c.ready.Wait()
		close(c.now)
		require.NoError(w, cluster.Restart(w.ctx, how))
		w.pool.Reset()
		close(c.over)
		running.Wait()
		for _, err := range failures {
			w.Error(when, err)
		}
		require.Zero(w, sum.unknown, when)
		total.add(sum)
	}
	w.Log(total)
}

// under runs a shape under the crash. What it reports it reports in any case.
func (c *crash) under(w *world, s *shape, when string) (o outcomes, err error) {
	var once sync.Once
	ready := func() { once.Do(c.ready.Done) }
	defer ready()
	b, err := w.broken(postgres.Config{})
	if err != nil {
		return o, err
	}
	defer func() { err = errors.Join(err, b.end()) }()
	ref, err := w.refer(b, s)
	if err != nil {
		return o, err
	}
	fault := wire.Fault{Action: wire.Pause, Direction: wire.ToClient}
	if when != beforeAnswer {
		fault.Direction = wire.ToServer
		for _, m := range places(ref.commit) {
			if m.Direction == wire.ToServer {
				fault.Message = m.number // in the end the last one, which is the Sync
			}
		}
	}
	release := c.over
	if when == atSync {
		release = c.now
	}
	tr := trial{shape: s, ref: ref, fault: fault, meanwhile: func(ctx context.Context, _ *world, _ *broken, shot *wire.Shot) error {
		ready()
		select {
		case <-release:
		case <-ctx.Done():
		}
		shot.Release()
		return ctx.Err()
	}}
	return tr.run(w, b)
}

// testNoServer lets no server come back within the time that the driver looks for the
// outcome. The caller is told that it is unknown, and the commit stands.
func testNoServer(w *world, cluster *pgtest.Cluster) {
	const timeout = 300 * time.Millisecond
	s := shapeNamed("read, then replace")
	b, err := w.broken(postgres.Config{OutcomeTimeout: timeout})
	require.NoError(w, err)
	ref, err := w.refer(b, s)
	require.NoError(w, err)
	env := w.environment()
	require.NoError(w, s.before(w, env))

	var halted time.Time
	tr := trial{shape: s, ref: ref, fault: wire.Fault{Action: wire.Pause, Direction: wire.ToClient},
		meanwhile: func(ctx context.Context, _ *world, _ *broken, shot *wire.Shot) error {
			err := cluster.Halt(ctx, pgtest.Crash)
			halted = time.Now()
			b.faults.Strike(wire.Cut) // the answer does not arrive either
			return err
		}}
	a := tr.aim(w.ctx, w, b)
	_, answer := w.transact(w.ctx, b, s, env, hooks{asided: noHooks.asided, returned: a.arm})
	waited := time.Since(halted)
	require.NoError(w, <-a.meanwhile)
	require.ErrorIs(w, answer, storage.ErrCommitUnknown)
	var unknown *storage.CommitUnknownError
	require.ErrorAs(w, answer, &unknown)
	require.Equal(w, s.name, unknown.Label)
	require.NoError(w, cluster.Resume(w.ctx)) // whatever else is wrong, the next test finds a server
	require.NoError(w, unknownForm(answer))
	require.Greater(w, waited, timeout/2)
	require.Less(w, waited, timeout+patience/2)

	last, err := w.look(env)
	require.NoError(w, err)
	require.Equal(w, ref.once, last.text, "it had committed")
	require.NoError(w, w.warm(b, s), "the driver works again")
	require.NoError(w, b.end())
}

// readOnly switches the server, as a failover to a standby would look, and returns
// when a new transaction of anybody sees it.
func (w *world) readOnly(on bool) error {
	value := map[bool]string{true: "on", false: "off"}[on]
	for _, sql := range []string{"ALTER SYSTEM SET default_transaction_read_only = " + value, "SELECT pg_reload_conf()"} {
		// The session itself may be read-only; neither statement writes what that forbids.
		if _, err := w.pool.Exec(w.ctx, sql); err != nil {
			return err
		}
	}
	return eventually(w.ctx, "the server is switched", func() (bool, error) {
		var now string
		err := w.pool.QueryRow(w.ctx, "SHOW default_transaction_read_only").Scan(&now)
		return now == value, err
	})
}

// testReadOnly makes the server read-only: writes are unavailable and leave nothing,
// reads go on, and writes work again afterwards.
func testReadOnly(w *world) {
	b, err := w.broken(postgres.Config{})
	require.NoError(w, err)
	defer func() { require.NoError(w, b.end()) }()
	for _, s := range shapes() {
		ref, err := w.refer(b, &s)
		require.NoError(w, err)
		env := w.environment()
		require.NoError(w, s.before(w, env))
		require.NoError(w, w.readOnly(true))
		// The driver's own backend hears of it a moment later than others may.
		require.NoError(w, eventually(w.ctx, "the backend hears of it", func() (bool, error) {
			var now string
			err := b.pool.QueryRow(w.ctx, "SHOW default_transaction_read_only").Scan(&now)
			return now == "on", err
		}))
		_, answer := w.transact(w.ctx, b, &s, env, hooks{returned: noHooks.returned, asided: noHooks.asided})
		require.ErrorIs(w, answer, storage.ErrUnavailable, s.name)
		require.True(w, storage.Retryable(answer))
		last, err := w.look(env)
		require.NoError(w, err)
		require.Equal(w, ref.none[0], last.text, s.name)

		_, err = b.Transact(w.ctx, "read", func(ctx context.Context, tx storage.Tx) error {
			_, err := tx.GetMany(ctx, []storage.Key{slotKey(env, 1), slotKey(env, 2)})
			return err
		})
		require.NoError(w, err, "reading goes on")
		require.NoError(w, w.readOnly(false))
		require.NoError(w, w.warm(b, &s), "writing works again")
	}
}

// testReadOnlyUnderCommit makes the server read-only between a commit and the search
// for its outcome, which must not need to write.
func testReadOnlyUnderCommit(w *world) {
	s := shapeNamed("read, then replace")
	b, err := w.broken(hasty())
	require.NoError(w, err)
	defer func() { require.NoError(w, b.end()) }()
	ref, err := w.refer(b, s)
	require.NoError(w, err)
	for _, committed := range []bool{true, false} {
		tr := trial{shape: s, ref: ref, fault: wire.Fault{Action: wire.Pause, Direction: wire.ToServer, Message: 1}}
		if committed {
			tr.fault = wire.Fault{Action: wire.Pause, Direction: wire.ToClient}
		}
		tr.meanwhile = func(_ context.Context, w *world, b *broken, shot *wire.Shot) error {
			err := w.readOnly(true)
			b.faults.Strike(wire.Cut)
			return err
		}
		env := w.environment()
		require.NoError(w, all(w.warm(b, s), s.before(w, env)))
		a := tr.aim(w.ctx, w, b)
		commit, answer := w.transact(w.ctx, b, s, env, hooks{asided: noHooks.asided, returned: a.arm})
		require.NoError(w, <-a.meanwhile)
		last, err := w.look(env)
		require.NoError(w, err)
		if committed {
			require.NoError(w, answer)
			require.Equal(w, ref.once, last.text)
			require.NoError(w, matches(commit, last))
		} else {
			require.ErrorIs(w, answer, storage.ErrUnavailable)
			require.Equal(w, ref.none[0], last.text)
		}
		require.NoError(w, w.readOnly(false))
	}
}
