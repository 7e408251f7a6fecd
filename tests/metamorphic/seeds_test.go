package metamorphic_test

import (
	"context"
	"flag"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

var (
	seedsFlag   = flag.Int("seeds", 20, "how many seeds TestHistories plays")
	firstFlag   = flag.Uint64("first", 1, "the first of them; 0 draws one")
	minutesFlag = flag.Float64("minutes", 0, "play seeds for so long instead of counting them")
	longFlag    = flag.Bool("long", false, "play them in every configuration, a server that restarts among them")
	onlyFlag    = flag.String("only", "", "only in configurations whose name contains this")
)

// TestHistories plays the script of each seed in memory and in every configuration,
// and requires the same history. The long form:
//
//	go test ./tests/metamorphic -run TestHistories -long -first 0 -minutes 10 -timeout 30m
func TestHistories(t *testing.T) {
	first := *firstFlag
	if first == 0 {
		first = rand.Uint64N(1 << 40)
	}
	var until time.Time
	if *minutesFlag > 0 {
		until = time.Now().Add(time.Duration(*minutesFlag * float64(time.Minute)))
	}
	dbs, memory := openDatabases(t), &remembered{known: map[rememberedKey][]string{}}
	var (
		began = time.Now()
		plays atomic.Int64
		wg    sync.WaitGroup
	)
	for _, c := range configurations(*longFlag) {
		if !strings.Contains(c.name, *onlyFlag) {
			continue
		}
		st := c.open(t, dbs)
		// Not subtests: go test would run as many at a time as there are processors, and
		// half of their time these wait for a server.
		wg.Go(func() {
			n := 0
			for ; until.IsZero() && n < *seedsFlag || time.Now().Before(until); n++ {
				if !c.agrees(t, st, memory, draw(first+uint64(n))) {
					break
				}
			}
			plays.Add(int64(n))
			t.Logf("%d seeds from %d in the configuration %q", n, first, c.name)
		})
	}
	wg.Wait()
	t.Logf("%d histories in %s", plays.Load(), time.Since(began).Round(time.Second))
}

// agrees reports whether a script has the same history in memory and in the
// configuration. If not, the test fails and a folder says how.
func (c *configuration) agrees(t *testing.T, st store, memory *remembered, s script) bool {
	d := &difference{memory: memory.history(t.Context(), s, c.noAppends), other: c.play(t.Context(), st, s)}
	if slices.Equal(d.memory, d.other) {
		return true
	}
	often := "always"
	small := shorten(s, func(shorter script) bool { return c.compare(t.Context(), st, shorter) != nil })
	if smaller := c.compare(t.Context(), st, small); smaller != nil {
		d, s = smaller, small
	} else {
		often = "now and then"
	}
	folder, err := d.write(c, s)
	if err != nil {
		t.Error(err)
	}
	t.Errorf("seed %d has (%s) another history in the configuration %q than in memory:\n%s\nAll of it is in %s. To play it again:\n%s",
		s.Seed, often, c.name, d.excerpt(), folder, rerunCommand(folder))
	return false
}

// remembered keeps the histories in memory, which all configurations ask for.
type remembered struct {
	mu    sync.Mutex
	known map[rememberedKey][]string
}

type rememberedKey struct {
	seed      uint64
	noAppends bool
}

func (r *remembered) history(ctx context.Context, s script, noAppends bool) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	key := rememberedKey{s.Seed, noAppends}
	history, ok := r.known[key]
	if !ok {
		plain := configuration{manner: oracle.manner, noAppends: noAppends}
		history = plain.play(ctx, inMemory(), s)
		r.known[key] = history
	}
	return history
}
