package lane

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/seed4391e180/runlane/run"
)

// DefaultIdempotencyTTL is how long an idempotency key stands for its run.
const DefaultIdempotencyTTL = 30 * 24 * time.Hour

// WhileActive is for TriggerOptions.IdempotencyTTL: the idempotency key stands
// for its run until that ends, however it ends.
const WhileActive time.Duration = -1

// TriggerOptions says more about one run. The zero value, and the zero value of
// each field, is the default.
type TriggerOptions struct {
	// RunID names the run: any text of 1 to 255 bytes of UTF-8 without NUL. A name
	// that is taken is a [*RunExistsError]. "": a new UUIDv7.
	RunID string
	// Priority is from run.PriorityFirst to run.PriorityLast; 0 is
	// run.PriorityDefault. Due runs of a priority wait until none of a lower number
	// is due.
	Priority int
	// RunAt is when the run is due, by the database's clock; Delay is how long after
	// the moment in which it is stored. At most one of them; none: at once.
	RunAt time.Time
	Delay time.Duration
	// IdempotencyKey makes Trigger return the run that the key stands for already, if
	// there is one. Keys of different tasks have nothing to do with each other. A run
	// that fails frees its key at once. "": none; otherwise as RunID.
	IdempotencyKey string
	// IdempotencyTTL is how long the key stands for the run, from the moment in which
	// it is stored; 0 is DefaultIdempotencyTTL. See also WhileActive.
	IdempotencyTTL time.Duration
	// SingletonKey allows one active run of the task with this key: Trigger returns
	// it if there is one. "": none; otherwise as RunID.
	SingletonKey string
	// ConcurrencyKey is what QueueLimits.PerKey counts by. "": none; otherwise as RunID.
	ConcurrencyKey string
	// Timeout is how long one attempt may take; 0 is that of the task, NoTimeout none.
	// The handler's context then ends with ErrTimeout, and the attempt has failed
	// unless the handler returns a result all the same. Whole microseconds.
	Timeout time.Duration
	// LatestStart is when it is too late, by the database's clock, to begin the first
	// attempt: a worker that finds the run after that fails it with CodeTooLate. Zero:
	// never.
	LatestStart time.Time
	// Metadata travels with the run.
	Metadata map[string]string
}

// newCreated checks the options and makes the event that creates the run.
func newCreated(def *definition, payload json.RawMessage, opts TriggerOptions) (run.Created, error) {
	c := run.Created{
		Task:           def.name,
		Queue:          def.queue,
		Priority:       opts.Priority,
		Payload:        payload,
		MaxAttempts:    def.maxAttempts,
		IdempotencyKey: opts.IdempotencyKey,
		SingletonKey:   opts.SingletonKey,
		ConcurrencyKey: opts.ConcurrencyKey,
		Metadata:       opts.Metadata,
	}
	orDefault(&c.Priority, run.PriorityDefault)
	var err error
	if c.RunAt, err = opts.runAt(); err != nil {
		return c, err
	}
	if c.LatestStart, err = opts.latestStart(c.RunAt); err != nil {
		return c, err
	}
	if c.IdempotencyTTL, err = opts.idempotencyTTL(); err != nil {
		return c, err
	}
	if c.Timeout, err = timeoutOf(opts.Timeout, def.timeout); err != nil {
		return c, err
	}
	if len(opts.Metadata) > 0 {
		if _, err := marshal(opts.Metadata, MaxMetadata); err != nil {
			return c, fmt.Errorf("metadata: %w", err)
		}
	}
	return c, nil
}

func (o *TriggerOptions) runAt() (time.Time, error) {
	switch _, relative := run.AfterCommit(o.RunAt); {
	case o.Delay != 0 && !o.RunAt.IsZero():
		return time.Time{}, errors.New("both RunAt and Delay are set")
	case o.Delay < 0 || o.Delay > run.MaxAfterCommit:
		return time.Time{}, errors.New("Delay is negative or more than 100 years")
	case relative:
		return time.Time{}, errors.New("RunAt is a time relative to the commit; use Delay")
	case o.Delay > 0:
		return run.AtCommit.Add(o.Delay.Truncate(time.Microsecond)), nil
	case !o.RunAt.IsZero():
		return o.RunAt.UTC().Truncate(time.Microsecond), nil
	}
	return time.Time{}, nil
}

func (o *TriggerOptions) latestStart(runAt time.Time) (time.Time, error) {
	if o.LatestStart.IsZero() {
		return time.Time{}, nil
	}
	if _, relative := run.AfterCommit(o.LatestStart); relative {
		return time.Time{}, errors.New("LatestStart is a time relative to the commit")
	}
	latest := o.LatestStart.UTC().Truncate(time.Microsecond)
	if _, relative := run.AfterCommit(runAt); !relative && latest.Before(runAt) {
		return time.Time{}, errors.New("LatestStart is before RunAt")
	}
	return latest, nil
}

func (o *TriggerOptions) idempotencyTTL() (time.Duration, error) {
	switch ttl := o.IdempotencyTTL; {
	case o.IdempotencyKey == "" && ttl != 0:
		return 0, errors.New("IdempotencyTTL is set without an IdempotencyKey")
	case o.IdempotencyKey == "" || ttl == WhileActive:
		return 0, nil
	case ttl == 0:
		return DefaultIdempotencyTTL, nil
	case ttl < time.Microsecond || ttl > run.MaxAfterCommit:
		return 0, errors.New("IdempotencyTTL is less than a microsecond or more than 100 years")
	default:
		return ttl.Truncate(time.Microsecond), nil
	}
}

// timeoutOf is the timeout that the option means; 0 is none.
func timeoutOf(option, otherwise time.Duration) (time.Duration, error) {
	switch {
	case option == 0:
		return otherwise, nil
	case option == NoTimeout:
		return 0, nil
	case option < time.Microsecond || option > run.MaxAfterCommit:
		return 0, errors.New("Timeout is less than a microsecond or more than 100 years")
	}
	return option.Truncate(time.Microsecond), nil
}
