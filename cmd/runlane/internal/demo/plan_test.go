package demo

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/cmd/runlane/internal/usage"
)

// Whichever worker is faster, the victim can be killed in the middle: these are
// the sentences of newPlan's comment.
func TestPlanMakesTheKillPossible(t *testing.T) {
	for runs := fewestRuns; runs < 20_000; runs++ {
		p, err := newPlan("/tree", runs)
		require.NoError(t, err)
		require.Positive(t, p.victimAllowance)
		require.Positive(t, p.mustHold)
		require.GreaterOrEqual(t, p.slots, p.mustHold, "%d runs", runs)
		require.LessOrEqual(t, float64(p.victimAllowance+p.survivorAllowance), killUntil*float64(runs), "%d runs", runs)
		require.GreaterOrEqual(t, float64(p.survivorAllowance), killFrom*float64(runs), "%d runs", runs)
		require.LessOrEqual(t, p.survivorAllowance+p.slots+p.victimAllowance+p.mustHold, runs, "%d runs", runs)
		require.LessOrEqual(t, p.victimAllowance+p.slots+p.survivorAllowance, runs, "%d runs", runs)
		if runs >= 300 {
			require.Equal(t, wantLeases, p.mustHold)
		}
	}
}

func TestPlanRefusesTinyTrees(t *testing.T) {
	_, err := newPlan("/tree", fewestRuns-1)
	var wrong *usage.Error
	require.ErrorAs(t, err, &wrong)
}

func TestDue(t *testing.T) {
	p, err := newPlan("/tree", 1000)
	require.NoError(t, err)
	for _, tt := range []struct {
		held, ended int
		due         bool
	}{
		{50, 200, true}, {50, 800, true}, {250, 500, true},
		{49, 500, false}, {50, 199, false}, {50, 801, false}, {0, 0, false},
	} {
		require.Equal(t, tt.due, p.due(tt.held, tt.ended), "%+v", tt)
	}
}
