package lane

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/codec"
	"github.com/seed4391e180/runlane/storage/keys"
)

// Config sets up a [Lane].
type Config struct {
	// Environment separates runs that share a store, such as "prod" and "staging".
	// Required; 1 to 255 bytes of UTF-8 without NUL and ":".
	Environment string
	// Logger receives what a person may want to look into: lost leases, failed
	// transactions of workers, runs that cannot be read. nil: nothing is logged.
	Logger *slog.Logger
	// Hooks are told what workers did, for metrics.
	Hooks Hooks
	// Carry says what travels with the runs that a context triggers, for those who trace
	// them: it becomes Attempt.Trace. nil, and an empty map: nothing. What it says beyond
	// MaxMetadata is left out altogether.
	Carry func(ctx context.Context) map[string]string
	// Wrap runs the handler of an attempt, by calling next once with its context or one
	// that is derived from it, and returns what next returns. It may measure, log and
	// trace. nil: the handler is called as it is.
	Wrap func(ctx context.Context, a *Attempt, next func(ctx context.Context) error) error
	// Limits bounds how many runs of a queue are worked on at a time.
	Limits map[string]QueueLimits
	// Retention is how long runs are kept after they have ended; 0 is
	// DefaultRetention. See also KeepForever and [Lane.Prune].
	Retention time.Duration
}

// Hooks are called by workers and by Recover, from several goroutines at once,
// after the transaction concerned has committed. They must be quick and must not
// panic. A nil hook is not called.
type Hooks struct {
	// Claimed: a worker took runs of a queue.
	Claimed func(queue string, runs int)
	// Finished: an attempt has ended.
	Finished func(Finish)
	// Recovered: leases that their workers did not renew were ended.
	Recovered func(runs int)
	// Skipped: due runs were found that this worker does not work on.
	Skipped func(queue string, why Skip, runs int)
}

// Finish tells how one attempt ended.
type Finish struct {
	RunID   string
	Task    string
	Queue   string
	Attempt int // 0: no worker began the run
	Outcome Outcome
	Code    string        // of the failure; "" unless the outcome is retried or failed
	Took    time.Duration // by this process's clock: from the start of the handler until its outcome was stored
}

// Outcome is a closed set: how an attempt can end.
type Outcome string

// The outcomes.
const (
	OutcomeSucceeded Outcome = "succeeded"
	OutcomeRetried   Outcome = "retried"   // failed, and will be tried again
	OutcomeFailed    Outcome = "failed"    // failed for good
	OutcomeReleased  Outcome = "released"  // given back without a failure
	OutcomeWaiting   Outcome = "waiting"   // waits for another run to end
	OutcomeCancelled Outcome = "cancelled" // stopped as requested
	OutcomeLost      Outcome = "lost"      // the lease was lost, the result discarded
)

// Skip is a closed set: why a worker does not work on a due run.
type Skip string

// The reasons.
const (
	SkipOpaque      Skip = "opaque"       // written by another version; left as it is
	SkipUnknownTask Skip = "unknown_task" // no handler here; given back with a delay
)

// Lane triggers and works durable runs of one environment. Make one with [New];
// its methods may be called from any number of goroutines.
type Lane struct {
	store    storage.Driver
	env      string
	log      *slog.Logger
	hooks    Hooks
	source   source
	leases   string        // the partition of RunsByLeaseExpiry
	ended    string        // the partition of RunsByRetention
	expiries string        // the partition of IdempotencyOwnersByExpiry
	keep     time.Duration // Config.Retention
	tidied   tidied
	limits   map[string]QueueLimits
	carry    func(ctx context.Context) map[string]string
	wrap     func(ctx context.Context, a *Attempt, next func(ctx context.Context) error) error

	mu    sync.RWMutex
	tasks map[string]*definition

	schedules map[string]*schedule

	resumers int // how many waiters of a run are resumed at once

	sweep sync.Mutex // held while waiting runs are looked at
	swept string     // the cursor behind those that were
}

// source is where randomness comes from. Everything in it is drawn outside of
// transactions, so that a transaction that runs again writes the same.
type source struct {
	id     func() uuid.UUID // of an event or a lease
	runID  func() string
	chance func() float64 // in [0, 1)
}

// New makes a Lane on a store. It does no I/O and starts nothing; the store
// remains the caller's to close, after Work has returned.
func New(store storage.Driver, cfg Config) (*Lane, error) {
	if store == nil {
		return nil, errors.New("lane: New needs a store")
	}
	if err := keys.CheckName("environment", cfg.Environment); err != nil {
		return nil, fmt.Errorf("lane: %w", err)
	}
	if err := checkLimits(cfg.Limits); err != nil {
		return nil, fmt.Errorf("lane: %w", err)
	}
	leases, err := codec.LeaseExpiryPartition(cfg.Environment)
	if err != nil {
		return nil, fmt.Errorf("lane: %w", err)
	}
	ended, err := codec.RetentionPartition(cfg.Environment)
	if err != nil {
		return nil, fmt.Errorf("lane: %w", err)
	}
	expiries, err := codec.IdempotencyExpiryPartition(cfg.Environment)
	if err != nil {
		return nil, fmt.Errorf("lane: %w", err)
	}
	orDefault(&cfg.Retention, DefaultRetention)
	if cfg.Retention < 0 && cfg.Retention != KeepForever {
		return nil, errors.New("lane: Retention is negative")
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &Lane{
		store:    store,
		env:      cfg.Environment,
		log:      cfg.Logger.With("environment", cfg.Environment),
		hooks:    cfg.Hooks,
		leases:   leases,
		ended:    ended,
		expiries: expiries,
		keep:     cfg.Retention,
		limits:   maps.Clone(cfg.Limits),
		carry:    cfg.Carry,
		wrap:     cfg.Wrap,
		resumers: 8,
		tasks:    map[string]*definition{},
		source: source{
			// UUIDv7 rises with time, so what is new is neighbours in the primary keys.
			id:     func() uuid.UUID { return uuid.Must(uuid.NewV7()) },
			runID:  func() string { return uuid.Must(uuid.NewV7()).String() },
			chance: rand.Float64,
		},
	}, nil
}

// task returns the definition of a task that has a handler here, or nil.
func (l *Lane) task(name string) *definition {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if def := l.tasks[name]; def != nil && def.invoke != nil {
		return def
	}
	return nil
}

// jittered spreads d evenly over 80% to 120% of itself, so that processes that
// started together do not act together for ever.
func (l *Lane) jittered(d time.Duration) time.Duration {
	return time.Duration(float64(d) * (0.8 + 0.4*l.source.chance()))
}

// pause waits for d or until ctx ends; it reports whether it waited to the end.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
