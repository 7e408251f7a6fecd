// Package check decides whether a history is what the contract of package storage
// allows: strictly serializable transactions, with clocks to match.
//
// It builds the graph that Adya's formalism (1999) and its practical descendants
// use: a node for each transaction that took effect, an edge wherever one of two
// must have come before the other.
//
//   - ww: b replaced what a wrote. A Replace or Delete has read what it replaces, so
//     the versions of a key form a chain that nobody has to guess. A Create begins an
//     incarnation, a Delete ends one.
//   - wr: b read what a wrote, or the absence that a left.
//   - rw: a read a version, or an absence, that b ended.
//   - rt: a had returned before b was called.
//
// A cycle refutes serializability, strict because of the rt edges. Without one, any
// topological order is a serial execution that explains every read.
//
// Two things have to be found out. Incarnations of one key are ordered by the commit
// times of their creates: the contract promises that the times of conflicting
// transactions agree with their order, so a wrong order is a violation just as a
// cycle is. And an absence does not say which deletion it follows: where the order
// of calls and the clocks leave several, the checker tries them (see place.go), and
// only if none fits there is a violation. So the answer is exact for this contract:
// what it reports is wrong in every possible order, and what it passes has an order
// that explains it.
//
// A history with unknown outcomes must end with reads of every key, so that whatever
// took effect shows.
//
// Peeks and candidates add no edges; that what they return was committed by
// somebody, and not replaced before they were asked, is checked in observe.go.
package check

import (
	"fmt"
	"slices"
	"strings"

	"github.com/seed4391e180/runlane/tests/histories/history"
)

// Violation is one thing that the contract does not allow.
type Violation struct {
	Kind         Kind
	Text         string // for people; several lines
	Transactions []int  // by ID, those concerned
}

// Kind names a kind of violation.
type Kind string

// The kinds.
const (
	Cycle        Kind = "cycle"             // no serial order: see the text for the edges
	LostUpdate   Kind = "lost update"       // two transactions replaced the same version
	TwoCreates   Kind = "two creates"       // of one key, and nobody deleted in between
	NoPlace      Kind = "no place"          // a read of an absence that fits nowhere
	AbortedRead  Kind = "aborted read"      // of what a transaction wrote that did not commit
	DirtyRead    Kind = "dirty read"        // of what was not committed yet
	Intermediate Kind = "intermediate read" // of what its own writer replaced before it committed
	DoubleEffect Kind = "double effect"     // two attempts of one transaction took effect
	Nowhere      Kind = "value from nowhere"
	StaleRead    Kind = "stale read" // of what had been replaced before the read began
	Unrepeatable Kind = "unrepeatable read"
	OwnWrite     Kind = "own write not seen"
	TornRecord   Kind = "torn record"
	WrongVersion Kind = "wrong version"
	Backwards    Kind = "clock running backwards"
	WrongTime    Kind = "wrong commit time"
	MissedEntry  Kind = "missed index entry"
	SharedClaim  Kind = "record claimed twice"
	BadStream    Kind = "stream out of order"
	StrangeError Kind = "strange error"
	Malformed    Kind = "malformed history" // the recorder's fault
	Undecided    Kind = "undecided"         // the checker gave up
)

// Report is the checker's answer.
type Report struct {
	Violations []Violation  // at most maxKept of a kind
	Counts     map[Kind]int // of all violations
	Nodes      int          // transactions that took effect, or whose reads were validated
	Edges      int
	Absences   int // reads of an absence that the clocks do not place
	Guesses    int // of these, how many were tried in several places
	Resolved   int // unknown outcomes that took effect
}

// OK reports whether there is nothing to complain about.
func (r *Report) OK() bool { return len(r.Violations) == 0 }

// Has reports whether there is a violation of that kind.
func (r *Report) Has(k Kind) bool {
	return slices.ContainsFunc(r.Violations, func(v Violation) bool { return v.Kind == k })
}

// String tells what kinds of violations there are, with the first few of each.
func (r *Report) String() string {
	if r.OK() {
		return fmt.Sprintf("no violation: %d transactions, %d dependencies, %d placed absences (%d guessed), %d unknown outcomes resolved",
			r.Nodes, r.Edges, r.Absences, r.Guesses, r.Resolved)
	}
	const shown = 3
	var b strings.Builder
	var kinds []Kind
	total := 0
	for _, v := range r.Violations {
		if !slices.Contains(kinds, v.Kind) {
			kinds = append(kinds, v.Kind)
			total += r.Counts[v.Kind]
		}
	}
	fmt.Fprintf(&b, "%d violations", total)
	for _, kind := range kinds {
		n := 0
		for _, v := range r.Violations {
			if v.Kind == kind && n < shown {
				fmt.Fprintf(&b, "\n%s: %s", kind, v.Text)
				n++
			}
		}
		if more := r.Counts[kind] - n; more > 0 {
			fmt.Fprintf(&b, "\n%s: %d more", kind, more)
		}
	}
	return b.String()
}

// maxKept bounds the violations of one kind that are kept: of a broken store there
// can be more of them than transactions.
const maxKept = 100

// checker is one check under way.
type checker struct {
	h      *history.History
	report *Report

	writes map[ref]*write
	items  map[string]*item // appended, by value
	nodes  []*node
	byTx   map[*history.Transaction]*node
	seenAt map[*history.Transaction]history.Clock // commit times as documents tell them
	chains map[string]*chain
	graph  *graph
}

// ref is one version of one key.
type ref struct{ key, value string }

// node is a transaction that took effect, or whose reads were validated.
type node struct {
	id       int // in the graph
	t        *history.Transaction
	accesses []*access
	byKey    map[string]*access
	writes   bool // it took effect; otherwise it only read
	now      history.Clock
	at       history.Clock // commit time
	returned history.Moment
}

// Check checks a history.
func Check(h *history.History) *Report {
	c := &checker{
		h: h, report: &Report{Counts: make(map[Kind]int)},
		writes: make(map[ref]*write), items: make(map[string]*item),
		byTx: make(map[*history.Transaction]*node), seenAt: make(map[*history.Transaction]history.Clock),
	}
	c.errors()
	c.learnWrites()
	c.learnItems()
	c.resolve()
	c.observe()
	c.checkVersions()
	for _, kind := range []Kind{AbortedRead, DoubleEffect, Intermediate, Nowhere, Malformed} {
		if c.report.Has(kind) {
			return c.report // no order explains these, and much would follow from them
		}
	}
	c.makeNodes()
	c.makeChains()
	c.makeGraph()
	c.clocks()
	if !c.cycles() {
		c.place()
	}
	c.stale()
	c.pages()
	c.claims()
	c.streams()
	c.report.Nodes, c.report.Edges = len(c.nodes), len(c.graph.edges)
	return c.report
}

func (c *checker) violate(kind Kind, ts []*history.Transaction, format string, args ...any) {
	if c.report.Counts[kind]++; c.report.Counts[kind] > maxKept {
		return
	}
	ids := make([]int, 0, len(ts))
	for _, t := range ts {
		if t != nil {
			ids = append(ids, t.ID)
		}
	}
	c.report.Violations = append(c.report.Violations, Violation{Kind: kind, Text: fmt.Sprintf(format, args...), Transactions: ids})
}

// errors looks for errors that the contract does not name for what was called.
func (c *checker) errors() {
	for _, t := range c.h.Transactions {
		if t.Strange {
			c.violate(StrangeError, []*history.Transaction{t}, "%s ended with: %s", name(t), t.Error)
		}
	}
}

// name names a transaction in a text.
func name(t *history.Transaction) string {
	if t == nil {
		return "a transaction of unknown outcome"
	}
	return fmt.Sprintf("#%d (client %d, op %d, %s, %s)", t.ID, t.Client, t.Op, t.Label, t.Outcome)
}

// show shows a version in a text.
func show(value string) string {
	if value == "" {
		return "absent"
	}
	return value
}
