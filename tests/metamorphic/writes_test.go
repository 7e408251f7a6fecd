package metamorphic_test

import (
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/seed4391e180/runlane/run"
	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/codec"
)

// create stages a record that must be absent.
func (a *attempt) create(name string, rec storage.Record) error {
	if a.careful && !a.read[name] {
		if a.sealed {
			a.say("create", name, "left out: nothing can be read any more")
			return nil
		}
		if _, err := a.fetch([]string{name}); err != nil {
			a.say("create", name, err)
			return a.goOn(err)
		}
	}
	err := a.tx.Create(a.ctx, rec)
	if errors.Is(err, storage.ErrRecordExists) && !a.read[name] {
		a.say("create", name, "finds it present")
		a.refused = err
		return err
	}
	return a.staged("create", name, rec, err)
}

// replace stages a new document for a record. Most programs write the version along
// that they have read.
func (a *attempt) replace(name string, rec storage.Record, fenced bool) error {
	if fenced {
		rec.Version = a.p.last[name].Version
	}
	return a.staged("replace", name, rec, a.tx.Replace(a.ctx, rec))
}

func (a *attempt) remove(name string) error {
	return a.staged("delete", name, storage.Record{}, a.tx.Delete(a.ctx, a.p.world.keys[name]))
}

// staged says what a write answered, and remembers what it staged.
func (a *attempt) staged(what, name string, rec storage.Record, err error) error {
	switch {
	case err == nil:
		a.read[name] = true
		delete(a.wrote, name)
		if rec.Document != nil && !holdsMarks(rec) {
			// As readers get records, without what only writers give.
			a.wrote[name] = storage.Record{Key: rec.Key, Document: rec.Document}
		}
	case isRefusal(err) && a.readOnly[name] && !errors.Is(err, storage.ErrInvalidDocument):
		a.say(what, name, "refused: it was read as read-only")
		return a.goOn(err)
	}
	return a.settle(what+" "+name, err)
}

func holdsMarks(rec storage.Record) bool {
	return strings.ContainsAny(string(rec.Document), storage.CommitTime+storage.CommitTimeLater)
}

// put reads a record and writes it, present or not.
func (a *attempt) put(o op) error {
	name := o.Keys[0]
	return a.putRecord(name, a.p.world.record(name, o.Write), o.Write.Fenced)
}

func (a *attempt) putRecord(name string, rec storage.Record, fenced bool) error {
	recs, err := a.fetch([]string{name})
	if err != nil {
		a.say("put", name, err)
		return a.goOn(err)
	}
	if _, ok := recs[rec.Key]; ok {
		return a.replace(name, rec, fenced)
	}
	return a.create(name, rec)
}

func (a *attempt) readAndRemove(name string) error {
	recs, err := a.fetch([]string{name})
	switch {
	case err != nil:
		a.say("remove", name, err)
		return a.goOn(err)
	case len(recs) == 0:
		a.say("remove", name, "absent")
		return nil
	}
	return a.remove(name)
}

// trigger writes a run and its first event with one payload, which a store may keep
// once for both.
func (a *attempt) trigger(o op) error {
	event := *o.Write
	event.As, event.Type, event.Run, event.Number = "event", string(run.TypeCreated), o.Keys[0], 0
	if o.As == "apart" {
		event.Later = 1 - event.Later // so marks in the payload do not mean the same
	}
	if o.As == "blind" {
		if err := a.create(o.Keys[0], a.p.world.record(o.Keys[0], o.Write)); err != nil {
			return err
		}
		return a.create(o.Keys[1], a.p.world.record(o.Keys[1], &event))
	}
	if err := a.putRecord(o.Keys[0], a.p.world.record(o.Keys[0], o.Write), o.Write.Fenced); err != nil {
		return err
	}
	return a.putRecord(o.Keys[1], a.p.world.record(o.Keys[1], &event), false)
}

// transition reads a run, lets something happen to it and writes run and event.
func (a *attempt) transition(o op) error {
	recs, err := a.fetch(o.Keys)
	if err != nil {
		a.say("transition", o.Keys[0], err)
		return a.goOn(err)
	}
	return a.happen(recs[a.p.world.keys[o.Keys[0]]], o.Keys[0], o.Keys[1], o.Write)
}

// happen applies an event to a run that was read.
func (a *attempt) happen(rec storage.Record, runName, eventName string, c *content) error {
	r, kind := codec.DecodeRun(storage.Record{Key: rec.Key, Document: rec.Document})
	if kind != codec.Canonical {
		a.say("transition", runName, "is no run but", kind)
		return nil
	}
	_, _, number := place(eventName)
	e := run.Event{ID: eventID(number[0]), Environment: r.Environment, RunID: r.ID, Sequence: r.Sequence + 1, At: a.moment(c)}
	e.Data = eventData(&r, c, a.p.world)
	next, err := run.Reduce(&r, r.Sequence+1, e)
	if err != nil {
		a.say("transition", runName, "is", string(r.Status), "and does not allow", c.Type)
		return nil //nolint:nilerr // that a run does not allow an event is part of the history
	}
	changed, err := codec.EncodeRun(next)
	if err != nil {
		a.say("transition", runName, "cannot be encoded:", err)
		return nil
	}
	event, err := codec.EncodeEvent(e)
	if err != nil {
		a.say("transition", eventName, "cannot be encoded:", err)
		return nil
	}
	changed.Version = rec.Version
	if err := a.staged("transition", runName, changed, a.tx.Replace(a.ctx, changed)); err != nil {
		return err
	}
	return a.record(eventName, event)
}

// record writes an event whether or not its key is known.
func (a *attempt) record(name string, rec storage.Record) error {
	if a.read[name] {
		return a.putRecord(name, rec, false)
	}
	return a.create(name, rec)
}

// moment is when an event happens: now, if the transaction has asked for the time.
func (a *attempt) moment(c *content) time.Time {
	if a.sealed {
		return a.now
	}
	return c.moment(c.At)
}

// eventData is what an event of a type says that follows a run.
func eventData(r *run.Run, c *content, w *world) run.EventData {
	var held = token(0)
	if r.Lease != nil {
		held = r.Lease.Token
	}
	if !r.Status.Leased() {
		held = [16]byte{}
	}
	failure := run.Failure{Code: "error", Message: "no", Retryable: true}
	switch run.EventType(c.Type) {
	case run.TypeStarted:
		return run.Started{Lease: run.Lease{
			Token: token(r.Attempts + 1), Worker: "worker", Attempt: r.Attempts + 1, Expires: c.moment(c.Due), Duration: time.Minute,
		}}
	case run.TypeSucceeded:
		return run.Succeeded{Token: held, Result: json.RawMessage(`[1e1, null]`)}
	case run.TypeFailed:
		return run.Failed{Token: held, Failure: failure}
	case run.TypeRetryScheduled:
		return run.RetryScheduled{Token: held, Due: c.moment(c.Due), Failure: failure}
	case run.TypeReleased:
		return run.Released{Token: held, Due: c.moment(c.Due)}
	case run.TypeWaiting:
		if r.ID == runID(0) {
			return run.Waiting{Token: held, For: runID(1)}
		}
		return run.Waiting{Token: held, For: runID(0)}
	case run.TypeResumed:
		return run.Resumed{}
	case run.TypeLeaseExpired:
		return run.LeaseExpired{Token: held, Due: c.moment(c.Due)}
	case run.TypeCancelled:
		return run.Cancelled{Token: held, Reason: "because"}
	}
	return run.CancellationRequested{Reason: "because"}
}

func (a *attempt) append(o op) error {
	items := make([]json.RawMessage, len(o.Items))
	for i, n := range o.Items {
		items[i] = payloads[n]
	}
	err := a.tx.Append(a.ctx, a.p.world.keys[o.Keys[0]], items...)
	return a.settle("append to "+o.Keys[0], err)
}
