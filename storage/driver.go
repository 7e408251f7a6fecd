package storage

import (
	"context"

	"github.com/seed4391e180/runlane/run"
)

// Driver is a store of durable runs. Its methods may be called from any number of
// goroutines.
type Driver interface {
	Transactor
	Operator
	Listener
	// Profile declares what the driver promises.
	Profile() Profile
	// Close ends the driver: it ends running Listen calls with ErrClosed, waits for
	// all other calls and releases what the driver opened. Calls that begin later return ErrClosed. Closing twice is harmless.
	Close() error
}

// Profile is what a driver promises beyond the contract that all of them keep.
type Profile struct {
	Durable            bool // what was committed survives the end of the process and a crash of the machine
	StrongIndexes      bool // an index query sees every transaction that committed before it began
	AuthoritativeClock bool // times come from one clock that all processes share, never from the caller's
	Shared             bool // several processes can use one store
}

// Listener receives the hints that transactions sent with Tx.Wake.
type Listener interface {
	// Listen calls hint with the topic of each wake until ctx ends, then returns
	// ctx.Err(). Hints are best effort: one may be lost, repeated or sent by somebody
	// else. After every moment in which hints may have been lost (when listening has
	// begun, after a lost connection, when hint was too slow) hint is called with "":
	// poll everything once. hint is called by one goroutine at a time and must not block.
	Listen(ctx context.Context, hint func(topic string)) error
}

// Operator answers the questions of people who look after runs. Tombstoned and
// opaque runs, and their events, do not exist here; neither do events whose entry in
// RunEventsBySequence is not the one that their document says.
type Operator interface {
	// GetRun returns a whole run; found is false if there is none.
	GetRun(ctx context.Context, environment, runID string) (r run.Run, found bool, err error)
	// ListRuns returns a page of runs in the order of (sort time, run id). Errors:
	// ErrInvalidQuery, ErrUnsupportedFilter, ErrInvalidCursor.
	ListRuns(ctx context.Context, f RunFilter) (RunPage, error)
	// ListEvents returns a page of events in the order of sequence or of (time, event
	// id). Errors as for ListRuns. Events whose run is hidden are left out, yet
	// counted as scanned: a page may be short although more follows.
	ListEvents(ctx context.Context, f EventFilter) (EventPage, error)
	// CountRuns counts the runs that the filter selects, by status: one count for each
	// status that it names, or for every status, in the order of run.Statuses. A count
	// is exact up to limit (1 to Limits.MaxCount; 0 means Limits.DefaultCount); beyond, it
	// is limit and AtLeast. How the filter sorts and pages plays no part. Errors as for
	// ListRuns, except for ErrInvalidCursor.
	CountRuns(ctx context.Context, f RunFilter, limit int) ([]StatusCount, error)
}
