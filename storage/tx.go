package storage

import (
	"context"
	"encoding/json"
	"time"
)

// Transactor runs transactions.
type Transactor interface {
	// Transact runs fn in a transaction and commits what it staged. fn may run
	// again, in a new attempt: when something it depended on changed, when a lock was
	// busy, when the database asked for it. So fn must not do external effects, call
	// user code, draw random identifiers or start another transaction on the same
	// driver (which fails with ErrNestedTransaction under the context that fn gets).
	//
	// label is a short constant such as "run.claim". It names the transaction in
	// errors, logs and traces.
	//
	// A panic of fn passes through; nothing is stored and nothing stays locked.
	//
	// An error of fn is returned as it is, unwrapped, and nothing is stored. If fn
	// had made two or more separate reads, or assumed something, its error is
	// returned only if what it read was true at one moment; otherwise fn runs again.
	// The same holds for a transaction that only reads.
	//
	// Errors: ErrConflict when the attempts are used up, ErrDuplicateActive,
	// ErrCommitUnknown, ErrUnavailable, ErrConfiguration, ErrTooMany, ErrTooLarge,
	// ErrClosed, and what the methods of Tx returned. Cancelling ctx ends the
	// transaction at once until its commit has been sent; after that it bounds the
	// wait for the outcome.
	Transact(ctx context.Context, label string, fn func(ctx context.Context, tx Tx) error) (Commit, error)
}

// Tx is one attempt of a transaction. It may be used by one goroutine at a time
// and not after the callback has returned (ErrClosed). When a method fails, the
// attempt can no longer commit, whatever the callback returns, except for the
// errors of misuse and refused input, which leave the transaction as it was:
// ErrRecordExists, ErrRecordNotRead, ErrReadOnlyKey, ErrSealed, ErrInvalidKey,
// ErrInvalidDocument, ErrInvalidQuery, ErrAppendJoined, ErrTooLarge and ErrTooMany.
type Tx interface {
	// Get reads one record. found is false if there is none. Either way the
	// transaction depends on what it saw: it commits only if that still holds. Get
	// sees what the transaction itself has staged.
	Get(ctx context.Context, key Key, mode ...ReadMode) (rec Record, found bool, err error)

	// GetMany is Get for any mix of keys, in one round trip. Absent records are
	// missing from the map. A key may occur twice.
	GetMany(ctx context.Context, keys []Key, mode ...ReadMode) (map[Key]Record, error)

	// Peek is GetMany without a dependency: for choosing what to try before a
	// conditional write decides. It sees neither staged writes nor cached reads, and
	// is legal after Now.
	Peek(ctx context.Context, keys []Key) (map[Key]Record, error)

	// Assume offers rec, as it was read earlier and unmodified, or as an earlier
	// transaction wrote it with the version that its Commit reports, in place of a read.
	// On a first attempt it is used without a round trip and becomes a dependency; on
	// later attempts the record is really read. The result is what to use: it may
	// differ from rec, or be absent. A record that was read already is returned as read.
	// One without a version was never read and is ErrInvalidKey.
	Assume(ctx context.Context, rec Record) (now Record, found bool, err error)

	// AssumeAbsent is Assume for a record that is expected to be absent.
	AssumeAbsent(ctx context.Context, key Key) (now Record, found bool, err error)

	// Query returns one page of candidates from a named index. See [Query].
	Query(ctx context.Context, q Query) (Page, error)

	// Now seals the read set: it locks what was read and staged, checks that it is
	// unchanged, and only then reads the database's clock. Later calls return the
	// same time. After it, reading a key that was not read before is ErrSealed;
	// queries and writes stay legal. If an exclusive query was the first thing the
	// transaction did and it has read nothing since but further such pages, Now
	// returns the last page's time without a round trip.
	Now(ctx context.Context) (time.Time, error)

	// Create stages a record that must be absent. ErrRecordExists if the transaction
	// has seen it present.
	Create(ctx context.Context, rec Record) error

	// Replace stages a new document and new entries for a record that the
	// transaction has read present, by Get, GetMany, Assume or an exclusive query;
	// otherwise it is ErrRecordNotRead, or ErrReadOnlyKey for a read-only read.
	Replace(ctx context.Context, rec Record) error

	// Delete stages the removal of a record, under the conditions of Replace.
	Delete(ctx context.Context, key Key) error

	// Append stages items for the end of an ordered stream, named by the key of its
	// head (of the collection ObservationHeads). An item is any JSON value. When the
	// transaction commits, the items get contiguous positions behind the last one of
	// the stream, beginning at 1, in the order in which they were staged, and become
	// records of the collection ObservationRecords. A transaction that does not commit
	// leaves no gap, and whoever reads a stream by position never passes one that
	// commits later. The items' time is read after the head is locked, so it never
	// falls along a stream.
	//
	// The head is locked last, immediately before the commit, and waited for. It is an
	// ordinary record: the transaction may read it, and then depends on it. Errors:
	// ErrInvalidKey for the key of no head, ErrReadOnlyKey for a head that was read as
	// read-only, ErrInvalidDocument, ErrTooLarge and ErrTooMany for the items,
	// ErrAppendJoined where the transaction is part of another. A head that holds a
	// document this version does not know makes the commit fail with
	// ErrInvalidDocument. No items are no error and do nothing.
	Append(ctx context.Context, head Key, items ...json.RawMessage) error

	// Wake stages a hint for whoever listens to the topic; the same topic twice is
	// one hint. A hint may be lost; polling guarantees the work. ErrTooLarge for
	// a topic over the limit, ErrInvalidKey for one that is empty or holds NUL or
	// invalid UTF-8.
	Wake(topic string) error
}

// ReadMode changes how a key is read.
type ReadMode uint8

// ReadOnly promises that the transaction will not write the key, so that it can
// be locked shared. Writing it all the same is ErrReadOnlyKey. It says nothing of a
// key that the transaction has written or appended to before: that stays writable.
const ReadOnly ReadMode = 1

// Commit reports what Transact did.
//
// When the connection dies after a commit was sent, a driver may find out later
// that it took effect. Transact then succeeds like any other time, but Time is zero.
type Commit struct {
	Versions   map[Key]Version // of every record that was created or replaced, but the heads of Appended
	Appended   []Appended      // where appended items went, in the order of the first Append to each stream
	Time       time.Time       // what the marks were replaced with; zero if nothing was written, or if its answer was lost (see below)
	Attempts   int             // how often the callback ran, from 1
	RoundTrips int             // network round trips of all attempts; 0 where there is no network
}

// Appended is where the items of one stream went: to the positions First to Last,
// without a gap.
type Appended struct {
	Head        Key
	First, Last int64
}

// Transact is Transactor.Transact for a callback that returns a value. A replay
// starts from nothing, so no variable of an earlier attempt can leak into the result.
func Transact[T any](ctx context.Context, t Transactor, label string, fn func(ctx context.Context, tx Tx) (T, error)) (T, Commit, error) {
	var result T
	commit, err := t.Transact(ctx, label, func(ctx context.Context, tx Tx) error {
		v, err := fn(ctx, tx)
		result = v
		return err
	})
	if err != nil {
		var none T
		return none, commit, err
	}
	return result, commit, nil
}
