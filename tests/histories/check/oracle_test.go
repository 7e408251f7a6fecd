package check_test

import (
	"maps"
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/seed4391e180/runlane/tests/histories/check"
	"github.com/seed4391e180/runlane/tests/histories/history"
)

// oracle decides a small history by trying every order. It shares nothing with the
// checker but the history.
type oracle struct {
	all      []*participant
	after    [][]bool // after[a][b]: b must not come before a
	settled  history.Moment
	optional []int // those of unknown outcome of which nobody was told anything
}

// participant is a transaction that has, or may have, a place in the order.
type participant struct {
	t        *history.Transaction
	ops      []*history.Operation
	writes   bool
	at       history.Clock
	returned history.Moment
	reads    map[string]bool // keys it depends on
	changed  map[string]bool // keys it changes
}

func newOracle(h *history.History) *oracle {
	o := &oracle{settled: h.Settled}
	for _, t := range h.Transactions {
		p := &participant{t: t, ops: t.Last().Ops, at: t.Time, returned: t.Return, reads: map[string]bool{}, changed: map[string]bool{}}
		switch t.Outcome {
		case history.Committed:
			p.writes = true
		case history.Refused:
			p.at = 0
		case history.Unknown:
			p.writes, p.returned = true, math.MaxInt64
			if o.settled != 0 {
				p.returned = o.settled
			}
			if !told(h, t) {
				o.optional = append(o.optional, len(o.all))
			}
		default:
			continue
		}
		p.footprint()
		o.all = append(o.all, p)
	}
	for _, a := range o.all {
		row := make([]bool, len(o.all))
		for j, b := range o.all {
			row[j] = a.returned < b.t.Call || a.at != 0 && b.at != 0 && a.at < b.at && a.conflicts(b)
		}
		o.after = append(o.after, row)
	}
	return o
}

// told reports whether some other transaction, whatever became of it, was told of
// something that t wrote.
func told(h *history.History, t *history.Transaction) bool {
	values := map[string]bool{}
	for _, op := range t.Last().Ops {
		if op.Value != "" {
			values[op.Value] = true
		}
	}
	for _, other := range h.Transactions {
		for _, op := range other.Last().Ops {
			for _, r := range op.Reads {
				if other != t && values[r.Value] {
					return true
				}
			}
		}
	}
	return false
}

func (p *participant) footprint() {
	first, last, values := map[string]string{}, map[string]string{}, false
	for _, op := range p.ops {
		for _, r := range op.Reads {
			if _, staged := last[r.Key]; !staged {
				p.reads[r.Key] = true
				if _, known := first[r.Key]; !known {
					first[r.Key] = r.Value
				}
			}
		}
		if op.Key != "" && p.writes {
			p.reads[op.Key] = true // a create depends on the absence
			last[op.Key] = op.Value
		}
	}
	for key, value := range last {
		if value != "" || first[key] != "" {
			p.changed[key] = true
		}
		values = values || value != ""
	}
	if p.t.Outcome == history.Unknown && !values {
		p.at = 0 // nobody was ever told the time of a delete
	}
}

func (p *participant) conflicts(q *participant) bool {
	for key := range p.reads {
		if q.changed[key] || p.changed[key] && q.reads[key] {
			return true
		}
	}
	return false
}

// run executes the participant; ok is false if it could not have been told what it
// was told.
func (p *participant) run(state map[string]string) (after map[string]string, ok bool) {
	after = maps.Clone(state)
	for _, op := range p.ops {
		for _, r := range op.Reads {
			if after[r.Key] != r.Value {
				return nil, false
			}
		}
		switch op.Kind {
		case history.Create:
			if p.writes && after[op.Key] != "" {
				return nil, false
			}
			after[op.Key] = op.Value
		case history.Replace, history.Delete:
			after[op.Key] = op.Value
		}
	}
	if !p.writes {
		return state, true
	}
	return after, true
}

// possible reports whether some order, with some of the unknown ones, explains all.
func (o *oracle) possible() bool {
	for subset := range 1 << len(o.optional) {
		left := make([]bool, len(o.all))
		n := 0
		for i := range o.all {
			left[i] = true
			n++
		}
		for bit, i := range o.optional {
			if subset&(1<<bit) == 0 {
				left[i] = false
				n--
			}
		}
		if o.extend(left, n, map[string]string{}) {
			return true
		}
	}
	return false
}

func (o *oracle) extend(left []bool, n int, state map[string]string) bool {
	if n == 0 {
		return true
	}
next:
	for i, p := range o.all {
		if !left[i] {
			continue
		}
		for j := range o.all {
			if left[j] && j != i && o.after[j][i] {
				continue next
			}
		}
		after, ok := p.run(state)
		if !ok {
			continue
		}
		left[i] = false
		if o.extend(left, n-1, after) {
			left[i] = true
			return true
		}
		left[i] = true
	}
	return false
}

// TestAgainstEveryOrder spoils small serial histories, mostly a little, and compares
// the checker's verdict with that of trying every order. Both verdicts must occur.
func TestAgainstEveryOrder(t *testing.T) {
	verdicts, kinds := map[bool]int{}, map[check.Kind]int{}
	rapid.Check(t, func(t *rapid.T) {
		e := newExecutor(t, rapid.IntRange(1, 3).Draw(t, "keys"), false)
		e.lossy = rapid.Bool().Draw(t, "lossy")
		n := rapid.IntRange(2, 7).Draw(t, "transactions")
		for i := range n {
			e.transaction(i)
		}
		if e.lossy {
			e.finale(n)
		}
		for range rapid.IntRange(0, 2).Draw(t, "spoilt") {
			e.spoil()
		}
		possible := newOracle(e.s.h).possible()
		report := check.Check(e.s.finish())
		passes := true
		for _, v := range report.Violations {
			passes = passes && v.Kind == check.StaleRead // of transactions that have no place in an order
			kinds[v.Kind]++
		}
		verdicts[possible]++
		if possible != passes {
			t.Fatalf("an order exists: %v; the checker says: %s\n%s", possible, report, tell(e.s.h))
		}
	})
	if verdicts[true] < 10 || verdicts[false] < 10 {
		t.Fatalf("too few histories of one kind: %v", verdicts)
	}
	t.Logf("%d histories with an order, %d without; violations: %v", verdicts[true], verdicts[false], kinds)
}

// spoil changes what one transaction was told: the version that it read, or the time.
func (e *executor) spoil() {
	t := e.s.h.Transactions[e.draw(len(e.s.h.Transactions))]
	if t.Outcome != history.Committed && t.Outcome != history.Refused || len(t.Last().Ops) == 0 {
		return
	}
	if t.Time != 0 && e.draw(3) == 0 {
		t.Time = max(1, t.Time+history.Clock(e.draw(7)-3))
		return
	}
	var values []string
	written := map[string]bool{}
	for _, op := range t.Last().Ops {
		written[op.Key] = true
	}
	op := t.Last().Ops[e.draw(len(t.Last().Ops))]
	if len(op.Reads) == 0 {
		return
	}
	r := &op.Reads[0]
	if written[r.Key] && r.Value == "" {
		return // it goes on to create the key
	}
	for _, other := range e.s.h.Transactions {
		for _, op := range other.Last().Ops {
			if op.Key == r.Key && op.Value != "" && op.Kind != history.Delete {
				values = append(values, op.Value)
			}
		}
	}
	if !written[r.Key] {
		values = append(values, "")
	}
	if len(values) > 0 {
		r.Value = values[e.draw(len(values))]
	}
}
