package wire

import (
	"context"
	"sync"
)

// Shot is a fault that was armed.
type Shot struct {
	fault    Fault
	struck   chan struct{} // closed when the fault has happened
	released chan struct{} // closed by Release
	answered chan struct{} // closed when the server has answered behind the fault, or hung up

	strikeOnce, releaseOnce, answerOnce sync.Once

	// These are set before struck is closed.
	link  *link  // the connection that was struck
	place int    // how many messages had passed
	held  []byte // what Deliver delivers
}

func newShot(fault Fault) *Shot {
	return &Shot{fault: fault, struck: make(chan struct{}), released: make(chan struct{}), answered: make(chan struct{})}
}

// Fault is what was armed.
func (s *Shot) Fault() Fault { return s.fault }

func (s *Shot) String() string { return s.fault.String() }

// Struck is closed when the fault has happened.
func (s *Shot) Struck() <-chan struct{} { return s.struck }

// HasStruck reports whether the fault has happened.
func (s *Shot) HasStruck() bool {
	select {
	case <-s.struck:
		return true
	default:
		return false
	}
}

// Backend is the process id of the server's end. It waits for the fault to strike.
func (s *Shot) Backend() uint32 {
	<-s.struck
	return s.link.backend.Load()
}

// Release lets a paused direction go on.
func (s *Shot) Release() { s.releaseOnce.Do(func() { close(s.released) }) }

// Deliver gives the server what the client had written before a Hold, as if the
// network had come back without the client, and waits until the server has answered
// or hung up. It waits for the fault to strike.
func (s *Shot) Deliver(ctx context.Context) error {
	<-s.struck
	// An error is the server's end having gone, which closes answered as well.
	_, _ = s.link.server.Write(s.held)
	select {
	case <-s.answered:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Drop closes the server's end. It waits for the fault to strike.
func (s *Shot) Drop() {
	<-s.struck
	_ = s.link.server.Close()
}

func (s *Shot) strike() { s.strikeOnce.Do(func() { close(s.struck) }) }

func (s *Shot) answer() { s.answerOnce.Do(func() { close(s.answered) }) }
