package measure_test

import (
	"context"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/seed4391e180/runlane/bench/measure"
)

func TestMedian(t *testing.T) {
	for _, test := range []struct {
		values []float64
		want   float64
	}{
		{[]float64{3}, 3},
		{[]float64{9, 1}, 5},
		{[]float64{5, 1, 100}, 5},
		{[]float64{4, 1, 3, 2}, 2.5},
	} {
		require.Equal(t, test.want, measure.Median(test.values), "%v", test.values)
	}
	require.True(t, math.IsNaN(measure.Median(nil)))
}

// TestMedianLeavesTheValuesAlone also holds that half of the values lie on either side.
func TestMedianLeavesTheValuesAlone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.Float64Range(-1e6, 1e6), 1, 20).Draw(t, "values")
		before := append([]float64(nil), values...)
		m := measure.Median(values)
		require.Equal(t, before, values)
		below, above := 0, 0
		for _, v := range values {
			if v < m {
				below++
			}
			if v > m {
				above++
			}
		}
		require.LessOrEqual(t, below, len(values)/2)
		require.LessOrEqual(t, above, len(values)/2)
	})
}

func TestRateAndMicros(t *testing.T) {
	s := measure.Sample{Units: 500, Took: 2 * time.Second}
	require.Equal(t, 250.0, s.Rate())
	require.Equal(t, 4000.0, s.Micros())
}

func TestQuantile(t *testing.T) {
	s := measure.Sample{Latencies: []time.Duration{4000, 1000, 3000, 2000}} // ns
	require.Equal(t, 2.0, measure.Quantile(0.5)(s))
	require.Equal(t, 4.0, measure.Quantile(0.99)(s))
	require.Equal(t, 1.0, measure.Quantile(0)(s))
	require.Equal(t, 4.0, measure.Quantile(1)(s))
	require.True(t, math.IsNaN(measure.Quantile(0.5)(measure.Sample{})))
}

// side is one whose turns are counted in a common list.
func side(name string, turns *[]string, took ...time.Duration) measure.Side {
	n := 0
	return measure.Side{Name: name, Turn: func(context.Context) (measure.Sample, error) {
		*turns = append(*turns, name)
		n++
		return measure.Sample{Units: 1, Took: took[(n-1)%len(took)]}, nil
	}}
}

func TestInTurns(t *testing.T) {
	var turns []string
	taken, err := measure.InTurns(context.Background(), 3,
		side("A", &turns, 1*time.Second, 3*time.Second, 2*time.Second), side("B", &turns, 4*time.Second))
	require.NoError(t, err)
	require.Equal(t, []string{"A", "B", "A", "B", "A", "B"}, turns)
	require.Equal(t, 2e6, taken[0].Median(measure.Sample.Micros))
	require.Equal(t, 4e6, taken[1].Median(measure.Sample.Micros))
	least, most := taken[0].Range(measure.Sample.Micros)
	require.Equal(t, []float64{1e6, 3e6}, []float64{least, most})

	_, err = measure.InTurns(context.Background(), 1, side("A", &turns, 1))
	require.Error(t, err, "one round is not in turns")
}

func TestTurnsThatMeasureNothingFail(t *testing.T) {
	for _, s := range []measure.Sample{{}, {Units: 1}, {Took: 1}, {Units: -1, Took: 1}} {
		empty := measure.Side{Name: "empty", Turn: func(context.Context) (measure.Sample, error) { return s, nil }}
		_, err := measure.InTurns(context.Background(), 2, empty)
		require.ErrorContains(t, err, "empty: ", "%+v", s)
	}
	broken := errors.New("broken")
	_, err := measure.InTurns(context.Background(), 2, measure.Side{Name: "x", Turn: func(context.Context) (measure.Sample, error) {
		return measure.Sample{Units: 1, Took: 1}, broken
	}})
	require.ErrorIs(t, err, broken)

	cancelled, cancel := context.WithCancel(context.Background())
	cancel()
	var turns []string
	_, err = measure.InTurns(cancelled, 2, side("A", &turns, 1))
	require.ErrorIs(t, err, context.Canceled)
	require.Empty(t, turns)
}

func TestBest(t *testing.T) {
	var turns []string
	at, scores, err := measure.Best(context.Background(), measure.Sample.Rate,
		side("slow", &turns, time.Second), side("fast", &turns, time.Millisecond), side("middling", &turns, 100*time.Millisecond))
	require.NoError(t, err)
	require.Equal(t, 1, at)
	require.Equal(t, []float64{1, 1000, 10}, scores)
	require.Equal(t, []string{"slow", "fast", "middling"}, turns)

	nothing := func(measure.Sample) float64 { return math.NaN() }
	_, _, err = measure.Best(context.Background(), nothing, side("A", &turns, 1))
	require.Error(t, err, "what is not a number is not the best")
	one := func(s measure.Sample) float64 {
		if s.Took == 1 {
			return math.NaN()
		}
		return -1
	}
	at, _, err = measure.Best(context.Background(), one, side("A", &turns, 1), side("B", &turns, 2))
	require.NoError(t, err)
	require.Equal(t, 1, at)

	broken := errors.New("broken")
	_, _, err = measure.Best(context.Background(), measure.Sample.Rate, side("A", &turns, 1),
		measure.Side{Name: "B", Turn: func(context.Context) (measure.Sample, error) { return measure.Sample{}, broken }})
	require.ErrorIs(t, err, broken, "a setting that fails is not passed over")
}

func TestCostOfAUnit(t *testing.T) {
	taken := measure.Taken{
		{Units: 10, Cost: measure.Cost{Units: 10, Counted: true, Commits: 1, RoundTrips: 30, Rows: 20, Entries: 90, WALBytes: 5000}},
		{Units: 30, Cost: measure.Cost{Units: 30, Counted: true, Commits: 1, RoundTrips: 10, Rows: 60, Entries: 270, WALBytes: 3000}},
	}
	require.Equal(t, &measure.PerUnit{Commits: 0.05, RoundTrips: 1, Rows: 2, Entries: 9, WALBytes: 200}, taken.Cost().Each())
	require.Nil(t, measure.Cost{Units: 1}.Each(), "nothing was counted, which is not nothing")
	require.Nil(t, measure.Cost{Counted: true}.Each(), "a unit of no work has no cost")
	both := measure.Taken{{Latencies: []time.Duration{1, 2}}, {Latencies: []time.Duration{3}}}.Latencies()
	require.Equal(t, []time.Duration{1, 2, 3}, both.Latencies)
}
