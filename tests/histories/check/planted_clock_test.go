package check_test

import (
	"testing"

	"github.com/seed4391e180/runlane/tests/histories/check"
	"github.com/seed4391e180/runlane/tests/histories/history"
)

func TestCommitTimesRunningBackwards(t *testing.T) {
	s := initial()
	s.tx(20, 30).swap("x", "x0", "x1").at(28)
	s.tx(25, 35).swap("x", "x1", "x2").at(27)
	s.fails(t, check.Backwards)

	s = initial()
	s.tx(20, 30).swap("x", "x0", "x1").at(28)
	s.tx(25, 35).swap("y", "y0", "y1").at(27) // no conflict
	s.passes(t)
}

// A transaction that only reads x is told a time by its own write of y.
func TestCommitTimeOfAReader(t *testing.T) {
	s := initial()
	s.tx(20, 30).swap("x", "x0", "x1").at(28)
	s.tx(20, 30).get("x", "x1").swap("y", "y0", "y1").at(27)
	s.fails(t, check.Backwards)

	s = initial()
	s.tx(20, 30).swap("x", "x0", "x1").at(27)
	s.tx(20, 30).get("x", "x0").swap("y", "y0", "y1").at(28)
	s.fails(t, check.Backwards)
}

func TestNowRunningBackwards(t *testing.T) {
	s := initial()
	s.tx(20, 30).swap("x", "x0", "x1").at(28)
	s.tx(20, 40).get("x", "x1").told(27)
	s.fails(t, check.Backwards)

	// What is created blindly after Now was locked after it, too.
	s = initial()
	s.tx(20, 30).get("x", "x0").delete("x").at(28)
	s.tx(20, 40).get("y", "y0").told(27).create("x", "x1").at(33)
	s.passes(t)
}

func TestNowOfAnAbsence(t *testing.T) {
	s := initial()
	s.tx(20, 30).get("x", "x0").delete("x").at(28)
	s.tx(20, 40).get("x", "").told(27)
	s.fails(t, check.Backwards)

	s = initial()
	s.tx(20, 30).get("x", "x0").delete("x").at(28)
	s.tx(20, 40).get("x", "").told(29)
	s.passes(t)
}

func TestTimeInDocument(t *testing.T) {
	s := initial()
	s.tx(20, 30).op(history.Operation{Kind: history.Peek, Reads: []history.Read{{Key: "x", Value: "x0", Version: 1, At: 11}}})
	s.version("x", "x0")
	s.fails(t, check.WrongTime)
}
