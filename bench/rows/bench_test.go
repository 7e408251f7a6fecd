package rows

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/bench/measure"
	"github.com/seed4391e180/runlane/bench/report"
)

func TestRowsAreExplained(t *testing.T) {
	text, err := os.ReadFile("../README.md")
	require.NoError(t, err)
	_, table, found := strings.Cut(string(text), "## The rows\n")
	require.True(t, found)
	seen := map[string]bool{}
	for _, r := range All {
		require.False(t, seen[r.Name], "%s is there twice", r.Name)
		seen[r.Name] = true
		require.Contains(t, table, r.Name, "README.md says how it is measured")
	}
}

func TestHammer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const d = 50 * time.Millisecond
		var calls, most, now atomic.Int64
		s, err := hammer(t.Context(), 8, d, func(context.Context) (int, error) {
			most.Store(max(most.Load(), now.Add(1)))
			defer now.Add(-1)
			calls.Add(1)
			time.Sleep(time.Millisecond) // the work, in the bubble's time
			return 3, nil
		})
		require.NoError(t, err)
		require.Equal(t, int(3*calls.Load()), s.Units)
		require.GreaterOrEqual(t, s.Took, d)
		require.LessOrEqual(t, most.Load(), int64(8))
		require.Greater(t, most.Load(), int64(1))
	})
	broken := errors.New("broken")
	var calls atomic.Int64
	_, err := hammer(t.Context(), 4, time.Minute, func(ctx context.Context) (int, error) {
		if calls.Add(1) == 1 {
			return 0, broken
		}
		<-ctx.Done() // the others are told at once
		return 1, nil
	})
	require.ErrorIs(t, err, broken)

	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = hammer(cancelled, 2, time.Minute, func(context.Context) (int, error) { return 1, nil })
	require.ErrorIs(t, err, context.Canceled)
}

func TestRepeat(t *testing.T) {
	calls := 0
	s, err := repeat(t.Context(), 5, func(context.Context) error { calls++; return nil })
	require.NoError(t, err)
	require.Equal(t, 5, calls)
	require.Equal(t, 5, s.Units)
	require.Len(t, s.Latencies, 5)
	broken := errors.New("broken")
	_, err = repeat(t.Context(), 5, func(context.Context) error { return broken })
	require.ErrorIs(t, err, broken)
}

func TestTally(t *testing.T) {
	counts := newTally()
	for range 3 {
		counts.end()
	}
	counts.expect(2)
	short, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	require.ErrorContains(t, counts.wait(short), "3 of 5 ended")
	counts.end()
	counts.end()
	require.NoError(t, counts.wait(t.Context()))
	counts.end() // more than expected announces nothing
	require.Empty(t, counts.enough)
}

// TestAgainst: the settings of the peer get a brief turn each, the best one takes whole
// turns with ours, and is named.
func TestAgainst(t *testing.T) {
	b := &Bench{Short: true, Log: io.Discard}
	var turns []string
	fake := func(name string, took time.Duration) entry {
		return entry{name, func(_ context.Context, l length) (measure.Sample, error) {
			turns = append(turns, name+span(l, " briefly", ""))
			return measure.Sample{Units: 100, Took: took}, nil
		}}
	}
	m, err := b.against(t.Context(), measure.Sample.Rate, fake("ours", time.Second), []entry{fake("slow", 4*time.Second), fake("fast", 2*time.Second)})
	require.NoError(t, err)
	require.Equal(t, []string{"slow briefly", "fast briefly", "ours", "fast", "ours", "fast"}, turns)
	require.Equal(t, "fast", m.peer)
	r := line("row", report.PerSecond, report.AtLeast(2), "run", m, measure.Sample.Rate)
	require.Equal(t, 2.0, r.Ratio())
	require.True(t, *r.Aim.Met(r.Ratio()))
	require.Equal(t, []string{"from 100 to 100, and the peer from 50 to 50, in 2 turns each", "tried slow: 25; fast: 50"}, r.Notes)
	require.NoError(t, r.Check())
}

func TestAwait(t *testing.T) {
	began, tell := starts()
	mine := payload{User: "mine"}
	tell(payload{User: "somebody else"})
	tell(mine)
	at, err := await(t.Context(), began, mine)
	require.NoError(t, err)
	require.Less(t, time.Since(at), time.Minute)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = await(ended, began, mine)
	require.ErrorIs(t, err, context.Canceled)
}

// TestStates: a run goes on for ever between two states.
func TestStates(t *testing.T) {
	s, err := newStates("r")
	require.NoError(t, err)
	for step := range 4 {
		require.NoError(t, s.next())
		_, _, err := s.records()
		require.NoError(t, err)
		require.Equal(t, int64(step+2), s.event.Sequence)
		require.Equal(t, step%2 == 0, s.run.Lease != nil)
	}
}
