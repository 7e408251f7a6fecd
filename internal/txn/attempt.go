package txn

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/seed4391e180/runlane/storage"
)

// attempt is one run of a callback. It is the storage.Tx that the callback sees.
type attempt struct {
	engine *Engine
	number int // from 1
	label  string
	sess   Session

	reads   map[storage.Key]*read           // the read set
	carried map[storage.Key]storage.Record  // locked by exclusive queries, not yet read
	staged  map[storage.Key]*stage          // written keys
	held    map[storage.Key]bool            // locks that the session holds; true: shared
	blind   map[storage.Key]*storage.Record // replay only: what was found of the keys that the attempt before created
	before  *attempt                        // the attempt that this one replays; nil for a first attempt
	appends []Append                        // at most one for each stream
	topics  []string
	quiet   bool // send no hints
	bytes   int  // of staged documents and items

	separate int       // reads that saw separate snapshots, assumptions counted as two
	sealed   bool      // Now was answered
	now      time.Time // its answer
	pageTime time.Time // of the last exclusive query, while nothing but these was read

	begun       bool    // the callback ran
	ended       bool    // the callback returned
	failed      error   // the first failure of the session: the attempt cannot commit any more
	given       []error // what the methods of Tx returned
	callbackErr error   // the callback's error while it waits for validation
	roundTrips  int
}

// read is one member of the read set.
type read struct {
	rec      storage.Record // version zero: absent
	readOnly bool
	locked   bool // by an exclusive query: what was read cannot change
}

// stage is what the transaction wants a key to be in the end.
type stage struct {
	rec     storage.Record
	deleted bool
	blind   bool // created without reading
}

// run runs the callback once and commits what it staged. A *Replay as it is means
// that the attempt was stale.
func (a *attempt) run(ctx context.Context, before *attempt, fn func(context.Context, storage.Tx) error) (storage.Commit, error) {
	var admit *Plan
	if before != nil {
		a.before = before
		admit = before.admission()
	}
	sess, err := a.engine.Store.Begin(ctx, a.label, admit)
	if err != nil {
		return storage.Commit{}, unwrapReplay(err)
	}
	a.sess = sess
	defer func() {
		a.ended = true
		sess.End(ctx)
		a.roundTrips = sess.RoundTrips()
	}()
	a.reset(admit)
	err = fn(context.WithValue(ctx, nested{a.engine.Scope}, true), a)
	a.ended = true
	return a.finish(ctx, err)
}

func (a *attempt) reset(admit *Plan) {
	a.begun = true
	a.reads = make(map[storage.Key]*read)
	a.carried = make(map[storage.Key]storage.Record)
	a.staged = make(map[storage.Key]*stage)
	a.held = make(map[storage.Key]bool)
	if admit != nil {
		for _, l := range admit.Locks {
			a.held[l.Key] = l.Shared
		}
	}
}

// finish decides what becomes of the attempt when its callback has returned err.
func (a *attempt) finish(ctx context.Context, err error) (storage.Commit, error) {
	if isReplay(a.failed) {
		// Whatever the callback made of it, the attempt is stale.
		return storage.Commit{}, unwrapReplay(a.failed)
	}
	if a.failed != nil {
		if err != nil {
			return storage.Commit{}, err
		}
		return storage.Commit{}, a.failed
	}
	if err != nil {
		return storage.Commit{}, a.settle(ctx, err)
	}
	plan := a.plan()
	if plan.Empty() {
		if verr := a.validate(ctx); verr != nil {
			return storage.Commit{}, unwrapReplay(verr)
		}
		return storage.Commit{}, nil
	}
	if plan.keys() > a.engine.Limits.MaxKeys {
		return storage.Commit{}, &storage.InputError{Kind: storage.ErrTooMany, Field: "keys of the transaction", Limit: a.engine.Limits.MaxKeys}
	}
	done, err := a.sess.Commit(ctx, plan)
	if err != nil {
		return storage.Commit{}, a.name(unwrapReplay(err))
	}
	versions := make(map[storage.Key]storage.Version, len(plan.Mutations))
	for i := range plan.Mutations {
		if plan.Mutations[i].Op != Delete {
			versions[plan.Mutations[i].Key] = done.Versions[i]
		}
	}
	appended := make([]storage.Appended, len(plan.Appends))
	for i := range plan.Appends {
		first := done.First[i]
		delete(versions, plan.Appends[i].Head) // the append has written it once more
		appended[i] = storage.Appended{Head: plan.Appends[i].Head, First: first, Last: first + int64(len(plan.Appends[i].Items)) - 1}
	}
	return storage.Commit{Versions: versions, Appended: appended, Time: done.Time}, nil
}

// settle answers a callback's error: by identity, once what it was based on is
// known to have been true at one moment; otherwise the attempt replays. An error
// that a method of Tx gave is passed on as it is.
func (a *attempt) settle(ctx context.Context, err error) error {
	if slices.ContainsFunc(a.given, func(given error) bool { return errors.Is(err, given) }) {
		return err
	}
	verr := a.validate(ctx)
	var stale *Replay
	if errors.As(verr, &stale) {
		a.callbackErr = err
		return stale
	}
	return err
}

// validate checks in one snapshot what an attempt that writes nothing depends on:
// the read set if it came from several snapshots, and the absence of what was
// created blindly and deleted again.
func (a *attempt) validate(ctx context.Context) error {
	plan := Plan{}
	for key, s := range a.staged {
		if s.blind && s.deleted {
			plan.Expect = append(plan.Expect, Expectation{Key: key})
		}
	}
	if !a.sealed && a.separate+len(plan.Expect) >= 2 {
		for key, r := range a.reads {
			if !r.locked {
				plan.Expect = append(plan.Expect, Expectation{Key: key, Version: r.rec.Version})
			}
		}
	}
	if len(plan.Expect) == 0 {
		return nil
	}
	plan.sort()
	return a.sess.Validate(ctx, &plan)
}

// name fills the label into errors that carry one.
func (a *attempt) name(err error) error {
	if unknown := (*storage.CommitUnknownError)(nil); errors.As(err, &unknown) && unknown.Label == "" {
		unknown.Label = a.label
	}
	return err
}

// note remembers what a method of Tx returns.
func (a *attempt) note(err *error) {
	if *err != nil {
		a.given = append(a.given, *err)
	}
}

// fail remembers the first failure of the session and returns it.
func (a *attempt) fail(err error) error {
	if a.failed == nil {
		a.failed = err
	}
	return err
}

// stale dooms the attempt.
func (a *attempt) stale(reason storage.Reason, key storage.Key) error {
	return a.fail(&Replay{Reason: reason, Key: key})
}

// usable is the first thing that every method of Tx asks.
func (a *attempt) usable() error {
	if a.ended {
		return storage.ErrClosed
	}
	return a.failed
}

// unwrapReplay finds the *Replay within a session's error.
func unwrapReplay(err error) error {
	var stale *Replay
	if errors.As(err, &stale) {
		return stale
	}
	return err
}
