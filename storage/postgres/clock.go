package postgres

import (
	"sync"
	"time"
)

// clock estimates the database's clock, for the deadlines of commits. It never
// says what time it is to anybody else: times that are stored or returned are read
// by the statements themselves.
type clock struct {
	mu    sync.Mutex
	known bool
	at    time.Time // the database's clock, not earlier than it was at the moment taken
	taken time.Time // on this process's monotonic clock
}

// sample learns from a time that the database read between sent and now.
func (c *clock) sample(at, sent time.Time) {
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.known, c.at, c.taken = true, at.Add(now.Sub(sent)), now
}

// forget drops what was learnt, because it has led to a wrong deadline.
func (c *clock) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.known = false
}

// now is not earlier than the database's clock, and later by no more than the
// round trip of the sample; ok is false if nothing is known.
func (c *clock) now() (t time.Time, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at.Add(time.Since(c.taken)), c.known
}
