package postgres

import (
	"context"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/seed4391e180/runlane/storage"
)

// versionDraw is how many record versions are drawn from the sequence at a time.
// Versions are drawn before they are used, so that a commit knows what only it can
// write, and so that no statement calls a volatile function per row.
const versionDraw = 1024

// versionBlock holds drawn versions. They are opaque fences; nobody minds their order.
type versionBlock struct {
	drawing chan struct{} // holds a token while a session draws
	mu      sync.Mutex    // guards drawn
	drawn   []int64
}

// take takes n versions; ok is false if there are not enough. low asks the caller
// to draw more with what it sends anyway.
func (b *versionBlock) take(n int) (versions []storage.Version, low, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.drawn) < n {
		return nil, true, false
	}
	versions = make([]storage.Version, n)
	rest := len(b.drawn) - n
	for i, v := range b.drawn[rest:] {
		versions[i] = storage.MakeVersion(v)
	}
	b.drawn = b.drawn[:rest]
	return versions, rest < versionDraw/2, true
}

func (b *versionBlock) has(n int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.drawn) >= n
}

func (b *versionBlock) add(versions []int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.drawn = append(b.drawn, versions...)
}

// draw queues the statement that draws n versions and reads the clock.
func (d *Driver) draw(batch *pgx.Batch, n int) {
	sent := time.Now()
	batch.Queue(d.statements.versions, n).QueryRow(func(row pgx.Row) error {
		var (
			versions []int64
			at       time.Time
		)
		if err := row.Scan(&versions, &at); err != nil {
			return err
		}
		d.block.add(versions)
		d.clock.sample(at, sent)
		return nil
	})
}

// versions takes n versions and a deadline for the commit that uses them. It asks
// the database if there are too few, or if nothing is known of its clock.
func (s *session) versions(ctx context.Context, n int) (versions []storage.Version, deadline time.Time, low bool, err error) {
	for {
		if now, ok := s.d.clock.now(); ok {
			if versions, low, ok := s.d.block.take(n); ok {
				return versions, now.Add(s.d.config.CommitTimeout), low, nil
			}
		}
		if err := s.drawNow(ctx, n); err != nil {
			return nil, time.Time{}, false, err
		}
	}
}

// drawNow asks the database for versions. One session without a connection does so at
// a time; the others wait for what it gets, though not for ever. Whoever holds a
// connection asks on that.
func (s *session) drawNow(ctx context.Context, n int) error {
	if s.conn == nil {
		patience := time.NewTimer(s.d.config.AcquireTimeout)
		defer patience.Stop()
		select {
		case s.d.block.drawing <- struct{}{}:
			defer func() { <-s.d.block.drawing }()
		case <-patience.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		if _, known := s.d.clock.now(); known && s.d.block.has(n) {
			return nil
		}
	}
	batch := &pgx.Batch{}
	if s.joined != nil {
		s.begin(batch)
	}
	s.d.draw(batch, max(versionDraw, n))
	conn, err := s.connect(ctx)
	if err != nil {
		return err
	}
	defer s.free()
	return classify(ctx, s.send(ctx, conn, batch, s.joined != nil), nil, nil)
}
