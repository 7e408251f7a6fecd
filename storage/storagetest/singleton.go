package storagetest

import (
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/run"
	"github.com/seed4391e180/runlane/storage"
)

var singleton = topic{"OneActiveRun", []test{
	{name: "ASecondIsRefused", run: aSecondActiveRunIsRefused},
	{name: "OthersAreNot", run: otherRunsAreNotRefused},
	{name: "HandedOverInOneTransaction", run: handedOverInOneTransaction},
	{name: "TwoInOneTransaction", run: twoActiveRunsInOneTransaction},
	{name: "HiddenRunsHoldNothing", run: hiddenRunsHoldNothing},
}}

func withSingleton(id string, status run.Status, key string) run.Run {
	r := sampleRun(id, status)
	r.SingletonKey = key
	return r
}

func (f *fixture) refusesDuplicate(holder string, body func(c *call)) {
	f.Helper()
	calls := 0
	_, err := f.try(func(c *call) { calls = c.attempt; body(c) })
	require.ErrorIs(f, err, storage.ErrDuplicateActive)
	assert.False(f, storage.Retryable(err))
	assert.Equal(f, 2, calls, "one replay, then the error")
	var duplicate *storage.DuplicateActiveError
	require.ErrorAs(f, err, &duplicate)
	assert.Equal(f, []string{env, "task", "key", holder}, []string{duplicate.Environment, duplicate.Task, duplicate.SingletonKey, duplicate.RunID})
}

func aSecondActiveRunIsRefused(f *fixture) {
	for _, first := range run.Statuses() {
		if !first.Active() {
			continue
		}
		f.put(f.runRecord(withSingleton("first", first, "key")))
		for _, second := range run.Statuses() {
			if !second.Active() {
				continue
			}
			rec := f.runRecord(withSingleton("second", second, "key"))
			f.refusesDuplicate("first", func(c *call) { c.create(rec) })
			f.absent(rec.Key)
		}
	}
	// Nor may a run become the second.
	done := f.runRecord(withSingleton("second", run.StatusSucceeded, "key"))
	f.put(done)
	f.refusesDuplicate("first", func(c *call) { c.put(f.runRecord(withSingleton("second", run.StatusQueued, "key"))) })
	f.keepsAll([]storage.Record{done})
}

func otherRunsAreNotRefused(f *fixture) {
	f.put(f.runRecord(withSingleton("first", run.StatusRunning, "key")))
	otherTask, otherEnvironment := withSingleton("task", run.StatusQueued, "key"), withSingleton("first", run.StatusQueued, "key")
	otherTask.Task = "other"
	otherEnvironment.Environment = "other"
	for _, r := range []run.Run{
		withSingleton("other key", run.StatusQueued, "other"), withSingleton("no key", run.StatusQueued, ""), withSingleton("no key either", run.StatusQueued, ""),
		withSingleton("succeeded", run.StatusSucceeded, "key"), withSingleton("failed", run.StatusFailed, "key"), withSingleton("cancelled", run.StatusCancelled, "key"),
		otherTask, otherEnvironment,
	} {
		f.put(f.runRecord(r))
	}
	// The holder itself may go on.
	for _, status := range []run.Status{run.StatusReleased, run.StatusRunning, run.StatusRetrying} {
		f.put(f.runRecord(withSingleton("first", status, "key")))
	}
	f.put(f.runRecord(withSingleton("first", run.StatusSucceeded, "key")))
	f.put(f.runRecord(withSingleton("next", run.StatusQueued, "key")))
}

// handedOverInOneTransaction: the rule is about what is committed, not about the
// order in which a transaction was written or is carried out.
func handedOverInOneTransaction(f *fixture) {
	holder := "r0"
	f.put(f.runRecord(withSingleton(holder, run.StatusRunning, "key")))
	finish := func(c *call, id string) { c.put(f.runRecord(withSingleton(id, run.StatusSucceeded, "key"))) }
	drop := func(c *call, id string) { c.remove(f.runRecord(withSingleton(id, run.StatusQueued, "key")).Key) }
	lose := func(c *call, id string) { c.put(f.runRecord(withSingleton(id, run.StatusRunning, ""))) }
	hide := func(c *call, id string) { c.put(f.tombstone(id)) }
	n := 0
	for _, end := range []func(c *call, id string){finish, drop, lose, hide} {
		for _, createFirst := range []bool{false, true} {
			n++
			// Names on both sides of the holder's, whatever order a driver works in.
			next := []string{"a", "z"}[n%2] + string(rune('0'+n))
			commit := f.transact(func(c *call) {
				if createFirst {
					c.create(f.runRecord(withSingleton(next, run.StatusQueued, "key")))
				}
				end(c, holder)
				if !createFirst {
					c.create(f.runRecord(withSingleton(next, run.StatusQueued, "key")))
				}
			})
			assert.Equal(f, 1, commit.Attempts)
			holder = next
		}
	}
	f.refusesDuplicate("a8", func(c *call) { c.create(f.runRecord(withSingleton("late", run.StatusQueued, "key"))) })
}

func twoActiveRunsInOneTransaction(f *fixture) {
	a, b := f.runRecord(withSingleton("a", run.StatusQueued, "key")), f.runRecord(withSingleton("b", run.StatusQueued, "key"))
	f.refusesDuplicate("", func(c *call) { c.create(a); c.create(b) })
	f.absent(a.Key)
	f.absent(b.Key)
}

func hiddenRunsHoldNothing(f *fixture) {
	rec := f.runRecord(withSingleton("x", run.StatusQueued, "key"))
	f.put(storage.Record{Key: f.runRecord(sampleRun("opaque", run.StatusQueued)).Key, Document: rec.Document})
	f.put(f.tombstone("tombstone"))
	f.put(rec)
}
