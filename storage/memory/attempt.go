package memory

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/seed4391e180/runlane/storage"
)

// attempt is one run of a callback: what it has read, what it has staged, and the
// locks that it holds. It implements [storage.Tx].
type attempt struct {
	driver *Driver
	label  string
	number int
	held   map[storage.Key]lockMode // used under the mutex of the driver
	waits  *waiter                  // for a lock that somebody else has; likewise

	ran     bool // the callback was called
	ended   atomic.Bool
	doom    *replay // the attempt is stale, whatever the callback returns
	failure error   // it can neither commit nor be repeated

	keys    map[storage.Key]*keyState
	reads   int  // separate point reads
	assumed bool // something was used that was not read

	used     bool      // it has read, queried or staged anything
	pageTime time.Time // of the last exclusive query, if nothing but these was read
	sealed   bool
	sealTime time.Time

	mutations int     // keys with a staged write
	tails     []*tail // what is appended, in the order of the first Append to each stream
	items     int     // of all tails
	bytes     int     // of all staged documents and items
	topics    []string
	given     []error // what the methods have returned
	committed bool    // the hints may be sent
}

var _ storage.Tx = (*attempt)(nil)

// keyState is what an attempt knows and wants of one key.
type keyState struct {
	known   bool           // base is what was committed when it was read, or assumed to be
	base    storage.Record // zero version: absent
	seen    bool           // the callback was told
	carried bool           // it came from an exclusive query, and nothing else asked for it before

	readOnly bool
	touched  bool // a write was staged, and perhaps taken back
	fresh    bool // the first write was a Create of a key that was not known: it must be absent
	staged   staging
	record   storage.Record // what is staged by put
	size     int            // of the staged document as it was handed in
}

type staging uint8

const (
	nothing staging = iota
	put
	removal
)

func (d *Driver) newAttempt(label string, number int) *attempt {
	return &attempt{
		driver: d, label: label, number: number,
		held: map[storage.Key]lockMode{}, keys: map[storage.Key]*keyState{},
	}
}

// current is the record as the transaction sees it: its own staged writes first.
func (k *keyState) current() (storage.Record, bool) {
	switch {
	case k.staged == put:
		return storage.Record{Key: k.record.Key, Document: k.record.Document}, true
	case k.staged == removal || k.base.Version.IsZero():
		return storage.Record{}, false
	}
	return k.base, true
}

// written reports whether the commit changes the key, or must find it absent
// although it was never read.
func (k *keyState) written() bool { return k.staged != nothing || k.fresh }

// usable is asked first by every method of Tx.
func (a *attempt) usable(ctx context.Context) error {
	switch {
	case a.ended.Load():
		return storage.ErrClosed
	case a.doom != nil:
		return a.conflict()
	case a.failure != nil:
		return a.failure
	}
	if err := ctx.Err(); err != nil {
		a.failure = err
		return err
	}
	return nil
}

// conflict is what the methods of a doomed attempt return; the callback's answer
// no longer matters.
func (a *attempt) conflict() error {
	return &storage.ConflictError{Label: a.label, Reason: a.doom.reason, Key: a.doom.key, Attempts: a.number}
}

func (a *attempt) stale(r *replay) error {
	a.doom = r
	return a.conflict()
}

// note remembers what a method of Tx returns.
func (a *attempt) note(err *error) {
	if *err != nil {
		a.given = append(a.given, *err)
	}
}

// gave reports whether an error came from a method of Tx.
func (a *attempt) gave(err error) bool {
	return slices.ContainsFunc(a.given, func(given error) bool { return errors.Is(err, given) })
}

// room checks that the attempt may touch that many more keys.
func (a *attempt) room(more int) error {
	if len(a.keys)+len(a.tails)+a.items+more > a.driver.limits.MaxKeys {
		return &storage.InputError{Kind: storage.ErrTooMany, Field: "keys", Limit: a.driver.limits.MaxKeys}
	}
	return nil
}

// mixed reports whether what the callback saw may never have been true at one moment.
func (a *attempt) mixed() bool { return a.reads > 1 || a.assumed }

// sortedKeys lists the keys that the attempt touched in their canonical order.
func (a *attempt) sortedKeys() []storage.Key {
	sorted := make([]storage.Key, 0, len(a.keys))
	for key := range a.keys {
		sorted = append(sorted, key)
	}
	slices.SortFunc(sorted, storage.Key.Compare)
	return sorted
}

// lockMode is how a key must be held to seal the attempt. Those that are only read
// share it, unless they were sealed or read before by an attempt that failed: two
// holders that share and then both want to write can only fail again and again.
func (a *attempt) lockMode(key storage.Key, k *keyState) lockMode {
	switch {
	case k.written(), a.tailOf(key) != nil:
		return exclusive
	case k.readOnly:
		return shared
	case a.sealed || a.number > 1:
		return exclusive
	}
	return shared
}

// nextLocks lists what the next attempt locks before it begins. What was found by
// an exclusive query is left out: by then it is somebody else's business. So are
// heads that are only appended to: their turn comes last.
func (a *attempt) nextLocks() []lockRequest {
	requests := make([]lockRequest, 0, len(a.keys))
	for key, k := range a.keys {
		switch {
		case k.carried:
		case k.readOnly && !k.written():
			requests = append(requests, lockRequest{key, shared})
		default:
			requests = append(requests, lockRequest{key, exclusive})
		}
	}
	slices.SortFunc(requests, func(x, y lockRequest) int {
		return cmp.Or(x.key.Compare(y.key), cmp.Compare(x.mode, y.mode))
	})
	return requests
}
