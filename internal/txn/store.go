package txn

import (
	"context"
	"time"

	"github.com/seed4391e180/runlane/storage"
)

// Store begins the sessions of attempts.
type Store interface {
	// Begin starts a session. For a first attempt admit is nil, and Begin should do
	// no input or output. For a replay it is the plan of the attempt before: Begin
	// waits for its locks, in the one canonical order.
	Begin(ctx context.Context, label string, admit *Plan) (Session, error)
}

// Session does the input and output of one attempt. An error that makes the
// attempt stale is a *Replay; every other error ends the transaction.
type Session interface {
	// Lookup reads records by key, in one round trip and one snapshot; absent ones
	// are left out.
	Lookup(ctx context.Context, keys []storage.Key) ([]storage.Record, error)
	// Select reads a page. An exclusive one opens a database transaction in which
	// everything that follows happens.
	Select(ctx context.Context, q storage.Query) (storage.Page, error)
	// Validate checks the expectations of a plan in one snapshot, without locks.
	Validate(ctx context.Context, p *Plan) error
	// Seal locks the plan's keys, then checks its expectations, then reads the clock.
	// The locks are held until the session ends.
	Seal(ctx context.Context, p *Plan) (time.Time, error)
	// Commit locks the plan's keys, checks its expectations, applies its mutations,
	// sends its hints, appends its items and commits, all or nothing.
	Commit(ctx context.Context, p *Plan) (Committed, error)
	// End gives back what the session holds; what was not committed is rolled back,
	// also when ctx is cancelled. It is called exactly once.
	End(ctx context.Context)
	// RoundTrips counts the network round trips so far.
	RoundTrips() int
}

// Committed is what a commit returns.
type Committed struct {
	Versions []storage.Version // of the plan's mutations, in its order; zero for a Delete
	First    []int64           // positions of the first item of each of the plan's appends
	Time     time.Time         // zero if the commit's own answer was lost
}

// Replay says that an attempt is stale and may be tried again.
type Replay struct {
	Reason storage.Reason
	Key    storage.Key // zero if not known
	Err    error       // the database's error; may be nil
	// Final is what the transaction returns if this happens twice; nil means that
	// the number of attempts decides.
	Final error
	// Quiet asks that later attempts send no hints.
	Quiet bool
}

func (r *Replay) Error() string {
	msg := "replay: " + string(r.Reason)
	if !r.Key.IsZero() {
		msg += " on " + r.Key.String()
	}
	if r.Err != nil {
		msg += ": " + r.Err.Error()
	}
	return msg
}

func (r *Replay) Unwrap() error { return r.Err }
