package lane

import (
	"fmt"
	"math"
	"time"

	"github.com/seed4391e180/runlane/run"
)

// Backoff says how long a run waits after a failed attempt before it is due
// again. The zero value is the default: exponential from one second to one hour.
// [Fixed] and [Exponential] make the usual ones.
type Backoff struct {
	// Initial is the wait after the first failure. It is used as it is, 0 included,
	// if Factor is set.
	Initial time.Duration
	// Factor multiplies the wait after each further failure; at least 1. 0 stands
	// for the whole default.
	Factor float64
	// Max caps the wait, before jitter; 0: a hundred years.
	Max time.Duration
	// Jitter is the share of the wait, from 0 to 1, that is left to chance: a wait of
	// 10s with jitter 0.2 lasts from 8s to 10s. It keeps runs that failed together
	// from coming back together.
	Jitter float64
}

var defaultBackoff = Exponential(time.Second, time.Hour)

// Fixed waits the same time after each failure.
func Fixed(wait time.Duration) Backoff { return Backoff{Initial: wait, Factor: 1} }

// Exponential doubles the wait after each failure, from initial to limit, with a
// jitter of 0.2.
func Exponential(initial, limit time.Duration) Backoff {
	return Backoff{Initial: initial, Factor: 2, Max: limit, Jitter: 0.2}
}

func (b Backoff) check() error {
	switch {
	case b == Backoff{}:
		return nil
	case b.Initial < 0 || b.Max < 0:
		return fmt.Errorf("lane: a backoff has a negative duration")
	case !(b.Factor >= 1) || math.IsInf(b.Factor, 1):
		return fmt.Errorf("lane: the factor of a backoff is %v, not at least 1", b.Factor)
	case !(0 <= b.Jitter && b.Jitter <= 1):
		return fmt.Errorf("lane: the jitter of a backoff is %v, not between 0 and 1", b.Jitter)
	}
	return nil
}

// after is the wait after the given number of failures, from 1. chance is a
// random number in [0, 1). The arithmetic is in float64, where what would
// overflow an integer becomes infinity and is capped like everything else.
func (b Backoff) after(failures int, chance float64) time.Duration {
	if (b == Backoff{}) {
		b = defaultBackoff
	}
	limit := float64(run.MaxAfterCommit)
	if b.Max > 0 && b.Max < run.MaxAfterCommit {
		limit = float64(b.Max)
	}
	wait := float64(b.Initial)
	if wait > 0 { // 0 times infinity is no number
		wait = min(limit, wait*math.Pow(b.Factor, float64(max(failures-1, 0))))
	}
	return time.Duration(wait * (1 - b.Jitter*chance)).Truncate(time.Microsecond)
}
