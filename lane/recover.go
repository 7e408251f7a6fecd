package lane

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/seed4391e180/runlane/run"
	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/codec"
)

// recoverBatch is how many leases one transaction of lease recovery looks at.
const recoverBatch = 100

// Recover ends the leases of this environment that their workers did not renew in
// time, and returns how many. A run whose lease expired counts a failure and is
// due again at once, or has failed with run.CodeLeaseExpired if it may not fail
// again; if its cancellation was requested, it is cancelled.
//
// Workers do this by themselves; a process without a worker may call Recover as
// often as it likes. Any number of processes may do it at the same time. A lease
// is found up to one more of its duration after it has expired and never before.
func (l *Lane) Recover(ctx context.Context) (int, error) {
	ids := idPool{draw: l.source.id}
	total := 0
	var resume storage.Resume
	for {
		ids.fill(recoverBatch)
		page, _, err := storage.Transact(ctx, l.store, "run.recover", func(ctx context.Context, tx storage.Tx) (recovery, error) {
			return l.recoverPage(ctx, tx, resume, ids.spare)
		})
		if err != nil {
			return total, fmt.Errorf("lane: recover: %w", err)
		}
		ids.use(len(page.steps))
		for _, err := range page.refused {
			l.log.Error("expired lease cannot be ended", "error", err)
		}
		if n := len(page.steps); n > 0 {
			total += n
			if l.hooks.Recovered != nil {
				l.hooks.Recovered(n)
			}
		}
		if err := l.resumeWaiters(ctx, awaited(page.steps)); err != nil {
			return total, fmt.Errorf("lane: recover: %w", err)
		}
		if page.resume.IsZero() && !page.full {
			return total, nil
		}
		resume = page.resume
	}
}

// recovery is what one transaction of lease recovery does.
type recovery struct {
	steps   []step
	refused []error // of runs that were left alone
	full    bool    // the page held more than the transaction could take
	resume  storage.Resume
}

// recoverPage ends the leases of one page. The exclusive query locks the runs, so
// the very lease that is read here is the one that is ended: a worker that
// finished first has taken its run off the page, and one that comes back later
// finds its token gone.
func (l *Lane) recoverPage(ctx context.Context, tx storage.Tx, resume storage.Resume, ids []uuid.UUID) (recovery, error) {
	page, err := tx.Query(ctx, storage.Query{
		Index:     storage.RunsByLeaseExpiry,
		Partition: l.leases,
		Until:     storage.ServerNow(),
		Limit:     recoverBatch,
		Resume:    resume,
		Lock:      storage.Exclusive,
	})
	if err != nil {
		return recovery{}, err
	}
	rec := recovery{resume: page.Resume}
	size := 0
	for _, record := range page.Records {
		// The index rounds, and what is opaque is not ours to judge.
		r, kind := codec.DecodeRun(record)
		if kind != codec.Canonical || !r.Status.Leased() || page.Time.Before(r.Lease.Expires) {
			continue
		}
		if size += len(record.Document); size > maxBytes && len(rec.steps) > 0 {
			rec.full, rec.resume = true, resume
			break
		}
		s, err := l.newStep(&r, ids[len(rec.steps)], page.Time, expiry(&r, page.Time))
		if err != nil {
			rec.refused = append(rec.refused, fmt.Errorf("run %q: %w", r.ID, err))
			continue
		}
		rec.steps = append(rec.steps, s)
	}
	return rec, stageAll(ctx, tx, rec.steps)
}

// expiry is what happens to a run whose lease has expired.
func expiry(r *run.Run, now time.Time) run.EventData {
	switch {
	case r.Status == run.StatusCancellationRequested:
		return run.Cancelled{Token: r.Lease.Token}
	case exhausted(r.Failures, r.MaxAttempts):
		return run.Failed{Token: r.Lease.Token, Failure: run.Failure{
			Code:      run.CodeLeaseExpired,
			Message:   "the worker did not renew its lease",
			Retryable: true,
		}}
	}
	return run.LeaseExpired{Token: r.Lease.Token, Due: now}
}

// recovery looks for expired leases until ctx ends: at once, since the last
// process on this machine may have left some, and then in intervals.
func (w *worker) recovery(ctx context.Context) {
	for {
		if _, err := w.lane.Recover(ctx); err != nil && ctx.Err() == nil {
			if errors.Is(err, storage.ErrClosed) {
				return
			}
			w.lane.log.Warn("lease recovery failed", "worker", w.cfg.Name, "error", err)
		}
		if !pause(ctx, w.lane.jittered(w.cfg.RecoverInterval)) {
			return
		}
	}
}
