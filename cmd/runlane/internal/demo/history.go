package demo

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/seed4391e180/runlane/run"
	"github.com/seed4391e180/runlane/storage"
)

// history is what the events of all runs say, read in the order in which they
// happened.
type history struct {
	runs   int       // that there are to be
	killed time.Time // when the victim was seen holding its leases, just before it died

	events     int
	gaps       int                // events whose sequence does not follow the one before
	endedTwice int                // runs with more than one terminal event
	started    map[string]int     // leases granted, by worker
	expired    map[string]int     // leases that ended by expiry, by the worker that held them
	claims     map[claimID]bool   // transactions that granted leases
	finishes   map[time.Time]bool // transactions that ended runs
	last       time.Time          // the last terminal event
	wait       time.Duration      // see advance

	now       time.Time
	sameTime  []run.Event          // events of now, not counted yet
	sequences map[string]int64     // by run
	ends      map[string]int       // terminal events by run
	workers   map[uuid.UUID]string // who holds, or held, a lease
	running   map[string]uuid.UUID // the lease of each run that has one
	open      int                  // runs that have not ended
	lost      int                  // of those, the ones with a lease of the victim
}

// claimID tells claims apart: all leases of a claim begin at one time.
type claimID struct {
	worker string
	at     time.Time
}

func newHistory(runs int, killed time.Time) *history {
	return &history{
		runs: runs, killed: killed,
		started: map[string]int{}, expired: map[string]int{}, claims: map[claimID]bool{}, finishes: map[time.Time]bool{},
		sequences: map[string]int64{}, ends: map[string]int{}, workers: map[uuid.UUID]string{}, running: map[string]uuid.UUID{},
	}
}

// readHistory reads all events through the operator's API.
func readHistory(ctx context.Context, store storage.Operator, runs int, killed time.Time) (*history, error) {
	h := newHistory(runs, killed)
	filter := storage.EventFilter{Environment: environment, Sort: storage.SortOccurred, Limit: storage.DefaultLimits().MaxPage}
	for {
		page, err := store.ListEvents(ctx, filter)
		if err != nil {
			return nil, err
		}
		for _, e := range page.Events {
			h.add(e)
		}
		if page.Next == "" {
			h.flush()
			return h, nil
		}
		filter.Cursor = page.Next
	}
}

// add takes the next event. Events of one time come in no order, so they are put
// into the order of their sequences first.
func (h *history) add(e run.Event) {
	if !e.At.Equal(h.now) {
		h.flush()
		h.advance(e.At)
	}
	h.sameTime = append(h.sameTime, e)
}

func (h *history) flush() {
	slices.SortFunc(h.sameTime, func(a, b run.Event) int { return cmp.Compare(a.Sequence, b.Sequence) })
	for i := range h.sameTime {
		h.apply(&h.sameTime[i])
	}
	h.sameTime = h.sameTime[:0]
}

// advance moves the clock. Time in which every run that has not ended has a lease
// of the dead worker is time in which nobody can do anything but wait.
func (h *history) advance(at time.Time) {
	if h.open > 0 && h.open == h.lost && len(h.sequences) == h.runs && at.After(h.killed) {
		from := h.now
		if from.Before(h.killed) {
			from = h.killed
		}
		h.wait += at.Sub(from)
	}
	h.now = at
}

func (h *history) apply(e *run.Event) {
	h.events++
	if e.Sequence != h.sequences[e.RunID]+1 {
		h.gaps++
	}
	h.sequences[e.RunID] = e.Sequence
	switch d := e.Data.(type) {
	case run.Created:
		h.open++
	case run.Started:
		h.grant(e, d.Lease)
	case run.LeaseExpired:
		h.expired[h.workers[d.Token]]++
		h.free(e.RunID)
	case run.Succeeded, run.Failed, run.Cancelled:
		h.end(e)
	default:
		h.free(e.RunID)
	}
}

func (h *history) grant(e *run.Event, lease run.Lease) {
	h.workers[lease.Token] = lease.Worker
	h.started[lease.Worker]++
	h.claims[claimID{lease.Worker, e.At}] = true
	h.running[e.RunID] = lease.Token
	if lease.Worker == victimName {
		h.lost++
	}
}

// free takes the lease from a run, if it has one.
func (h *history) free(runID string) {
	token, leased := h.running[runID]
	if !leased {
		return
	}
	delete(h.running, runID)
	if h.workers[token] == victimName {
		h.lost--
	}
}

func (h *history) end(e *run.Event) {
	h.free(e.RunID)
	h.finishes[e.At] = true
	h.last = e.At
	h.ends[e.RunID]++
	switch h.ends[e.RunID] {
	case 1:
		h.open--
	case 2:
		h.endedTwice++
	}
}
