package check

import (
	"fmt"
	"slices"
	"strings"

	"github.com/seed4391e180/runlane/tests/histories/history"
)

// Bounds of the search for something readable. A broken store makes components of
// thousands of transactions, and any of their cycles will do.
const (
	maxCycles = 3   // reported
	maxStarts = 300 // tried for the shortest cycle of a component
)

// cycles reports the shortest cycle of each component that has one. Without any it
// leaves a topological order in the graph.
func (c *checker) cycles() (found bool) {
	components := c.graph.components()
	c.graph.order = make([]int32, len(c.graph.out))
	slices.Reverse(components) // now in topological order
	reported := 0
	for place, component := range components {
		for _, v := range component {
			c.graph.order[v] = int32(place)
		}
		if len(component) == 1 {
			continue
		}
		found = true
		if reported < maxCycles {
			c.reportCycle(c.graph.shortest(component, len(c.nodes)))
		}
		reported++
	}
	return found
}

// shortest is a cycle within a component with the fewest transactions, among those
// through the first of them.
func (g *graph) shortest(component []int32, transactions int) []edge {
	within := make(map[int32]bool, len(component))
	var starts []int32
	for _, v := range component {
		within[v] = true
		if int(v) < transactions {
			starts = append(starts, v)
		}
	}
	slices.Sort(starts)
	var best []edge
	for i, start := range starts {
		if i == maxStarts {
			break
		}
		path := g.path(start, start, transactions, func(v int32) bool { return within[v] })
		if cycle := g.collapse(path, transactions); path != nil && (best == nil || len(cycle) < len(best)) {
			best = cycle
		}
		if len(best) == 2 {
			break
		}
	}
	return best
}

// path is a way from one node to another over the fewest transactions; nil if there
// is none. Moments cost nothing.
func (g *graph) path(from, to int32, transactions int, within func(int32) bool) []int32 {
	via := make(map[int32]int32) // the edge by which a node was reached
	now, next := []int32{from}, []int32(nil)
	for len(now) > 0 {
		for len(now) > 0 {
			v := now[len(now)-1]
			now = now[:len(now)-1]
			for _, e := range g.out[v] {
				w := g.edges[e].to
				if _, reached := via[w]; reached || !within(w) {
					continue
				}
				via[w] = e
				if w == to {
					return g.trace(via, from, to)
				}
				if int(w) < transactions {
					next = append(next, w)
				} else {
					now = append(now, w)
				}
			}
		}
		now, next = next, nil
	}
	return nil
}

func (g *graph) trace(via map[int32]int32, from, to int32) []int32 {
	var path []int32
	for v := to; ; {
		e := via[v]
		path = append(path, e)
		if v = g.edges[e].from; v == from {
			slices.Reverse(path)
			return path
		}
	}
}

// collapse turns a path into edges between transactions.
func (g *graph) collapse(path []int32, transactions int) []edge {
	var edges []edge
	from := int32(-1)
	for _, i := range path {
		e := g.edges[i]
		if int(e.from) < transactions {
			from = e.from
		}
		if int(e.to) < transactions {
			e.from = from
			edges = append(edges, e)
		}
	}
	return edges
}

func (c *checker) reportCycle(cycle []edge) {
	ts := make([]*history.Transaction, len(cycle))
	counts := make(map[edgeKind]int)
	for i, e := range cycle {
		ts[i] = c.nodes[e.from].t
		counts[e.kind]++
	}
	c.violate(Cycle, ts, "%s\n%s", nature(counts), c.tell(cycle))
}

// nature names what a cycle with that many edges of each kind is known as.
func nature(counts map[edgeKind]int) string {
	what := "write skew (two or more reads of what others replaced)"
	switch {
	case counts[rw] == 1:
		what = "read skew (a mix of states was read)"
	case counts[rw] == 0 && counts[wr] > 0:
		what = "circular information flow"
	case counts[rw] == 0 && counts[ww] > 0:
		what = "writes in a circle"
	}
	if counts[rt] > 0 {
		what += ", against the order of calls"
	}
	return what
}

// tell says in words why each transaction came before the next.
func (c *checker) tell(edges []edge) string {
	lines := make([]string, len(edges))
	for i, e := range edges {
		a, b := name(c.nodes[e.from].t), name(c.nodes[e.to].t)
		switch {
		case e.kind == rt:
			lines[i] = fmt.Sprintf("  %s returned before %s was called", a, b)
		case e.kind == ww && e.value == "":
			lines[i] = fmt.Sprintf("  %s deleted %s before %s created it again", a, e.key, b)
		case e.kind == ww:
			lines[i] = fmt.Sprintf("  %s wrote %s = %s, which %s replaced", a, e.key, e.value, b)
		case e.kind == wr && e.value == "":
			lines[i] = fmt.Sprintf("  %s deleted %s, which %s found absent", a, e.key, b)
		case e.kind == wr:
			lines[i] = fmt.Sprintf("  %s wrote %s = %s, which %s read", a, e.key, e.value, b)
		case e.value == "":
			lines[i] = fmt.Sprintf("  %s found %s absent, which %s created", a, e.key, b)
		default:
			lines[i] = fmt.Sprintf("  %s read %s = %s, which %s replaced", a, e.key, e.value, b)
		}
	}
	return strings.Join(lines, "\n")
}
