// Package history is the account of a run of concurrent clients against a store:
// what each transaction asked, what it was told, and when. It knows no store and
// judges nothing; package record writes it, package check reads it.
package history

import "slices"

// History is one run.
type History struct {
	About       string // what ran where, for people
	Seed        uint64
	MaxAttempts int
	// Faults says that connections were broken or servers stopped, so that the store
	// may have been unable to validate what a refused transaction read.
	Faults bool
	// Settled is a moment after which no transaction of the run can take effect any
	// more, whatever its client was told; 0 if there is none.
	Settled      Moment
	Transactions []*Transaction
}

// Moment is a time on the recorder's monotonic clock, in nanoseconds since the run began.
type Moment int64

// Clock is a time that the store told, in microseconds since the Unix epoch; 0 is none.
type Clock int64

// Outcome is what a client knows about its transaction.
type Outcome string

// The outcomes.
const (
	Committed Outcome = "committed"
	// Refused transactions ended with an error of their own callback. What they read
	// was validated unless something kept the store from it.
	Refused Outcome = "refused"
	// Failed transactions were given up by the store or by their client before they
	// took effect.
	Failed Outcome = "failed"
	// Unknown transactions took effect once or not at all.
	Unknown Outcome = "unknown"
)

// Transaction is one call of Transact.
type Transaction struct {
	ID       int
	Client   int
	Op       int // which transaction of its client
	Label    string
	Call     Moment
	Return   Moment
	Outcome  Outcome
	Error    string `json:",omitempty"`
	Strange  bool   `json:",omitempty"` // the contract has no such error, or not here
	Canceled bool   `json:",omitempty"` // the client's context ended, or might have ended, on the way
	Trips    int    `json:",omitempty"`
	Time     Clock  `json:",omitempty"` // Commit.Time
	Versions map[string]int64
	Appended []Span `json:",omitempty"`
	Attempts []*Attempt
}

// Span is where the items of one stream went.
type Span struct {
	Head        string // the key of the head
	First, Last int64
}

// Attempt is one run of the callback.
type Attempt struct {
	Call, Return Moment
	Ops          []*Operation
}

// Kind is what an operation did.
type Kind string

// The kinds.
const (
	Get       Kind = "get" // Get and GetMany
	Assume    Kind = "assume"
	Peek      Kind = "peek"
	Query     Kind = "query"     // a page of candidates
	Exclusive Kind = "exclusive" // a locked page
	Now       Kind = "now"
	Create    Kind = "create"
	Replace   Kind = "replace"
	Delete    Kind = "delete"
	Append    Kind = "append"
	Wake      Kind = "wake"
)

// Operation is one call of a method of Tx.
type Operation struct {
	Kind         Kind
	Call, Return Moment
	Error        string   `json:",omitempty"`
	Exists       bool     `json:",omitempty"` // a Create was told that the record exists
	ReadOnly     bool     `json:",omitempty"`
	Reads        []Read   `json:",omitempty"` // what it returned
	Key          string   `json:",omitempty"` // what it wrote
	Value        string   `json:",omitempty"` // what it wrote there
	Index        string   `json:",omitempty"` // of a query; of a write: where its record has an entry
	Whole        bool     `json:",omitempty"` // the page holds all there is in the index
	Items        []string `json:",omitempty"`
	Time         Clock    `json:",omitempty"` // what Now returned
}

// Read is one record that was returned, or its absence.
type Read struct {
	Key     string
	Value   string `json:",omitempty"` // unique among all writes of the history; "" is absent
	Version int64  `json:",omitempty"`
	At      Clock  `json:",omitempty"` // the time that the commit filled into the document
	Torn    string `json:",omitempty"` // in what the parts of the document disagree
}

// Last is the attempt that decides; nil if the callback never ran.
func (t *Transaction) Last() *Attempt {
	if len(t.Attempts) == 0 {
		return nil
	}
	return t.Attempts[len(t.Attempts)-1]
}

// Append adds transactions and numbers them in the order of their calls.
func (h *History) Append(ts ...*Transaction) {
	h.Transactions = append(h.Transactions, ts...)
	slices.SortStableFunc(h.Transactions, func(a, b *Transaction) int { return int(a.Call - b.Call) })
	for i, t := range h.Transactions {
		t.ID = i
	}
}

// Count is how many transactions ended in an outcome, and in how many attempts.
func (h *History) Count(o Outcome) (transactions, attempts int) {
	for _, t := range h.Transactions {
		if t.Outcome == o {
			transactions++
			attempts += len(t.Attempts)
		}
	}
	return transactions, attempts
}
