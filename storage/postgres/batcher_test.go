package postgres

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/internal/txn"
	"github.com/seed4391e180/runlane/storage"
)

// ride is what the batchers of these tests carry.
type ride struct {
	name string
	bad  bool // whatever it shares comes to nothing
}

// newBatcher makes a batcher with two slots whose trips end when gate lets them.
func newBatcher(most int, send func(ctx context.Context, group []*ride) error) *batcher[*ride] {
	return &batcher[*ride]{
		admit: func(*ride) bool { return true },
		board: func() func(*ride, bool) boarding {
			return func(_ *ride, room bool) boarding { return map[bool]boarding{true: aboard, false: wait}[room] }
		},
		land: func(*ride) {}, send: send, most: most, free: 2, trips: &sync.WaitGroup{},
	}
}

// TestBatcherTakesWhoCame: the first calls go at once and alone, those that come
// meanwhile go together when a slot is free, and no more than fit.
func TestBatcherTakesWhoCame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var shared [][]string
		b := newBatcher(3, func(_ context.Context, group []*ride) error {
			var names []string
			for _, r := range group {
				names = append(names, r.name)
			}
			shared = append(shared, names)
			return nil
		})
		gate := make(chan struct{})
		alone := 0
		var callers sync.WaitGroup
		for i := range 7 {
			callers.Go(func() {
				require.NoError(t, b.do(t.Context(), &ride{name: fmt.Sprint(i)}, func() error {
					alone++
					<-gate
					return nil
				}))
			})
			synctest.Wait() // one after the other
		}
		require.Equal(t, 2, alone)
		require.Equal(t, Trips{Alone: 2, Waiting: 5}, b.stats())
		gate <- struct{}{}
		synctest.Wait()
		require.Equal(t, [][]string{{"2", "3", "4"}, {"5", "6"}}, shared)
		require.Equal(t, Trips{Alone: 2, Shared: 2, Together: 5}, b.stats())
		gate <- struct{}{}
		callers.Wait()
		require.Equal(t, 2, b.free)
	})
}

// TestBatcherTriesAgainAlone: when a trip comes to nothing, each call goes alone, in
// the order of arrival, before those that came later.
func TestBatcherTriesAgainAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		trips := 0
		b := newBatcher(10, func(_ context.Context, group []*ride) error {
			trips++
			for _, r := range group {
				if r.bad {
					return errors.New("a bad one")
				}
			}
			return nil
		})
		b.free = 1
		gate := make(chan struct{})
		var order []string
		var callers sync.WaitGroup
		outcome := errors.New("what the bad one deserves")
		for i := range 5 {
			r := &ride{name: fmt.Sprint(i), bad: i == 3}
			callers.Go(func() {
				err := b.do(t.Context(), r, func() error {
					if r.name == "0" {
						<-gate
					}
					order = append(order, r.name)
					if r.bad {
						return outcome
					}
					return nil
				})
				if r.bad {
					require.Equal(t, outcome, err)
				} else {
					require.NoError(t, err)
				}
			})
			synctest.Wait()
		}
		close(gate)
		callers.Wait()
		require.Equal(t, []string{"0", "1", "2", "3", "4"}, order)
		require.Equal(t, 1, trips)
		require.Equal(t, 1, b.free)
	})
}

// TestBatcherIsLeft: a call whose context ends is taken back if it waits, and else
// travels on without its caller; a trip that nobody waits for is cancelled.
func TestBatcherIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cancelled := 0
		gate := make(chan struct{})
		b := newBatcher(10, func(ctx context.Context, _ []*ride) error {
			select {
			case <-gate:
			case <-ctx.Done():
				cancelled++
			}
			return nil
		})
		b.free = 1
		go func() {
			require.NoError(t, b.do(t.Context(), &ride{}, func() error { <-gate; return nil }))
		}()
		synctest.Wait()
		outcomes := make(chan error, 10)
		ctx, cancel := context.WithCancel(t.Context())
		go func() { outcomes <- b.do(ctx, &ride{}, func() error { panic("its turn never came") }) }()
		synctest.Wait()
		cancel()
		require.Equal(t, context.Canceled, <-outcomes)
		require.Zero(t, b.stats().Waiting)

		ctx, cancel = context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		for range 2 {
			go func() { outcomes <- b.do(ctx, &ride{}, nil) }()
		}
		synctest.Wait()
		gate <- struct{}{}
		synctest.Wait()
		require.EqualValues(t, 1, b.stats().Shared)
		require.Equal(t, errAbandoned, <-outcomes)
		require.Equal(t, errAbandoned, <-outcomes)
		synctest.Wait()
		require.Equal(t, 1, cancelled)
		require.Equal(t, 1, b.free)

		// One that comes to nothing is not tried again for a caller that has left.
		b.send = func(context.Context, []*ride) error { <-gate; return errors.New("nothing") }
		hold := make(chan struct{})
		go func() { outcomes <- b.do(t.Context(), &ride{}, func() error { <-hold; return nil }) }()
		synctest.Wait()
		ctx, cancel = context.WithCancel(t.Context())
		went := 0
		go func() { outcomes <- b.do(ctx, &ride{}, func() error { panic("nobody waits for it") }) }()
		go func() { outcomes <- b.do(t.Context(), &ride{}, func() error { went++; return nil }) }()
		synctest.Wait()
		hold <- struct{}{}
		require.NoError(t, <-outcomes)
		synctest.Wait()
		cancel()
		require.Equal(t, errAbandoned, <-outcomes)
		gate <- struct{}{}
		require.NoError(t, <-outcomes)
		require.Equal(t, 1, went)
		synctest.Wait()
		require.Equal(t, 1, b.free)
	})
}

// TestCommitsClaimTheirKeys runs random commits on few keys through the batcher of
// commits: whatever is under way at one time does not conflict.
func TestCommitsClaimTheirKeys(t *testing.T) {
	d := &Driver{budget: newBudget(DefaultMaxHeldLocks)}
	b := d.newCommits()
	var (
		mu       sync.Mutex
		underWay = map[*commit]bool{}
	)
	conflict := func(a, b *commit) bool {
		for _, x := range a.plan.Locks {
			for _, y := range b.plan.Locks {
				if x.Key == y.Key && !(x.Shared && y.Shared) {
					return true
				}
			}
		}
		return false
	}
	begin := func(group ...*commit) {
		mu.Lock()
		defer mu.Unlock()
		for _, c := range group {
			for other := range underWay {
				if conflict(c, other) {
					t.Errorf("%v goes beside %v", c.plan.Locks, other.plan.Locks)
				}
			}
			underWay[c] = true
		}
	}
	end := func(group ...*commit) {
		mu.Lock()
		defer mu.Unlock()
		for _, c := range group {
			delete(underWay, c)
		}
	}
	b.send = func(_ context.Context, group []*commit) error {
		begin(group...)
		for range rand.IntN(30) { // others come
			runtime.Gosched()
		}
		end(group...)
		if rand.IntN(10) == 0 {
			return errors.New("again")
		}
		return nil
	}
	var callers sync.WaitGroup
	for range 64 {
		callers.Go(func() {
			for range 100 {
				c := &commit{plan: &txn.Plan{}}
				for k := range 6 {
					if rand.IntN(4) == 0 {
						c.plan.Locks = append(c.plan.Locks, txn.Lock{Key: storage.Key{ID: fmt.Sprint(k)}, Shared: rand.IntN(3) > 0})
					}
				}
				ctx, cancel := context.WithCancel(t.Context())
				if rand.IntN(20) == 0 {
					cancel()
				}
				err := b.do(ctx, c, func() error { begin(c); end(c); return nil })
				cancel()
				if err != nil && !errors.Is(err, errAbandoned) && !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
			}
		})
	}
	callers.Wait()
	b.trips.Wait()
	require.Equal(t, sharedTransactions, b.free)
	require.Empty(t, b.waiting)
	require.Positive(t, b.stats().Shared)
	// What claims are left would block others for ever.
	everything := &commit{plan: &txn.Plan{}}
	for k := range 6 {
		everything.plan.Locks = append(everything.plan.Locks, txn.Lock{Key: storage.Key{ID: fmt.Sprint(k)}})
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	require.NoError(t, b.do(ctx, everything, func() error { return nil }))
}
