package lane

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seed4391e180/runlane/run"
	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/codec"
	"github.com/seed4391e180/runlane/storage/keys"
)

// A schedule is part of a program, as a task is. What is stored of it is a cursor,
// the time up to which its fires are over, and an occurrence for each fire that made
// a run. A fire is one transaction: it reads the cursor, and writes the run, its
// first event, the occurrence under a name made of schedule and time, and the cursor.
// So any number of processes may tick: one fires, and the others find the cursor
// moved.

// ScheduleOptions says more about the runs of a schedule. The zero value, and the
// zero value of each field, is the default.
type ScheduleOptions struct {
	// Run is for the runs that the schedule makes. RunID, RunAt, Delay, IdempotencyKey and
	// LatestStart must not be set.
	Run TriggerOptions
	// SkipActive leaves a fire out while the run of an earlier one is active. It makes
	// the schedule's name the runs' SingletonKey, unless there is one.
	SkipActive bool
}

// schedule is a schedule without its types. due is guarded by Lane.mu.
type schedule struct {
	name   string
	spec   Spec
	cursor storage.Key
	draft  func(fire time.Time) (*draft, error)

	known bool      // the cursor has been read or written by this process
	due   time.Time // the first fire behind the cursor, as far as this process knows; zero: none
}

// Schedule makes a task run at times. payload gives each run its payload; it is
// called with the time of the fire, outside of transactions, perhaps more than once.
//
// Workers fire what is due, as [Lane.Tick] does, by the database's clock. If several
// fires of a schedule have passed since the last one, because no process was there,
// only the latest makes a run. A schedule that is new fires for no time that
// passed before a process with it first ticked, a Once among them. One whose Spec has
// changed counts from its last fire: if the new Spec has a time between that and now, it
// fires at once. One that no program has any more does nothing; if it comes back, it
// counts from its last fire, too. While programs with different Specs for one name
// run side by side, the fires of both make runs.
//
// Schedule panics if something is invalid or the name is taken; see [Define]. Names are
// as those of tasks.
func Schedule[P, R any](l *Lane, name string, task *Task[P, R], spec Spec, payload func(fire time.Time) P, opts ScheduleOptions) {
	s, err := newSchedule(l, name, task, spec, payload, opts)
	if err == nil {
		err = l.addSchedule(s)
	}
	if err != nil {
		panic(fmt.Sprintf("lane: Schedule(%q): %v", name, err))
	}
}

func newSchedule[P, R any](l *Lane, name string, task *Task[P, R], spec Spec, payload func(fire time.Time) P, opts ScheduleOptions) (*schedule, error) {
	if err := keys.CheckName("schedule", name); err != nil {
		return nil, err
	}
	if err := spec.check(); err != nil {
		return nil, err
	}
	o := opts.Run
	switch {
	case task == nil || task.lane != l || payload == nil:
		return nil, errors.New("a schedule needs a task of the same lane, and a payload")
	case o.RunID != "" || !o.RunAt.IsZero() || o.Delay != 0 || o.IdempotencyKey != "" || !o.LatestStart.IsZero():
		return nil, errors.New("RunID, RunAt, Delay, IdempotencyKey and LatestStart are not for schedules")
	}
	if opts.SkipActive && o.SingletonKey == "" {
		o.SingletonKey = name
	}
	if _, err := newCreated(task.def, nil, o); err != nil {
		return nil, err
	}
	cursor, err := codec.ScheduleCursorKey(l.env, name)
	if err != nil {
		return nil, err
	}
	return &schedule{name: name, spec: spec, cursor: cursor, draft: func(fire time.Time) (*draft, error) {
		return task.draftFrom(payload(fire), o, run.Source{Type: run.SourceSchedule, Schedule: name}, nil)
	}}, nil
}

func (l *Lane) addSchedule(s *schedule) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.schedules[s.name] != nil {
		return errors.New("the schedule is defined already")
	}
	if l.schedules == nil {
		l.schedules = map[string]*schedule{}
	}
	l.schedules[s.name] = s
	return nil
}

// cursorBatch is how many cursors one transaction reads or makes.
const cursorBatch = 500

// tickSchedules fires what is due and returns how many runs it made. If nothing is, it
// asks the database for the time, and no more.
func (l *Lane) tickSchedules(ctx context.Context) (fired int, err error) {
	fired, _, err = l.fireDue(ctx)
	return fired, err
}

// fireDue is tickSchedules, and says how long after it began the next fire is due, as far as this
// process knows.
func (l *Lane) fireDue(ctx context.Context) (fired int, wait time.Duration, err error) {
	l.mu.RLock()
	none := len(l.schedules) == 0
	l.mu.RUnlock()
	if none {
		return 0, never, nil
	}
	now, err := l.now(ctx)
	if err != nil {
		return 0, never, fmt.Errorf("lane: schedules: %w", err)
	}
	if err := l.readCursors(ctx, now); err != nil {
		return 0, never, fmt.Errorf("lane: schedules: %w", err)
	}
	due, wait := l.dueSchedules(now)
	var errs []error
	for _, s := range due {
		made, err := l.fire(ctx, s, now)
		if made {
			fired++
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("lane: schedule %q: %w", s.name, err))
		}
	}
	return fired, wait, errors.Join(errs...)
}

// never is how long a process waits that knows of nothing to wait for.
const never time.Duration = 1<<63 - 1

// dueSchedules returns the schedules that seem due, and how far off the next one is.
func (l *Lane) dueSchedules(now time.Time) (due []*schedule, wait time.Duration) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	wait = never
	for _, s := range l.schedules {
		switch {
		case !s.known || s.due.IsZero():
		case !s.due.After(now):
			due = append(due, s)
			if next := s.spec.next(now); !next.IsZero() {
				wait = min(wait, next.Sub(now))
			}
		default:
			wait = min(wait, s.due.Sub(now))
		}
	}
	return due, wait
}

// readCursors reads the cursors that this process does not know, and makes those
// that do not exist.
func (l *Lane) readCursors(ctx context.Context, now time.Time) error {
	l.mu.RLock()
	var unknown []*schedule
	for _, s := range l.schedules {
		if !s.known {
			unknown = append(unknown, s)
		}
	}
	l.mu.RUnlock()
	for len(unknown) > 0 {
		batch := unknown[:min(len(unknown), cursorBatch)]
		unknown = unknown[len(batch):]
		considered, _, err := storage.Transact(ctx, l.store, "schedule.cursors", func(ctx context.Context, tx storage.Tx) ([]time.Time, error) {
			return l.openCursors(ctx, tx, batch, now)
		})
		if err != nil {
			return err
		}
		for i, s := range batch {
			l.learn(s, considered[i])
		}
	}
	return nil
}

// openCursors returns how far each schedule has come; zero if that cannot be read.
func (l *Lane) openCursors(ctx context.Context, tx storage.Tx, batch []*schedule, now time.Time) ([]time.Time, error) {
	wanted := make([]storage.Key, len(batch))
	for i, s := range batch {
		wanted[i] = s.cursor
	}
	found, err := tx.GetMany(ctx, wanted)
	if err != nil {
		return nil, err
	}
	considered := make([]time.Time, len(batch))
	for i, s := range batch {
		if rec, ok := found[s.cursor]; ok {
			if c, kind := codec.DecodeScheduleCursor(rec); kind == codec.Canonical {
				considered[i] = c.Considered
			}
			continue
		}
		rec, err := codec.EncodeScheduleCursor(codec.ScheduleCursor{Environment: l.env, Schedule: s.name, Considered: now})
		if err != nil {
			return nil, err
		}
		if err := tx.Create(ctx, rec); err != nil {
			return nil, err
		}
		considered[i] = now
	}
	return considered, nil
}

// learn notes how far a schedule has come. A cursor that cannot be read, because
// another version wrote it, keeps the schedule quiet here.
func (l *Lane) learn(s *schedule, considered time.Time) {
	var due time.Time
	if considered.IsZero() {
		l.log.Warn("schedule is left to another version, which wrote its cursor", "schedule", s.name)
	} else {
		due = s.spec.next(considered)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	s.known, s.due = true, due
}

// shot is what a transaction made of a fire.
type shot struct {
	considered time.Time // how far the schedule has come
	made       bool      // a run
}

// fire fires a schedule for the latest time up to now, unless that has been done.
func (l *Lane) fire(ctx context.Context, s *schedule, now time.Time) (made bool, err error) {
	l.mu.RLock()
	due := s.due
	l.mu.RUnlock()
	at := s.spec.latest(due.Add(-time.Microsecond), now)
	if at.IsZero() {
		return false, nil
	}
	d, err := s.draw(at)
	if err != nil {
		return false, err
	}
	occurrence, err := codec.EncodeScheduleOccurrence(codec.ScheduleOccurrence{Environment: l.env, Schedule: s.name, Fire: at, RunID: d.runID, Created: run.AtCommit})
	if err != nil {
		return false, err
	}
	cursor, err := codec.EncodeScheduleCursor(codec.ScheduleCursor{Environment: l.env, Schedule: s.name, Considered: at})
	if err != nil {
		return false, err
	}
	done, _, err := storage.Transact(ctx, l.store, "schedule.fire", func(ctx context.Context, tx storage.Tx) (shot, error) {
		return l.stageFire(ctx, tx, d, cursor, occurrence, at)
	})
	if err != nil {
		return false, err
	}
	l.learn(s, done.considered)
	return done.made, l.forgetOccurrences(ctx, s, now)
}

// draw drafts the run of a fire. A payload function that panics keeps its own
// schedule from firing, and no other.
func (s *schedule) draw(at time.Time) (d *draft, err error) {
	defer func() {
		if thrown := recover(); thrown != nil {
			err = fmt.Errorf("payload for %s: panic: %v", at.Format(time.RFC3339), thrown)
		}
	}()
	return s.draft(at)
}

func (l *Lane) stageFire(ctx context.Context, tx storage.Tx, d *draft, cursor, occurrence storage.Record, at time.Time) (shot, error) {
	found, err := tx.GetMany(ctx, []storage.Key{cursor.Key, occurrence.Key})
	if err != nil {
		return shot{}, err
	}
	if rec, there := found[cursor.Key]; there {
		c, kind := codec.DecodeScheduleCursor(rec)
		if kind != codec.Canonical || !c.Considered.Before(at) {
			return shot{considered: c.Considered}, nil
		}
		err = tx.Replace(ctx, cursor)
	} else {
		err = tx.Create(ctx, cursor)
	}
	if err != nil {
		return shot{}, err
	}
	if _, there := found[occurrence.Key]; there { // somebody deleted the cursor
		return shot{considered: at}, nil
	}
	ring, err := readKeys(ctx, tx, l.env, []*draft{d})
	if err != nil {
		return shot{}, err
	}
	if _, held := ring.existing(d, 0, make([]Triggered, 1)); held {
		return shot{considered: at}, nil
	}
	if err := d.stage(ctx, tx, ring); err != nil {
		return shot{}, err
	}
	return shot{considered: at, made: true}, tx.Create(ctx, occurrence)
}

// occurrencePage is how many occurrences one transaction deletes.
const occurrencePage = 50

// forgetOccurrences deletes some occurrences that are older than runs are kept.
func (l *Lane) forgetOccurrences(ctx context.Context, s *schedule, now time.Time) error {
	if l.keep == KeepForever {
		return nil
	}
	partition, err := codec.OccurrencesPartition(l.env, s.name)
	if err != nil {
		return err
	}
	sort, err := keys.EncodeTime(now.Add(-l.keep))
	if err != nil {
		return err
	}
	_, err = l.store.Transact(ctx, "schedule.forget", func(ctx context.Context, tx storage.Tx) error {
		page, err := tx.Query(ctx, storage.Query{
			Index: storage.ScheduleOccurrencesByFireTime, Partition: partition, Until: storage.At(sort), Limit: occurrencePage, Lock: storage.Exclusive,
		})
		if err != nil {
			return err
		}
		for _, rec := range page.Records {
			if err := tx.Delete(ctx, rec.Key); err != nil {
				return err
			}
		}
		return nil
	})
	return err
}

// Occurrence is a fire of a schedule that made a run.
type Occurrence struct {
	Fire    time.Time
	RunID   string
	Created time.Time
}

// Occurrences returns the last fires of a schedule that made runs, the latest first, at
// most limit of them (1 to 500; 0 is 50). When a schedule fires, those that are older
// than runs are kept are forgotten.
func (l *Lane) Occurrences(ctx context.Context, schedule string, limit int) ([]Occurrence, error) {
	partition, err := codec.OccurrencesPartition(l.env, schedule)
	if err != nil {
		return nil, fmt.Errorf("lane: occurrences: %w", err)
	}
	page, _, err := storage.Transact(ctx, l.store, "schedule.occurrences", func(ctx context.Context, tx storage.Tx) (storage.Page, error) {
		return tx.Query(ctx, storage.Query{
			Index: storage.ScheduleOccurrencesByFireTime, Partition: partition, Limit: limit, Direction: storage.Descending,
		})
	})
	if err != nil {
		return nil, fmt.Errorf("lane: occurrences: %w", err)
	}
	var all []Occurrence
	for _, rec := range page.Records {
		if o, kind := codec.DecodeScheduleOccurrence(rec); kind == codec.Canonical {
			all = append(all, Occurrence{Fire: o.Fire, RunID: o.RunID, Created: o.Created})
		}
	}
	return all, nil
}

// schedule fires what is due, when it is due, until ctx ends. Several processes wake
// at the same time; a small spread leaves most of them nothing to do.
func (w *worker) schedule(ctx context.Context) {
	for {
		_, wait, err := w.lane.fireDue(ctx)
		if err != nil && ctx.Err() == nil {
			if errors.Is(err, storage.ErrClosed) {
				return
			}
			w.lane.log.Warn("firing schedules failed", "worker", w.cfg.Name, "error", err)
		}
		spread := time.Duration(w.lane.source.chance() * float64(fireSpread))
		if !pause(ctx, min(wait, w.cfg.TickInterval)+spread) {
			return
		}
	}
}

const fireSpread = 50 * time.Millisecond
