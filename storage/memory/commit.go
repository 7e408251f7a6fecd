package memory

import (
	"time"

	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/keys"
)

// commit applies what the attempt staged, all or nothing.
func (a *attempt) commit() (storage.Commit, error) {
	if !a.writes() {
		if a.mixed() {
			if stale := a.validate(); stale != nil {
				return storage.Commit{}, stale
			}
		}
		return storage.Commit{}, nil
	}
	commit, stale := a.write()
	if stale != nil {
		return storage.Commit{}, stale
	}
	a.committed = true
	return commit, nil
}

// writes reports whether the commit has any effect, or an expectation that no read
// has looked at.
func (a *attempt) writes() bool {
	if len(a.topics) > 0 {
		return true
	}
	for _, k := range a.keys {
		if k.written() {
			return true
		}
	}
	return false
}

func (a *attempt) write() (storage.Commit, *replay) {
	d := a.driver
	d.mu.Lock()
	defer d.mu.Unlock()
	if stale := a.seal(); stale != nil {
		return storage.Commit{}, stale
	}
	now := d.now()
	changes := a.changes(now)
	if len(changes) == 0 {
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
	d.state.apply(changes)
	commit := storage.Commit{Versions: map[storage.Key]storage.Version{}, Time: now}
	for _, c := range changes {
		if c.record != nil {
			commit.Versions[c.key] = c.record.version
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
