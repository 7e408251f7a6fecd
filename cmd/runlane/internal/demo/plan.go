package demo

import "github.com/seed4391e180/runlane/cmd/runlane/internal/usage"

// plan says how the work is shared so that the kill can be exact, however fast
// either worker is.
//
// A worker lets a number of handlers through, its allowance, and makes those
// behind wait, with the leases of their runs held, until it is told to go on. The
// victim waits for its death like that. The survivor's allowance is so large that
// it hardly ever comes to its end before the victim is dead; it is there so that
// the victim finds runs to hold even if the survivor is many times faster.
type plan struct {
	root  string
	runs  int
	slots int // handlers of a worker that run at once

	victimAllowance   int
	survivorAllowance int
	mustHold          int // leases that the victim holds, at least, when it is killed
}

const (
	fewestRuns = 24
	mostSlots  = 500
	wantLeases = 50 // that the victim must lose; fewer in a tree of less than 300 files

	// The share of runs that have ended when the victim is killed.
	killFrom  = 0.20
	killUntil = 0.80
)

// newPlan shares the work. Whatever happens first, the sum of both allowances
// keeps the share of ended runs below killUntil; the survivor's alone brings it
// above killFrom; and what the survivor can take, its allowance and its slots,
// leaves enough for the victim's allowance and the leases that it must hold.
func newPlan(root string, runs int) (plan, error) {
	if runs < fewestRuns {
		return plan{}, usage.Errorf("%s holds %d Go files; the demo needs %d, better 300", root, runs, fewestRuns)
	}
	p := plan{root: root, runs: runs, victimAllowance: runs / 8, survivorAllowance: runs / 2}
	p.mustHold = min(wantLeases, runs/6)
	p.slots = min(mostSlots, runs-p.victimAllowance-p.survivorAllowance-p.mustHold)
	return p, nil
}

// due reports whether the victim may be killed when it holds so many leases and so
// many runs have ended.
func (p *plan) due(held, ended int) bool {
	share := float64(ended) / float64(p.runs)
	return held >= p.mustHold && killFrom <= share && share <= killUntil
}
