package memory

import (
	"context"
	"time"

	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/keys"
)

// commit applies what the attempt staged, all or nothing.
func (a *attempt) commit(ctx context.Context) (storage.Commit, error) {
	if !a.writes() {
		if a.mixed() {
			if stale := a.validate(); stale != nil {
				return storage.Commit{}, stale
			}
		}
		return storage.Commit{}, nil
	}
	if stale := a.lockedSeal(); stale != nil {
		return storage.Commit{}, stale
	}
	// From here on nothing that the attempt touched can change, so it may take its
	// time to wait for the heads of streams, which are locked last: whoever has one
	// is about to commit.
	if err := a.wait(ctx, a.headLocks()); err != nil {
		return storage.Commit{}, err
	}
	commit, err := a.write()
	if err != nil {
		return storage.Commit{}, err
	}
	a.committed = true
	return commit, nil
}

// writes reports whether the commit has any effect, or an expectation that no read
// has looked at.
func (a *attempt) writes() bool {
	if len(a.topics) > 0 || len(a.tails) > 0 {
		return true
	}
	for _, k := range a.keys {
		if k.written() {
			return true
		}
	}
	return false
}

// write applies the changes of an attempt that is sealed and has the locks of its
// heads.
func (a *attempt) write() (storage.Commit, error) {
	d := a.driver
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.now()
	changes := a.changes(now)
	if len(changes) == 0 && len(a.tails) == 0 {
		return storage.Commit{}, nil
	}
	if key, held, holder, found := d.state.duplicate(changes); found {
		runID, _ := keys.DecodeString(holder.ID) // a holder is canonical: its id is the encoding of the run's
		return storage.Commit{}, &replay{
			reason: storage.ReasonExists, key: key,
			final: &storage.DuplicateActiveError{
				Environment: held.environment, Task: held.task, SingletonKey: held.key,
				RunID: runID, Detail: "refused for " + key.String(),
			},
		}
	}
	all := newBatch(&d.state, changes)
	appended, err := a.extend(all, now)
	if err != nil {
		return storage.Commit{}, err
	}
	d.state.apply(all.changes)
	commit := storage.Commit{Versions: map[storage.Key]storage.Version{}, Appended: appended, Time: now}
	for key, k := range a.keys {
		// A head that was appended to has another version than the one that was staged.
		if k.staged == put && a.tailOf(key) == nil {
			commit.Versions[key] = d.state.version(key)
		}
	}
	return commit, nil
}

// changes lists the net effect of the attempt, with the marks filled in.
func (a *attempt) changes(now time.Time) []change {
	var changes []change
	for _, key := range a.sortedKeys() {
		switch k := a.keys[key]; k.staged {
		case put:
			changes = append(changes, change{key, complete(k.record, now)})
		case removal:
			changes = append(changes, change{key, nil})
		}
	}
	return changes
}
