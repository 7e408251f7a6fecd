// Package measure compares two ways of doing the same work: it runs them in
// turns, and says what each took and what each cost the server.
package measure

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"
)

// Sample is what one side did in one turn.
type Sample struct {
	Units     int           // of work that were done
	Took      time.Duration // for all of them
	Latencies []time.Duration
	Cost      Cost
}

// Rate is units a second.
func (s Sample) Rate() float64 { return float64(s.Units) / s.Took.Seconds() }

// Micros is microseconds a unit.
func (s Sample) Micros() float64 { return float64(s.Took.Nanoseconds()) / 1e3 / float64(s.Units) }

// Quantile returns a metric: the latency, in microseconds, that a share q of them
// does not exceed. A sample without latencies has none, which is not a number.
func Quantile(q float64) func(Sample) float64 {
	return func(s Sample) float64 {
		if len(s.Latencies) == 0 {
			return math.NaN()
		}
		sorted := slices.Sorted(slices.Values(s.Latencies))
		at := max(0, int(math.Ceil(q*float64(len(sorted))))-1)
		return float64(sorted[at].Nanoseconds()) / 1e3
	}
}

func (s Sample) check() error {
	if s.Units <= 0 || s.Took <= 0 {
		return fmt.Errorf("%d units in %v are no measurement", s.Units, s.Took)
	}
	return nil
}

// Side is one of the ways. Turn does the work once; what is prepared and cleared
// up around it is not part of the sample.
type Side struct {
	Name string
	Turn func(ctx context.Context) (Sample, error)
}

// Taken are the samples of one side, in the order of its turns.
type Taken []Sample

// Median is the median of a metric over all turns.
func (t Taken) Median(metric func(Sample) float64) float64 {
	values := make([]float64, len(t))
	for i, s := range t {
		values[i] = metric(s)
	}
	return Median(values)
}

// Range is the least and the greatest value of a metric.
func (t Taken) Range(metric func(Sample) float64) (least, greatest float64) {
	least, greatest = math.Inf(1), math.Inf(-1)
	for _, s := range t {
		least, greatest = min(least, metric(s)), max(greatest, metric(s))
	}
	return least, greatest
}

// Cost is the cost of all turns together.
func (t Taken) Cost() Cost {
	var sum Cost
	for _, s := range t {
		sum = sum.plus(s.Cost)
	}
	return sum
}

// Latencies are those of all turns together, as one sample.
func (t Taken) Latencies() Sample {
	var all Sample
	for _, s := range t {
		all.Latencies = append(all.Latencies, s.Latencies...)
	}
	return all
}

// InTurns gives each side a turn, one after the other, and again, rounds times: A B A B.
// So whatever changes on the machine in the meantime changes for all of them.
func InTurns(ctx context.Context, rounds int, sides ...Side) ([]Taken, error) {
	if rounds < 2 {
		return nil, errors.New("one round is no comparison: the sides must take turns")
	}
	taken := make([]Taken, len(sides))
	for range rounds {
		for i, side := range sides {
			s, err := turn(ctx, side)
			if err != nil {
				return nil, err
			}
			taken[i] = append(taken[i], s)
		}
	}
	return taken, nil
}

func turn(ctx context.Context, side Side) (Sample, error) {
	if err := ctx.Err(); err != nil {
		return Sample{}, err
	}
	s, err := side.Turn(ctx)
	if err == nil {
		err = s.check()
	}
	if err != nil {
		return Sample{}, fmt.Errorf("%s: %w", side.Name, err)
	}
	return s, nil
}

// Best gives each side one turn and returns the place of the one with the highest
// score. An error of one is an error of all: nobody is to lose for a mistake of ours.
func Best(ctx context.Context, score func(Sample) float64, sides ...Side) (best int, scores []float64, err error) {
	best = -1
	for i, side := range sides {
		s, err := turn(ctx, side)
		if err != nil {
			return 0, nil, err
		}
		scores = append(scores, score(s))
		if !math.IsNaN(scores[i]) && (best < 0 || scores[i] > scores[best]) {
			best = i
		}
	}
	if best < 0 {
		return 0, nil, errors.New("no setting gave a figure")
	}
	return best, scores, nil
}

// Median is the middle of the values, or the mean of the two in the middle. That of
// none is not a number.
func Median(values []float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}
