package faults_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/postgres"
	"github.com/seed4391e180/runlane/tests/wire"
)

// TestBackendKilledEverywhere ends the backend before each message of a commit has
// arrived, and before each message of its answer has.
func TestBackendKilledEverywhere(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var total outcomes
	for _, name := range []string{"read, then replace", "exclusive claim, then writes"} {
		s := shapeNamed(name)
		ref := w.reference(s)
		var trials []trial
		for _, m := range places(ref.commit) {
			paused := ref.at(s, wire.Pause, m, 0)
			paused.meanwhile = kill
			trials = append(trials, paused)
		}
		total.add(w.judgeAll(trials))
	}
	t.Log(total)
}

// one is one driver, one shape and an environment for it.
type one struct {
	*world
	*broken
	shape *shape
	ref   *reference
	env   string
}

func newOne(t *testing.T, name string, c postgres.Config) *one {
	w := newWorld(t)
	b, err := w.broken(c)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, b.end()) })
	o := &one{world: w, broken: b, shape: shapeNamed(name)}
	o.ref, err = w.refer(b, o.shape)
	require.NoError(t, err)
	o.env = w.environment()
	require.NoError(t, all(w.warm(b, o.shape), o.shape.before(w, o.env)))
	return o
}

// run runs the shape. at is called when its callback has returned.
func (o *one) run(ctx context.Context, at func()) (storage.Commit, error) {
	return o.transact(ctx, o.broken, o.shape, o.env, hooks{asided: noHooks.asided, returned: at})
}

// holds is how often the effect took place.
func (o *one) holds() int {
	o.Helper()
	s, err := o.look(o.env)
	require.NoError(o, err)
	times, ok := o.ref.times(s)
	require.True(o, ok, "neither nothing nor one effect:\n%s", s.raw)
	return times
}

// TestCancelBoundsTheWait cancels when the commit has been sent. The caller is told
// that the outcome is unknown, and by what the wait ended.
func TestCancelBoundsTheWait(t *testing.T) {
	t.Parallel()
	t.Run("for the answer", func(t *testing.T) {
		o := newOne(t, "read, then replace", postgres.Config{})
		ctx, cancel := context.WithCancel(o.ctx)
		var shot *wire.Shot
		var began time.Time
		_, err := o.run(ctx, func() {
			shot = o.faults.Arm(wire.Fault{Action: wire.Stall, Direction: wire.ToClient})
			go func() {
				<-shot.Struck()
				began = time.Now()
				cancel()
			}()
		})
		require.Less(t, time.Since(began), patience/2)
		require.ErrorIs(t, err, storage.ErrCommitUnknown)
		require.ErrorIs(t, err, context.Canceled)
		require.NoError(t, unknownForm(err))
		require.Equal(t, 1, o.holds())
	})
	t.Run("for the outcome", func(t *testing.T) {
		o := newOne(t, "read, then replace", postgres.Config{})
		ctx, cancel := context.WithTimeout(o.ctx, 400*time.Millisecond)
		defer cancel()
		_, err := o.run(ctx, func() {
			o.faults.Refuse(true)
			o.faults.Arm(wire.Fault{Action: wire.Cut, Direction: wire.ToClient})
		})
		require.ErrorIs(t, err, storage.ErrCommitUnknown)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NoError(t, unknownForm(err))
		require.Equal(t, 1, o.holds())
	})
	t.Run("not at all when the answer comes", func(t *testing.T) {
		o := newOne(t, "read, then replace", postgres.Config{})
		commit, err := o.run(o.ctx, func() {
			o.faults.Arm(wire.Fault{Action: wire.Pause, Direction: wire.ToClient, Delay: 50 * time.Millisecond})
		})
		require.NoError(t, err)
		require.Equal(t, 1, commit.Attempts)
		require.Equal(t, 1, o.holds())
	})
}

// TestNetworkDoesNotComeBack refuses every new connection: no outcome can be learnt
// within the time that the configuration allows.
func TestNetworkDoesNotComeBack(t *testing.T) {
	t.Parallel()
	const timeout = 300 * time.Millisecond
	for _, fault := range []wire.Fault{
		{Action: wire.Cut, Direction: wire.ToClient},
		{Action: wire.Cut, Direction: wire.ToServer, Message: 2},
	} {
		t.Run(fault.String(), func(t *testing.T) {
			o := newOne(t, "read, then replace", postgres.Config{OutcomeTimeout: timeout})
			var began time.Time
			_, err := o.run(o.ctx, func() {
				began = time.Now()
				o.faults.Refuse(true)
				o.faults.Arm(fault)
			})
			waited := time.Since(began)
			require.ErrorIs(t, err, storage.ErrCommitUnknown)
			require.False(t, storage.Retryable(err), "it may have happened")
			var unknown *storage.CommitUnknownError
			require.ErrorAs(t, err, &unknown)
			require.Equal(t, o.shape.name, unknown.Label)
			require.NoError(t, unknownForm(err))
			require.Greater(t, waited, timeout/2)
			require.Less(t, waited, timeout+patience/2)
			require.Equal(t, map[wire.Direction]int{wire.ToClient: 1, wire.ToServer: 0}[fault.Direction], o.holds())
			o.faults.Refuse(false)
			require.NoError(t, o.warm(o.broken, o.shape), "the driver works again")
		})
	}
}

// TestCommitAnsweredWithRollback makes a server roll back where it was asked to
// commit, as it does in a transaction that has failed: with a success that says
// ROLLBACK.
func TestCommitAnsweredWithRollback(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	// In this mode the text of each statement travels with it, and none is kept.
	config := w.db.Config(t)
	config.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec
	config.MaxConns = 1
	b := &broken{faults: wire.Inject(config)}
	var err error
	b.pool, err = pgxpool.NewWithConfig(w.ctx, config)
	require.NoError(t, err)
	b.Driver, err = postgres.New(b.pool, postgres.Config{})
	require.NoError(t, err)
	defer func() { require.NoError(t, b.end()) }()

	s := shapeNamed("exclusive claim, then writes")
	ref, err := w.refer(b, s)
	require.NoError(t, err)
	for _, test := range []struct {
		name      string
		rollbacks int
		err       error
	}{
		{"once", 1, nil},
		{"twice", 2, storage.ErrUnavailable},
	} {
		t.Run(test.name, func(t *testing.T) {
			env := w.environment()
			require.NoError(t, all(w.warm(b, s), s.before(w, env)))
			b.faults.Rewind()
			var shots []*wire.Shot
			for range test.rollbacks {
				shots = append(shots, b.faults.Arm(wire.Fault{
					Action: wire.Replace, Direction: wire.ToServer,
					Match: func(message []byte) bool { return bytes.Contains(message, []byte("\x00COMMIT\x00")) },
					With:  func([]byte) []byte { return parse("ROLLBACK") },
				}))
			}
			commit, err := w.transact(w.ctx, b, s, env, noHooks)
			for _, shot := range shots {
				require.True(t, shot.HasStruck())
			}
			require.Equal(t, 2, commit.Attempts)
			now, lookErr := w.look(env)
			require.NoError(t, lookErr)
			if test.err == nil {
				require.NoError(t, err)
				require.Equal(t, ref.once, now.text)
				return
			}
			require.ErrorIs(t, err, test.err)
			require.Equal(t, ref.none[0], now.text)
		})
	}
}

// parse is the message that prepares a statement without a name or parameters.
func parse(sql string) []byte {
	message := append([]byte("P\x00\x00\x00\x00\x00"+sql), 0, 0, 0)
	binary.BigEndian.PutUint32(message[1:], uint32(len(message)-1))
	return message
}

// TestConsumedBeforeTheLook lets somebody delete what a commit created before the
// driver can look for it. Its absence must not be taken for a commit that did not
// happen: it would be created, and consumed, twice.
func TestConsumedBeforeTheLook(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		run  func(ctx context.Context, tx storage.Tx, env string) error
		left string // what is there in the end
		err  error
	}{
		{"nothing else tells", func(ctx context.Context, tx storage.Tx, env string) error {
			return tx.Create(ctx, number(slotKey(env, 1), 1))
		}, "", storage.ErrCommitUnknown},
		{"an event tells", func(ctx context.Context, tx storage.Tx, env string) error {
			return all(tx.Create(ctx, number(slotKey(env, 1), 1)), mark(ctx, tx, env))
		}, `RunEvents/%<uuid> {"at": "<time>"}`, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t)
			b, err := w.broken(hasty())
			require.NoError(t, err)
			defer func() { require.NoError(t, b.end()) }()
			_, err = b.Transact(w.ctx, "create", func(ctx context.Context, tx storage.Tx) error { return test.run(ctx, tx, "another") })
			require.NoError(t, err) // and everything is prepared
			env := w.environment()
			consumed := make(chan error, 1)
			attempts := 0
			_, answer := b.Transact(w.ctx, "create", func(ctx context.Context, tx storage.Tx) error {
				if attempts++; attempts == 1 {
					shot := b.faults.Arm(wire.Fault{Action: wire.Cut, Direction: wire.ToClient})
					b.faults.Refuse(true)
					go func() {
						<-shot.Struck()
						_, err := w.driver.Transact(w.ctx, "consume", func(ctx context.Context, tx storage.Tx) error { return remove(ctx, tx, slotKey(env, 1)) })
						b.faults.Refuse(false)
						consumed <- err
					}()
				}
				return test.run(ctx, tx, env)
			})
			require.NoError(t, <-consumed)
			now, err := w.look(env)
			require.NoError(t, err)
			require.Equal(t, test.left, now.text)
			require.Equal(t, 1, attempts)
			require.ErrorIs(t, answer, test.err)
		})
	}
}
