package check_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"github.com/seed4391e180/runlane/tests/histories/check"
	"github.com/seed4391e180/runlane/tests/histories/history"
)

// executor runs random transactions one after the other, as a correct store would
// order them, and lets their calls and returns overlap at random around the moments
// at which they take effect.
type executor struct {
	random  *rand.Rand
	s       *story
	keys    []string
	state   map[string]string
	wrote   map[string]history.Clock // the latest time that a writer of the key was told
	touched map[string]history.Clock // the same of readers and writers
	values  int
	spread  int
	extras  bool // peeks, Now, abandoned attempts
	lossy   bool // outcomes may be unknown: everything is read at the end
}

func newExecutor(t *rapid.T, keys int, extras bool) *executor {
	seed := rapid.Uint64().Draw(t, "seed")
	e := &executor{random: rand.New(rand.NewPCG(seed, 0)), s: newStory(), state: map[string]string{}, wrote: map[string]history.Clock{}, touched: map[string]history.Clock{}, extras: extras}
	for i := range keys {
		e.keys = append(e.keys, fmt.Sprintf("k%d", i))
	}
	e.spread = rapid.SampledFrom([]int{0, 1, 3, 10}).Draw(t, "spread")
	return e
}

// apart is how far a call or a return lies from the effect: up to spread effects of
// others away.
func (e *executor) apart() history.Moment { return history.Moment(e.draw(100 * (e.spread + 1))) }

// draw draws evenly, which rapid does not; what rapid draws is how large a history is.
func (e *executor) draw(n int) int { return e.random.IntN(n) }

func (e *executor) fresh(key string) string {
	e.values++
	return fmt.Sprintf("%s.%d", key, e.values)
}

// transaction runs the transaction that takes effect at a place of the order.
func (e *executor) transaction(place int) {
	point := history.Moment(1000 + 100*place)
	tl := e.s.tx(point-e.apart(), point+1+e.apart())
	if e.extras && e.draw(5) == 0 {
		e.attempt(tl, history.Failed, false)
		tl.again()
	}
	outcome := history.Committed
	if e.draw(4) == 0 {
		outcomes := []history.Outcome{history.Refused, history.Failed, history.Unknown}
		if !e.lossy {
			outcomes = outcomes[:2]
		}
		outcome = outcomes[e.draw(len(outcomes))]
	}
	effective := outcome == history.Committed || outcome == history.Unknown && e.draw(2) == 0
	e.attempt(tl, outcome, effective)
	tl.ends(outcome)
}

// attempt draws operations. It changes the state only if it takes effect.
func (e *executor) attempt(tl *teller, outcome history.Outcome, effective bool) {
	mine := map[string]string{}
	see := func(key string) string {
		if value, staged := mine[key]; staged {
			return value
		}
		return e.state[key]
	}
	known := map[string]bool{}
	for range 1 + e.draw(4) {
		key := e.keys[e.draw(len(e.keys))]
		switch e.draw(8) {
		case 0:
			if e.extras {
				tl.peek(key, e.state[key])
			}
		case 1, 2, 3:
			tl.get(key, see(key))
			known[key] = true
		default:
			e.write(tl, key, see(key), mine, known)
		}
	}
	sealed := e.extras && len(mine) == 0 && e.draw(3) == 0
	at := e.tell(tl, mine, known, sealed)
	for key := range known {
		if sealed && outcome == history.Refused || effective && (sealed || len(mine) > 0) {
			e.touched[key] = max(e.touched[key], at)
		}
	}
	for key, value := range mine {
		if effective {
			e.state[key] = value
			e.touched[key], e.wrote[key] = max(e.touched[key], at), max(e.wrote[key], at)
		}
	}
}

// write replaces, deletes or creates, after a read or blindly.
func (e *executor) write(tl *teller, key, value string, mine map[string]string, known map[string]bool) {
	_, staged := mine[key]
	if value != "" && !staged && !known[key] || e.draw(2) == 0 {
		tl.get(key, value)
		known[key] = true
	}
	switch {
	case value == "":
		mine[key] = e.fresh(key)
		tl.create(key, mine[key])
	case e.draw(3) == 0:
		mine[key] = ""
		tl.delete(key)
	default:
		mine[key] = e.fresh(key)
		tl.replace(key, mine[key])
	}
}

// tell gives the transaction a time as early as its conflicts allow: that of Now, if
// it is sealed, or that of its commit, if it writes.
func (e *executor) tell(tl *teller, mine map[string]string, known map[string]bool, sealed bool) history.Clock {
	at := history.Clock(1 + e.draw(50))
	for key := range known {
		at = max(at, e.wrote[key]+1)
	}
	for key := range mine {
		at = max(at, e.touched[key]+1)
	}
	if sealed {
		tl.told(at)
	} else if len(mine) > 0 {
		tl.at(at)
	}
	return at
}

// finale reads everything at the end.
func (e *executor) finale(place int) {
	at := history.Moment(1000+100*place) + history.Moment(100*e.spread) + 101
	e.s.h.Settled = at
	tl := e.s.tx(at+1, at+2)
	for _, key := range e.keys {
		tl.get(key, e.state[key])
	}
}

// TestSerialHistoriesPass runs serial executions with overlapping calls, unknown
// outcomes, refusals and abandoned attempts past the checker.
func TestSerialHistoriesPass(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := newExecutor(t, 1+rapid.IntRange(0, 4).Draw(t, "keys"), true)
		e.lossy = rapid.Bool().Draw(t, "lossy")
		n := rapid.IntRange(1, 60).Draw(t, "transactions")
		for i := range n {
			e.transaction(i)
		}
		if e.lossy {
			e.finale(n)
		}
		r := check.Check(e.s.finish())
		if !r.OK() {
			t.Fatalf("%s\n%s", r, tell(e.s.h))
		}
	})
}
