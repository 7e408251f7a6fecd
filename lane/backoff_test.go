package lane

import (
	"math"
	"testing"
	"time"

	"github.com/seed4391e180/runlane/run"
)

func TestBackoff(t *testing.T) {
	cases := []struct {
		name     string
		backoff  Backoff
		failures int
		chance   float64
		want     time.Duration
	}{
		{"default, first", Backoff{}, 1, 0, time.Second},
		{"default, third", Backoff{}, 3, 0, 4 * time.Second},
		{"default, capped", Backoff{}, 13, 0, time.Hour},
		{"default, jitter", Backoff{}, 1, 0.5, 900 * time.Millisecond},
		{"default, attempt 1,000", Backoff{}, 1000, 0, time.Hour},
		{"default, beyond any integer", Backoff{}, math.MaxInt, 0, time.Hour},
		{"fixed", Fixed(time.Minute), 1000, 0.99, time.Minute},
		{"at once", Fixed(0), 1000, 0.5, 0},
		{"exponential from nothing", Exponential(0, time.Hour), 1 << 40, 0.5, 0},
		{"without a cap", Backoff{Initial: time.Hour, Factor: 10}, 1000, 0, run.MaxAfterCommit},
		{"a cap beyond all measure", Backoff{Initial: time.Hour, Factor: 1, Max: math.MaxInt64}, 1, 0, time.Hour},
		{"huge factor", Backoff{Initial: 1000, Factor: math.MaxFloat64, Max: time.Minute}, 3, 0, time.Minute},
		{"longer than the cap at once", Backoff{Initial: time.Hour, Factor: 1, Max: time.Minute}, 1, 0, time.Minute},
		{"full jitter", Backoff{Initial: time.Hour, Factor: 1, Jitter: 1}, 1, 0.75, 15 * time.Minute},
		{"no failure yet", Backoff{}, 0, 0, time.Second},
	}
	for _, c := range cases {
		if err := c.backoff.check(); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if got := c.backoff.after(c.failures, c.chance); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
	for _, bad := range []Backoff{
		{Initial: -1, Factor: 1}, {Initial: 1, Factor: 1, Max: -1}, {Initial: 1}, {Factor: 0.5}, {Factor: math.NaN()}, {Factor: math.Inf(1)},
		{Factor: 1, Jitter: 2}, {Factor: 1, Jitter: -1}, {Factor: 1, Jitter: math.NaN()},
	} {
		if bad.check() == nil {
			t.Errorf("%+v is accepted", bad)
		}
	}
}

// The wait of an attempt never leaves the range that a document can hold.
func TestBackoffOfEveryAttempt(t *testing.T) {
	for _, b := range []Backoff{{}, Exponential(time.Millisecond, time.Hour), {Initial: time.Second, Factor: 3, Jitter: 0.5}} {
		before := time.Duration(0)
		for n := 1; n < 3000; n++ {
			wait := b.after(n, 0)
			if wait < before || wait <= 0 || wait > run.MaxAfterCommit {
				t.Fatalf("%+v: attempt %d waits %v after %v", b, n, wait, before)
			}
			before = wait
		}
	}
}
