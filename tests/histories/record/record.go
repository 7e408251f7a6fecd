// Package record runs transactions and writes down what they did and saw.
package record

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/tests/histories/history"
)

// ErrRefused is what a callback returns when it refuses its transaction.
var ErrRefused = errors.New("refused by the script")

// Recorder makes one history. Its methods may be called concurrently.
type Recorder struct {
	start time.Time
	pairs map[storage.Key]*Pair // by both keys

	mu      sync.Mutex
	history history.History
	done    []*history.Transaction
}

// New begins a history; about has everything but the transactions. Records of pairs
// are canonical.
func New(about history.History, pairs []*Pair) *Recorder {
	about.Transactions = nil
	r := &Recorder{start: time.Now(), history: about, pairs: make(map[storage.Key]*Pair)}
	for _, p := range pairs {
		r.pairs[p.Run], r.pairs[p.Event] = p, p
	}
	return r
}

func (r *Recorder) now() history.Moment { return history.Moment(time.Since(r.start)) }

// Settle notes that from now on no transaction of the history takes effect any more,
// but those that are still to be called.
func (r *Recorder) Settle() {
	now := r.now()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.history.Settled = now
}

// History returns the history so far. Nothing may be running.
func (r *Recorder) History() *history.History {
	r.mu.Lock()
	defer r.mu.Unlock()
	h := r.history
	h.Append(r.done...)
	return &h
}

// Call names a transaction.
type Call struct {
	Client, Op int
	Label      string
	Canceled   bool // its context may end on the way
}

// Transact runs a transaction and records it. view is what the last attempt knew,
// for whoever wants to assume it later.
func (r *Recorder) Transact(ctx context.Context, store storage.Transactor, call Call, fn func(context.Context, *Tx) error) (commit storage.Commit, view map[storage.Key]*Seen, err error) {
	t := &history.Transaction{Client: call.Client, Op: call.Op, Label: call.Label, Canceled: call.Canceled}
	var last *Tx
	t.Call = r.now()
	commit, err = store.Transact(ctx, "history."+call.Label, func(ctx context.Context, tx storage.Tx) error {
		a := &history.Attempt{Call: r.now()}
		t.Attempts = append(t.Attempts, a)
		last = &Tx{tx: tx, recorder: r, attempt: a, call: call, number: len(t.Attempts), view: make(map[storage.Key]*Seen)}
		err := fn(ctx, last)
		a.Return = r.now()
		return err
	})
	t.Return = r.now()
	r.outcome(t, commit, err)
	r.mu.Lock()
	r.done = append(r.done, t)
	r.mu.Unlock()
	if last != nil {
		view = last.view
	}
	return commit, view, err
}

// outcome notes how a transaction ended.
func (r *Recorder) outcome(t *history.Transaction, commit storage.Commit, err error) {
	t.Trips = commit.RoundTrips
	if err == nil {
		t.Outcome = history.Committed
		t.Strange = commit.Attempts != len(t.Attempts)
		if !commit.Time.IsZero() {
			t.Time = history.Clock(commit.Time.UnixMicro())
		}
		t.Versions = make(map[string]int64, len(commit.Versions))
		for key, version := range commit.Versions {
			t.Versions[Name(key)] = version.Int64()
		}
		for _, a := range commit.Appended {
			t.Appended = append(t.Appended, history.Span{Head: Name(a.Head), First: a.First, Last: a.Last})
		}
		if t.Strange {
			t.Error = "the commit counts other attempts than there were"
		}
		return
	}
	t.Error = err.Error()
	quiet := !r.history.Faults && !t.Canceled // nothing was done to the transaction
	switch {
	case errors.Is(err, storage.ErrCommitUnknown):
		t.Outcome, t.Strange = history.Unknown, quiet
	case errors.Is(err, ErrRefused), errors.Is(err, storage.ErrRecordExists):
		t.Outcome = history.Refused
	case errors.Is(err, storage.ErrConflict):
		t.Outcome = history.Failed
	case errors.Is(err, storage.ErrUnavailable):
		t.Outcome, t.Strange = history.Failed, quiet
	case errors.Is(err, context.Canceled):
		t.Outcome, t.Strange = history.Failed, !t.Canceled
	default:
		t.Outcome, t.Strange = history.Failed, true
	}
}
