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

// Triggered is what came of a trigger.
type Triggered struct {
	RunID    string
	Existing bool      // a key of the options stood for this run already; nothing was stored
	Created  time.Time // when the run was stored, by the database's clock; zero if that cannot be read, because another version wrote it, say
}

// Item is one run of TriggerMany.
type Item[P any] struct {
	Payload P
	Options TriggerOptions
}

// RunExistsError refuses a RunID that is taken. It is storage.ErrRecordExists.
type RunExistsError struct{ RunID string }

func (e *RunExistsError) Error() string { return fmt.Sprintf("lane: run %q exists", e.RunID) }

// Is makes every RunExistsError a storage.ErrRecordExists.
func (e *RunExistsError) Is(target error) bool { return target == storage.ErrRecordExists }

// Trigger stores one run of the task, durably when it returns. Without keys that
// is one round trip. At most one TriggerOptions may be given.
//
// If the error is storage.ErrCommitUnknown, the run with the RunID of the result
// exists or does not: the caller must look, or trigger again with the same RunID.
// Other errors are those of the store, among them storage.ErrConflict and
// storage.ErrUnavailable, which storage.Retryable tells from the rest, and
// *storage.InputError for a payload, a key or a name that cannot be stored.
func (t *Task[P, R]) Trigger(ctx context.Context, payload P, opts ...TriggerOptions) (Triggered, error) {
	return t.TriggerIn(ctx, t.lane.store, payload, opts...)
}

// TriggerIn is Trigger through a transactor of the caller's choice, such as one
// that joins a transaction which the caller has open: then the run exists if, and
// only if, that transaction commits.
func (t *Task[P, R]) TriggerIn(ctx context.Context, in storage.Transactor, payload P, opts ...TriggerOptions) (Triggered, error) {
	var options TriggerOptions
	switch len(opts) {
	case 0:
	case 1:
		options = opts[0]
	default:
		return Triggered{}, fmt.Errorf("lane: trigger %q: more than one TriggerOptions", t.def.name)
	}
	d, err := t.draft(ctx, payload, options)
	if err != nil {
		return Triggered{}, fmt.Errorf("lane: trigger %q: %w", t.def.name, err)
	}
	results, err := t.lane.enqueue(ctx, in, []*draft{d})
	if err != nil {
		none := Triggered{}
		if errors.Is(err, storage.ErrCommitUnknown) {
			none.RunID = d.runID
		}
		return none, fmt.Errorf("lane: trigger %q: %w", t.def.name, err)
	}
	return results[0], nil
}

// TriggerMany stores one run for each item, in few transactions of about 500 small
// runs each, two at a time. The results are in the order of the items. Of items with the same
// key the first makes the run and the others get it as existing.
//
// All items are checked before anything is stored. If a transaction fails, no other
// is begun, and the result of an item that was not stored is the zero Triggered;
// triggering the rest again is up to the caller. With storage.ErrCommitUnknown some of
// them may be stored nevertheless: give items a RunID to find out.
func (t *Task[P, R]) TriggerMany(ctx context.Context, items []Item[P]) ([]Triggered, error) {
	drafts := make([]*draft, len(items))
	for i := range items {
		d, err := t.draft(ctx, items[i].Payload, items[i].Options)
		if err != nil {
			return nil, fmt.Errorf("lane: trigger %q: item %d: %w", t.def.name, i, err)
		}
		d.place = i
		drafts[i] = d
	}
	results := make([]Triggered, len(items))
	if err := t.lane.enqueueMany(ctx, drafts, results); err != nil {
		return results, fmt.Errorf("lane: trigger %q: %w", t.def.name, err)
	}
	return results, nil
}

// draft is a run that is about to be created, with everything that is written for
// it. Its times are relative to the commit, so nothing in it changes when the
// transaction runs again.
type draft struct {
	place  int // among the items of TriggerMany
	runID  string
	topic  string // to wake; "": the run is not due yet
	named  bool   // the caller chose the id
	run    storage.Record
	event  storage.Record
	owners []storage.Record // of its keys, the idempotency key first
}

func (t *Task[P, R]) draft(ctx context.Context, payload P, opts TriggerOptions) (*draft, error) {
	return t.draftFrom(payload, opts, run.Source{Type: run.SourceTrigger}, t.lane.carried(ctx))
}

func (t *Task[P, R]) draftFrom(payload P, opts TriggerOptions, source run.Source, trace map[string]string) (*draft, error) {
	doc, err := marshal(payload, MaxPayload)
	if err != nil {
		return nil, fmt.Errorf("payload: %w", err)
	}
	created, err := newCreated(t.def, doc, opts)
	if err != nil {
		return nil, err
	}
	created.Source, created.Trace = source, trace
	l := t.lane
	d := &draft{runID: opts.RunID, named: opts.RunID != ""}
	if !d.named {
		d.runID = l.source.runID()
	}
	if opts.Delay == 0 && !opts.RunAt.After(time.Now()) { // a hint: nothing depends on this clock
		d.topic = l.topic(t.def.queue)
	}
	return d, d.encode(l.env, l.source.id(), created)
}

// encode fills in what is written for the run.
func (d *draft) encode(env string, eventID uuid.UUID, created run.Created) error {
	event := run.Event{ID: eventID, Environment: env, RunID: d.runID, Sequence: 1, At: run.AtCommit, Data: created}
	r, err := run.Reduce(nil, 1, event)
	if err != nil {
		return err
	}
	if d.run, err = codec.EncodeRun(r); err != nil {
		return err
	}
	if d.event, err = codec.EncodeEvent(event); err != nil {
		return err
	}
	d.owners, err = ownersOf(&r)
	return err
}

// ownersOf returns the records that make the keys of a new run stand for it.
func ownersOf(r *run.Run) ([]storage.Record, error) {
	var owners []storage.Record
	if r.IdempotencyKey != "" {
		o := codec.IdempotencyOwner{Environment: r.Environment, Task: r.Task, Key: r.IdempotencyKey, RunID: r.ID}
		if r.IdempotencyTTL > 0 {
			o.Expires = run.AtCommit.Add(r.IdempotencyTTL)
		}
		rec, err := codec.EncodeIdempotencyOwner(o)
		if err != nil {
			return nil, err
		}
		owners = append(owners, rec)
	}
	if r.SingletonKey != "" {
		rec, err := codec.EncodeSingletonOwner(codec.SingletonOwner{Environment: r.Environment, Task: r.Task, Key: r.SingletonKey, RunID: r.ID})
		if err != nil {
			return nil, err
		}
		owners = append(owners, rec)
	}
	return owners, nil
}
