package lane

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/seed4391e180/runlane/run"
	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/codec"
	"github.com/seed4391e180/runlane/storage/keys"
)

// DefaultPruneLimit is how many runs one call of Prune looks at.
const DefaultPruneLimit = 1000

// Bounds of one transaction that prunes. A run has at most two owners, so it stays
// below the number of records that a store takes.
const (
	pruneRuns   = 20  // ended runs that it looks at
	pruneEvents = 100 // events of each of them that it deletes
	eraseEvents = 500 // events of a hidden run that it deletes
)

// PruneOptions says what to prune. Exactly one of OlderThan and Before is set.
type PruneOptions struct {
	// OlderThan selects runs that ended at least so long ago, by the store's clock.
	OlderThan time.Duration
	// Before selects runs that ended before a time.
	Before time.Time
	// Statuses are the terminal statuses to prune; empty: all three.
	Statuses []run.Status
	// DryRun deletes nothing and counts the runs that would go; not their events.
	DryRun bool
	// Limit is how many ended runs the call looks at; 0 is DefaultPruneLimit.
	Limit int
	// Resume goes on where an earlier call with the same options stopped. It is a plain
	// value and may be stored; zero: from the run that ended first.
	Resume storage.Resume
}

// Pruned is what a call of Prune did.
type Pruned struct {
	Runs    int // deleted, with all their events
	Events  int // deleted
	Awaited int // runs left alone because another run still waits for them
	Opaque  int // runs left alone because another version wrote them
	// Resume is where the next call goes on; zero if the end was reached.
	Resume storage.Resume
}

// Prune deletes runs that have ended, with their events and the keys that still
// stand for them, the oldest first, in bounded transactions. Whoever wants all of
// them calls it until Resume is zero.
//
// A run with more events than one transaction takes is hidden first, replaced by a
// tombstone, and then loses its events bit by bit. A call that is cut short leaves a
// tombstone behind, and the next call that begins from the start finishes it. Any number
// of processes may prune at the same time.
//
// Passed over are runs that another run waits for, and runs that another version
// wrote. Links from other runs to a pruned one lead nowhere.
//
// With an error, what was done until then is reported, and Resume stands where the
// call may go on. Errors are those of the store.
func (l *Lane) Prune(ctx context.Context, o PruneOptions) (Pruned, error) {
	p, err := l.newPruner(ctx, o)
	if err == nil {
		err = p.walk(ctx)
	}
	if err != nil {
		return p.done, fmt.Errorf("lane: prune: %w", err)
	}
	return p.done, nil
}

// pruner is one call of Prune.
type pruner struct {
	lane     *Lane
	cutoff   time.Time
	until    storage.Bound // the cut-off in the index
	statuses []run.Status
	dryRun   bool
	left     int // runs that may still be looked at
	trips    int // transactions that may still be made; negative: any number
	done     Pruned
}

func (l *Lane) newPruner(ctx context.Context, o PruneOptions) (*pruner, error) {
	p := &pruner{lane: l, statuses: o.Statuses, dryRun: o.DryRun, left: o.Limit, trips: -1, cutoff: o.Before.UTC(), done: Pruned{Resume: o.Resume}}
	orDefault(&p.left, DefaultPruneLimit)
	switch {
	case (o.OlderThan == 0) == o.Before.IsZero():
		return p, errors.New("one of OlderThan and Before must be set")
	case o.OlderThan < 0 || p.left < 0:
		return p, errors.New("OlderThan or Limit is negative")
	}
	for _, s := range o.Statuses {
		if !s.Terminal() {
			return p, fmt.Errorf("a run that is %q has not ended", s)
		}
	}
	if o.OlderThan > 0 {
		now, err := l.now(ctx)
		if err != nil {
			return p, err
		}
		p.cutoff = now.Add(-o.OlderThan)
	}
	sort, err := keys.EncodeTime(p.cutoff)
	if err != nil {
		return p, fmt.Errorf("cut-off: %w", err)
	}
	p.until = storage.At(sort)
	return p, nil
}

// walk prunes page after page. It goes on behind a page once nothing of it is left
// half done.
func (p *pruner) walk(ctx context.Context) error {
	for p.left > 0 && p.trips != 0 {
		q := storage.Query{
			Index:     storage.RunsByRetention,
			Partition: p.lane.ended,
			Until:     p.until,
			Limit:     min(p.left, pruneRuns),
			Resume:    p.done.Resume,
			Lock:      storage.Exclusive,
		}
		p.trips--
		attempt := 0
		cut, _, err := storage.Transact(ctx, p.lane.store, "run.prune", func(ctx context.Context, tx storage.Tx) (*prunedPage, error) {
			attempt++
			return p.page(ctx, tx, q, attempt > 1)
		})
		if err != nil {
			return err
		}
		p.left -= q.Limit
		p.add(cut.Pruned)
		for _, key := range cut.hidden {
			if whole, err := p.erase(ctx, key); err != nil || !whole {
				return err
			}
		}
		if p.done.Resume = cut.Resume; cut.Resume.IsZero() {
			return nil
		}
	}
	return nil
}

func (p *pruner) add(n Pruned) {
	p.done.Runs += n.Runs
	p.done.Events += n.Events
	p.done.Awaited += n.Awaited
	p.done.Opaque += n.Opaque
}

// prunedPage is what one transaction did.
type prunedPage struct {
	Pruned
	hidden []hiddenRun // that still have events
}

// hiddenRun is a run of which there is a tombstone.
type hiddenRun struct {
	id  string
	key storage.Key
}

// doomed is a run that is to be pruned, or a tombstone that was left behind.
type doomed struct {
	hiddenRun
	run       run.Run
	tombstone bool
}

// page prunes one page of ended runs. The exclusive query locks them, so that
// two pruners do not meet.
func (p *pruner) page(ctx context.Context, tx storage.Tx, q storage.Query, again bool) (*prunedPage, error) {
	page, err := tx.Query(ctx, q)
	if err != nil {
		return nil, err
	}
	cut := &prunedPage{Pruned: Pruned{Resume: page.Resume}}
	list, err := p.unawaited(ctx, tx, p.pick(page.Records, cut), cut)
	if err != nil {
		return nil, err
	}
	if p.dryRun {
		cut.Runs = len(list)
		return cut, nil
	}
	var owned []storage.Key
	for i := range list {
		some, err := keysOf(&list[i].run)
		if err != nil {
			return nil, err
		}
		owned = append(owned, some...)
	}
	var owners map[storage.Key]storage.Record
	if len(owned) > 0 {
		if owners, err = tx.GetMany(ctx, owned); err != nil {
			return nil, err
		}
	}
	for i := range list {
		if err := p.cut(ctx, tx, &list[i], owners, again, cut); err != nil {
			return nil, err
		}
	}
	return cut, nil
}

// pick decides which records of a page are to go.
func (p *pruner) pick(records []storage.Record, cut *prunedPage) (list []doomed) {
	for _, rec := range records {
		r, kind := codec.DecodeRun(rec)
		d := doomed{hiddenRun{r.ID, rec.Key}, r, kind == codec.Tombstone}
		switch {
		case kind == codec.Opaque:
			cut.Opaque++
		case d.tombstone:
			list = append(list, d)
		case !r.Status.Terminal() || !r.Finished.Before(p.cutoff):
		case len(p.statuses) > 0 && !slices.Contains(p.statuses, r.Status):
		default:
			list = append(list, d)
		}
	}
	return list
}

// unawaited leaves out the runs that another one waits for. Without a presence
// row nobody does. Neither answer needs to stay true: whoever begins to wait reads
// the run, finds that it has ended or is gone, and does not wait.
func (p *pruner) unawaited(ctx context.Context, tx storage.Tx, list []doomed, cut *prunedPage) ([]doomed, error) {
	presence := make([]storage.Key, len(list))
	for i := range list {
		var err error
		if presence[i], err = codec.WaitPresenceKey(p.lane.env, list[i].id); err != nil {
			return nil, err
		}
	}
	if len(list) == 0 {
		return nil, nil
	}
	present, err := tx.Peek(ctx, presence)
	if err != nil || len(present) == 0 {
		return list, err
	}
	var rest []doomed
	for i := range list {
		if _, ok := present[presence[i]]; ok && !list[i].tombstone {
			partition, err := codec.WaitingPartition(p.lane.env, list[i].id)
			if err != nil {
				return nil, err
			}
			waiting, err := tx.Query(ctx, storage.Query{Index: storage.RunsWaitingForCompletion, Partition: partition, Limit: 1})
			if err != nil {
				return nil, err
			}
			if len(waiting.Records) > 0 {
				cut.Awaited++
				continue
			}
		}
		rest = append(rest, list[i])
	}
	return rest, nil
}

// cut deletes a run whose events fit in and hides any other. The first event goes
// along with the change of the run in any case, so the payload that the two share is
// not copied.
func (p *pruner) cut(ctx context.Context, tx storage.Tx, d *doomed, owners map[storage.Key]storage.Record, again bool, cut *prunedPage) error {
	n, more, err := p.lane.eraseSome(ctx, tx, d.id, pruneEvents, again)
	if err != nil {
		return err
	}
	cut.Events += n
	if more {
		cut.hidden = append(cut.hidden, d.hiddenRun)
	}
	switch {
	case !more:
		cut.Runs++
		err = tx.Delete(ctx, d.key)
	case !d.tombstone:
		var rec storage.Record
		if rec, err = tombstoneOf(&d.run); err == nil {
			err = tx.Replace(ctx, rec)
		}
	}
	if err != nil || d.tombstone {
		return err
	}
	owned, err := keysOf(&d.run)
	if err != nil {
		return err
	}
	s := step{run: d.run, freed: owned}
	return s.stageFreed(ctx, tx, owners)
}

// tombstoneOf hides a run that has ended. It stays where the run was in
// RunsByRetention: that is how a tombstone that was left behind is found.
func tombstoneOf(r *run.Run) (storage.Record, error) {
	rec, err := codec.EncodeRun(*r)
	if err != nil {
		return storage.Record{}, err
	}
	entries := rec.Entries
	rec, err = codec.EncodeTombstone(r.Environment, r.ID)
	rec.Entries = entries
	return rec, err
}

// keysOf returns the keys of all owners that may name a run.
func keysOf(r *run.Run) ([]storage.Key, error) {
	ended := run.Run{
		Environment: r.Environment, Task: r.Task, Status: run.StatusFailed, // which frees all
		IdempotencyKey: r.IdempotencyKey, SingletonKey: r.SingletonKey,
	}
	return freedBy(&ended)
}
