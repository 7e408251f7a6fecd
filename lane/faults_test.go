package lane

import (
	"context"
	"sync"

	"github.com/seed4391e180/runlane/storage"
)

// faultyStore lets a test decide what becomes of transactions and hints.
type faultyStore struct {
	storage.Driver

	mu     sync.Mutex
	counts map[string]int // of transactions that were begun, by label
	// before is asked before a transaction of a label; an error is its result.
	before func(ctx context.Context, label string) error
	// after is asked after one that has committed; an error takes the place of its result.
	after func(ctx context.Context, label string) error
	// deaf makes Listen hear nothing.
	deaf bool
}

func (s *faultyStore) set(before func(ctx context.Context, label string) error, after func(ctx context.Context, label string) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.before, s.after = before, after
}

func (s *faultyStore) count(label string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.counts[label]
}

// total is how many transactions were begun.
func (s *faultyStore) total() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, count := range s.counts {
		n += count
	}
	return n
}

func (s *faultyStore) Transact(ctx context.Context, label string, fn func(ctx context.Context, tx storage.Tx) error) (storage.Commit, error) {
	s.mu.Lock()
	s.counts[label]++
	before, after := s.before, s.after
	s.mu.Unlock()
	if before != nil {
		if err := before(ctx, label); err != nil {
			return storage.Commit{}, err
		}
	}
	commit, err := s.Driver.Transact(ctx, label, fn)
	if err == nil && after != nil {
		if err := after(ctx, label); err != nil {
			return storage.Commit{}, err
		}
	}
	return commit, err
}

func (s *faultyStore) Listen(ctx context.Context, hint func(topic string)) error {
	if s.deaf {
		<-ctx.Done()
		return ctx.Err()
	}
	return s.Driver.Listen(ctx, hint)
}

// failing fails the transactions of a label n times.
func failing(label string, n int, err error) func(context.Context, string) error {
	var mu sync.Mutex
	return func(_ context.Context, l string) error {
		mu.Lock()
		defer mu.Unlock()
		if l != label || n == 0 {
			return nil
		}
		n--
		return err
	}
}

// gate holds handlers back until a test opens it, and counts them.
type gate struct {
	open chan struct{}

	mu      sync.Mutex
	inside  int
	most    int
	entered int
}

func newGate() *gate { return &gate{open: make(chan struct{})} }

// pass waits for the gate, or for ctx if heed is set.
func (g *gate) pass(ctx context.Context, heed bool) error {
	g.mu.Lock()
	g.inside++
	g.entered++
	g.most = max(g.most, g.inside)
	g.mu.Unlock()
	defer func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.inside--
	}()
	if !heed {
		<-g.open
		return nil
	}
	select {
	case <-g.open:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (g *gate) counts() (inside, most, entered int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.inside, g.most, g.entered
}
