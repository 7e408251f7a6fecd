package lane

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/seed4391e180/runlane/run"
	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/codec"
)

// AgainOptions says more about a run that does the work of another one again. The
// zero value, and the zero value of each field, is the default.
type AgainOptions struct {
	// RunID names the new run, as in TriggerOptions. With a RunID the call may be
	// repeated: once the run is there, it is returned as existing. A name that another
	// run has is a [*RunExistsError]. "": a new UUIDv7.
	RunID string
	// Delay is how long after the moment in which it is stored the new run is due.
	Delay time.Duration
}

// StatusError refuses to do something with a run because of its status.
type StatusError struct {
	RunID  string
	Status run.Status
	Action string // "retry" or "rerun"
}

func (e *StatusError) Error() string {
	return fmt.Sprintf("lane: %s: run %q is %s", e.Action, e.RunID, e.Status)
}

// Retry makes a new run that does the work of a failed one again. The failed run
// stays as it is; the new one names it in its Source, of type
// run.SourceManualRetry, and takes over its task, queue, priority, payload, limit of attempts,
// timeout, metadata and keys, but not its latest start. Its attempts are counted from the beginning, and the time to
// live of its idempotency key begins anew.
//
// The keys are taken as by [Task.Trigger]: if one stands for another run by then,
// nothing is stored and that run is returned as existing, since it does the work.
// Calls without a RunID, and without a key, each make a run of their own.
//
// Errors: *StatusError for a run that has not failed, ErrNoRun, *RunExistsError,
// and those of the store. If the error is storage.ErrCommitUnknown, the new run with
// the RunID of the result exists or does not: call again with the same RunID.
func (l *Lane) Retry(ctx context.Context, runID string, opts ...AgainOptions) (Triggered, error) {
	return l.doAgain(ctx, retryRun, runID, opts)
}

// Rerun makes a new run like one that has ended, however it ended; Source is of the
// type run.SourceRerun. It is as [Lane.Retry] in all else but one: the new run carries no
// idempotency key, since the key may well stand for the run that is done again. Its
// singleton key is taken: the active run of the key, if there is one, is returned as existing.
func (l *Lane) Rerun(ctx context.Context, runID string, opts ...AgainOptions) (Triggered, error) {
	return l.doAgain(ctx, rerunRun, runID, opts)
}

// manner is how a run is done again.
type manner struct {
	action string
	source run.SourceType
}

var (
	retryRun = manner{"retry", run.SourceManualRetry}
	rerunRun = manner{"rerun", run.SourceRerun}
)

func (m manner) allows(s run.Status) bool {
	return s == run.StatusFailed || s.Terminal() && m.source == run.SourceRerun
}

// again is a run that is to be made from another one. Everything random in it is
// drawn, so that a transaction that runs again writes the same.
type again struct {
	manner
	origin    string
	originKey storage.Key
	runID     string
	runKey    storage.Key
	named     bool
	event     uuid.UUID
	delay     time.Duration
}

func (l *Lane) newAgain(m manner, origin string, o AgainOptions) (*again, error) {
	if o.Delay < 0 || o.Delay > run.MaxAfterCommit {
		return nil, errors.New("Delay is negative or more than 100 years")
	}
	a := &again{manner: m, origin: origin, runID: o.RunID, named: o.RunID != "", event: l.source.id(), delay: o.Delay}
	if !a.named {
		a.runID = l.source.runID()
	}
	var err error
	if a.originKey, err = codec.RunKey(l.env, origin); err != nil {
		return nil, err
	}
	a.runKey, err = codec.RunKey(l.env, a.runID)
	return a, err
}

func (l *Lane) doAgain(ctx context.Context, m manner, origin string, opts []AgainOptions) (Triggered, error) {
	var options AgainOptions
	switch len(opts) {
	case 0:
	case 1:
		options = opts[0]
	default:
		return Triggered{}, fmt.Errorf("lane: %s: more than one AgainOptions", m.action)
	}
	a, err := l.newAgain(m, origin, options)
	if err != nil {
		return Triggered{}, fmt.Errorf("lane: %s: %w", m.action, err)
	}
	items, err := l.againAll(ctx, []*again{a})
	if err == nil {
		err = items[0].Err
	}
	if err != nil {
		none := Triggered{}
		if errors.Is(err, storage.ErrCommitUnknown) {
			none.RunID = a.runID
		}
		return none, wrapAgain(m, err)
	}
	return items[0].Triggered, nil
}

// wrapAgain says what was being done, unless the error does.
func wrapAgain(m manner, err error) error {
	var status *StatusError
	if errors.As(err, &status) {
		return err
	}
	return fmt.Errorf("lane: %s: %w", m.action, err)
}

// remake is one attempt of a transaction that does runs again.
type remake struct {
	items   []RetryItem
	drafts  []*draft    // of those items that are neither there already nor refused
	made    []Triggered // what came of each draft
	ofDraft []int       // the item of each draft
}

// againAll makes, in one transaction, as many of the runs, from the first, as it can
// write, and returns what came of each.
func (l *Lane) againAll(ctx context.Context, wishes []*again) ([]RetryItem, error) {
	res, commit, err := storage.Transact(ctx, l.store, "run.again", func(ctx context.Context, tx storage.Tx) (*remake, error) {
		m, err := l.decideAgain(ctx, tx, wishes)
		if err != nil || len(m.drafts) == 0 {
			return m, err
		}
		ring, err := readKeys(ctx, tx, l.env, m.drafts)
		if err != nil {
			return nil, err
		}
		m.made = make([]Triggered, len(m.drafts))
		for i, d := range m.drafts {
			if t, ok := ring.existing(d, i, m.made); ok {
				m.made[i] = t
				continue
			}
			m.made[i] = Triggered{RunID: d.runID, Created: run.AtCommit}
			if err := d.stage(ctx, tx, ring); err != nil {
				return nil, err
			}
		}
		return m, nil
	})
	if err != nil {
		return nil, err
	}
	at := commit.Time
	if at.IsZero() && len(res.drafts) > 0 {
		at = l.storedTime(ctx, l.store, res.drafts, res.made)
	}
	for i, t := range res.made {
		t.Created = run.Resolve(t.Created, at)
		res.items[res.ofDraft[i]].Triggered = t
	}
	return res.items, nil
}

// decideAgain reads the runs and drafts those that are to be made.
func (l *Lane) decideAgain(ctx context.Context, tx storage.Tx, wishes []*again) (*remake, error) {
	var wanted []storage.Key
	for _, a := range wishes {
		wanted = append(wanted, a.originKey)
		if a.named {
			wanted = append(wanted, a.runKey)
		}
	}
	records, err := tx.GetMany(ctx, wanted)
	if err != nil {
		return nil, err
	}
	m := &remake{}
	for i, a := range wishes {
		item := RetryItem{Origin: a.origin}
		var d *draft
		item.Triggered, d, item.Err = l.decideOne(records, a)
		if d != nil {
			if m.drafts = append(m.drafts, d); fitting(m.drafts) < len(m.drafts) {
				m.drafts = m.drafts[:len(m.drafts)-1]
				break
			}
			m.ofDraft = append(m.ofDraft, i)
		}
		m.items = append(m.items, item)
	}
	return m, nil
}

func (l *Lane) decideOne(records map[storage.Key]storage.Record, a *again) (Triggered, *draft, error) {
	if rec, found := records[a.runKey]; found && a.named {
		made, kind := codec.DecodeRun(rec)
		if kind != codec.Canonical || made.Source != a.link() {
			return Triggered{}, nil, &RunExistsError{RunID: a.runID}
		}
		return Triggered{RunID: a.runID, Existing: true, Created: made.Created}, nil, nil
	}
	rec, found := records[a.originKey]
	origin, kind := codec.DecodeRun(rec)
	if !found || kind != codec.Canonical {
		return Triggered{}, nil, fmt.Errorf("%w: %s", ErrNoRun, a.originKey)
	}
	if !a.allows(origin.Status) {
		return Triggered{}, nil, &StatusError{RunID: a.origin, Status: origin.Status, Action: a.action}
	}
	d := &draft{runID: a.runID, named: a.named}
	if a.delay == 0 {
		d.topic = l.topic(origin.Queue)
	}
	if err := d.encode(l.env, a.event, a.created(&origin)); err != nil {
		return Triggered{}, nil, err
	}
	return Triggered{}, d, nil
}

// link is what the new run says of its origin.
func (a *again) link() run.Source { return run.Source{Type: a.source, RunID: a.origin} }

// created makes the event that creates the run.
func (a *again) created(origin *run.Run) run.Created {
	c := run.Created{
		Task:           origin.Task,
		Queue:          origin.Queue,
		Priority:       origin.Priority,
		Payload:        origin.Payload,
		MaxAttempts:    origin.MaxAttempts,
		Source:         a.link(),
		SingletonKey:   origin.SingletonKey,
		ConcurrencyKey: origin.ConcurrencyKey,
		Timeout:        origin.Timeout,
		Trace:          origin.Trace,
		Metadata:       origin.Metadata,
	}
	if a.source == run.SourceManualRetry {
		c.IdempotencyKey, c.IdempotencyTTL = origin.IdempotencyKey, origin.IdempotencyTTL
	}
	if a.delay > 0 {
		c.RunAt = run.AtCommit.Add(a.delay.Truncate(time.Microsecond))
	}
	return c
}
