package postgres

import (
	"context"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// coalesceInterval is how often a topic is sent at most in the mode WakeCoalesced.
const coalesceInterval = 10 * time.Millisecond

// hints collects the topics of commits that did not send them themselves. While
// there are any, one goroutine sends what has come together, every interval.
type hints struct {
	mu      sync.Mutex
	waiting map[string]bool
	sending bool // the goroutine runs
}

// coalesce takes over the hints of a commit that has taken effect.
func (d *Driver) coalesce(s *session, topics []string) {
	if d.config.Wakes != WakeCoalesced || s.joined != nil || len(topics) == 0 {
		return
	}
	d.hints.mu.Lock()
	defer d.hints.mu.Unlock()
	if d.hints.waiting == nil {
		d.hints.waiting = make(map[string]bool)
	}
	for _, t := range topics {
		d.hints.waiting[t] = true
	}
	if !d.hints.sending {
		d.hints.sending = true
		d.calls.Add(1) // the commit itself is one of the calls, so Close waits for this one too
		go d.sendHints()
	}
}

// take returns what is waiting; nothing ends the goroutine.
func (h *hints) take() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	topics := make([]string, 0, len(h.waiting))
	for t := range h.waiting {
		topics = append(topics, t)
	}
	clear(h.waiting)
	h.sending = len(topics) > 0
	return topics
}

func (d *Driver) sendHints() {
	defer d.calls.Done()
	for {
		topics := d.hints.take()
		if len(topics) == 0 {
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), d.config.AcquireTimeout)
		conn, err := d.acquire(ctx)
		if err == nil {
			batch := &pgx.Batch{}
			batch.Queue(d.statements.notify, d.channel, topics)
			err = conn.SendBatch(ctx, batch).Close()
			conn.Release()
		}
		cancel()
		if err != nil {
			d.config.Logger.Warn("could not send wakes; who waits for them finds the work when it polls", "topics", len(topics), "error", err)
		}
		if d.engine.Sleep(d.closing, coalesceInterval) != nil {
			continue // closing: send what is left, then end
		}
	}
}
