package lane

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/seed4391e180/runlane/run"
	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/codec"
)

// step is what happens to an existing run at one moment, an event or a few, with
// everything that is written for it.
type step struct {
	run      run.Run          // afterwards
	event    run.EventData    // the first
	record   storage.Record   // of the run
	logs     []storage.Record // of the events
	freed    []storage.Key    // owners and slots to delete if they still name the run, and its lease
	token    uuid.UUID        // of the lease that ended; uuid.Nil: none
	presence storage.Key      // of a run that ended: says whether any run ever waited for it
	topic    string           // to wake, since the run is due at once or a slot is free; "": none

	awaited bool // set by stage: some run may wait for the end of this one
}

// newStep makes a step of one event.
func (l *Lane) newStep(r *run.Run, id uuid.UUID, at time.Time, data run.EventData) (step, error) {
	return l.newSteps(r, []uuid.UUID{id}, at, data)
}

// newSteps makes a step of several events, each with its id.
func (l *Lane) newSteps(r *run.Run, ids []uuid.UUID, at time.Time, data ...run.EventData) (step, error) {
	s := step{event: data[0]}
	events := make([]run.Event, len(data))
	for i := range data {
		events[i] = run.Event{ID: ids[i], Environment: r.Environment, RunID: r.ID, Sequence: r.Sequence + 1 + int64(i), At: at, Data: data[i]}
		log, err := codec.EncodeEvent(events[i])
		if err != nil {
			return step{}, err
		}
		s.logs = append(s.logs, log)
	}
	var err error
	if s.run, err = run.Reduce(r, r.Sequence+1, events...); err != nil {
		return step{}, err
	}
	if s.record, err = codec.EncodeRun(s.run); err != nil {
		return step{}, err
	}
	return s, s.free(l, r, at)
}

// free finds out what the step gives free: owners, slots, and whoever waits.
func (s *step) free(l *Lane, before *run.Run, at time.Time) (err error) {
	if s.freed, err = freedBy(&s.run); err != nil {
		return err
	}
	if before.Lease != nil && s.run.Lease == nil {
		s.token = before.Lease.Token
		slots, err := slotKeys(before)
		if err != nil {
			return err
		}
		if len(slots) > 0 {
			s.freed = append(s.freed, slots...)
			s.topic = l.topic(s.run.Queue)
		}
	}
	if s.run.Status.Terminal() {
		s.presence, err = codec.WaitPresenceKey(s.run.Environment, s.run.ID)
	}
	if s.run.Status.Runnable() && !s.run.Due.After(at) {
		s.topic = l.topic(s.run.Queue)
	}
	return err
}

// size is the bytes of its documents.
func (s *step) size() int {
	size := len(s.record.Document)
	for i := range s.logs {
		size += len(s.logs[i].Document)
	}
	return size
}

// locks is how many keys a transaction locks for it.
func (s *step) locks() int { return 2 + len(s.logs) + len(s.freed) }

// reads returns the keys that stage looks at besides the run's own.
func (s *step) reads() []storage.Key {
	if s.presence == (storage.Key{}) {
		return s.freed
	}
	return append(s.freed[:len(s.freed):len(s.freed)], s.presence)
}

// stage writes the step in a transaction that has read the run, and into held
// those of the owners and slots that are there.
func (s *step) stage(ctx context.Context, tx storage.Tx, held map[storage.Key]storage.Record) error {
	if err := tx.Replace(ctx, s.record); err != nil {
		return err
	}
	for _, log := range s.logs {
		if err := tx.Create(ctx, log); err != nil {
			return err
		}
	}
	if err := s.stageFreed(ctx, tx, held); err != nil {
		return err
	}
	if s.run.Status.Terminal() {
		// Nobody waits for most runs, so that is assumed; and it stays a dependency, so
		// that a run which begins to wait at this moment either sees the end or is seen.
		_, found, err := tx.AssumeAbsent(ctx, s.presence)
		if err != nil {
			return err
		}
		s.awaited = found
	}
	if s.topic == "" {
		return nil
	}
	return hint(tx, s.topic)
}

// stageFreed deletes those of the owners that still name the run, and of the slots
// those that still name its lease.
func (s *step) stageFreed(ctx context.Context, tx storage.Tx, held map[storage.Key]storage.Record) error {
	for _, key := range s.freed {
		rec, found := held[key]
		if !found || !s.names(rec) {
			continue
		}
		if err := tx.Delete(ctx, key); err != nil {
			return err
		}
	}
	return nil
}

func (s *step) names(rec storage.Record) bool {
	if rec.Key.Collection == storage.QueueSlots {
		return holds(rec, s.token)
	}
	o, ok := decodeOwner(rec)
	return ok && o.runID == s.run.ID
}

// stageAll stages steps whose runs the transaction has read, after reading what
// they may free.
func stageAll(ctx context.Context, tx storage.Tx, steps []step) error {
	var wanted []storage.Key
	for i := range steps {
		wanted = append(wanted, steps[i].reads()...)
	}
	var held map[storage.Key]storage.Record
	if len(wanted) > 0 {
		var err error
		if held, err = tx.GetMany(ctx, wanted); err != nil {
			return err
		}
	}
	for i := range steps {
		if err := steps[i].stage(ctx, tx, held); err != nil {
			return err
		}
	}
	return nil
}

// awaited returns the ids of the runs that ended while some run may wait for them.
func awaited(steps []step) []string {
	var ids []string
	for i := range steps {
		if steps[i].awaited {
			ids = append(ids, steps[i].run.ID)
		}
	}
	return ids
}

// refused reports whether an error says that trying the same again is of no use.
func refused(err error) bool {
	var input *storage.InputError
	return errors.As(err, &input) || errors.Is(err, run.ErrIllegalTransition)
}
