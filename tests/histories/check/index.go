package check

import "github.com/seed4391e180/runlane/tests/histories/history"

// pages checks the index: a page that holds all there is holds every record that was
// committed before it was asked for and not touched before it was answered; and no
// page holds a record twice.
func (c *checker) pages() {
	type entry struct {
		key      string
		from, to history.Moment // committed at the latest, replaced at the earliest
		value    string
	}
	entries := make(map[string][]entry)
	for _, ch := range c.sortedChains() {
		for _, w := range ch.writersByValue() {
			if w.a.index == "" {
				continue
			}
			e := entry{key: ch.key, from: w.n.returned, to: 1<<63 - 1, value: w.a.after}
			for _, next := range ch.byBase[w.a.after] {
				e.to = min(e.to, next.n.t.Call)
			}
			if e.from < e.to {
				entries[w.a.index] = append(entries[w.a.index], e)
			}
		}
	}
	for _, t := range c.h.Transactions {
		for _, a := range t.Attempts {
			for _, op := range a.Ops {
				if op.Kind != history.Query && op.Kind != history.Exclusive || op.Error != "" {
					continue
				}
				held := make(map[string]bool, len(op.Reads))
				for _, r := range op.Reads {
					if held[r.Key] {
						c.violate(MissedEntry, []*history.Transaction{t}, "%s was told of %s twice in one page", name(t), r.Key)
					}
					held[r.Key] = true
				}
				if op.Kind != history.Query || !op.Whole {
					continue
				}
				for _, e := range entries[op.Index] {
					if e.from < op.Call && op.Return < e.to && !held[e.key] {
						c.violate(MissedEntry, []*history.Transaction{t}, "%s asked %s for everything and was not told of %s = %s, committed before and not replaced until after", name(t), op.Index, e.key, e.value)
					}
				}
			}
		}
	}
}

// claims checks that what one transaction holds by an exclusive query is given to
// nobody else until it ends. Only holders that committed count: what others held
// may have been lost with their connections.
func (c *checker) claims() {
	type hold struct {
		t        *history.Transaction
		from, to history.Moment
	}
	holds := make(map[string][]hold)
	for _, n := range c.nodes {
		if !n.writes || n.t.Last() == nil {
			continue
		}
		for _, op := range n.t.Last().Ops {
			if op.Kind == history.Exclusive && op.Error == "" {
				for _, r := range op.Reads {
					holds[r.Key] = append(holds[r.Key], hold{n.t, op.Return, n.t.Last().Return})
				}
			}
		}
	}
	for _, t := range c.h.Transactions {
		for _, a := range t.Attempts {
			for _, op := range a.Ops {
				if op.Kind != history.Exclusive || op.Error != "" {
					continue
				}
				for _, r := range op.Reads {
					for _, h := range holds[r.Key] {
						if h.t != t && h.from < op.Call && op.Return < h.to {
							c.violate(SharedClaim, []*history.Transaction{h.t, t}, "%s was given %s while %s held it", name(t), r.Key, name(h.t))
						}
					}
				}
			}
		}
	}
}
