package memory

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/seed4391e180/runlane/storage"
)

// Defaults of a Config.
const (
	DefaultMaxAttempts = 8
	DefaultLockTimeout = 2 * time.Second
)

// Config sets up a driver. The zero value, and the zero value of each field, is
// the default.
type Config struct {
	// Clock tells the time; nil is time.Now. The driver rounds it down to
	// microseconds in UTC and never lets it run backwards: a clock that is set back
	// stands still until it has caught up. It tells years up to 9899, and it
	// is called while the store is locked, so it must not use the driver.
	Clock func() time.Time
	// Rand returns numbers in [0, 1) for the jitter of the backoff; nil is
	// math/rand/v2. It may be called from any goroutine.
	Rand func() float64
	// Sleep waits between attempts and returns early with ctx.Err(); nil is a timer.
	Sleep func(ctx context.Context, d time.Duration) error
	// MaxAttempts is how often a transaction is tried; 0 or less is DefaultMaxAttempts.
	MaxAttempts int
	// LockTimeout bounds the wait for one lock when an attempt is repeated, and for the
	// head of a stream that is appended to; 0 or less is DefaultLockTimeout.
	LockTimeout time.Duration
}

// Driver is a store in memory. Its methods may be called from any number of goroutines.
type Driver struct {
	cfg    Config
	limits storage.Limits
	wakes  wakes

	closing chan struct{}
	running sync.WaitGroup

	mu     sync.Mutex // held for short sections only, never while a callback runs
	closed bool
	state  state
	locks  lockTable
	last   time.Time // the latest time that the clock was allowed to tell
}

var _ storage.Driver = (*Driver)(nil)

// New makes an empty store.
func New(cfg Config) *Driver {
	if cfg.Clock == nil {
		cfg.Clock = time.Now
	}
	if cfg.Rand == nil {
		cfg.Rand = rand.Float64
	}
	if cfg.Sleep == nil {
		cfg.Sleep = sleep
	}
	if cfg.MaxAttempts <= 0 {
		cfg.MaxAttempts = DefaultMaxAttempts
	}
	if cfg.LockTimeout <= 0 {
		cfg.LockTimeout = DefaultLockTimeout
	}
	return &Driver{
		cfg:     cfg,
		limits:  storage.DefaultLimits(),
		closing: make(chan struct{}),
		state:   newState(),
		locks:   lockTable{},
	}
}

// Profile implements [storage.Driver]. The clock is authoritative since there is
// only one process.
func (d *Driver) Profile() storage.Profile {
	return storage.Profile{Durable: false, StrongIndexes: true, AuthoritativeClock: true, Shared: false}
}

// Close implements [storage.Driver]. Listeners return ErrClosed; everything else
// that runs is waited for, so Close must not be called by a callback. What was
// stored is gone.
func (d *Driver) Close() error {
	d.mu.Lock()
	if !d.closed {
		d.closed = true
		close(d.closing)
	}
	d.mu.Unlock()
	d.running.Wait()
	return nil
}

// begin admits a call, which must end with d.running.Done.
func (d *Driver) begin(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return storage.ErrClosed
	}
	d.running.Add(1)
	return nil
}

// now reads the clock. The caller holds d.mu.
func (d *Driver) now() time.Time {
	if t := d.cfg.Clock().UTC().Truncate(time.Microsecond); t.After(d.last) {
		d.last = t
	}
	return d.last
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
