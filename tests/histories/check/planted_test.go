package check_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/tests/histories/check"
	"github.com/seed4391e180/runlane/tests/histories/history"
)

// initial begins a story in which x and y hold x0 and y0 from the moment 10.
func initial() *story {
	s := newStory()
	s.tx(0, 10).create("x", "x0").create("y", "y0")
	return s
}

// Each test plants one anomaly and has a twin beside it that differs only in the
// anomaly and passes.

func TestWriteSkew(t *testing.T) {
	s := initial()
	s.tx(20, 30).get("x", "x0").swap("y", "y0", "y1")
	s.tx(20, 30).get("y", "y0").swap("x", "x0", "x1")
	r := s.fails(t, check.Cycle)
	require.Contains(t, r.Violations[0].Text, "write skew")
	require.Contains(t, r.Violations[0].Text, "read x = x0, which")

	s = initial()
	s.tx(20, 30).get("x", "x0").swap("y", "y0", "y1")
	s.tx(20, 30).get("y", "y1").swap("x", "x0", "x1").at(31)
	s.passes(t)
}

func TestLostUpdate(t *testing.T) {
	s := initial()
	s.tx(20, 30).swap("x", "x0", "x1")
	s.tx(20, 30).swap("x", "x0", "x2")
	s.fails(t, check.LostUpdate)
	s.fails(t, check.Cycle)

	s = initial()
	s.tx(20, 30).swap("x", "x0", "x1")
	s.tx(20, 30).swap("x", "x1", "x2").at(31)
	s.passes(t)
}

func TestPhantomAbsence(t *testing.T) {
	// Each finds absent what the other creates.
	s := newStory()
	s.tx(20, 30).get("a", "").create("b", "b1")
	s.tx(20, 30).get("b", "").create("a", "a1")
	r := s.fails(t, check.NoPlace)
	require.Contains(t, r.Violations[0].Text, "found b absent")

	s = newStory()
	s.tx(20, 30).get("a", "").create("b", "b1")
	s.tx(20, 30).get("b", "b1").create("a", "a1").at(31)
	s.passes(t)
}

func TestAbsenceBetweenIncarnations(t *testing.T) {
	lives := func() *story {
		s := newStory()
		s.tx(0, 10).create("a", "a1").create("x", "x1")
		s.tx(20, 30).get("a", "a1").delete("a").swap("x", "x1", "x2")
		s.tx(40, 50).create("a", "a2").swap("x", "x2", "x3")
		s.tx(60, 70).get("a", "a2").delete("a").swap("x", "x3", "x4")
		return s
	}
	// What x holds says which absence it must have been.
	s := lives()
	s.tx(5, 90).get("a", "").get("x", "x2")
	s.tx(5, 90).get("a", "").get("x", "x4")
	s.tx(5, 90).get("a", "a2").get("x", "x3")
	s.tx(0, 90).get("a", "").get("x", "")
	s.passes(t)
	for _, x := range []string{"x1", "x3"} {
		s = lives()
		s.tx(5, 90).get("a", "").get("x", x)
		s.fails(t, check.NoPlace)
	}
}

func TestReadSkewOfAReadOnlyTransaction(t *testing.T) {
	s := initial()
	s.tx(20, 30).swap("x", "x0", "x1").swap("y", "y0", "y1")
	s.tx(20, 30).get("x", "x0").get("y", "y1")
	r := s.fails(t, check.Cycle)
	require.Contains(t, r.Violations[0].Text, "read skew")

	s = initial()
	s.tx(20, 30).swap("x", "x0", "x1").swap("y", "y0", "y1")
	s.tx(20, 30).get("x", "x1").get("y", "y1")
	s.passes(t)
}

// A refused transaction whose reads were validated is held to the same; if the
// validation may not have taken place, it is not.
func TestReadSkewOfARefusedTransaction(t *testing.T) {
	refused := func() *story {
		s := initial()
		s.tx(20, 30).swap("x", "x0", "x1").swap("y", "y0", "y1")
		s.tx(20, 30).get("x", "x0").get("y", "y1").ends(history.Refused)
		return s
	}
	refused().fails(t, check.Cycle)
	s := refused()
	s.h.Faults = true
	s.passes(t)
	s = refused()
	s.h.MaxAttempts = 1
	s.passes(t)
	s = refused()
	s.h.Transactions[2].Canceled = true
	s.passes(t)
}

func TestRealTime(t *testing.T) {
	s := initial()
	s.tx(20, 30).swap("x", "x0", "x1")
	s.tx(40, 50).get("x", "x0")
	r := s.fails(t, check.Cycle)
	require.Contains(t, r.String(), "against the order of calls")
	require.Contains(t, r.String(), "returned before")

	s = initial()
	s.tx(20, 30).swap("x", "x0", "x1")
	s.tx(29, 50).get("x", "x0") // they overlap
	s.passes(t)
}

func TestRealTimeOfAnAbsence(t *testing.T) {
	s := initial()
	s.tx(40, 50).get("x", "")
	s.fails(t, check.NoPlace)

	s = initial()
	s.tx(9, 50).get("x", "")
	s.passes(t)
}

// An edge through a chain of calls counts like a direct one.
func TestRealTimeThroughOthers(t *testing.T) {
	s := initial()
	s.tx(20, 30).swap("x", "x0", "x1")
	for at := history.Moment(31); at < 60; at += 2 {
		s.tx(at, at+1)
	}
	s.tx(70, 80).get("y", "y0").get("x", "x0")
	s.fails(t, check.Cycle)
}

func TestAbortedRead(t *testing.T) {
	for _, outcome := range []history.Outcome{history.Failed, history.Refused} {
		for _, kind := range []history.Kind{history.Get, history.Peek, history.Query, history.Exclusive} {
			s := initial()
			s.tx(20, 30).swap("x", "x0", "x1").ends(outcome)
			s.tx(20, 30).read(kind, "x", "x1")
			s.fails(t, check.AbortedRead)
		}
	}
}

// A read within an attempt that came to nothing is a read all the same.
func TestAbortedReadByAnAbandonedAttempt(t *testing.T) {
	s := initial()
	s.tx(20, 30).swap("x", "x0", "x1").ends(history.Failed)
	s.tx(20, 30).get("x", "x1").again().get("x", "x0").ends(history.Failed)
	s.fails(t, check.AbortedRead)
}

func TestDirtyRead(t *testing.T) {
	s := initial()
	s.tx(20, 30).swap("x", "x0", "x1").peek("x", "x1")
	s.fails(t, check.DirtyRead)

	s = initial()
	s.tx(20, 30).swap("x", "x0", "x1").peek("x", "x0").get("x", "x1")
	s.passes(t)
}

func TestIntermediateRead(t *testing.T) {
	s := initial()
	s.tx(20, 30).swap("x", "x0", "x1").replace("x", "x2")
	s.tx(20, 30).peek("x", "x1")
	s.fails(t, check.Intermediate)
}

func TestDoubleEffect(t *testing.T) {
	s := initial()
	s.tx(20, 30).swap("x", "x0", "x1").again().swap("x", "x1", "x2")
	s.fails(t, check.DoubleEffect)

	s = initial()
	s.tx(20, 30).swap("x", "x0", "x1").again().swap("x", "x0", "x2")
	s.passes(t)
}

// TestLostCommitReplayedBlindly: the first attempt took effect and its answer was lost;
// somebody undid it, so that the second attempt found nothing in its way.
func TestLostCommitReplayedBlindly(t *testing.T) {
	s := initial()
	s.tx(20, 60).get("a", "").create("a", "a1").again().get("a", "").create("a", "a2")
	s.tx(30, 40).get("a", "a1").delete("a")
	s.tx(70, 80).get("a", "a2")
	s.fails(t, check.DoubleEffect)

	s = initial()
	s.tx(20, 60).get("a", "").create("a", "a1").ends(history.Unknown).at(35)
	s.tx(30, 40).get("a", "a1").delete("a")
	s.tx(70, 80).get("a", "")
	s.passes(t)
}

func TestValueFromNowhere(t *testing.T) {
	s := initial()
	s.tx(20, 30).peek("x", "x7")
	s.fails(t, check.Nowhere)
	s = initial()
	s.tx(20, 30).get("x", "y0") // the value of another key
	s.fails(t, check.Nowhere)
}

func TestStaleCandidate(t *testing.T) {
	for _, value := range []string{"x0", ""} {
		s := initial()
		s.tx(20, 30).swap("x", "x0", "x1")
		s.tx(40, 50).peek("x", value)
		s.fails(t, check.StaleRead)
		s = initial()
		s.tx(20, 30).swap("x", "x0", "x1")
		s.tx(25, 50).peek("x", "x0") // they overlap
		s.passes(t)
	}
}

func TestReadsOfOneTransaction(t *testing.T) {
	s := initial()
	s.tx(20, 30).swap("x", "x0", "x1").swap("y", "y0", "y1")
	s.tx(20, 30).get("x", "x0").get("x", "x1")
	s.fails(t, check.Unrepeatable)

	s = initial()
	s.tx(20, 30).swap("x", "x0", "x1").get("x", "x0")
	s.fails(t, check.OwnWrite)

	s = initial()
	s.tx(20, 30).get("x", "x0").delete("x").get("x", "").create("x", "x1").get("x", "x1")
	s.tx(40, 50).get("x", "x1")
	s.passes(t)
}

// A blind create expects an absence; a query that finds the record refutes it, which
// matters only if the create takes effect.
func TestBlindCreateOfWhatIsThere(t *testing.T) {
	found := func() *teller { return initial().tx(20, 30).create("x", "x1").read(history.Exclusive, "x", "x0") }
	found().s.fails(t, check.Unrepeatable)
	found().ends(history.Refused).s.passes(t)
}

func TestTwoCreates(t *testing.T) {
	s := initial()
	s.tx(20, 30).create("x", "x1")
	s.fails(t, check.TwoCreates)

	s = initial()
	s.tx(20, 30).get("x", "x0").delete("x")
	s.tx(20, 30).create("x", "x1").at(31)
	s.passes(t)
}

// A Create that found the record tells that there was one.
func TestExists(t *testing.T) {
	told := func(s *story, call, returned history.Moment) *teller {
		return s.tx(call, returned).op(history.Operation{Kind: history.Create, Key: "x", Value: "x9", Error: "exists", Exists: true}).ends(history.Refused)
	}
	s := initial()
	s.tx(20, 30).get("x", "x0").delete("x")
	told(s, 25, 40)
	s.passes(t)
	s = initial()
	s.tx(20, 30).get("x", "x0").delete("x")
	told(s, 35, 40)
	s.fails(t, check.NoPlace)
}

func TestTornRecord(t *testing.T) {
	s := initial()
	s.tx(20, 30).op(history.Operation{Kind: history.Peek, Reads: []history.Read{{Key: "x", Value: "x0", Torn: "the payload is of x7"}}})
	s.fails(t, check.TornRecord)
}

func TestWrongVersion(t *testing.T) {
	s := initial()
	s.tx(20, 30).op(history.Operation{Kind: history.Peek, Reads: []history.Read{{Key: "x", Value: "x0", Version: 99}}})
	s.fails(t, check.WrongVersion)
}

func TestStrangeError(t *testing.T) {
	s := initial()
	s.tx(20, 30).ends(history.Failed)
	s.h.Transactions[1].Strange = true
	s.fails(t, check.StrangeError)
}
