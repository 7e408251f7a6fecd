package check

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/seed4391e180/runlane/tests/histories/history"
)

// choice is a read that says of a key only that it was absent, or only that it was
// present, and so may belong to several times of its life.
type choice struct {
	s       *step
	what    string
	options []option
}

// option is one of these times: after one transaction and before another, either of
// which may be missing.
type option struct {
	after, before *step
	told          *step // of the writers up to after, the one who was told the latest time
}

// maxGuesses bounds the search. It is far from being reached by histories of a
// correct store, where nearly every first guess fits.
const maxGuesses = 20000

// placing is the search for a place for every choice.
type placing struct {
	*order
	guesses int
}

// place finds a place for every read of an absence, in an order without cycles, or
// reports the first that has none.
func (c *checker) place() {
	choices := c.choices()
	c.report.Absences = len(choices)
	p := &placing{order: newOrder(c.graph)}
	open, stuck := p.saturate(choices)
	if stuck != nil {
		c.reportStuck(p, stuck)
		return
	}
	c.report.Guesses = len(open)
	settled := len(p.trail)
	if p.greedy(open) {
		return
	}
	p.back(settled)
	if fits, stuck := p.solve(open); !fits {
		if p.guesses >= maxGuesses {
			c.violate(Undecided, []*history.Transaction{open[0].s.n.t}, "gave up after %d guesses about %d reads of absences", p.guesses, len(open))
			return
		}
		c.reportStuck(p, stuck)
	}
}

// choices lists what has to be placed, without the options that the order of calls
// or the clocks exclude.
func (c *checker) choices() []*choice {
	var all []*choice
	for _, ch := range c.sortedChains() {
		gaps, lives := ch.gaps(), ch.lives()
		for _, s := range ch.absent {
			all = append(all, c.narrow(s, "found "+ch.key+" absent", gaps))
		}
		for _, s := range ch.exists {
			all = append(all, c.narrow(s, "was told that "+ch.key+" exists", lives))
		}
	}
	slices.SortStableFunc(all, func(a, b *choice) int { return cmp.Compare(a.s.n.t.Call, b.s.n.t.Call) })
	return all
}

// lives are the times at which there was a record.
func (ch *chain) lives() []option {
	lives := make([]option, 0, len(ch.segments))
	for _, seg := range ch.segments {
		lives = append(lives, option{seg.create, seg.end, seg.create})
	}
	return lives
}

// gaps are the times at which a key was absent.
func (ch *chain) gaps() []option {
	var gaps []option
	var end, told *step
	for i, seg := range ch.segments {
		if i == 0 || end != nil {
			gaps = append(gaps, option{end, seg.create, told})
		}
		end, told = seg.end, seg.told
	}
	if end != nil || len(ch.segments) == 0 {
		gaps = append(gaps, option{end, nil, told})
	}
	return gaps
}

// narrow makes the choice of a step among times.
func (c *checker) narrow(s *step, what string, times []option) *choice {
	ch := &choice{s: s, what: what}
	var byCalls []option
	for _, o := range times {
		if o.after != nil && o.after.n.t.Call > s.n.returned || o.before != nil && o.before.n.returned < s.n.t.Call {
			continue
		}
		byCalls = append(byCalls, o)
		if !runsBack(o.told, s) && !runsBack(s, o.before) {
			ch.options = append(ch.options, o)
		}
	}
	if len(ch.options) == 0 && len(byCalls) > 0 {
		c.violate(Backwards, []*history.Transaction{s.n.t}, "%s %s; by the clocks that was never so at %d%s", name(s.n.t), what, s.n.told(), listOptions(byCalls))
		ch.options = byCalls
	}
	return ch
}

// runsBack reports whether b was told an earlier time than a, although a came first
// and the two conflict on a key.
func runsBack(a, b *step) bool {
	if a == nil || b == nil || a.n == b.n || a.a.stream {
		return false
	}
	before, after := a.n.told(), b.lockedBefore()
	return before != 0 && after != 0 && before > after
}

// fits reports whether an option makes no cycle.
func (p *placing) fits(s *step, o option) bool {
	me := int32(s.n.id)
	return (o.after == nil || o.after.n == s.n || !p.reaches(me, int32(o.after.n.id))) &&
		(o.before == nil || o.before.n == s.n || !p.reaches(int32(o.before.n.id), me))
}

func (p *placing) take(s *step, o option) {
	me := int32(s.n.id)
	if o.after != nil && o.after.n != s.n {
		p.add(int32(o.after.n.id), me)
	}
	if o.before != nil && o.before.n != s.n {
		p.add(me, int32(o.before.n.id))
	}
}

// saturate takes every choice that is none, until only real ones are left. stuck is
// a choice without any option.
func (p *placing) saturate(choices []*choice) (open []*choice, stuck *choice) {
	for {
		open = nil
		for _, ch := range choices {
			var fitting []option
			for _, o := range ch.options {
				if p.fits(ch.s, o) {
					fitting = append(fitting, o)
				}
			}
			switch len(fitting) {
			case 0:
				return nil, ch
			case 1:
				p.take(ch.s, fitting[0])
			default:
				open = append(open, ch)
			}
		}
		if len(open) == len(choices) {
			return open, nil
		}
		choices = open
	}
}

// greedy takes for each choice the first option that fits, preferring one that goes
// along with the order as it is.
func (p *placing) greedy(choices []*choice) bool {
	for _, ch := range choices {
		at := slices.IndexFunc(ch.options, func(o option) bool { return p.along(ch.s, o) })
		if at < 0 {
			at = slices.IndexFunc(ch.options, func(o option) bool { return p.fits(ch.s, o) })
		}
		if at < 0 {
			return false
		}
		p.take(ch.s, ch.options[at])
	}
	return true
}

func (p *placing) along(s *step, o option) bool {
	me := p.place[s.n.id]
	return (o.after == nil || p.place[o.after.n.id] < me) && (o.before == nil || me < p.place[o.before.n.id])
}

// solve tries every combination that saturation leaves, depth first.
func (p *placing) solve(open []*choice) (fits bool, stuck *choice) {
	if len(open) == 0 {
		return true, nil
	}
	ch := open[0]
	for _, o := range ch.options {
		if !p.fits(ch.s, o) {
			continue
		}
		if p.guesses++; p.guesses >= maxGuesses {
			return false, ch
		}
		before := len(p.trail)
		p.take(ch.s, o)
		rest, none := p.saturate(open[1:])
		if none == nil {
			if fits, none = p.solve(rest); fits {
				return true, nil
			}
		}
		stuck = none
		p.back(before)
	}
	if stuck == nil {
		stuck = ch
	}
	return false, stuck
}

// reportStuck says why none of the options of a choice fits: each would close a cycle.
func (c *checker) reportStuck(p *placing, ch *choice) {
	t := ch.s.n.t
	ts := []*history.Transaction{t}
	var b strings.Builder
	for _, o := range ch.options {
		fmt.Fprintf(&b, "\n %s:%s", tellOption(o), c.why(ch.s, o))
	}
	if len(ch.options) == 0 {
		fmt.Fprintf(&b, "\n at no time between its call and its return was that so")
	}
	c.violate(NoPlace, ts, "%s %s, and no time fits%s", name(t), ch.what, b.String())
}

// why finds the path that an option contradicts.
func (c *checker) why(s *step, o option) string {
	explain := func(from, to *step) string {
		if from == nil || to == nil || from.n == to.n {
			return ""
		}
		path := c.graph.path(int32(from.n.id), int32(to.n.id), len(c.nodes), func(int32) bool { return true })
		if path == nil {
			return ""
		}
		return "\n" + c.tell(c.graph.collapse(path, len(c.nodes)))
	}
	if text := explain(s, o.after) + explain(o.before, s); text != "" {
		return " but" + text
	}
	return " it contradicts where other reads of absences were placed"
}

func listOptions(options []option) string {
	var b strings.Builder
	for i, o := range options {
		if i == 3 {
			fmt.Fprintf(&b, "\n  and %d more", len(options)-i)
			break
		}
		fmt.Fprintf(&b, "\n  %s", tellOption(o))
	}
	return b.String()
}

func tellOption(o option) string {
	from, until := "from the beginning", "to the end"
	if o.after != nil {
		from = fmt.Sprintf("after %s at %d", name(o.after.n.t), o.after.n.told())
	}
	if o.before != nil {
		until = fmt.Sprintf("before %s at %d", name(o.before.n.t), o.before.n.told())
	}
	return from + ", " + until
}
