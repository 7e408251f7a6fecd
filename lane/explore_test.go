package lane

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/memory"
)

// explore plays a scenario once for every order in which its actors can take their
// steps, and returns how many there are. A step is a read, a query or a commit,
// with everything up to the next one: between them nothing touches the store. The
// scenario is built anew each time, and its end is judged each time.
//
// An actor whose attempt is to be repeated, because another one holds a lock or was
// faster, goes on after somebody else has taken a step: by itself it would find the
// same again.
func explore(t *testing.T, most int, scenario func(w *world) (actors []func(ctx context.Context), judge func())) int {
	t.Helper()
	played := 0
	synctest.Test(t, func(t *testing.T) {
		var order []int // what to choose, as far as it is decided
		for {
			s := &stage{}
			played++
			s.play(t, order, scenario)
			if t.Failed() {
				t.Fatalf("in the order %v", s.taken)
			}
			if played == most {
				t.Fatalf("more than %d orders", most)
			}
			// The last choice that has an alternative left takes the next one.
			last := len(s.taken) - 1
			for last >= 0 && s.taken[last] == s.choices[last]-1 {
				last--
			}
			if last < 0 {
				return
			}
			order = append(slices.Clone(s.taken[:last]), s.taken[last]+1)
		}
	})
	return played
}

// sample plays a scenario that has too many orders in some of them, drawn at random.
func sample(t *testing.T, orders int, scenario func(w *world) (actors []func(ctx context.Context), judge func())) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		for n := range orders {
			rng := rand.New(rand.NewPCG(uint64(n), 1))
			s := &stage{draw: rng.IntN}
			s.play(t, nil, scenario)
			if t.Failed() {
				t.Fatalf("in the order %v", s.taken)
			}
		}
	})
}

// stage is where the actors of one order take turns.
type stage struct {
	draw    func(n int) int // chooses beyond what is decided; nil: the first
	mu      sync.Mutex
	actors  []*actor
	taken   []int // which of the actors that could go on did, step by step
	choices []int // how many there were
}

type actor struct {
	turn    chan struct{} // gets a token when the actor may go on
	waiting bool          // for its turn
	stuck   bool          // until somebody else has moved
	done    bool
}

type actorKey struct{}

// pass waits for the turn of the actor that the context belongs to; others, such as
// the scenario itself, pass.
func (s *stage) pass(ctx context.Context, stuck bool) {
	a, ok := ctx.Value(actorKey{}).(*actor)
	if !ok {
		return
	}
	s.mu.Lock()
	if a.waiting {
		panic("an actor is one goroutine at a time")
	}
	a.waiting, a.stuck = true, stuck
	s.mu.Unlock()
	<-a.turn
}

func (s *stage) play(t *testing.T, order []int, scenario func(w *world) ([]func(ctx context.Context), func())) {
	w := newWorldOn(t, memory.New(memory.Config{
		Rand: func() float64 { return 0.5 },
		Sleep: func(ctx context.Context, _ time.Duration) error {
			s.pass(ctx, true)
			return ctx.Err()
		},
	}))
	w.store.Driver = steppedDriver{w.memory, s}
	w.lane.resumers = 1
	actors, judge := scenario(w)
	for _, act := range actors {
		a := &actor{turn: make(chan struct{})}
		s.actors = append(s.actors, a)
		go func() {
			ctx := context.WithValue(context.Background(), actorKey{}, a)
			s.pass(ctx, false)
			act(ctx)
			s.mu.Lock()
			a.done = true
			s.mu.Unlock()
		}()
	}
	s.direct(order)
	judge()
	w.check()
	if err := w.memory.Close(); err != nil {
		t.Error(err)
	}
}

// direct lets the actors go on, one step at a time, until all have ended.
func (s *stage) direct(order []int) {
	for {
		synctest.Wait()
		ready, over := s.ready()
		if over {
			return
		}
		if len(ready) == 0 {
			time.Sleep(time.Second) // somebody waits for a time
			continue
		}
		choice := 0
		if n := len(s.taken); n < len(order) {
			choice = order[n]
		} else if s.draw != nil {
			choice = s.draw(len(ready))
		}
		s.taken, s.choices = append(s.taken, choice), append(s.choices, len(ready))
		s.mu.Lock()
		for _, a := range s.actors {
			a.stuck = false
		}
		ready[choice].waiting = false
		s.mu.Unlock()
		ready[choice].turn <- struct{}{}
	}
}

func (s *stage) ready() (ready []*actor, over bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	over = true
	var stuck []*actor
	for _, a := range s.actors {
		over = over && a.done
		switch {
		case a.waiting && a.stuck:
			stuck = append(stuck, a)
		case a.waiting:
			ready = append(ready, a)
		}
	}
	if len(ready) == 0 {
		return stuck, over
	}
	return ready, over
}

// steppedDriver makes every access to a store a step of its actor.
type steppedDriver struct {
	storage.Driver
	stage *stage
}

func (d steppedDriver) Transact(ctx context.Context, label string, fn func(context.Context, storage.Tx) error) (storage.Commit, error) {
	return d.Driver.Transact(ctx, label, func(inner context.Context, tx storage.Tx) error {
		err := fn(inner, steppedTx{tx, d.stage, ctx})
		d.stage.pass(ctx, false)
		return err
	})
}

type steppedTx struct {
	storage.Tx
	stage *stage
	actor context.Context //nolint:containedctx // it names the actor
}

func (t steppedTx) Get(ctx context.Context, key storage.Key, mode ...storage.ReadMode) (storage.Record, bool, error) {
	t.stage.pass(t.actor, false)
	return t.Tx.Get(ctx, key, mode...)
}

func (t steppedTx) GetMany(ctx context.Context, keys []storage.Key, mode ...storage.ReadMode) (map[storage.Key]storage.Record, error) {
	t.stage.pass(t.actor, false)
	return t.Tx.GetMany(ctx, keys, mode...)
}

func (t steppedTx) Peek(ctx context.Context, keys []storage.Key) (map[storage.Key]storage.Record, error) {
	t.stage.pass(t.actor, false)
	return t.Tx.Peek(ctx, keys)
}

func (t steppedTx) Query(ctx context.Context, q storage.Query) (storage.Page, error) {
	t.stage.pass(t.actor, false)
	return t.Tx.Query(ctx, q)
}

func (t steppedTx) Now(ctx context.Context) (time.Time, error) {
	t.stage.pass(t.actor, false)
	return t.Tx.Now(ctx)
}
