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

// step is one event that happens to an existing run, with everything that is
// written for it.
type step struct {
	run    run.Run // after the event
	event  run.EventData
	record storage.Record // of the run
	log    storage.Record // of the event
	freed  []storage.Key  // owners to delete if they still name the run
	topic  string         // to wake, since the run is due at once; "": none
}

func (l *Lane) newStep(r *run.Run, id uuid.UUID, at time.Time, data run.EventData) (step, error) {
	event := run.Event{ID: id, Environment: r.Environment, RunID: r.ID, Sequence: r.Sequence + 1, At: at, Data: data}
	next, err := run.Reduce(r, event.Sequence, event)
	if err != nil {
		return step{}, err
	}
	s := step{run: next, event: data}
	if s.record, err = codec.EncodeRun(next); err != nil {
		return step{}, err
	}
	if s.log, err = codec.EncodeEvent(event); err != nil {
		return step{}, err
	}
	if s.freed, err = freedBy(&next); err != nil {
		return step{}, err
	}
	if next.Status.Runnable() && !next.Due.After(at) {
		s.topic = l.topic(next.Queue)
	}
	return s, nil
}

// size is the bytes of its documents.
func (s *step) size() int { return len(s.record.Document) + len(s.log.Document) }

// stage writes the step in a transaction that has read the run, and into owners
// those of the owners that are there.
func (s *step) stage(ctx context.Context, tx storage.Tx, owners map[storage.Key]storage.Record) error {
	if err := tx.Replace(ctx, s.record); err != nil {
		return err
	}
	if err := tx.Create(ctx, s.log); err != nil {
		return err
	}
	if err := freeOwners(ctx, tx, owners, s.freed, s.run.ID); err != nil {
		return err
	}
	if s.topic == "" {
		return nil
	}
	return hint(tx, s.topic)
}

// refused reports whether an error says that trying the same again is of no use.
func refused(err error) bool {
	var input *storage.InputError
	return errors.As(err, &input) || errors.Is(err, run.ErrIllegalTransition)
}
