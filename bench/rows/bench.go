// Package rows are the comparisons, one file for each.
package rows

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed4391e180/runlane/bench/lab"
	"github.com/seed4391e180/runlane/bench/measure"
	"github.com/seed4391e180/runlane/bench/report"
)

// Bench is where a comparison is made.
type Bench struct {
	Lab   *lab.Lab
	Short bool
	// OwnPool is the size of runlane's pool, which is never swept; 0 is pgx's default,
	// what postgres.Open gives.
	OwnPool int
	Log     io.Writer
}

// Row is a comparison, or several that share their preparation.
type Row struct {
	Name string
	Run  func(ctx context.Context, b *Bench) ([]*report.Row, error)
}

// All are the comparisons, in the order of the report.
var All = []Row{
	{"trigger", triggerRow},
	{"many", manyRow},
	{"lifecycle-river", lifecycleRiverRow},
	{"lifecycle-dbos", lifecycleDBOSRow},
	{"transaction", transactionRow},
	{"scale", scaleRow},
	{"append", appendRow},
	{"payload", payloadRow},
	{"wakes", wakesRow},
	{"latency", latencyRow},
	{"snapshot", snapshotRow},
}

// pools are the sizes that are tried for a peer's pool.
var pools = []int{4, 16, 64}

// pick is a size that depends on the form.
func pick[T any](b *Bench, short, full T) T {
	if b.Short {
		return short
	}
	return full
}

func (b *Bench) rounds() int { return pick(b, 2, 3) }

// payload is what every run and job carries, on both sides.
type payload struct {
	User     string `json:"user"`
	Template string `json:"template"`
}

var somebody = payload{User: "u_123", Template: "welcome"}

// hammer calls do from a number of goroutines until a time is over, and counts what
// it says it did. The measured time ends with the last call.
func hammer(ctx context.Context, goroutines int, d time.Duration, do func(ctx context.Context) (units int, err error)) (measure.Sample, error) {
	var (
		wg     sync.WaitGroup
		units  atomic.Int64
		mu     sync.Mutex
		failed error
	)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	start := time.Now()
	for range goroutines {
		wg.Go(func() {
			for time.Since(start) < d && ctx.Err() == nil {
				n, err := do(ctx)
				if err != nil {
					mu.Lock()
					failed = errors.Join(failed, err)
					mu.Unlock()
					cancel(err)
					return
				}
				units.Add(int64(n))
			}
		})
	}
	wg.Wait()
	took := time.Since(start)
	if failed == nil {
		failed = ctx.Err()
	}
	return measure.Sample{Units: int(units.Load()), Took: took}, failed
}

// warmUp is how long a call is made before it is measured, so that connections are
// open and statements prepared.
const warmUp = 200 * time.Millisecond

// counted hammers, warm, and counts what that cost.
func counted(ctx context.Context, db *lab.Database, pool *lab.Pool, goroutines int, d time.Duration, do func(ctx context.Context) (int, error)) (measure.Sample, error) {
	if _, err := hammer(ctx, goroutines, warmUp, do); err != nil {
		return measure.Sample{}, err
	}
	return db.Count(ctx, func(ctx context.Context) (measure.Sample, error) { return hammer(ctx, goroutines, d, do) }, pool)
}

// repeat calls do a number of times, one after the other, and takes the time of all
// together and of each.
func repeat(ctx context.Context, times int, do func(ctx context.Context) error) (measure.Sample, error) {
	s := measure.Sample{Units: times}
	start := time.Now()
	for range times {
		began := time.Now()
		if err := do(ctx); err != nil {
			return s, err
		}
		s.Latencies = append(s.Latencies, time.Since(began))
	}
	s.Took = time.Since(start)
	return s, nil
}

// length says how much a turn does: little, to find the best setting, or what is measured.
type length bool

const (
	brief length = false
	whole length = true
)

// span is the size of a turn.
func span[T any](l length, little, all T) T {
	if l == whole {
		return all
	}
	return little
}

// entry is a side in one setting.
type entry struct {
	name string
	turn func(ctx context.Context, l length) (measure.Sample, error)
}

func (e entry) side(l length) measure.Side {
	return measure.Side{Name: e.name, Turn: func(ctx context.Context) (measure.Sample, error) { return e.turn(ctx, l) }}
}

// match is what came of taking turns with a peer at its best.
type match struct {
	ours, theirs measure.Taken
	peer         string // and its setting
	tried        string
}

// against finds the setting in which a peer scores highest, and takes turns with it.
func (b *Bench) against(ctx context.Context, score func(measure.Sample) float64, ours entry, settings []entry) (m match, err error) {
	best := settings[0]
	if len(settings) > 1 {
		if best, m.tried, err = b.best(ctx, score, settings); err != nil {
			return m, err
		}
	}
	m.peer = best.name
	taken, err := measure.InTurns(ctx, b.rounds(), ours.side(whole), best.side(whole))
	if err != nil {
		return m, err
	}
	m.ours, m.theirs = taken[0], taken[1]
	return m, nil
}

// best gives each setting a brief turn.
func (b *Bench) best(ctx context.Context, score func(measure.Sample) float64, settings []entry) (best entry, tried string, err error) {
	sides := make([]measure.Side, len(settings))
	for i, s := range settings {
		sides[i] = s.side(brief)
	}
	at, scores, err := measure.Best(ctx, score, sides...)
	if err != nil {
		return best, "", err
	}
	list := make([]string, len(settings))
	for i, s := range settings {
		list[i] = fmt.Sprintf("%s: %.4g", s.name, scores[i])
	}
	return settings[at], "tried " + strings.Join(list, "; "), nil
}

// line makes a row of the report from what two sides did in turns.
func line(name string, unit report.Unit, aim report.Aim, spent string, m match, metric func(measure.Sample) float64) *report.Row {
	least, most := m.ours.Range(metric)
	theirLeast, theirMost := m.theirs.Range(metric)
	r := &report.Row{
		Name: name, Peer: m.peer, Unit: unit, Aim: aim,
		Ours: m.ours.Median(metric), Them: m.theirs.Median(metric),
		Spent: report.Spent{Unit: spent, Ours: m.ours.Cost().Each(), Them: m.theirs.Cost().Each()},
		Notes: []string{fmt.Sprintf("from %.4g to %.4g, and the peer from %.4g to %.4g, in %d turns each", least, most, theirLeast, theirMost, len(m.ours))},
	}
	if m.tried != "" {
		r.Notes = append(r.Notes, m.tried)
	}
	return r
}
