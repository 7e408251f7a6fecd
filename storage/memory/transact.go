package memory

import (
	"context"
	"errors"
	"time"

	"github.com/seed4391e180/runlane/storage"
)

// The backoff doubles from the first to the cap, before jitter.
const (
	backoffFirst = time.Millisecond
	backoffCap   = 25 * time.Millisecond
)

// replay says that an attempt must be repeated.
type replay struct {
	reason   storage.Reason
	key      storage.Key
	callback error // what the callback returned, if what it had read turned out to be stale
	final    error // what the transaction returns if the next attempt ends like this
}

func (r *replay) Error() string { return "storage/memory: replay: " + string(r.reason) }

// nested marks the context of a callback with the driver that runs it.
type nested struct{ driver *Driver }

// Transact implements [storage.Transactor].
func (d *Driver) Transact(ctx context.Context, label string, fn func(ctx context.Context, tx storage.Tx) error) (storage.Commit, error) {
	if outer, ok := ctx.Value(nested{d}).(*attempt); ok && !outer.ended.Load() {
		return storage.Commit{}, storage.ErrNestedTransaction
	}
	if err := d.begin(ctx); err != nil {
		return storage.Commit{}, err
	}
	defer d.running.Done()

	var (
		total storage.Commit
		prior []lockRequest
		final bool
	)
	for number := 1; ; number++ {
		a := d.newAttempt(label, number)
		commit, err := a.run(ctx, prior, fn)
		if a.ran {
			total.Attempts++
			prior = a.nextLocks()
		}
		var again *replay
		if !errors.As(err, &again) {
			commit.Attempts = total.Attempts
			return commit, err
		}
		if again.final != nil && (final || number == d.cfg.MaxAttempts) {
			return total, again.final
		}
		final = again.final != nil
		if number == d.cfg.MaxAttempts {
			return total, again.exhausted(label, number)
		}
		if err := d.cfg.Sleep(ctx, d.backoff(number)); err != nil {
			if again.callback != nil {
				return total, again.callback
			}
			return total, err
		}
	}
}

func (r *replay) exhausted(label string, attempts int) error {
	if r.callback != nil {
		return r.callback
	}
	return &storage.ConflictError{Label: label, Reason: r.reason, Key: r.key, Attempts: attempts}
}

// backoff is how long to wait after an attempt. The jitter only shortens it.
func (d *Driver) backoff(attempt int) time.Duration {
	wait := backoffCap
	if shift := attempt - 1; shift < 5 {
		wait = min(wait, backoffFirst<<shift)
	}
	return wait - time.Duration(d.cfg.Rand()*float64(wait)/2)
}

// run makes one attempt. Whatever happens, a panic included, its locks are given back.
func (a *attempt) run(ctx context.Context, prior []lockRequest, fn func(ctx context.Context, tx storage.Tx) error) (storage.Commit, error) {
	defer a.end()
	if err := a.wait(ctx, prior); err != nil {
		return storage.Commit{}, err
	}
	a.ran = true
	err := fn(context.WithValue(ctx, nested{a.driver}, a), a)
	a.ended.Store(true)
	return a.finish(ctx, err)
}

// finish decides what becomes of an attempt whose callback has returned.
func (a *attempt) finish(ctx context.Context, callback error) (storage.Commit, error) {
	switch {
	case a.doom != nil:
		return storage.Commit{}, a.doom
	case callback != nil:
		if a.failure == nil && a.mixed() && !a.gave(callback) {
			if stale := a.validate(); stale != nil {
				stale.callback = callback
				return storage.Commit{}, stale
			}
		}
		return storage.Commit{}, callback
	case a.failure != nil:
		return storage.Commit{}, a.failure
	case ctx.Err() != nil:
		return storage.Commit{}, ctx.Err()
	}
	return a.commit(ctx)
}

// end gives the locks back, and then sends the hints of what was committed: whoever
// they wake finds nothing locked.
func (a *attempt) end() {
	a.ended.Store(true)
	a.driver.mu.Lock()
	a.driver.locks.release(a)
	a.driver.mu.Unlock()
	if a.committed {
		a.driver.wakes.send(a.topics)
	}
}
