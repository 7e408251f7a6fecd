package postgres

import (
	"context"
	"errors"
	"slices"
	"sync"
)

// batcher lets concurrent calls of one kind travel together, which for commits is
// known as group commit. A call that finds a slot free goes at once, alone, on its
// caller's goroutine. Calls that come while all slots are taken wait, and whoever
// frees a slot sends as many of them as may go together. So there is no timer, an idle
// batcher delays nothing, and the more calls there are the more share a trip.
type batcher[T any] struct {
	// admit says whether a call may wait at all; what becomes of one that may not is known.
	admit func(what T) bool
	// board begins a trip. The function that it returns is asked about the waiting calls
	// in the order of their arrival; without room it takes nobody aboard. land ends what
	// it began for a call that went aboard.
	board func() func(what T, room bool) boarding
	land  func(what T)
	// send carries out several calls. An error means that nothing came of it; what became
	// of each is for T to keep.
	send  func(ctx context.Context, group []T) error
	most  int             // calls of one trip
	trips *sync.WaitGroup // counts those under way

	mu      sync.Mutex // guards what follows, and what board and land keep
	free    int        // slots
	waiting []*call[T] // in the order of arrival
	counted Trips
}

// Trips counts how calls of one kind went to the database.
type Trips struct {
	Alone    int64 // calls that went alone
	Shared   int64 // trips that several calls shared
	Together int64 // calls on those trips
	Waiting  int   // calls that wait for their turn now
}

func (b *batcher[T]) stats() Trips {
	if b == nil {
		return Trips{}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	counted := b.counted
	counted.Waiting = len(b.waiting)
	return counted
}

// call is one call on its way.
type call[T any] struct {
	what  T
	alone bool      // it goes with nobody
	turn  chan turn // gets one value
	trip  *trip[T]  // that it is on; nil while it waits
	gone  bool      // its caller does not wait any more
}

// boarding is the answer to a call that waits.
type boarding uint8

const (
	wait      boarding = iota
	aboard             // it goes
	dismissed          // it need not go: what becomes of it is known
)

// turn is how far a call has come. Its caller is told the last two.
type turn uint8

const (
	waiting  turn = iota
	underWay      // with others
	goAlone       // a slot is its own
	arrived       // with others, or dismissed
)

// trip is calls that go together.
type trip[T any] struct {
	calls  []*call[T]
	still  int // whose callers wait for it
	cancel context.CancelFunc
}

// errAbandoned is a call whose context ended when it was under way with others: it may
// take effect yet.
var errAbandoned = errors.New("storage/postgres: the caller did not wait for the outcome")

// do carries out a call, alone or with others, and returns what alone returned, or
// nil if send has carried it out or it was dismissed. If ctx ends before that, it is ctx.Err() if the
// call was not sent, and errAbandoned if others carry it with them.
func (b *batcher[T]) do(ctx context.Context, what T, alone func() error) error {
	c := &call[T]{what: what, turn: make(chan turn, 1)}
	b.mu.Lock()
	if !b.admit(what) {
		b.mu.Unlock()
		return nil
	}
	b.waiting = append(b.waiting, c)
	b.dispatch()
	b.mu.Unlock()
	select {
	case t := <-c.turn:
		return b.take(c, t, alone)
	case <-ctx.Done():
	}
	switch t := b.withdraw(c); t {
	case waiting:
		return ctx.Err()
	case underWay:
		return errAbandoned
	default:
		return b.take(c, t, alone)
	}
}

// take does what a call's turn asks for.
func (b *batcher[T]) take(c *call[T], t turn, alone func() error) error {
	if t == arrived {
		return nil
	}
	defer b.leave(c)
	return alone()
}

// withdraw takes a call back if it still waits, and says how far it has come.
func (b *batcher[T]) withdraw(c *call[T]) turn {
	b.mu.Lock()
	defer b.mu.Unlock()
	select {
	case t := <-c.turn:
		return t
	default:
	}
	c.gone = true
	if c.trip == nil {
		b.waiting = slices.DeleteFunc(b.waiting, func(w *call[T]) bool { return w == c })
		b.dispatch() // others may have waited for this one
		return waiting
	}
	if c.trip.still--; c.trip.still == 0 {
		c.trip.cancel()
	}
	return underWay
}

// leave frees the slot of a call that went alone.
func (b *batcher[T]) leave(c *call[T]) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.land(c.what)
	b.free++
	b.dispatch()
}

// dispatch fills the free slots; mu is held.
func (b *batcher[T]) dispatch() {
	for b.free > 0 && len(b.waiting) > 0 {
		next := b.next()
		switch len(next) {
		case 0:
			return
		case 1:
			b.counted.Alone++
			next[0].turn <- goAlone
		default:
			ctx, cancel := context.WithCancel(context.Background())
			t := &trip[T]{calls: next, still: len(next), cancel: cancel}
			for _, c := range next {
				c.trip = t
			}
			b.counted.Shared++
			b.counted.Together += int64(len(next))
			b.trips.Go(func() { b.run(ctx, t) })
		}
		b.free--
	}
}

// next takes those of the waiting who go together next.
func (b *batcher[T]) next() []*call[T] {
	var group, rest []*call[T]
	board := b.board()
	for i, c := range b.waiting {
		if len(group) == b.most || len(group) == 1 && group[0].alone {
			rest = append(rest, b.waiting[i:]...)
			break
		}
		switch board(c.what, len(group) == 0 || !c.alone) {
		case aboard:
			group = append(group, c)
		case dismissed:
			c.turn <- arrived
		default:
			rest = append(rest, c)
		}
	}
	b.waiting = rest
	return group
}

// run carries out a trip. If nothing came of it, its calls go again, each alone, at the
// head of the queue: whatever one of them is to blame for is no business of the others.
func (b *batcher[T]) run(ctx context.Context, t *trip[T]) {
	defer t.cancel()
	group := make([]T, len(t.calls))
	for i, c := range t.calls {
		group[i] = c.what
	}
	err := b.send(ctx, group)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.free++
	var again []*call[T]
	for _, c := range t.calls {
		b.land(c.what)
		switch {
		case c.gone:
		case err == nil:
			c.turn <- arrived
		default:
			c.trip, c.alone = nil, true
			again = append(again, c)
		}
	}
	b.waiting = append(again, b.waiting...)
	b.dispatch()
}
