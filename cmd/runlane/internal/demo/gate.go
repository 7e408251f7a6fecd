package demo

import (
	"context"
	"sync"
)

// gate lets a number of handlers pass and makes those behind wait, until it is
// opened. It tells when a worker holds leases and nothing else: the outcomes of
// all that passed are stored, and a crowd of handlers waits.
type gate struct {
	crowd int    // how many must wait; 0: it does not tell
	still func() // called once

	mu      sync.Mutex
	allowed int // handlers that may still pass
	pending int // of those that may pass or have passed, the ones whose outcome is not stored
	waiting int
	told    bool
	open    chan struct{} // closed when everybody may pass
}

func newGate(allowed, crowd int, still func()) *gate {
	return &gate{crowd: crowd, still: still, allowed: allowed, pending: allowed, open: make(chan struct{})}
}

// pass returns when a handler may go on, or with the error of its context.
func (g *gate) pass(ctx context.Context) error {
	g.mu.Lock()
	if g.allowed > 0 {
		g.allowed--
		g.mu.Unlock()
		return nil
	}
	g.waiting++
	tell := g.isStill()
	g.mu.Unlock()
	if tell {
		g.still()
	}
	defer func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.waiting--
	}()
	select {
	case <-g.open:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// stored counts an outcome that is stored.
func (g *gate) stored() {
	g.mu.Lock()
	g.pending--
	tell := g.isStill()
	g.mu.Unlock()
	if tell {
		g.still()
	}
}

// isStill reports, once, that the moment has come. The caller holds mu.
func (g *gate) isStill() bool {
	if g.told || g.crowd == 0 || g.pending > 0 || g.waiting < g.crowd {
		return false
	}
	g.told = true
	return true
}

// unlock opens the gate for good. It may be called once.
func (g *gate) unlock() { close(g.open) }
