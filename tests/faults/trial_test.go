package faults_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/postgres"
	"github.com/seed4391e180/runlane/tests/wire"
)

// errClaimedByOther is the answer of a callback that finds its records locked, by
// what is left of the attempt before.
var errClaimedByOther = errors.New("claimed by another")

// outcomes counts what trials came to.
type outcomes struct {
	trials, committed, refused, unknown int
	lost, doubled, wrong                int
}

func (o *outcomes) add(other outcomes) {
	o.trials += other.trials
	o.committed += other.committed
	o.refused += other.refused
	o.unknown += other.unknown
	o.lost += other.lost
	o.doubled += other.doubled
	o.wrong += other.wrong
}

func (o outcomes) String() string {
	return fmt.Sprintf("%d trials: %d committed, %d refused, %d unknown; %d lost, %d doubled, %d wrongly answered",
		o.trials, o.committed, o.refused, o.unknown, o.lost, o.doubled, o.wrong)
}

// reference is what a shape does when nothing fails.
type reference struct {
	none     []string       // how the environment looks without the effect
	once     string         // and with it
	callback []wire.Message // what passes before the last attempt's callback returns
	commit   []wire.Message // what passes after
}

// hooks are called within a transaction.
type hooks struct {
	asided   func() error // behind what happens beside the transaction, once
	returned func()       // when the callback of the attempt that is to commit returns
}

// transact runs a shape in an environment that is prepared for it.
func (w *world) transact(ctx context.Context, b *broken, s *shape, env string, h hooks) (storage.Commit, error) {
	attempt, asided := 0, false
	once := func(aside func() error) error {
		if asided {
			return nil
		}
		asided = true
		return all(aside(), h.asided())
	}
	return b.Transact(ctx, s.name, func(ctx context.Context, tx storage.Tx) error {
		attempt++
		err := s.run(ctx, tx, env, once, w)
		if attempt == s.attempts() {
			h.returned()
		}
		return err
	})
}

var noHooks = hooks{asided: func() error { return nil }, returned: func() {}}

// warm runs a shape in an environment of its own: the driver works, and whatever its
// connection prepares it has prepared. What can be tried again is tried again.
func (w *world) warm(b *broken, s *shape) error {
	env := w.environment()
	if err := s.before(w, env); err != nil {
		return err
	}
	return eventually(w.ctx, "the driver works", func() (bool, error) {
		_, err := w.transact(w.ctx, b, s, env, noHooks)
		if storage.Retryable(err) {
			return false, nil
		}
		return err == nil, err
	})
}

// refer runs a shape without a fault.
func (w *world) refer(b *broken, s *shape) (*reference, error) {
	env := w.environment()
	if err := all(w.warm(b, s), s.before(w, env)); err != nil {
		return nil, err
	}
	before, err := w.look(env)
	if err != nil {
		return nil, err
	}
	ref := &reference{none: []string{before.text}}
	b.faults.Rewind()
	_, err = w.transact(w.ctx, b, s, env, hooks{
		asided: func() error {
			aside, err := w.look(env)
			ref.none = append(ref.none, aside.text)
			return err
		},
		returned: func() { ref.callback = b.faults.Messages() },
	})
	if err != nil {
		return nil, err
	}
	ref.commit = b.faults.Messages()[len(ref.callback):]
	after, err := w.look(env)
	ref.once = after.text
	return ref, err
}

// trial is a shape with a fault.
type trial struct {
	shape *shape
	ref   *reference
	fault wire.Fault
	// then is a second fault, which waits for the first.
	then *wire.Fault
	// atStart counts messages from the start of the transaction, not from the return
	// of the callback.
	atStart bool
	// meanwhile happens when the fault has struck, beside the driver.
	meanwhile func(ctx context.Context, w *world, b *broken, shot *wire.Shot) error
	// cancels lets requests to cancel pass, which a lost network would not.
	cancels bool
}

func (tr trial) String() string {
	s := fmt.Sprintf("%s: %s", tr.shape.name, tr.fault)
	if tr.atStart {
		s += ", from the start"
	}
	if tr.then != nil {
		s += ", then " + tr.then.String()
	}
	if tr.meanwhile != nil {
		s += ", with something meanwhile"
	}
	return s
}

// run runs a trial and judges the answer. An error is a trial that failed.
func (tr trial) run(w *world, b *broken) (o outcomes, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("%v: %w", tr, err)
		}
	}()
	ctx, cancel := context.WithTimeout(w.ctx, patience)
	defer cancel()
	env := w.environment()
	if err := all(w.warm(b, tr.shape), tr.shape.before(w, env)); err != nil {
		return o, err
	}
	a := tr.aim(ctx, w, b)
	commit, answer := w.transact(ctx, b, tr.shape, env, hooks{asided: noHooks.asided, returned: a.arm})
	first, err := w.look(env)
	if err != nil {
		return o, err
	}
	if err := a.clear(ctx, w); err != nil {
		return o, fmt.Errorf("%w; the answer was %w", err, answer)
	}
	last, err := w.look(env)
	if err != nil {
		return o, err
	}
	return tr.judge(commit, answer, first, last)
}

// aim arms the faults of a trial, once, at the moment that it chooses.
type aim struct {
	trial     trial
	broken    *broken
	shots     []*wire.Shot
	arm       func()
	meanwhile chan error
}

func (tr trial) aim(ctx context.Context, w *world, b *broken) *aim {
	b.faults.LoseCancels(!tr.cancels)
	b.faults.Rewind()
	a := &aim{trial: tr, broken: b, meanwhile: make(chan error, 1)}
	a.arm = func() {
		if a.shots != nil {
			return
		}
		b.faults.Rewind()
		shot := b.faults.Arm(tr.fault)
		a.shots = append(a.shots, shot)
		if tr.then != nil {
			a.shots = append(a.shots, b.faults.Arm(*tr.then))
		}
		if tr.meanwhile == nil {
			a.meanwhile <- nil
			return
		}
		go func() {
			select {
			case <-shot.Struck():
				a.meanwhile <- tr.meanwhile(ctx, w, b, shot)
			case <-ctx.Done():
				a.meanwhile <- ctx.Err()
			}
		}()
	}
	if tr.atStart {
		a.arm()
	}
	return a
}

// clear ends what is left of the attempt: what was held is delivered, half-open
// connections end, and so do their backends.
func (a *aim) clear(ctx context.Context, w *world) error {
	if a.shots == nil {
		return errors.New("no fault was armed")
	}
	for _, shot := range a.shots {
		if !shot.HasStruck() {
			return fmt.Errorf("%v did not strike", shot)
		}
	}
	if err := <-a.meanwhile; err != nil {
		return err
	}
	for _, shot := range a.shots {
		if shot.Fault().Action == wire.Pause {
			continue // that connection may live on
		}
		if shot.Fault().Action == wire.Hold {
			if err := shot.Deliver(ctx); err != nil {
				return err
			}
		}
		shot.Drop()
		if err := w.gone(shot.Backend()); err != nil {
			return err
		}
	}
	return nil
}

// deliver lets what was held arrive while the driver is still looking.
func deliver(ctx context.Context, _ *world, _ *broken, shot *wire.Shot) error {
	return shot.Deliver(ctx)
}

// kill ends the backend and lets a paused direction go on.
func kill(ctx context.Context, w *world, _ *broken, shot *wire.Shot) error {
	_, err := w.pool.Exec(ctx, "SELECT pg_terminate_backend($1)", shot.Backend())
	shot.Release()
	return err
}

// judge compares an answer with what the environment holds when it is given, and
// when nothing of the attempt is left.
func (tr trial) judge(commit storage.Commit, answer error, first, last stored) (o outcomes, err error) {
	o.trials = 1
	times, ok := tr.ref.times(last)
	switch {
	case !ok:
		o.doubled++
		return o, fmt.Errorf("answered %v and left neither nothing nor one effect:\n%s\nas one effect looks:\n%s", answer, last.raw, tr.ref.once)
	case errors.Is(answer, storage.ErrCommitUnknown):
		o.unknown++
		if tr.shape.silent && times == 0 {
			return o, errors.New("what was to be deleted is there, and the answer was that nothing is known")
		}
		if err := unknownForm(answer); err != nil {
			return o, err
		}
		return o, nil
	case first.raw != last.raw:
		o.wrong++
		return o, fmt.Errorf("something happened after the answer %v:\nbefore\n%s\nafter\n%s", answer, first.raw, last.raw)
	case answer == nil && times == 0:
		o.lost++
		return o, errors.New("answered that it has committed, and has not")
	case answer != nil && times == 1:
		o.wrong++
		return o, fmt.Errorf("answered %w, and has committed", answer)
	case answer != nil:
		o.refused++
		if !errors.Is(answer, storage.ErrUnavailable) && !errors.Is(answer, storage.ErrConflict) && !errors.Is(answer, errClaimedByOther) {
			return o, fmt.Errorf("an answer of no kind: %w", answer)
		}
		return o, nil
	}
	o.committed++
	return o, matches(commit, last)
}

// unknownForm checks that nobody takes an unknown outcome for one that may be tried
// again.
func unknownForm(answer error) error {
	if !errors.As(answer, new(*storage.CommitUnknownError)) {
		return fmt.Errorf("%w is no CommitUnknownError", answer)
	}
	if storage.Retryable(answer) || errors.Is(answer, storage.ErrUnavailable) || errors.Is(answer, storage.ErrConflict) {
		return fmt.Errorf("%w looks as if it could be tried again", answer)
	}
	return nil
}

// times is how often the effect took place, 0 or 1; ok is false for anything else.
func (ref *reference) times(s stored) (n int, ok bool) {
	if s.text == ref.once {
		return 1, true
	}
	for _, none := range ref.none {
		if s.text == none {
			return 0, true
		}
	}
	return 0, false
}

// matches compares what a commit reports with what is stored.
func matches(commit storage.Commit, s stored) error {
	for key, version := range commit.Versions {
		if s.versions[key] != version {
			return fmt.Errorf("the commit reports version %v of %v, which has %v", version, key, s.versions[key])
		}
	}
	if !commit.Time.IsZero() && time.Since(commit.Time).Abs() > time.Hour {
		return fmt.Errorf("the commit reports the time %v", commit.Time)
	}
	return nil
}

// atATime is how many trials run at a time.
const atATime = 8

// runAll runs trials, several at a time, and returns the sum and what failed.
func (w *world) runAll(trials []trial, c postgres.Config) (sum outcomes, failures []error) {
	var (
		mu      sync.Mutex
		working sync.WaitGroup
	)
	next := make(chan trial)
	for range atATime {
		working.Go(func() {
			b, err := w.broken(c)
			for tr := range next {
				var o outcomes
				if err == nil {
					o, err = tr.run(w, b)
				}
				mu.Lock()
				sum.add(o)
				if err != nil {
					failures = append(failures, err)
				}
				mu.Unlock()
				if err != nil { // the driver may be good for nothing now
					_ = b.end()
					b, err = w.broken(c)
				}
			}
			_ = b.end()
		})
	}
	for _, tr := range trials {
		next <- tr
	}
	close(next)
	working.Wait()
	return sum, failures
}
