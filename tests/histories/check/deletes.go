package check

import (
	"cmp"
	"math"
	"slices"

	"github.com/seed4391e180/runlane/tests/histories/history"
)

// A transaction of unknown outcome that only deletes leaves nothing that anybody
// could read. It is looked for where a record must have been deleted although nobody
// is known to have done it.

// resolveDelete finds one such record that only one transaction can have deleted,
// and takes it that this one took effect.
func (c *checker) resolveDelete() (found bool) {
	return c.eachVanished(func(ch *chain, seg *segment) bool {
		could := c.couldDelete(ch.key, seg.last)
		if len(could) != 1 {
			return false
		}
		c.report.Resolved++
		c.link(c.addNode(could[0], true))
		return true
	})
}

// assumeDeletes deals with what is left: records that one of several transactions
// deleted. Somebody did, and nothing else is taken to be known of whoever did.
func (c *checker) assumeDeletes() {
	var somebody []*node
	c.eachVanished(func(ch *chain, seg *segment) bool {
		could := c.couldDelete(ch.key, seg.last)
		if len(could) == 0 {
			return false // checkChain or place complains
		}
		first := slices.MinFunc(could, func(a, b *history.Transaction) int { return cmp.Compare(a.Call, b.Call) })
		t := &history.Transaction{ID: first.ID, Client: -1, Label: "one of several deletes", Outcome: history.Unknown, Call: first.Call}
		n := &node{t: t, writes: true, returned: c.latest(first.Return)}
		n.accesses = []*access{{key: ch.key, known: true, base: seg.last, wrote: true}}
		somebody = append(somebody, n)
		return false
	})
	for _, n := range somebody {
		c.report.Resolved++
		n.id = len(c.nodes)
		c.nodes = append(c.nodes, n)
		c.link(n)
	}
	c.sortChains()
}

// eachVanished visits the incarnations that must have ended although nobody is known
// to have ended them, until visit says that it has changed something.
func (c *checker) eachVanished(visit func(*chain, *segment) bool) (changed bool) {
	for _, ch := range c.sortedChains() {
		for i, seg := range ch.segments {
			if seg.end == nil && ch.gone(i) && visit(ch, seg) {
				return true
			}
		}
	}
	return false
}

// gone reports whether an incarnation must have ended: there is a later one, or
// somebody found the key absent who was called after somebody had finished with it.
func (ch *chain) gone(i int) bool {
	if i < len(ch.segments)-1 {
		return true
	}
	seg := ch.segments[i]
	present := seg.create.n.returned
	if w := ch.readers[seg.last]; len(w) > 0 {
		present = math.MaxInt64
		for _, s := range w {
			present = min(present, s.n.returned)
		}
	} else if writer := ch.writerOf(seg); writer != nil {
		present = writer.n.returned
	}
	return slices.ContainsFunc(ch.absent, func(s *step) bool { return s.n.t.Call > present })
}

// writerOf is who wrote the last value of an incarnation.
func (ch *chain) writerOf(seg *segment) *step {
	if seg.create.a.after == seg.last {
		return seg.create
	}
	for _, next := range ch.byBase {
		for _, s := range next {
			if s.a.after == seg.last {
				return s
			}
		}
	}
	return nil
}

// couldDelete lists the transactions of unknown outcome that only deleted, a version
// among others, and may have taken effect: all that they deleted is gone, and nobody
// else is known to have done it.
func (c *checker) couldDelete(key, value string) []*history.Transaction {
	var could []*history.Transaction
	for _, t := range c.h.Transactions {
		if t.Outcome != history.Unknown || c.effective(t) || t.Last() == nil {
			continue
		}
		quiet := &checker{h: c.h, report: &Report{Counts: make(map[Kind]int)}}
		accesses, byKey, _ := quiet.accesses(t, t.Last())
		if a := byKey[key]; a == nil || !a.changes() || a.base != value || a.after != "" {
			continue
		}
		if !slices.ContainsFunc(accesses, func(a *access) bool { return a.changes() && !c.vanished(a) }) {
			could = append(could, t)
		}
	}
	return could
}

// vanished reports whether an access deletes what is gone by nobody's known doing.
func (c *checker) vanished(a *access) bool {
	ch := c.chains[a.key]
	if a.after != "" || ch == nil || len(ch.byBase[a.base]) > 0 {
		return false
	}
	seg := ch.segmentOf[a.base]
	return seg != nil && seg.end == nil && ch.gone(slices.Index(ch.segments, seg))
}
