package check

import "slices"

// order is a directed acyclic graph that grows, with a topological order that is
// kept up to date (Pearce and Kelly, 2006): an edge that goes along with the order
// costs nothing, any other a search between the places of its ends. The latest edges
// can be taken back.
type order struct {
	place   []int32 // of a node in the order; distinct
	out, in [][]int32
	trail   [][2]int32 // edges in the order in which they came
	seen    []int32    // by node: the search that saw it last
	search  int32
	stack   []int32
}

// newOrder begins with the edges of a graph without cycles.
func newOrder(g *graph) *order {
	n := len(g.out)
	o := &order{place: make([]int32, n), out: make([][]int32, n), in: make([][]int32, n), seen: make([]int32, n)}
	copy(o.place, g.order)
	for _, e := range g.edges {
		o.out[e.from] = append(o.out[e.from], e.to)
		o.in[e.to] = append(o.in[e.to], e.from)
	}
	return o
}

// between lists what can be reached from a node, backwards or forwards, without
// leaving the places up to a limit.
func (o *order) between(from int32, next [][]int32, inside func(place int32) bool) []int32 {
	o.search++
	o.seen[from] = o.search
	o.stack = append(o.stack[:0], from)
	reached := []int32{from}
	for len(o.stack) > 0 {
		v := o.stack[len(o.stack)-1]
		o.stack = o.stack[:len(o.stack)-1]
		for _, w := range next[v] {
			if o.seen[w] != o.search && inside(o.place[w]) {
				o.seen[w] = o.search
				o.stack = append(o.stack, w)
				reached = append(reached, w)
			}
		}
	}
	return reached
}

// reaches reports whether there is a path.
func (o *order) reaches(from, to int32) bool {
	if from == to {
		return true
	}
	if o.place[from] > o.place[to] {
		return false
	}
	limit := o.place[to]
	o.between(from, o.out, func(place int32) bool { return place <= limit })
	return o.seen[to] == o.search
}

// add adds an edge that makes no cycle.
func (o *order) add(from, to int32) {
	o.out[from] = append(o.out[from], to)
	o.in[to] = append(o.in[to], from)
	o.trail = append(o.trail, [2]int32{from, to})
	if o.place[from] < o.place[to] {
		return
	}
	low, high := o.place[to], o.place[from]
	ahead := o.between(to, o.out, func(place int32) bool { return place <= high })
	behind := o.between(from, o.in, func(place int32) bool { return place >= low })
	byPlace := func(a, b int32) int { return int(o.place[a] - o.place[b]) }
	slices.SortFunc(ahead, byPlace)
	slices.SortFunc(behind, byPlace)
	moved := slices.Concat(behind, ahead)
	places := make([]int32, len(moved))
	for i, v := range moved {
		places[i] = o.place[v]
	}
	slices.Sort(places)
	for i, v := range moved {
		o.place[v] = places[i]
	}
}

// back takes back all edges but the first n that were added.
func (o *order) back(n int) {
	for len(o.trail) > n {
		e := o.trail[len(o.trail)-1]
		o.trail = o.trail[:len(o.trail)-1]
		o.out[e[0]] = o.out[e[0]][:len(o.out[e[0]])-1]
		o.in[e[1]] = o.in[e[1]][:len(o.in[e[1]])-1]
	}
}
