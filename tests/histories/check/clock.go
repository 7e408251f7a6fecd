package check

import "github.com/seed4391e180/runlane/tests/histories/history"

// clocks checks that the clock never ran backwards between two transactions that
// conflict: whoever comes second was told no earlier time, once it had locked the
// key, than whoever came first. Absences are checked where they are placed.
func (c *checker) clocks() {
	for _, ch := range c.sortedChains() {
		var writer, latest *step // who was told the latest time so far, among writers and among all
		for _, seg := range ch.segments {
			c.clock(ch, latest, seg.create)
			writer, latest = later(writer, seg.create), later(latest, seg.create)
			for value := seg.create.a.after; value != ""; {
				for _, reader := range ch.readers[value] {
					c.clock(ch, writer, reader)
					latest = later(latest, reader)
				}
				next := ch.byBase[value]
				if len(next) == 0 {
					break
				}
				c.clock(ch, latest, next[0])
				writer, latest = later(writer, next[0]), later(latest, next[0])
				if value = next[0].a.after; ch.segmentOf[value] != seg {
					break
				}
			}
			seg.told = writer
		}
	}
}

// later is whichever of two steps was told the later time.
func later(a, b *step) *step {
	if a == nil || !b.a.stream && b.n.told() > a.n.told() {
		return b
	}
	return a
}

// writersByValue lists the writes of the key that left a value.
func (ch *chain) writersByValue() []*step {
	var all []*step
	all = append(all, ch.creates...)
	for _, next := range ch.byBase {
		for _, s := range next {
			if s.a.after != "" {
				all = append(all, s)
			}
		}
	}
	return all
}

func (c *checker) clock(ch *chain, a, b *step) {
	if a != b && runsBack(a, b) {
		c.violate(Backwards, []*history.Transaction{a.n.t, b.n.t}, "%s came before %s, since both had to do with %s, but was told %d and the other %d",
			name(a.n.t), name(b.n.t), ch.key, a.n.told(), b.lockedBefore())
	}
}
