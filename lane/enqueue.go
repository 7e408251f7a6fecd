package lane

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/seed4391e180/runlane/run"
	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/codec"
)

// Bounds of one transaction that creates runs, below those of the store.
const (
	maxDraftKeys  = 2400     // records read or written
	maxDraftBytes = 12 << 20 // of documents
)

// fitting is how many of the drafts, one at least, one transaction can take.
func fitting(drafts []*draft) int {
	keys, size := 0, 0
	for i, d := range drafts {
		keys += 2 + 2*len(d.owners) // an owner is read together with the run it names
		size += len(d.run.Document) + len(d.event.Document)
		if i > 0 && (keys > maxDraftKeys || size > maxDraftBytes) {
			return i
		}
	}
	return len(drafts)
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
