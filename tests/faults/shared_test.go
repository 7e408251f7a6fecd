package faults_test

import (
	"bytes"
	"context"
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/codec"
	"github.com/seed4391e180/runlane/storage/postgres"
	"github.com/seed4391e180/runlane/tests/wire"
)

// party is a driver with one connection, on which three commits are made to share a
// transaction: one creates a record, one adds to a number, and one depends on what has
// changed, so that it must be left out and replay.
type party struct {
	*world
	*broken
}

func newParty(w *world) *party {
	// In this mode the text of each statement travels with it.
	config := w.db.Config(w)
	config.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec
	config.MaxConns = 1
	b := &broken{faults: wire.Inject(config)}
	var err error
	b.pool, err = pgxpool.NewWithConfig(w.ctx, config)
	require.NoError(w, err)
	b.Driver, err = postgres.New(b.pool, postgres.Config{AcquireTimeout: patience, CommitTimeout: time.Second})
	require.NoError(w, err)
	w.Cleanup(func() { require.NoError(w, b.end()) })
	return &party{world: w, broken: b}
}

// The records of one round.
const (
	created = iota
	added
	changed
	dependent
)

// lasting names a record whose absence proves that it was not created.
func lasting(env string, n int) storage.Key {
	key := slotKey(env, n)
	key.Collection = storage.ScheduleCursors
	return key
}

var errUndone = errors.New("undone")

// begin runs fn in another goroutine.
func (p *party) begin(fn func(ctx context.Context, tx storage.Tx) error) <-chan error {
	done := make(chan error, 1)
	go func() {
		_, err := p.Transact(p.ctx, "shared", fn)
		done <- err
	}()
	return done
}

// waiting waits until n commits wait for their turn.
func (p *party) waiting(n int) {
	require.Eventually(p, func() bool { return p.Stats().Commits.Waiting == n }, patience, time.Millisecond)
}

// round has the three meet, and returns what they were told. arm is called when they
// are about to go.
func (p *party) round(env string, arm func()) (errs []error) {
	key := func(n int) storage.Key { return lasting(env, n) }
	create := func(recs ...storage.Record) func(context.Context, storage.Tx) error {
		return func(ctx context.Context, tx storage.Tx) error {
			for _, rec := range recs {
				if err := tx.Create(ctx, rec); err != nil {
					return err
				}
			}
			return nil
		}
	}
	two, other := number(key(added), 0), number(key(changed), 0)
	commit, err := p.driver.Transact(p.ctx, "before", create(two, other))
	require.NoError(p, err)
	two.Version, other.Version = commit.Versions[two.Key], commit.Versions[other.Key]
	_, err = p.driver.Transact(p.ctx, "change", func(ctx context.Context, tx storage.Tx) error {
		if _, _, err := tx.Get(ctx, other.Key); err != nil {
			return err
		}
		return tx.Replace(ctx, number(other.Key, 1))
	})
	require.NoError(p, err)

	_, err = p.Transact(p.ctx, "warm", create(number(key(12), 0))) // it knows the clock and has versions
	require.NoError(p, err)

	// One holds the only connection; two have the slots and wait for it.
	held, gate := make(chan struct{}), make(chan struct{})
	holder := p.begin(func(ctx context.Context, tx storage.Tx) error {
		if _, err := tx.Now(ctx); err != nil {
			return err
		}
		close(held)
		<-gate
		return errUndone
	})
	<-held
	before := p.Stats().Commits.Alone
	jam := []<-chan error{p.begin(create(number(key(10), 0))), p.begin(create(number(key(11), 0)))}
	require.Eventually(p, func() bool { return p.Stats().Commits.Alone == before+2 }, patience, time.Millisecond)
	three := []<-chan error{
		p.begin(create(number(key(created), 1))),
		p.begin(func(ctx context.Context, tx storage.Tx) error {
			now, found, err := tx.Assume(ctx, two)
			if err != nil || !found {
				return err
			}
			return tx.Replace(ctx, number(two.Key, numberIn(now)+1))
		}),
		p.begin(func(ctx context.Context, tx storage.Tx) error {
			now, _, err := tx.Assume(ctx, other)
			if err != nil {
				return err
			}
			return tx.Create(ctx, number(key(dependent), numberIn(now)))
		}),
	}
	p.waiting(3)
	arm()
	close(gate)
	require.ErrorIs(p, <-holder, errUndone)
	for _, done := range jam {
		require.NoError(p, <-done)
	}
	for _, done := range three {
		errs = append(errs, <-done)
	}
	return errs
}

// TestSharedCommitCutEverywhere cuts the connection of a shared transaction behind
// its messages, in both directions: every third, and with -exhaustive all. Each of the
// three is told what became of its own commit, and each takes place once.
func TestSharedCommitCutEverywhere(t *testing.T) {
	t.Parallel()
	p := newParty(newWorld(t))
	marker := wire.Fault{Action: wire.Pause, Direction: wire.ToServer, Delay: time.Millisecond, Match: func(message []byte) bool {
		return bytes.Contains(message, []byte("AS busy"))
	}}
	for _, c := range []struct {
		fault wire.Fault
		step  int
	}{
		{wire.Fault{Action: wire.Cut, Direction: wire.ToServer}, 3},
		{wire.Fault{Action: wire.Cut, Direction: wire.ToClient}, 3},
		{wire.Fault{Action: wire.HalfOpen, Direction: wire.ToClient}, 20}, // each waits for a deadline
	} {
		var total outcomes
		fault, step := c.fault, c.step
		if *exhaustive {
			step = 1
		}
		for ; ; fault.Message += step {
			env := p.environment()
			var shot *wire.Shot
			shared := p.Stats().Commits.Shared
			errs := p.round(env, func() {
				p.faults.Rewind()
				p.faults.Arm(marker)
				shot = p.faults.Arm(fault)
			})
			require.Greater(t, p.Stats().Commits.Shared, shared)
			struck := shot.HasStruck()
			p.faults.Rewind()
			p.judge(env, errs, &total)
			if !struck {
				break
			}
			if fault.Action == wire.HalfOpen {
				shot.Drop()
			}
		}
		t.Logf("%s: %s", fault, total)
		require.Greater(t, total.trials, 3*30/step, "the fault hardly ever struck")
		require.Zero(t, total.lost+total.doubled+total.wrong+total.unknown)
		require.Equal(t, total.trials, total.committed)
	}
}

// judge compares what the three were told with what there is.
func (p *party) judge(env string, errs []error, total *outcomes) {
	found := map[int]int{} // the numbers of the records that exist
	_, err := p.driver.Transact(p.ctx, "judge", func(ctx context.Context, tx storage.Tx) error {
		for _, n := range []int{created, added, dependent} {
			rec, ok, err := tx.Get(ctx, lasting(env, n))
			if err != nil {
				return err
			}
			if ok {
				found[n] = numberIn(rec)
			}
		}
		return nil
	})
	require.NoError(p, err)
	for i, done := range []bool{found[created] == 1, found[added] == 1, found[dependent] == 1} {
		total.trials++
		switch err := errs[i]; {
		case err == nil && done:
			total.committed++
		case err == nil:
			total.lost++
		case errors.Is(err, storage.ErrCommitUnknown):
			total.unknown++
		case done:
			total.wrong++
		default:
			total.refused++
		}
	}
	if found[added] > 1 {
		total.doubled++
	}
}

// TestSharedAppendsCut cuts the connection of a transaction that three appends to one
// stream share, behind every second message. Each append takes place once, at the
// positions that its caller is told.
func TestSharedAppendsCut(t *testing.T) {
	t.Parallel()
	p := newParty(newWorld(t))
	marker := wire.Fault{Action: wire.Pause, Direction: wire.ToServer, Delay: time.Millisecond, Message: 1, Match: func(message []byte) bool {
		return bytes.Contains(message, []byte("SELECT count(*) FROM taken")) // the lock of the head, the second time
	}}
	for _, direction := range []wire.Direction{wire.ToServer, wire.ToClient} {
		cut, struck := wire.Fault{Action: wire.Cut, Direction: direction}, true
		for ; struck; cut.Message += 2 {
			env := p.environment()
			head, err := codec.ObservationHeadKey(env, "s")
			require.NoError(t, err)
			_, err = p.Transact(p.ctx, "warm", func(ctx context.Context, tx storage.Tx) error { return tx.Create(ctx, number(lasting(env, 0), 0)) })
			require.NoError(t, err)
			gate, held := make(chan struct{}), make(chan struct{})
			holder := p.begin(func(ctx context.Context, tx storage.Tx) error {
				if _, err := tx.Now(ctx); err != nil {
					return err
				}
				close(held)
				<-gate
				return errUndone
			})
			<-held
			type answer struct {
				item   string
				commit storage.Commit
				err    error
			}
			answers := make(chan answer, 4)
			for i := range 4 { // the first has the stream, and waits for the connection
				item := strconv.Itoa(i)
				alone := p.Stats().Appends.Alone
				go func() {
					commit, err := p.Transact(p.ctx, "append", func(_ context.Context, tx storage.Tx) error { return tx.Append(p.ctx, head, []byte(item)) })
					answers <- answer{item, commit, err}
				}()
				require.Eventually(t, func() bool {
					s := p.Stats().Appends
					return i == 0 && s.Alone == alone+1 || i > 0 && s.Waiting == i
				}, patience, time.Millisecond)
			}
			shared := p.Stats().Appends.Shared
			p.faults.Rewind()
			p.faults.Arm(marker)
			shot := p.faults.Arm(cut)
			close(gate)
			require.ErrorIs(t, <-holder, errUndone)
			told := map[int64]string{}
			for range 4 {
				a := <-answers
				require.NoError(t, a.err, cut)
				require.Len(t, a.commit.Appended, 1)
				require.Equal(t, a.commit.Appended[0].First, a.commit.Appended[0].Last)
				told[a.commit.Appended[0].First] = a.item
			}
			require.Greater(t, p.Stats().Appends.Shared, shared)
			struck = shot.HasStruck()
			p.faults.Rewind()
			rows, err := p.world.pool.Query(p.ctx, `SELECT (record_document #>> '{value,position}')::bigint, record_document #>> '{value,data}'
				FROM runlane.runlane_record_observation_records WHERE record_document #>> '{value,environment}' = $1`, env)
			require.NoError(t, err)
			stored := map[int64]string{}
			var position int64
			var item string
			_, err = pgx.ForEachRow(rows, []any{&position, &item}, func() error { stored[position] = item; return nil })
			require.NoError(t, err)
			require.Equal(t, stored, told, cut)
			require.Len(t, stored, 4)
			for n := range int64(4) {
				require.Contains(t, stored, n+1)
			}
		}
		require.Greater(t, cut.Message, 8, "the fault hardly ever struck")
	}
}
