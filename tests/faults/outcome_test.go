package faults_test

import (
	"context"
	"flag"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/storage/postgres"
	"github.com/seed4391e180/runlane/tests/wire"
)

// hasty is a configuration whose waits are as short as a test likes them.
func hasty() postgres.Config {
	return postgres.Config{
		CommitTimeout: time.Second, IdleTimeout: 2 * time.Second, LockTimeout: time.Second, OutcomeTimeout: 15 * time.Second,
	}
}

// TestOutcomeEverywhere breaks the connection at every message of the commit of every
// shape of transaction, in both directions, and within messages. Whatever the answer
// is, it is true, and stays true when what was on its way arrives.
func TestOutcomeEverywhere(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var total outcomes
	for _, s := range shapes() {
		t.Run(s.name, func(t *testing.T) {
			w := w.in(t)
			ref := w.reference(&s)
			sum := w.judgeAll(everywhere(&s, ref))
			total.add(sum)
			t.Logf("%d + %d messages; %v", len(ref.callback), len(ref.commit), sum)
		})
	}
	t.Log(total)
}

// reference is what a shape does when nothing fails.
func (w *world) reference(s *shape) *reference {
	w.Helper()
	b, err := w.broken(hasty())
	require.NoError(w, err)
	ref, err := w.refer(b, s)
	require.NoError(w, err)
	require.NoError(w, b.end())
	return ref
}

// judgeAll runs trials and reports what failed.
func (w *world) judgeAll(trials []trial) outcomes {
	w.Helper()
	require.NotEmpty(w, trials)
	began := time.Now()
	sum, failures := w.runAll(trials, hasty())
	for _, err := range failures {
		w.Error(err)
	}
	if !trials[0].shape.silent {
		require.Zero(w, sum.unknown)
	}
	require.Equal(w, len(trials), sum.trials)
	w.Logf("%v for %d trials", time.Since(began).Round(time.Millisecond), len(trials))
	return sum
}

// at is a trial with a fault before a message, or within it.
func (ref *reference) at(s *shape, a wire.Action, m place, bytes int) trial {
	return trial{shape: s, ref: ref, fault: wire.Fault{Action: a, Direction: m.Direction, Message: m.number, Byte: bytes}}
}

// place is a message and its number in its direction.
type place struct {
	wire.Message
	number int
}

func places(messages []wire.Message) []place {
	all, next := make([]place, len(messages)), map[wire.Direction]int{}
	for i, m := range messages {
		all[i] = place{m, next[m.Direction]}
		next[m.Direction]++
	}
	return all
}

var exhaustive = flag.Bool("exhaustive", false, "break every message of every shape of transaction in every way")

// everywhere is the trials of a shape: every message of its commit in every way, and
// some of what comes before. Unless the shape is one of the core, or it is asked for,
// each message to the server is broken in one way of two, and every other message to
// the client.
func everywhere(s *shape, ref *reference) (trials []trial) {
	for i, m := range places(ref.commit) {
		every := s.core || *exhaustive
		if every || i%2 == 0 {
			cut := ref.at(s, wire.Cut, m, 0)
			cut.cancels = i%3 == 0
			trials = append(trials, cut)
		}
		if m.Direction == wire.ToServer && (every || i%2 == 1) {
			trials = append(trials, ref.at(s, wire.Hold, m, 0))
		}
		switch {
		case !every:
		case m.Direction == wire.ToServer && i%2 == 0:
			early := ref.at(s, wire.Hold, m, m.Bytes-1)
			early.meanwhile = deliver
			trials = append(trials, early)
		case m.Direction == wire.ToServer:
			trials = append(trials, ref.at(s, wire.Cut, m, m.Bytes-1))
		case m.number == 0 || i == len(ref.commit)-1:
			trials = append(trials, ref.at(s, wire.HalfOpen, m, 0), ref.at(s, wire.Cut, m, m.Bytes-1))
		}
	}
	for i, m := range places(ref.callback) {
		if i%6 != 0 && !*exhaustive {
			continue
		}
		early := ref.at(s, []wire.Action{wire.Cut, wire.Hold}[i/6%2], m, 0)
		early.atStart = true
		trials = append(trials, early)
	}
	return trials
}

// TestOutcomeWhenTheLookFailsToo breaks the connection of a commit, and then the next
// one at every message of the search for the outcome and of what follows it.
func TestOutcomeWhenTheLookFailsToo(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := shapeNamed("append")
	ref := w.reference(s)
	last := places(ref.commit)[len(ref.commit)-1]
	for _, first := range []struct {
		name  string
		fault wire.Fault
		every int
	}{
		{"it has committed", wire.Fault{Action: wire.Cut, Direction: last.Direction, Message: last.number}, 2},
		{"it has not", wire.Fault{Action: wire.Cut, Direction: wire.ToServer, Message: 2}, 8},
	} {
		t.Run(first.name, func(t *testing.T) {
			w := w.in(t)
			search, err := w.search(s, ref, first.fault)
			require.NoError(t, err)
			var trials []trial
			for i, m := range places(search) {
				if i%first.every == 0 {
					trials = append(trials, trial{shape: s, ref: ref, fault: first.fault,
						then: &wire.Fault{Action: wire.Cut, Direction: m.Direction, Message: m.number}})
				}
			}
			t.Logf("%d messages; %v", len(search), w.judgeAll(trials))
		})
	}
}

// search returns the messages that follow a fault in the commit.
func (w *world) search(s *shape, ref *reference, fault wire.Fault) (messages []wire.Message, err error) {
	b, err := w.broken(hasty())
	if err != nil {
		return nil, err
	}
	var struck *wire.Shot
	tr := trial{shape: s, ref: ref, fault: fault, meanwhile: func(_ context.Context, _ *world, _ *broken, shot *wire.Shot) error {
		struck = shot
		return nil
	}}
	if _, err = tr.run(w, b); err == nil {
		messages = b.faults.Since(struck)
	}
	return messages, all(err, b.end())
}

func shapeNamed(name string) *shape {
	for _, s := range shapes() {
		if s.name == name {
			return &s
		}
	}
	panic(fmt.Sprintf("there is no shape %q", name))
}
