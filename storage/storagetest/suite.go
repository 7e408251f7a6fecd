package storagetest

import (
	"testing"

	"github.com/seed4391e180/runlane/storage"
)

// Open makes a new, empty store. It fails the test if it cannot. The suite closes
// the store when the test ends; Open may register a clean-up of its own as well.
type Open = func(t testing.TB) storage.Driver

// Options say how much is tried. The zero value is the whole suite.
type Options struct {
	// Single leaves out the tests that hold two transactions open at once, for a
	// driver that has only one connection.
	Single bool
	// Brief leaves out no test, but lets the long ones try less: fewer rounds of
	// concurrent workers, fewer random programs, filters one by one instead of in
	// pairs, fewer page sizes. It is for further settings of a driver that passes the
	// whole suite in one.
	Brief bool
}

// Run proves a driver: one subtest for each topic, and in it one for each promise.
func Run(t *testing.T, open Open) { RunWith(t, open, Options{}) }

// RunSingle is Run with [Options.Single].
func RunSingle(t *testing.T, open Open) { RunWith(t, open, Options{Single: true}) }

// topic is a part of the contract and what it promises.
type topic struct {
	name  string
	tests []test
}

type test struct {
	name    string
	run     func(f *fixture)
	twoOpen bool                         // it holds two transactions open at once
	lacks   func(storage.Profile) string // what the profile does not promise; "" runs the test
}

// lacksClock is for tests of what only one clock for all can promise.
func lacksClock(p storage.Profile) string {
	if p.AuthoritativeClock {
		return ""
	}
	return "a clock that all processes share"
}

// lacksIndexes is for tests of what an index sees at once.
func lacksIndexes(p storage.Profile) string {
	if p.StrongIndexes {
		return ""
	}
	return "strong indexes"
}

func topics() []topic {
	return []topic{
		pointReads, assumptions, writes, misuse, callbackErrors, lifecycle,
		conflicts, queries, exclusiveQueries, now, commitTimes, documents, input, wakes, opaque, singleton, operator,
		ordered, appendInput, appendConflicts, appendLocks, streamRecords, concurrency, appendConcurrency, model,
	}
}

// RunWith is Run as the options say.
func RunWith(t *testing.T, open Open, o Options) {
	for _, topic := range topics() {
		t.Run(topic.name, func(t *testing.T) {
			for _, c := range topic.tests {
				if o.Single && c.twoOpen {
					continue
				}
				t.Run(c.name, func(t *testing.T) {
					f := newFixture(t, open, o)
					if c.lacks != nil {
						if lack := c.lacks(f.store.Profile()); lack != "" {
							t.Skip("the driver's profile does not promise " + lack)
						}
					}
					c.run(f)
				})
			}
		})
	}
}
