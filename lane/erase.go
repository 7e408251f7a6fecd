package lane

import (
	"context"
	"errors"

	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/codec"
)

// erase deletes the events of a hidden run and, with the last of them, its
// tombstone. It reports whether the run is gone or in the hands of another pruner;
// otherwise the call may make no more transactions.
func (p *pruner) erase(ctx context.Context, hidden hiddenRun) (whole bool, err error) {
	for p.trips != 0 {
		p.trips--
		attempt := 0
		cut, _, err := storage.Transact(ctx, p.lane.store, "run.prune_events", func(ctx context.Context, tx storage.Tx) (Pruned, error) {
			attempt++
			return p.lane.eraseHidden(ctx, tx, hidden, attempt > 1)
		})
		switch {
		case errors.Is(err, storage.ErrConflict):
			return true, nil // another pruner is at it
		case err != nil:
			return false, err
		}
		p.add(cut)
		if cut.Resume.IsZero() {
			return true, nil
		}
	}
	return false, nil
}

// eraseHidden is one transaction of erase. Resume is zero once nothing is left.
func (l *Lane) eraseHidden(ctx context.Context, tx storage.Tx, hidden hiddenRun, again bool) (cut Pruned, err error) {
	rec, found, err := tx.Get(ctx, hidden.key)
	if err != nil {
		return cut, err
	}
	if _, kind := codec.DecodeRun(rec); !found || kind != codec.Tombstone {
		return cut, nil // somebody else has finished it
	}
	n, more, err := l.eraseSome(ctx, tx, hidden.id, eraseEvents, again)
	if err != nil {
		return cut, err
	}
	cut.Events = n
	if more {
		cut.Resume.ID = hidden.id
		return cut, nil
	}
	cut.Runs = 1
	return cut, tx.Delete(ctx, hidden.key)
}

// eraseSome deletes the first events of a run that accepts no more of them. again
// says that the transaction runs again, so that nothing can be assumed.
func (l *Lane) eraseSome(ctx context.Context, tx storage.Tx, runID string, limit int, again bool) (n int, more bool, err error) {
	partition, err := codec.EventsPartition(l.env, runID)
	if err != nil {
		return 0, false, err
	}
	page, err := tx.Query(ctx, storage.Query{Index: storage.RunEventsBySequence, Partition: partition, Limit: limit})
	if err != nil {
		return 0, false, err
	}
	if again {
		events := make([]storage.Key, len(page.Records))
		for i := range page.Records {
			events[i] = page.Records[i].Key
		}
		if _, err := tx.GetMany(ctx, events); err != nil {
			return 0, false, err
		}
	}
	for _, rec := range page.Records {
		_, found, err := tx.Assume(ctx, rec)
		if err != nil {
			return 0, false, err
		}
		if !found {
			continue
		}
		if err := tx.Delete(ctx, rec.Key); err != nil {
			return 0, false, err
		}
		n++
	}
	return n, !page.Resume.IsZero(), nil
}
