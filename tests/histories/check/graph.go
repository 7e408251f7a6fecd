package check

import (
	"cmp"
	"slices"

	"github.com/seed4391e180/runlane/tests/histories/history"
)

// graph has the nodes of transactions first and then one for each moment at which
// one of them returned. The moments form a line, so that the order of calls takes a
// number of edges in proportion to the transactions and not to their pairs.
type graph struct {
	edges []edge
	out   [][]int32 // edges by where they begin
	order []int32   // a topological order: its place by node; nil if there is a cycle
}

// edge says that one node came before another.
type edge struct {
	from, to int32
	kind     edgeKind
	key      string // of ww, wr and rw
	value    string // what is read or replaced
}

type edgeKind uint8

const (
	ww edgeKind = iota
	wr
	rw
	rt
)

func (g *graph) add(e edge) {
	if e.from == e.to {
		return
	}
	g.out[e.from] = append(g.out[e.from], int32(len(g.edges)))
	g.edges = append(g.edges, e)
}

// makeGraph adds every edge that is certain.
func (c *checker) makeGraph() {
	c.graph = &graph{out: make([][]int32, len(c.nodes))}
	for _, ch := range c.sortedChains() {
		c.chainEdges(ch)
	}
	c.timeEdges()
}

func (c *checker) chainEdges(ch *chain) {
	join := func(from, to *step, kind edgeKind, value string) {
		c.graph.add(edge{from: int32(from.n.id), to: int32(to.n.id), kind: kind, key: ch.key, value: value})
	}
	writers := make(map[string]*step)
	for _, s := range ch.creates {
		writers[s.a.after] = s
	}
	for _, next := range ch.byBase {
		for _, s := range next {
			if s.a.after != "" {
				writers[s.a.after] = s
			}
		}
	}
	for value, next := range ch.byBase {
		for _, s := range next {
			if w := writers[value]; w != nil {
				join(w, s, ww, value)
			}
		}
	}
	for value, readers := range ch.readers {
		for _, s := range readers {
			if w := writers[value]; w != nil {
				join(w, s, wr, value)
			}
			for _, next := range ch.byBase[value] {
				join(s, next, rw, value)
			}
		}
	}
	for i := 1; i < len(ch.segments); i++ {
		if end := ch.segments[i-1].end; end != nil {
			join(end, ch.segments[i].create, ww, "")
		}
	}
}

// timeEdges adds the order of calls: what had returned came before what was called
// later.
func (c *checker) timeEdges() {
	byReturn := slices.Clone(c.nodes)
	slices.SortFunc(byReturn, func(a, b *node) int { return cmp.Compare(a.returned, b.returned) })
	moments := len(c.nodes)
	c.graph.out = append(c.graph.out, make([][]int32, len(byReturn))...)
	for i, n := range byReturn {
		c.graph.add(edge{from: int32(n.id), to: int32(moments + i), kind: rt})
		if i > 0 {
			c.graph.add(edge{from: int32(moments + i - 1), to: int32(moments + i), kind: rt})
		}
	}
	for _, n := range c.nodes {
		before, _ := slices.BinarySearchFunc(byReturn, n.t.Call, func(b *node, call history.Moment) int { return cmp.Compare(b.returned, call) })
		if before > 0 {
			c.graph.add(edge{from: int32(moments + before - 1), to: int32(n.id), kind: rt})
		}
	}
}

// components are the strongly connected components (Tarjan, 1972), in reverse
// topological order. The stack is explicit: a line of moments is as deep as the
// history is long.
func (g *graph) components() [][]int32 {
	const unseen = -1
	n := len(g.out)
	index, low := make([]int32, n), make([]int32, n)
	for i := range index {
		index[i] = unseen
	}
	var (
		found   [][]int32
		stack   []int32
		onStack = make([]bool, n)
		counter int32
		calls   []frame
	)
	enter := func(v int32) {
		index[v], low[v] = counter, counter
		counter++
		stack, onStack[v] = append(stack, v), true
		calls = append(calls, frame{node: v})
	}
	for root := range n {
		if index[root] != unseen {
			continue
		}
		for enter(int32(root)); len(calls) > 0; {
			f := &calls[len(calls)-1]
			v := f.node
			if f.next < len(g.out[v]) {
				w := g.edges[g.out[v][f.next]].to
				f.next++
				if index[w] == unseen {
					enter(w)
				} else if onStack[w] {
					low[v] = min(low[v], index[w])
				}
				continue
			}
			calls = calls[:len(calls)-1]
			if len(calls) > 0 {
				low[calls[len(calls)-1].node] = min(low[calls[len(calls)-1].node], low[v])
			}
			if low[v] == index[v] {
				at := lastIndex(stack, v)
				component := slices.Clone(stack[at:])
				for _, w := range component {
					onStack[w] = false
				}
				stack = stack[:at]
				found = append(found, component)
			}
		}
	}
	return found
}

// frame is one node on the way, with the edge to look at next.
type frame struct {
	node int32
	next int
}

func lastIndex(stack []int32, v int32) int {
	for i := len(stack) - 1; i >= 0; i-- {
		if stack[i] == v {
			return i
		}
	}
	return -1
}
