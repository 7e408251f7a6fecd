package faults_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/postgres"
	"github.com/seed4391e180/runlane/tests/wire"
)

// cancellations is how many TestCancelEverywhere makes.
const cancellations = 100

// cancellation cancels the context of a transaction at one message of its
// conversation, which is kept back until Transact has returned.
type cancellation struct {
	shape *shape
	ref   *reference
	fault wire.Fault
	sent  bool // a commit has been sent by then, or may have been
}

// TestCancelEverywhere cancels transactions at messages spread evenly over whole
// conversations. Each returns at once with a true answer, and nothing is left: no
// connection, no lock, no goroutine. It is not parallel, so that it can count
// goroutines.
func TestCancelEverywhere(t *testing.T) {
	w := newWorld(t)
	var possible []cancellation
	for _, name := range []string{"read, then replace", "exclusive claim, then writes", "Now, then writes", "a replay", "with a wake", "append"} {
		s := shapeNamed(name)
		ref := w.reference(s)
		for i, m := range places(append(ref.callback, ref.commit...)) {
			possible = append(possible, cancellation{
				shape: s, ref: ref, sent: s.replays > 0 || i >= len(ref.callback),
				fault: wire.Fault{Action: wire.Pause, Direction: m.Direction, Message: m.number},
			})
		}
	}
	require.Greater(t, len(possible), cancellations)

	drivers := make([]*broken, 4)
	for i := range drivers {
		b, err := w.broken(postgres.Config{})
		require.NoError(t, err)
		require.NoError(t, w.warm(b, possible[0].shape))
		drivers[i] = b
	}
	w.settle()
	before := runtime.NumGoroutine()

	var (
		working sync.WaitGroup
		mu      sync.Mutex
		slowest time.Duration
		answers = map[string]int{}
	)
	next := make(chan cancellation)
	for _, b := range drivers {
		working.Go(func() {
			for c := range next {
				answer, took, err := c.run(w, b)
				mu.Lock()
				answers[answer]++
				slowest = max(slowest, took)
				mu.Unlock()
				if err != nil {
					t.Errorf("%s: %v: %v", c.shape.name, c.fault, err)
				}
			}
		})
	}
	for i := 0; i < cancellations && !t.Failed(); i++ {
		next <- possible[i*len(possible)/cancellations]
	}
	close(next)
	working.Wait()
	t.Logf("of %d messages, %d cancellations: %v, the slowest returned after %v", len(possible), cancellations, answers, slowest.Round(time.Millisecond))

	for _, b := range drivers {
		require.NoError(t, w.warm(b, possible[0].shape))
	}
	w.settle()
	require.NoError(t, eventually(w.ctx, "no goroutine is left", func() (bool, error) { return runtime.NumGoroutine() <= before, nil }),
		"%d goroutines before, %d after", before, runtime.NumGoroutine())
	for _, b := range drivers {
		require.NoError(t, b.end())
	}
}

// settle waits until no advisory lock is left in the database, then drops idle
// connections of the pool, whose number may differ.
func (w *world) settle() {
	w.Helper()
	require.NoError(w, eventually(w.ctx, "no lock is left", func() (bool, error) {
		var n int
		err := w.pool.QueryRow(w.ctx, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND database = (SELECT oid FROM pg_database WHERE datname = current_database())").Scan(&n)
		return n == 0, err
	}))
	w.pool.Reset()
	require.NoError(w, eventually(w.ctx, "the pool is empty", func() (bool, error) { return w.pool.Stat().TotalConns() == 0, nil }))
}

// run makes the cancellation, and says in a word what the answer was.
func (c cancellation) run(w *world, b *broken) (answer string, took time.Duration, err error) {
	env := w.environment()
	if err := all(w.warm(b, c.shape), c.shape.before(w, env)); err != nil {
		return "", 0, err
	}
	b.faults.Rewind()
	shot := b.faults.Arm(c.fault)
	ctx, cancel := context.WithCancel(w.ctx)
	defer cancel()
	var cancelled time.Time
	done := make(chan struct{})
	go func() {
		defer close(done)
		select {
		case <-shot.Struck():
			cancelled = time.Now()
			cancel()
		case <-w.ctx.Done():
		}
	}()
	_, got := w.transact(ctx, b, c.shape, env, noHooks)
	returned := time.Now()
	<-done
	shot.Release()
	if answer, err = c.judge(got); err != nil {
		return answer, 0, err
	}
	if took = returned.Sub(cancelled); took > patience/2 {
		return answer, took, fmt.Errorf("returned %v after it was cancelled", took)
	}
	return answer, took, c.left(w, b, env, answer, shot.Backend())
}

// judge says what kind of answer it is, which must be one that the moment allows.
func (c cancellation) judge(got error) (answer string, err error) {
	switch {
	case got == nil && c.sent:
		return "committed", nil
	case !errors.Is(got, context.Canceled):
		return "wrong", fmt.Errorf("the answer is %v", got)
	case !errors.Is(got, storage.ErrCommitUnknown):
		return "cancelled", nil
	case !c.sent:
		return "wrong", fmt.Errorf("nothing was sent, and the answer is %w", got)
	}
	return "unknown", unknownForm(got)
}

// left checks that nothing is left, and that the answer is true.
func (c cancellation) left(w *world, b *broken, env, answer string, backend uint32) error {
	err := eventually(w.ctx, "every connection is given back", func() (bool, error) { return b.pool.Stat().AcquiredConns() == 0, nil })
	if err != nil {
		return err
	}
	if answer == "committed" {
		err = eventually(w.ctx, "its backend holds no lock", func() (free bool, err error) {
			err = w.pool.QueryRow(w.ctx, "SELECT NOT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND pid = $1)", backend).Scan(&free)
			return free, err
		})
	} else {
		err = w.gone(backend) // and so are its locks
	}
	if err != nil {
		return err
	}
	s, err := w.look(env)
	if err != nil {
		return err
	}
	times, ok := c.ref.times(s)
	if !ok || answer == "committed" && times == 0 || answer == "cancelled" && times == 1 {
		return fmt.Errorf("the answer is %q, and the environment holds\n%s", answer, s.raw)
	}
	return nil
}
