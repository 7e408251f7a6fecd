package lane

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/codec"
)

// DefaultRetention is how long runs are kept after they have ended.
const DefaultRetention = 30 * 24 * time.Hour

// KeepForever is for Config.Retention: runs are pruned only by [Lane.Prune].
const KeepForever time.Duration = -1

// Bounds of one call that tidies up.
const (
	tidyRuns  = 200 // ended runs that it looks at
	tidyTrips = 20  // transactions
	keyPage   = 200 // owners that one transaction looks at
)

// tidied remembers where tidying up stopped, so that what must be left alone is
// not in the way of the rest. Nothing is decided by it.
type tidied struct {
	mu   sync.Mutex
	runs storage.Resume
	keys storage.Resume
}

func (t *tidied) load(from *storage.Resume) storage.Resume {
	t.mu.Lock()
	defer t.mu.Unlock()
	return *from
}

func (t *tidied) save(to *storage.Resume, at storage.Resume) {
	t.mu.Lock()
	defer t.mu.Unlock()
	*to = at
}

// tickRetention prunes some of the runs that have been kept for Config.Retention
// and returns how many. Each call does a bounded piece of work and goes on where the
// one before stopped.
func (l *Lane) tickRetention(ctx context.Context) (pruned int, err error) {
	if l.keep == KeepForever {
		return 0, nil
	}
	p, err := l.newPruner(ctx, PruneOptions{OlderThan: l.keep, Limit: tidyRuns, Resume: l.tidied.load(&l.tidied.runs)})
	if err == nil {
		p.trips = tidyTrips
		err = p.walk(ctx)
	}
	l.tidied.save(&l.tidied.runs, p.done.Resume)
	if err != nil {
		return p.done.Runs, fmt.Errorf("lane: retention: %w", err)
	}
	return p.done.Runs, nil
}

// tickExpiredKeys deletes some of the idempotency owners whose time is over and
// returns how many. Such a key is free already; this only keeps the collection small.
func (l *Lane) tickExpiredKeys(ctx context.Context) (freed int, err error) {
	resume := l.tidied.load(&l.tidied.keys)
	for range tidyTrips {
		page, _, err := storage.Transact(ctx, l.store, "key.expire", func(ctx context.Context, tx storage.Tx) (expiredKeys, error) {
			return l.expireKeys(ctx, tx, resume)
		})
		if err != nil {
			return freed, fmt.Errorf("lane: expired keys: %w", err)
		}
		freed += page.freed
		if resume = page.resume; resume.IsZero() {
			break
		}
	}
	l.tidied.save(&l.tidied.keys, resume)
	return freed, nil
}

type expiredKeys struct {
	freed  int
	resume storage.Resume
}

// expireKeys deletes the expired owners of one page, which the query has locked.
func (l *Lane) expireKeys(ctx context.Context, tx storage.Tx, resume storage.Resume) (expiredKeys, error) {
	page, err := tx.Query(ctx, storage.Query{
		Index:     storage.IdempotencyOwnersByExpiry,
		Partition: l.expiries,
		Until:     storage.ServerNow(),
		Limit:     keyPage,
		Resume:    resume,
		Lock:      storage.Exclusive,
	})
	if err != nil {
		return expiredKeys{}, err
	}
	done := expiredKeys{resume: page.Resume}
	for _, rec := range page.Records {
		o, kind := codec.DecodeIdempotencyOwner(rec)
		if kind != codec.Canonical || o.Expires.IsZero() || page.Time.Before(o.Expires) {
			continue
		}
		if err := tx.Delete(ctx, rec.Key); err != nil {
			return expiredKeys{}, err
		}
		done.freed++
	}
	return done, nil
}

// ResetKey makes an idempotency key of a task free, whatever its run does: the run
// goes on, and the next trigger with the key makes another one. It returns the run
// that the key stood for; "" if it was free. An owner whose time is over counts as
// standing for its run. Errors: ErrOpaqueOwner, *storage.InputError, and those of the
// store.
func (l *Lane) ResetKey(ctx context.Context, task, idempotencyKey string) (runID string, err error) {
	key, err := codec.IdempotencyKey(l.env, task, idempotencyKey)
	if err != nil {
		return "", fmt.Errorf("lane: reset key: %w", err)
	}
	runID, _, err = storage.Transact(ctx, l.store, "key.reset", func(ctx context.Context, tx storage.Tx) (string, error) {
		rec, found, err := tx.Get(ctx, key)
		if err != nil || !found {
			return "", err
		}
		o, ok := decodeOwner(rec)
		if !ok {
			return "", fmt.Errorf("%w: %s", ErrOpaqueOwner, key)
		}
		return o.runID, tx.Delete(ctx, key)
	})
	if err != nil {
		return "", fmt.Errorf("lane: reset key: %w", err)
	}
	return runID, nil
}
