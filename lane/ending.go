package lane

import (
	"context"

	"github.com/seed4391e180/runlane/run"
	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/codec"
)

// ending is an outcome on its way into the store.
type ending struct {
	claim   *claim
	outcome outcome
	plan    plan
	unknown bool // a transaction that may have stored it ended without an answer

	record storage.Record // what the transaction under way assumes
}

// plan is what is written for an ending if the run is still at the version that
// the plan was made for. Its times are relative to the commit.
type plan struct {
	base   storage.Version
	before *run.Run
	step
}

// fate is what became of an ending: the event that was stored, or nil if the run
// is no longer this worker's.
type fate struct {
	event   run.EventData
	due     bool // the run is due again at once
	awaited bool // the run has ended, and some run may wait for that
}

var lost = fate{}

// newPlan makes the plan for a run as it is read from a record of that version.
func (l *Lane) newPlan(c *claim, out *outcome, r *run.Run, base storage.Version) (plan, error) {
	s, err := l.newStep(r, c.eventID, run.AtCommit, out.event(r))
	return plan{base, r, s}, err
}

// event is what an outcome means for a run that is leased to this worker. A run
// whose cancellation was requested cannot be tried again.
func (o *outcome) event(r *run.Run) run.EventData {
	token := r.Lease.Token
	switch {
	case o.kind == kindSucceeded:
		return run.Succeeded{Token: token, Result: o.result}
	case r.Status == run.StatusCancellationRequested:
		return run.Cancelled{Token: token}
	case o.kind == kindWaiting:
		return run.Waiting{Token: token, For: o.source}
	case o.kind == kindReleased:
		return run.Released{Token: token, Due: run.AtCommit.Add(o.delay)}
	case o.permanent || exhausted(r.Failures, r.MaxAttempts):
		return run.Failed{Token: token, Failure: o.failure}
	}
	return run.RetryScheduled{Token: token, Due: run.AtCommit.Add(o.delay), Failure: o.failure}
}

// submit hands an outcome to the finishers. A result that cannot be stored becomes
// a failure here, where it concerns nobody else.
func (w *worker) submit(c *claim, out outcome) {
	e := &ending{claim: c, outcome: out}
	w.mu.Lock()
	r, base := c.run, c.record.Version
	w.mu.Unlock()
	var err error
	if e.plan, err = w.lane.newPlan(c, &e.outcome, &r, base); err != nil && refused(err) {
		e.outcome = w.failed(c, out.refusal(), err.Error(), "", true)
		e.plan, err = w.lane.newPlan(c, &e.outcome, &r, base)
	}
	if err != nil {
		// Nothing a worker does leads here. The lease will expire, and recovery decides.
		w.lane.log.Error("outcome cannot be written", "run", c.id, "task", c.def.name, "error", err)
		w.settle(e, lost)
		return
	}
	w.mu.Lock()
	w.endings = append(w.endings, e)
	w.mu.Unlock()
	w.signalFinisher()
}

// stage writes an ending in a transaction; held is what was read of the owners and
// slots that it may free.
func (e *ending) stage(ctx context.Context, tx storage.Tx, l *Lane, held map[storage.Key]storage.Record) (fate, error) {
	rec, found, err := tx.Assume(ctx, e.record)
	if err != nil {
		return lost, err
	}
	p := &e.plan
	if !found || rec.Version != p.base {
		// A heartbeat, a request to cancel, or the end of the lease came between.
		r, ok := leasedTo(rec, found, e.claim.token)
		if !ok {
			return e.missed(ctx, tx)
		}
		again, err := l.newPlan(e.claim, &e.outcome, r, rec.Version)
		if err != nil {
			return lost, err
		}
		p = &again
	}
	if _, waits := p.event.(run.Waiting); waits {
		settled, err := e.settleWait(ctx, tx, l, p.before)
		if err != nil {
			return lost, err
		}
		p = &plan{p.base, p.before, settled}
	}
	if wanted := p.reads(); p != &e.plan && len(wanted) > 0 { // perhaps others than those of the old plan
		if held, err = tx.GetMany(ctx, wanted); err != nil {
			return lost, err
		}
	}
	err = p.stage(ctx, tx, held)
	return fate{p.event, p.topic != "" && p.run.Status == run.StatusQueued, p.awaited}, err
}

// missed tells an ending that was overtaken from one that a transaction with an
// unknown outcome has stored: then the event exists, which nobody else can write.
func (e *ending) missed(ctx context.Context, tx storage.Tx) (fate, error) {
	if !e.unknown {
		return lost, nil
	}
	_, found, err := tx.Get(ctx, e.plan.logs[0].Key)
	if err != nil || !found {
		return lost, err
	}
	// Whether anybody waited for the end was not learnt; Tick finds them.
	return fate{event: e.plan.event, awaited: e.plan.run.Status.Terminal()}, nil
}

// leasedTo returns the run of a record if it is leased under the token.
func leasedTo(rec storage.Record, found bool, token [16]byte) (*run.Run, bool) {
	if !found {
		return nil, false
	}
	r, kind := codec.DecodeRun(rec)
	if kind != codec.Canonical || r.Lease == nil || r.Lease.Token != token {
		return nil, false
	}
	return &r, true
}
