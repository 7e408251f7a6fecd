package check

import (
	"cmp"
	"math"
	"slices"

	"github.com/seed4391e180/runlane/tests/histories/history"
)

// chain is the life of one key.
type chain struct {
	key       string
	byBase    map[string][]*step // writes by what they replace, in the order of commit times; creates are in creates
	creates   []*step
	readers   map[string][]*step // reads of a version
	absent    []*step            // reads of an absence, by transactions that do not create the key
	exists    []*step            // transactions that were told that there is some record
	segments  []*segment         // incarnations in their order
	segmentOf map[string]*segment
}

// step is what one transaction had to do with a key.
type step struct {
	n *node
	a *access
}

// segment is one incarnation of a key: from a Create to a Delete.
type segment struct {
	create *step
	last   string // the last value
	end    *step  // the Delete; nil if there is none
	told   *step  // of the writers up to its end, the one who was told the latest time
}

// makeNodes makes a node of every transaction that took effect, and of every refused
// one whose reads were validated.
func (c *checker) makeNodes() {
	for _, t := range c.h.Transactions {
		_, effective := c.byTx[t]
		if effective && t.Last() != nil {
			c.addNode(t, true)
		} else if c.validated(t) {
			c.addNode(t, false)
		}
	}
}

// validated reports whether what a refused transaction read must have been true at
// one moment: the contract excepts attempts that were used up, and validations that
// could not run. A store may have attempts that did not come as far as the callback,
// so half of them are left for these.
func (c *checker) validated(t *history.Transaction) bool {
	return t.Outcome == history.Refused && !c.h.Faults && !t.Canceled && t.Last() != nil && len(t.Attempts) <= c.h.MaxAttempts/2
}

func (c *checker) addNode(t *history.Transaction, writes bool) *node {
	n := &node{id: len(c.nodes), t: t, writes: writes, returned: t.Return, at: t.Time}
	n.accesses, n.byKey, n.now = c.accesses(t, t.Last())
	if t.Outcome == history.Unknown {
		n.returned = c.latest(t.Return)
	}
	if writes {
		n.takeAppends()
		if n.at == 0 {
			n.at = c.seenAt[t]
		}
	}
	c.byTx[t] = n
	c.nodes = append(c.nodes, n)
	return n
}

// latest is when a transaction of unknown outcome took effect at the latest.
func (c *checker) latest(returned history.Moment) history.Moment {
	if c.h.Settled == 0 {
		return math.MaxInt64
	}
	return max(c.h.Settled, returned)
}

// told is the latest time that the transaction was told.
func (n *node) told() history.Clock {
	if n.at != 0 {
		return n.at
	}
	return n.now
}

// lockedBefore is the earliest time that it was told after it had locked a key; 0 if
// there is none.
func (s *step) lockedBefore() history.Clock {
	switch {
	case s.a.stream:
		return 0
	case s.a.sealed && s.n.now != 0:
		return s.n.now
	}
	return s.n.at
}

// makeChains puts the writes of each key in order.
func (c *checker) makeChains() {
	c.chains = make(map[string]*chain)
	for _, n := range c.nodes {
		c.link(n)
	}
	c.sortChains()
	for c.resolveDelete() {
		c.sortChains()
	}
	c.assumeDeletes()
	for _, ch := range c.sortedChains() {
		c.checkChain(ch)
	}
}

func (c *checker) sortChains() {
	for _, ch := range c.sortedChains() {
		ch.sort()
	}
}

func (c *checker) sortedChains() []*chain {
	all := make([]*chain, 0, len(c.chains))
	for _, ch := range c.chains {
		all = append(all, ch)
	}
	slices.SortFunc(all, func(a, b *chain) int { return cmp.Compare(a.key, b.key) })
	return all
}

func (c *checker) chain(key string) *chain {
	ch := c.chains[key]
	if ch == nil {
		ch = &chain{key: key, byBase: make(map[string][]*step), readers: make(map[string][]*step)}
		c.chains[key] = ch
	}
	return ch
}

// link enters the accesses of a node into the chains.
func (c *checker) link(n *node) {
	for _, a := range n.accesses {
		ch, s := c.chain(a.key), &step{n, a}
		switch {
		case n.writes && a.changes() && a.base == "":
			ch.creates = append(ch.creates, s)
		case n.writes && a.changes():
			ch.byBase[a.base] = append(ch.byBase[a.base], s)
			ch.readers[a.base] = append(ch.readers[a.base], s)
		case a.known && a.base != "":
			ch.readers[a.base] = append(ch.readers[a.base], s)
		case a.known && (n.writes || a.read):
			ch.absent = append(ch.absent, s)
		}
		if a.exists && !a.known {
			ch.exists = append(ch.exists, s)
		}
	}
}

// sort makes the incarnations.
func (ch *chain) sort() {
	order := func(a, b *step) int {
		if a.n.at != 0 && b.n.at != 0 && a.n.at != b.n.at {
			return cmp.Compare(a.n.at, b.n.at)
		}
		switch {
		case a.n.returned < b.n.t.Call:
			return -1
		case b.n.returned < a.n.t.Call:
			return 1
		}
		return cmp.Compare(a.n.t.Call, b.n.t.Call)
	}
	slices.SortStableFunc(ch.creates, order)
	ch.segments, ch.segmentOf = nil, make(map[string]*segment)
	for _, create := range ch.creates {
		seg := &segment{create: create, last: create.a.after}
		for seg.end == nil && ch.segmentOf[seg.last] == nil {
			ch.segmentOf[seg.last] = seg
			next := ch.byBase[seg.last]
			if len(next) == 0 {
				break
			}
			slices.SortStableFunc(next, order)
			if next[0].a.after == "" {
				seg.end = next[0]
			} else {
				seg.last = next[0].a.after
			}
		}
		ch.segments = append(ch.segments, seg)
	}
}

// checkChain looks for what no order could explain.
func (c *checker) checkChain(ch *chain) {
	for base, next := range ch.byBase {
		for _, s := range next[1:] {
			c.violate(LostUpdate, []*history.Transaction{next[0].n.t, s.n.t}, "%s and %s both replaced %s = %s, by %s and by %s",
				name(next[0].n.t), name(s.n.t), ch.key, base, show(next[0].a.after), show(s.a.after))
		}
	}
	for i, seg := range ch.segments {
		if seg.end == nil && i < len(ch.segments)-1 {
			next := ch.segments[i+1].create
			c.violate(TwoCreates, []*history.Transaction{seg.create.n.t, next.n.t}, "%s created %s (its last value is %s) and %s created it again, and nobody deleted it in between",
				name(seg.create.n.t), ch.key, seg.last, name(next.n.t))
		}
	}
}
