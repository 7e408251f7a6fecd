package check_test

import (
	"testing"

	"github.com/seed4391e180/runlane/tests/histories/check"
	"github.com/seed4391e180/runlane/tests/histories/history"
)

func TestUnknownOutcome(t *testing.T) {
	// Seen: it took effect, all of it.
	s := initial()
	s.tx(20, 30).swap("x", "x0", "x1").swap("y", "y0", "y1").ends(history.Unknown)
	s.tx(40, 50).get("x", "x1").get("y", "y1")
	s.passes(t)

	// It may take effect after its client gave up.
	s = initial()
	s.tx(20, 30).swap("x", "x0", "x1").ends(history.Unknown)
	s.tx(40, 50).get("x", "x0")
	s.tx(60, 70).get("x", "x1")
	s.passes(t)

	// But not after everything had come to rest.
	s = initial()
	s.h.Settled = 35
	s.tx(20, 30).swap("x", "x0", "x1").ends(history.Unknown)
	s.tx(40, 50).get("x", "x0")
	s.tx(60, 70).get("x", "x1")
	s.fails(t, check.Cycle)

	// Not seen: it did not take effect.
	s = initial()
	s.tx(20, 30).swap("x", "x0", "x1").ends(history.Unknown)
	s.tx(40, 50).swap("x", "x0", "x2")
	s.passes(t)

	// Half of it.
	s = initial()
	s.h.Settled = 35
	s.tx(20, 30).swap("x", "x0", "x1").swap("y", "y0", "y1").ends(history.Unknown)
	s.tx(40, 50).get("x", "x1").get("y", "y0")
	s.fails(t, check.Cycle)
}

func TestUnknownDelete(t *testing.T) {
	// Found absent later, and nobody else can have done it.
	s := initial()
	s.tx(20, 30).get("x", "x0").delete("x").ends(history.Unknown)
	s.tx(40, 50).get("x", "")
	s.passes(t)

	// It deleted both or neither.
	s = initial()
	s.h.Settled = 35
	s.tx(20, 30).get("x", "x0").delete("x").get("y", "y0").delete("y").ends(history.Unknown)
	s.tx(40, 50).get("x", "").get("y", "y0")
	s.fails(t, check.NoPlace)

	// Created again.
	s = initial()
	s.tx(20, 30).get("x", "x0").delete("x").ends(history.Unknown)
	s.tx(40, 50).create("x", "x1")
	s.passes(t)

	// One of two did it.
	s = initial()
	s.tx(20, 30).get("x", "x0").delete("x").ends(history.Unknown)
	s.tx(20, 30).get("x", "x0").delete("x").ends(history.Unknown)
	s.tx(40, 50).get("x", "")
	s.passes(t)

	// Nobody did it.
	s = initial()
	s.tx(20, 30).get("y", "y0").delete("y").ends(history.Unknown)
	s.tx(40, 50).get("x", "")
	s.fails(t, check.NoPlace)
}
