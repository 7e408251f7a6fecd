// Package lanetest is for tests of programs that use package lane: a store in memory
// whose clock stands still until the test moves it, and whose commits fail when the
// test says so. Nothing in it waits for real time, and nothing runs in the
// background:
//
//	store := lanetest.New(t)
//	l := store.Lane(lane.Config{})
//	reminder := lane.Define(l, "reminder", remind, lane.TaskOptions{})
//	res, err := reminder.Trigger(t.Context(), order, lane.TriggerOptions{Delay: 24 * time.Hour})
//
//	store.Run(l)                 // nothing is due
//	store.Advance(24 * time.Hour)
//	store.Run(l)                 // the reminder is
//	got := store.Get(res.RunID)  // what became of it
package lanetest

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/seed4391e180/runlane/lane"
	"github.com/seed4391e180/runlane/run"
	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/memory"
)

// Environment is the environment of a [Store.Lane] that names none.
const Environment = "test"

// Start is what the clock of a new store tells.
var Start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// Store is a store in memory for one test. It is a [storage.Driver]; its methods may
// be called from any number of goroutines.
type Store struct {
	storage.Driver
	tb testing.TB

	mu     sync.Mutex
	now    time.Time
	faults []*fault
}

// fault is what is ordered by FailCommit.
type fault struct {
	label string
	err   error
	after bool
}

// New makes an empty store, which is closed at the end of the test.
func New(tb testing.TB) *Store {
	s := &Store{tb: tb, now: Start}
	s.Driver = memory.New(memory.Config{Clock: s.Now})
	tb.Cleanup(func() {
		if err := s.Close(); err != nil {
			tb.Errorf("lanetest: %v", err)
		}
		for _, f := range s.faults {
			tb.Errorf("lanetest: no transaction %q was made that could fail", f.label)
		}
	})
	return s
}

// Lane makes a lane on the store; the test fails if the configuration is invalid.
// Several lanes are several processes.
func (s *Store) Lane(cfg lane.Config) *lane.Lane {
	s.tb.Helper()
	if cfg.Environment == "" {
		cfg.Environment = Environment
	}
	l, err := lane.New(s, cfg)
	if err != nil {
		s.tb.Fatalf("lanetest: %v", err)
	}
	return l
}

// Now is what the clock tells.
func (s *Store) Now() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now
}

// Advance moves the clock. Nothing happens by that alone; see Run.
func (s *Store) Advance(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = s.now.Add(d)
}

// Run works on everything of the lane that is due, and returns when nothing is. Its
// leases are renewed by real time, as those of any worker. The test fails if that
// does not work.
func (s *Store) Run(l *lane.Lane) {
	s.tb.Helper()
	if err := l.Drain(s.tb.Context(), lane.WorkerConfig{Name: s.tb.Name()}); err != nil {
		s.tb.Fatalf("lanetest: %v", err)
	}
}

// FailCommit makes the next transaction with the label fail with an error, such as
// storage.ErrUnavailable, instead of being committed. Labels are those in errors
// and logs: "run.trigger", "run.claim", "run.finish", "run.heartbeat" and others. Several
// orders for one label are carried out one after the other. The test fails if no
// such transaction was made.
func (s *Store) FailCommit(label string, err error) { s.order(&fault{label: label, err: err}) }

// LoseAnswer makes the next transaction with the label commit and fail nevertheless
// with storage.ErrCommitUnknown, as if the connection had died before the answer came.
func (s *Store) LoseAnswer(label string) {
	s.order(&fault{label: label, err: &storage.CommitUnknownError{Label: label}, after: true})
}

func (s *Store) order(f *fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = append(s.faults, f)
}

// due takes the order for a label, if there is one.
func (s *Store) due(label string) *fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, f := range s.faults {
		if f.label == label {
			s.faults = append(s.faults[:i:i], s.faults[i+1:]...)
			return f
		}
	}
	return nil
}

// Transact implements [storage.Transactor].
func (s *Store) Transact(ctx context.Context, label string, fn func(context.Context, storage.Tx) error) (storage.Commit, error) {
	f := s.due(label)
	if f == nil {
		return s.Driver.Transact(ctx, label, fn)
	}
	if !f.after {
		return storage.Commit{}, f.err
	}
	if _, err := s.Driver.Transact(ctx, label, fn); err != nil {
		return storage.Commit{}, err
	}
	return storage.Commit{}, f.err
}

// Get returns a run of [Environment]; the test fails if there is none.
func (s *Store) Get(runID string) run.Run {
	s.tb.Helper()
	r, found, err := s.GetRun(s.tb.Context(), Environment, runID)
	if err != nil || !found {
		s.tb.Fatalf("lanetest: run %q: found %v, error %v", runID, found, err)
	}
	return r
}

// History returns the events of a run of [Environment], the first first.
func (s *Store) History(runID string) []run.Event {
	s.tb.Helper()
	var all []run.Event
	filter := storage.EventFilter{Environment: Environment, RunID: runID, Limit: storage.DefaultLimits().MaxPage}
	for {
		page, err := s.ListEvents(s.tb.Context(), filter)
		if err != nil {
			s.tb.Fatalf("lanetest: events of run %q: %v", runID, err)
		}
		all = append(all, page.Events...)
		if filter.Cursor = page.Next; filter.Cursor == "" {
			return all
		}
	}
}
