package lane

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/seed4391e180/runlane/run"
	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/codec"
)

// Bounds of one transaction that creates runs, below those of the store.
const (
	maxDrafts     = 500
	maxDraftKeys  = 2400     // records read or written
	maxDraftBytes = 12 << 20 // of documents
)

// enqueuers is how many transactions of one call create runs at once: while the store
// works on one, the next is prepared.
const enqueuers = 2

// fitting is how many of the drafts, one at least, one transaction can take.
func fitting(drafts []*draft) int {
	keys, size := 0, 0
	for i, d := range drafts {
		keys += 2 + 2*len(d.owners) // an owner is read together with the run it names
		size += len(d.run.Document) + len(d.event.Document)
		if i > 0 && (i == maxDrafts || keys > maxDraftKeys || size > maxDraftBytes) {
			return i
		}
	}
	return len(drafts)
}

// enqueueMany stores any number of drafts and notes the results at their places. Those
// with keys are stored in their order, one transaction after the other, so that the
// first of several with one key makes the run.
func (l *Lane) enqueueMany(ctx context.Context, drafts []*draft, results []Triggered) error {
	var keyed, free []*draft
	for _, d := range drafts {
		if len(d.owners) > 0 {
			keyed = append(keyed, d)
		} else {
			free = append(free, d)
		}
	}
	var (
		mu     sync.Mutex // guards keyed, free and failed
		failed error
		busy   bool // with some of keyed
		group  sync.WaitGroup
	)
	next := func(done bool, err error) (chunk []*draft, ordered bool) {
		mu.Lock()
		defer mu.Unlock()
		busy = busy && !done
		if err != nil && failed == nil {
			failed = err
		}
		from := &free
		if len(keyed) > 0 && !busy {
			from, busy, ordered = &keyed, true, true
		}
		if failed != nil || len(*from) == 0 {
			return nil, false
		}
		n := fitting(*from)
		chunk, *from = (*from)[:n], (*from)[n:]
		return chunk, ordered
	}
	for range enqueuers {
		group.Go(func() {
			for chunk, ordered := next(false, nil); len(chunk) > 0; {
				stored, err := l.enqueue(ctx, l.store, chunk)
				for i := range stored {
					results[chunk[i].place] = stored[i]
				}
				chunk, ordered = next(ordered, err)
			}
		})
	}
	group.Wait()
	return failed
}

// enqueue stores the drafts in one transaction. Drafts without keys are created
// without looking, in one round trip.
func (l *Lane) enqueue(ctx context.Context, in storage.Transactor, drafts []*draft) ([]Triggered, error) {
	results, commit, err := storage.Transact(ctx, in, "run.trigger", func(ctx context.Context, tx storage.Tx) ([]Triggered, error) {
		ring, err := readKeys(ctx, tx, l.env, drafts)
		if err != nil {
			return nil, err
		}
		results := make([]Triggered, len(drafts))
		for i, d := range drafts {
			if t, ok := ring.existing(d, i, results); ok {
				results[i] = t
				continue
			}
			results[i] = Triggered{RunID: d.runID, Created: run.AtCommit}
			if err := d.stage(ctx, tx, ring); err != nil {
				return nil, err
			}
		}
		return results, nil
	})
	if err != nil {
		return nil, err
	}
	at := commit.Time
	if at.IsZero() {
		at = l.storedTime(ctx, in, drafts, results)
	}
	for i := range results {
		results[i].Created = run.Resolve(results[i].Created, at)
	}
	return results, nil
}

// storedTime reads the time of a commit whose own answer was lost from a run that
// it created. The runs are stored whether or not it can be read; then it is zero.
func (l *Lane) storedTime(ctx context.Context, in storage.Transactor, drafts []*draft, results []Triggered) time.Time {
	created := slices.IndexFunc(results, func(t Triggered) bool { return !t.Existing })
	if created < 0 {
		return time.Time{}
	}
	rec, _, err := storage.Transact(ctx, in, "run.triggered", func(ctx context.Context, tx storage.Tx) (storage.Record, error) {
		rec, _, err := tx.Get(ctx, drafts[created].run.Key)
		return rec, err
	})
	if err != nil {
		return time.Time{}
	}
	r, _ := codec.DecodeRun(rec)
	return r.Created
}

func (d *draft) stage(ctx context.Context, tx storage.Tx, ring *keyring) error {
	err := tx.Create(ctx, d.run)
	if errors.Is(err, storage.ErrRecordExists) {
		return &RunExistsError{RunID: d.runID}
	}
	if err != nil {
		return err
	}
	if err := tx.Create(ctx, d.event); err != nil {
		return err
	}
	for _, rec := range d.owners {
		write := tx.Create
		if ring.stored[rec.Key] {
			write = tx.Replace
		}
		if err := write(ctx, rec); err != nil {
			return err
		}
	}
	if d.topic == "" {
		return nil
	}
	return hint(tx, d.topic)
}
