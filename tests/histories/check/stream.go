package check

import (
	"strconv"
	"strings"

	"github.com/seed4391e180/runlane/tests/histories/history"
)

// streams checks that the positions of a stream are 1, 2, 3 and so on, that a page
// of a stream has no gap, and that the times of the items never fall.
func (c *checker) streams() {
	taken := make(map[string]map[int64]*history.Transaction)
	for _, n := range c.nodes {
		for _, s := range n.t.Appended {
			if taken[s.Head] == nil {
				taken[s.Head] = make(map[int64]*history.Transaction)
			}
			for p := s.First; p <= s.Last; p++ {
				if other := taken[s.Head][p]; other != nil {
					c.violate(BadStream, []*history.Transaction{other, n.t}, "%s and %s both appended at position %d of %s", name(other), name(n.t), p, s.Head)
				}
				taken[s.Head][p] = n.t
			}
		}
	}
	for head, positions := range taken {
		for p := int64(1); p <= int64(len(positions)); p++ {
			if positions[p] == nil {
				c.violate(BadStream, nil, "%s has %d items and nobody appended at position %d", head, len(positions), p)
				break
			}
		}
	}
	for _, t := range c.h.Transactions {
		for _, a := range t.Attempts {
			for _, op := range a.Ops {
				if op.Kind == history.Query && strings.HasPrefix(op.Index, ByPosition) && op.Error == "" {
					c.streamPage(t, op)
				}
			}
		}
	}
}

// streamPage checks one page of a stream, read from its beginning or from a position.
func (c *checker) streamPage(t *history.Transaction, op *history.Operation) {
	for i := 1; i < len(op.Reads); i++ {
		before, now := op.Reads[i-1], op.Reads[i]
		if position(now.Key) != position(before.Key)+1 {
			c.violate(BadStream, []*history.Transaction{t}, "%s read %s and then %s", name(t), before.Key, now.Key)
		}
		if now.At < before.At {
			c.violate(BadStream, []*history.Transaction{t}, "%s read %s with the time %d and then %s with the time %d", name(t), before.Key, before.At, now.Key, now.At)
		}
	}
	if op.Whole && len(op.Reads) > 0 && position(op.Reads[0].Key) != 1 {
		c.violate(BadStream, []*history.Transaction{t}, "%s read a stream from its beginning and it began with %s", name(t), op.Reads[0].Key)
	}
}

// position is the position of an observation's key; -1 if it is none.
func position(key string) int64 {
	n, err := strconv.ParseInt(key[strings.LastIndexByte(key, '/')+1:], 10, 64)
	if err != nil {
		return -1
	}
	return n
}
