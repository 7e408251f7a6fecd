package lane

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/seed4391e180/runlane/storage"
)

// DefaultBulkLimit is how many runs one call of CancelMany or RetryMany looks at.
const DefaultBulkLimit = 1000

// bulkPage is how many runs one page of a bulk call lists, and one transaction changes.
const bulkPage = 100

// BulkOptions says which runs CancelMany and RetryMany are about.
type BulkOptions struct {
	// Filter selects the runs, in its order. Its Environment is empty or the Lane's;
	// Full, Limit and Cursor are set by the call. See [storage.PlanRuns] for the filters
	// that a store serves.
	Filter storage.RunFilter
	// Reason is kept in the history of a run that is cancelled.
	Reason string
	// DryRun changes nothing and tells what would come of each run, as far as its
	// status tells.
	DryRun bool
	// Limit is how many runs the call looks at; 0 is DefaultBulkLimit.
	Limit int
	// Resume goes on where an earlier call with the same options stopped.
	Resume BulkResume
}

// BulkResume is where a bulk call stopped. It is a plain value and may be stored;
// zero is the beginning, and the end.
type BulkResume struct {
	Cursor string
	Began  time.Time // when the first call began, by the store's clock
}

// IsZero reports whether there is nothing to resume.
func (r BulkResume) IsZero() bool { return r == BulkResume{} }

// CancelItem is what came of one run. If Err is set, nothing was done: it is
// ErrNoRun for a run that has gone, or says what the store refused.
type CancelItem struct {
	Cancellation
	Err error
}

// BulkCancel is what a call of CancelMany did.
type BulkCancel struct {
	Runs                                []CancelItem // in the order of the filter
	Cancelled, Requested, Ended, Failed int          // how many of Runs
	Resume                              BulkResume   // zero if the end was reached
}

// RetryItem is what came of one run. If Err is set, nothing was done; see
// [Lane.Retry]. Of a dry run the RunID of Triggered is the one that would be made.
type RetryItem struct {
	Origin string
	Triggered
	Err error
}

// BulkRetry is what a call of RetryMany did.
type BulkRetry struct {
	Runs                   []RetryItem // in the order of the filter
	Made, Existing, Failed int         // how many of Runs
	Resume                 BulkResume  // zero if the end was reached
}

// CancelMany cancels the runs that a filter selects, each as [Lane.Cancel] does, in
// transactions of up to 100. Whoever wants all of them calls it until Resume is
// zero. If it fails, the result says what was done, Resume is where the call may go on, and
// runs that it meets again are left as they are.
//
// Errors: those of listing runs, and those of the store. What only concerns one run
// is in its item.
func (l *Lane) CancelMany(ctx context.Context, o BulkOptions) (BulkCancel, error) {
	var res BulkCancel
	resume, err := l.bulk(ctx, &o, func(ctx context.Context, page []storage.RunItem) error {
		items, err := l.cancelPage(ctx, &o, page)
		for _, item := range items {
			switch {
			case item.Err != nil:
				res.Failed++
			case item.Outcome == CancelDone:
				res.Cancelled++
			case item.Outcome == CancelRequested:
				res.Requested++
			default:
				res.Ended++
			}
		}
		res.Runs = append(res.Runs, items...)
		return err
	})
	res.Resume = resume
	if err != nil {
		return res, fmt.Errorf("lane: cancel many: %w", err)
	}
	return res, nil
}

func (l *Lane) cancelPage(ctx context.Context, o *BulkOptions, page []storage.RunItem) ([]CancelItem, error) {
	if o.DryRun {
		items := make([]CancelItem, len(page))
		for i := range page {
			s := page[i].Status
			items[i].Cancellation = Cancellation{RunID: page[i].ID, Outcome: cancelOutcome(s), Status: s}
		}
		return items, nil
	}
	targets := make([]cancelTarget, len(page))
	for i := range page {
		var err error
		if targets[i], err = l.newCancelTarget(page[i].ID); err != nil {
			return nil, err
		}
	}
	return inBatches(targets, func(some []cancelTarget) ([]CancelItem, error) {
		return l.cancelAll(ctx, some, o.Reason)
	}, func(t cancelTarget, err error) CancelItem {
		return CancelItem{Cancellation: Cancellation{RunID: t.runID}, Err: err}
	})
}

// RetryMany retries the runs that a filter selects, each as [Lane.Retry] does, in
// transactions of up to 100. The RunID of each new run follows from that of the old
// one, so a run that a bulk retry meets again gets no second one: the first is returned as
// existing. Runs created since the first call began are passed over, among them those that
// RetryMany makes. In all else it is as [Lane.CancelMany].
func (l *Lane) RetryMany(ctx context.Context, o BulkOptions) (BulkRetry, error) {
	var res BulkRetry
	resume, err := l.bulk(ctx, &o, func(ctx context.Context, page []storage.RunItem) error {
		items, err := l.retryPage(ctx, &o, page)
		for _, item := range items {
			switch {
			case item.Err != nil:
				res.Failed++
			case item.Existing:
				res.Existing++
			default:
				res.Made++
			}
		}
		res.Runs = append(res.Runs, items...)
		return err
	})
	res.Resume = resume
	if err != nil {
		return res, fmt.Errorf("lane: retry many: %w", err)
	}
	return res, nil
}

func (l *Lane) retryPage(ctx context.Context, o *BulkOptions, page []storage.RunItem) ([]RetryItem, error) {
	var wishes []*again
	var dry []RetryItem
	for i := range page {
		if !page[i].Created.Before(o.Resume.Began) {
			continue
		}
		a, err := l.newAgain(retryRun, page[i].ID, AgainOptions{RunID: l.bulkChild(page[i].ID)})
		if err != nil {
			return nil, err
		}
		wishes = append(wishes, a)
		item := RetryItem{Origin: a.origin, Triggered: Triggered{RunID: a.runID}}
		if s := page[i].Status; !a.allows(s) {
			item = RetryItem{Origin: a.origin, Err: &StatusError{RunID: a.origin, Status: s, Action: a.action}}
		}
		dry = append(dry, item)
	}
	if o.DryRun {
		return dry, nil
	}
	return inBatches(wishes, func(some []*again) ([]RetryItem, error) {
		return l.againAll(ctx, some)
	}, func(a *again, err error) RetryItem {
		return RetryItem{Origin: a.origin, Err: err}
	})
}

// bulkSpace is the namespace of the runs that RetryMany makes.
var bulkSpace = uuid.MustParse("5ad1b2a4-3c1c-4b0e-9f0d-6c1d0d6f3a57")

// bulkChild is the id of the run that RetryMany makes of another.
func (l *Lane) bulkChild(origin string) string {
	return uuid.NewSHA1(bulkSpace, []byte(l.env+":"+origin)).String()
}

// bulk lists the runs of a filter, page by page, for do.
func (l *Lane) bulk(ctx context.Context, o *BulkOptions, do func(ctx context.Context, page []storage.RunItem) error) (BulkResume, error) {
	f := o.Filter
	left := o.Limit
	orDefault(&left, DefaultBulkLimit)
	switch {
	case f.Environment != "" && f.Environment != l.env:
		return o.Resume, fmt.Errorf("the filter is for environment %q", f.Environment)
	case left < 0:
		return o.Resume, errors.New("Limit is negative")
	}
	f.Environment, f.Full = l.env, false
	if o.Resume.IsZero() {
		var err error
		if o.Resume.Began, err = l.now(ctx); err != nil {
			return BulkResume{}, err
		}
	}
	for left > 0 {
		f.Cursor, f.Limit = o.Resume.Cursor, min(left, bulkPage)
		page, err := l.store.ListRuns(ctx, f)
		if err != nil {
			return o.Resume, err
		}
		if err := do(ctx, page.Runs); err != nil {
			return o.Resume, err
		}
		left -= f.Limit
		if o.Resume.Cursor = page.Next; page.Next == "" {
			return BulkResume{}, nil
		}
	}
	return o.Resume, nil
}

// inBatches has all things done by do, which does as many of them, from the first,
// as one transaction takes. If it fails because of one of them, they are halved until
// that one is alone; then the failure is the result of that one.
func inBatches[T, R any](things []T, do func([]T) ([]R, error), failed func(T, error) R) ([]R, error) {
	var results []R
	for size := len(things); len(things) > 0; {
		size = min(size, len(things))
		done, err := do(things[:size])
		switch {
		case err == nil:
		case !ofOne(err):
			return results, err
		case size > 1:
			size /= 2
			continue
		default:
			done = []R{failed(things[0], err)}
		}
		results = append(results, done...)
		things = things[len(done):]
	}
	return results, nil
}

// ofOne reports whether an error is about one run and not about the store.
func ofOne(err error) bool {
	var exists *RunExistsError
	return refused(err) || errors.As(err, &exists) || errors.Is(err, ErrOpaqueOwner) || errors.Is(err, storage.ErrDuplicateActive)
}
