package postgres

import (
	"context"
	"sync"
)

// DefaultMaxHeldLocks is how many advisory locks a driver holds at a time as long as
// Check has not read the server's capacity: half of what PostgreSQL's own defaults
// allow.
const DefaultMaxHeldLocks = 3200

// budget bounds how many advisory locks the driver holds at a time. They live in
// the server's lock table, which everybody shares and which fails when it is full.
type budget struct {
	mu       sync.Mutex
	capacity int
	held     int
	changed  chan struct{} // closed when something was given back
}

func newBudget(capacity int) *budget {
	return &budget{capacity: capacity, changed: make(chan struct{})}
}

// try takes n if there is room. What exceeds the whole capacity has room alone.
func (b *budget) try(n int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.held > 0 && b.held+n > b.capacity {
		return false
	}
	b.held += n
	return true
}

// wait takes n as soon as there is room, or returns ctx.Err().
func (b *budget) wait(ctx context.Context, n int) error {
	for {
		b.mu.Lock()
		changed := b.changed
		b.mu.Unlock()
		if b.try(n) {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (b *budget) release(n int) {
	if n == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.held -= n
	close(b.changed)
	b.changed = make(chan struct{})
}

func (b *budget) size() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.capacity
}

func (b *budget) resize(capacity int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.capacity = capacity
}
