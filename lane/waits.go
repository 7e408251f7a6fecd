package lane

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/google/uuid"

	"github.com/seed4391e180/runlane/run"
	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/codec"
)

// A run that waits for another, its source, leaves its worker and becomes runnable
// when the source has ended. No waiter is lost:
//
// Whoever registers a waiter reads the source and the source's presence record in
// one transaction. If the source has ended, the waiter resumes at once. Otherwise
// the waiter is stored as waiting, with its entry in RunsWaitingForCompletion, and
// the presence record is created if it is absent.
//
// Whoever ends a run reads its presence record in the same transaction. If it is
// absent, that stays a dependency: nobody waits, and whoever registers at the same
// time conflicts, looks again and sees the end. If it is there, the waiters are
// resumed after the commit, each in a transaction of its own that asks whether it
// still waits for this run. All of them had registered before that commit, so one
// pass over the index in a later snapshot finds them all.
//
// A process that dies between the commit and the pass leaves waiters behind whose
// source has ended. That can be seen from what is stored, so Tick finds them.
// Presence records are never deleted.

// CodeSourceMissing is the code of the failure of a run that was to wait for a run
// that does not exist, or that was pruned.
const CodeSourceMissing = "source_missing"

// settleWait decides what becomes of a run that asks to wait, in a transaction that
// has read the run. before is the run under its lease.
func (e *ending) settleWait(ctx context.Context, tx storage.Tx, l *Lane, before *run.Run) (step, error) {
	source := e.outcome.source
	key, err := codec.RunKey(l.env, source)
	if err != nil {
		return step{}, err
	}
	rec, found, err := tx.Get(ctx, key)
	if err != nil {
		return step{}, err
	}
	s, kind := codec.DecodeRun(rec)
	token := before.Lease.Token
	switch {
	case !found || kind == codec.Tombstone:
		failure := run.Failure{Code: CodeSourceMissing, Message: fmt.Sprintf("there is no run %q to wait for", source)}
		return l.newStep(before, e.claim.eventID, run.AtCommit, run.Failed{Token: token, Failure: failure})
	case kind == codec.Canonical && s.Status.Terminal():
		return l.newSteps(before, []uuid.UUID{e.claim.eventID, e.outcome.resumeID}, run.AtCommit, run.Waiting{Token: token, For: source}, run.Resumed{})
	}
	presence, err := codec.EncodeWaitPresence(codec.WaitPresence{Environment: l.env, SourceRun: source})
	if err != nil {
		return step{}, err
	}
	if _, found, err := tx.Get(ctx, presence.Key); err != nil {
		return step{}, err
	} else if !found {
		if err := tx.Create(ctx, presence); err != nil {
			return step{}, err
		}
	}
	return l.newStep(before, e.claim.eventID, run.AtCommit, run.Waiting{Token: token, For: source})
}

// sourceKeys returns the keys that settleWait reads.
func (l *Lane) sourceKeys(source string) ([]storage.Key, error) {
	of, err := codec.RunKey(l.env, source)
	if err != nil {
		return nil, err
	}
	presence, err := codec.WaitPresenceKey(l.env, source)
	return []storage.Key{of, presence}, err
}

// waiterPage is how many waiters are looked for at a time.
const waiterPage = 100

// resumeWaiters resumes the runs that wait for the given ones, which have ended.
func (l *Lane) resumeWaiters(ctx context.Context, ended []string) error {
	for _, source := range ended {
		partition, err := codec.WaitingPartition(l.env, source)
		if err != nil {
			return err
		}
		for resume := (storage.Resume{}); ; {
			page, _, err := storage.Transact(ctx, l.store, "run.waiters", func(ctx context.Context, tx storage.Tx) (storage.Page, error) {
				return tx.Query(ctx, storage.Query{Index: storage.RunsWaitingForCompletion, Partition: partition, Limit: waiterPage, Resume: resume})
			})
			if err != nil {
				return err
			}
			waiters := make([]storage.Key, len(page.Records))
			for i := range page.Records {
				waiters[i] = page.Records[i].Key
			}
			if err := l.resumeEach(ctx, waiters, source, run.Resumed{}); err != nil {
				return err
			}
			if resume = page.Resume; resume.IsZero() {
				break
			}
		}
	}
	return nil
}

// resumeEach ends the waits of those of the runs that still wait for the source,
// each in a transaction of its own.
func (l *Lane) resumeEach(ctx context.Context, waiters []storage.Key, source string, end run.EventData) error {
	var (
		mu   sync.Mutex
		errs []error
		next int
		all  sync.WaitGroup
	)
	for range min(l.resumers, len(waiters)) {
		all.Go(func() {
			for {
				mu.Lock()
				i := next
				next++
				mu.Unlock()
				if i >= len(waiters) {
					return
				}
				if err := l.resumeOne(ctx, waiters[i], source, end); err != nil {
					mu.Lock()
					errs = append(errs, err)
					mu.Unlock()
				}
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// resumeOne ends the wait of one run, unless it no longer waits for the source.
func (l *Lane) resumeOne(ctx context.Context, waiter storage.Key, source string, end run.EventData) error {
	id := l.source.id()
	done, _, err := storage.Transact(ctx, l.store, "run.resume", func(ctx context.Context, tx storage.Tx) ([]step, error) {
		rec, found, err := tx.Get(ctx, waiter)
		if err != nil || !found {
			return nil, err
		}
		r, kind := codec.DecodeRun(rec)
		if kind != codec.Canonical || r.Status != run.StatusWaiting || r.WaitingFor != source {
			return nil, nil
		}
		s, err := l.newStep(&r, id, run.AtCommit, end)
		if err != nil {
			return nil, err
		}
		steps := []step{s}
		return steps, stageAll(ctx, tx, steps)
	})
	if err != nil {
		return fmt.Errorf("resume run %s: %w", waiter.ID, err)
	}
	// A waiter that has failed, because its source is missing, may be waited for itself.
	return l.resumeWaiters(ctx, awaited(done))
}

// waitsPerTick is how many waiting runs one Tick looks at.
const waitsPerTick = 2000

// sweepWaits looks at the next waiting runs, whatever they wait for, and ends the
// waits whose source has ended or does not exist; it returns how many it looked at and
// goes on where it stopped, from the beginning when it has seen the last. It is there
// for processes that died before they resumed the waiters of a run that they had
// ended, so it costs nothing where nobody waits, and reads each waiting run as often
// as it comes round: with W of them every W/2000th Tick.
func (l *Lane) sweepWaits(ctx context.Context) (resumed int, err error) {
	l.sweep.Lock()
	defer l.sweep.Unlock()
	filter := storage.RunFilter{Environment: l.env, Statuses: []run.Status{run.StatusWaiting}, Full: true, Limit: sweepPage}
	for range waitsPerTick / sweepPage {
		filter.Cursor = l.swept
		page, err := l.store.ListRuns(ctx, filter)
		if err != nil {
			return resumed, fmt.Errorf("lane: waiting runs: %w", err)
		}
		l.swept = page.Next
		n, err := l.resumeEnded(ctx, page.Runs)
		resumed += n
		if err != nil || page.Next == "" {
			return resumed, err
		}
	}
	return resumed, nil
}

const sweepPage = 500

// resumeEnded ends the waits of those of the runs whose source has ended or is not
// there.
func (l *Lane) resumeEnded(ctx context.Context, waiting []storage.RunItem) (resumed int, err error) {
	sources := make([]storage.Key, 0, len(waiting))
	for i := range waiting {
		key, err := codec.RunKey(l.env, waiting[i].Run.WaitingFor)
		if err != nil {
			return 0, err
		}
		sources = append(sources, key)
	}
	if len(sources) == 0 {
		return 0, nil
	}
	found, _, err := storage.Transact(ctx, l.store, "run.sources", func(ctx context.Context, tx storage.Tx) (map[storage.Key]storage.Record, error) {
		return tx.Peek(ctx, sources)
	})
	if err != nil {
		return 0, err
	}
	for i := range waiting {
		rec, present := found[sources[i]]
		s, kind := codec.DecodeRun(rec)
		source := waiting[i].Run.WaitingFor
		var end run.EventData
		switch {
		case !present || kind == codec.Tombstone:
			end = run.Failed{Failure: run.Failure{Code: CodeSourceMissing, Message: fmt.Sprintf("the run %q is gone", source)}}
		case kind == codec.Canonical && s.Status.Terminal():
			end = run.Resumed{}
		default:
			continue
		}
		waiter, err := codec.RunKey(l.env, waiting[i].Run.ID)
		if err != nil {
			return resumed, err
		}
		if err := l.resumeOne(ctx, waiter, source, end); err != nil {
			return resumed, err
		}
		resumed++
	}
	return resumed, nil
}
