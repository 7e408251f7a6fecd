package demo

import (
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/seed4391e180/runlane/lane"
	"github.com/seed4391e180/runlane/run"
)

// show is one performance of the demo.
type show struct {
	options Options
	plan    plan
	files   []string
	db      *database

	victim, survivor *child
	progress         *progress
	outcome          outcome
}

// outcome is what the demo itself saw; the rest is in the database.
type outcome struct {
	began       time.Time // the database's clock, before the first trigger
	triggerTook time.Duration
	killed      *sight // what was seen just before the victim was killed; nil: it lives
	counters    counters
	processors  processors
}

// processors is the processor time that the work took.
type processors struct{ server, demo, victim, survivor time.Duration }

const (
	lookInterval = 500 * time.Millisecond
	triggerBatch = 500         // runs that one call triggers
	stallAfter   = time.Minute // without a run that ends, the demo gives up
)

// play starts the workers, triggers the runs, kills the victim and returns when
// all runs have ended and the survivor has stopped.
func (s *show) play(ctx context.Context) (err error) {
	defer s.abandonWorkers()
	if err := s.startWorkers(ctx); err != nil {
		return err
	}
	before, err := s.db.counters(ctx)
	if err != nil {
		return err
	}
	server, own := familyTime(s.db.cluster.Pid()), processorTime(os.Getpid())
	if s.outcome.began, err = s.db.clock(ctx); err != nil {
		return err
	}
	s.progress = newProgress(s.options.Out, s.options.Terminal, s.plan.runs)
	if err := s.work(ctx); err != nil {
		return err
	}
	p := &s.outcome.processors
	p.server, p.demo = familyTime(s.db.cluster.Pid())-server, processorTime(os.Getpid())-own
	s.survivor.measure()
	if err := s.survivor.stop(); err != nil {
		return err
	}
	p.victim, p.survivor = s.victim.processorTime(), s.survivor.processorTime()
	after, err := s.db.counters(ctx)
	s.outcome.counters = after.since(before)
	return err
}

// startWorkers starts both worker processes and returns when they are ready.
func (s *show) startWorkers(ctx context.Context) (err error) {
	o := order{URL: s.db.url, Root: s.plan.root, Slots: s.plan.slots, Profile: s.options.Profile}
	o.Name, o.Allowance, o.Crowd = victimName, s.plan.victimAllowance, s.plan.mustHold
	if s.victim, err = startChild(o); err != nil {
		return err
	}
	o.Name, o.Allowance, o.Crowd = survivorName, s.plan.survivorAllowance, 0
	if s.survivor, err = startChild(o); err != nil {
		return err
	}
	for _, c := range []*child{s.victim, s.survivor} {
		select {
		case <-c.ready:
		case <-c.exited:
			return c.ended()
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	_, err = fmt.Fprintf(s.options.Out, "workers %s (process %d) and %s (process %d): %d runs at a time each, leases of %s\n",
		s.victim.name, s.victim.cmd.Process.Pid, s.survivor.name, s.survivor.cmd.Process.Pid, s.plan.slots, seconds(lease))
	return err
}

// abandonWorkers ends what is left of the workers.
func (s *show) abandonWorkers() {
	for _, c := range []*child{s.victim, s.survivor} {
		if c != nil {
			c.abandon()
		}
	}
}

// work triggers the runs and watches until all have ended.
func (s *show) work(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	triggered := make(chan struct{})
	go func() {
		defer close(triggered)
		began := time.Now()
		if err := s.trigger(ctx); err != nil {
			cancel(err)
		}
		s.outcome.triggerTook = time.Since(began)
	}()
	err := s.watch(ctx)
	cancel(err)
	<-triggered
	return err
}

// trigger makes one run for each file. Two calls at a time, since one that waits
// for the disk leaves a processor to the other, and small ones, so that there is
// work to do early.
func (s *show) trigger(ctx context.Context) error {
	l, err := lane.New(s.db.driver, lane.Config{Environment: environment})
	if err != nil {
		return err
	}
	task := defineTask(l, nil)
	items := make([]lane.Item[job], len(s.files))
	for i, path := range s.files {
		items[i].Payload = job{path}
	}
	calls, ctx := errgroup.WithContext(ctx)
	calls.SetLimit(2)
	for some := range slices.Chunk(items, triggerBatch) {
		calls.Go(func() error {
			_, err := task.TriggerMany(ctx, some)
			return err
		})
	}
	return calls.Wait()
}

// watch follows the work until all runs have ended, and kills the victim in the
// middle of it.
func (s *show) watch(ctx context.Context) error {
	look := time.NewTicker(lookInterval)
	defer look.Stop()
	holds, holding := s.victim.holds, false
	ended, lastEnd := 0, time.Now()
	for {
		victimGone := s.victim.exited
		if s.outcome.killed != nil {
			victimGone = nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-victimGone:
			return s.victim.ended()
		case <-s.survivor.exited:
			return s.survivor.ended()
		case <-holds:
			holds, holding = nil, true
		case <-look.C:
		}
		if holding && s.outcome.killed == nil {
			if err := s.tryToKill(ctx); err != nil {
				return err
			}
		}
		now, err := s.db.statuses(ctx)
		if err != nil {
			return err
		}
		if now.ended() == s.plan.runs && s.outcome.killed != nil {
			return s.progress.end(now)
		}
		s.progress.show(now, s.onlyLostLeft(now))
		if now.ended() > ended {
			ended, lastEnd = now.ended(), time.Now()
		}
		if time.Since(lastEnd) > stallAfter {
			return fmt.Errorf("no run has ended for %s; %s of %s have", stallAfter, count(ended), count(s.plan.runs))
		}
	}
}

// tryToKill kills the victim if the moment is right: it holds enough leases, and
// the share of runs that have ended is within the bounds. Then everybody who waits
// at the gate of the survivor may go on.
func (s *show) tryToKill(ctx context.Context) error {
	s.victim.measure()
	seen, err := s.db.look(ctx, victimName)
	if err != nil || !s.plan.due(seen.held, seen.ended) {
		return err
	}
	if err := s.victim.kill(); err != nil {
		return err
	}
	s.outcome.killed = &seen
	s.progress.say(fmt.Sprintf("worker %s is killed (SIGKILL) while it holds %s leases; %s of %s runs (%s) have ended",
		victimName, count(seen.held), count(seen.ended), count(s.plan.runs), percent(seen.ended, s.plan.runs)))
	return s.survivor.send(command{commandOpen})
}

// onlyLostLeft reports whether it looks as if nothing is left to do but to wait
// for the leases of the victim. It is for the eye; the events say it exactly.
func (s *show) onlyLostLeft(now statuses) bool {
	killed := s.outcome.killed
	return killed != nil && now[run.StatusRunning] == killed.held && now.ended()+killed.held == s.plan.runs
}

// statuses is how many runs there are, by status.
type statuses map[run.Status]int

func (s statuses) total() (n int) {
	for _, runs := range s {
		n += runs
	}
	return n
}

func (s statuses) ended() (n int) {
	for status, runs := range s {
		if status.Terminal() {
			n += runs
		}
	}
	return n
}
