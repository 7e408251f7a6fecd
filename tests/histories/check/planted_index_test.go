package check_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/tests/histories/check"
	"github.com/seed4391e180/runlane/tests/histories/history"
)

func TestMissedIndexEntry(t *testing.T) {
	whole := func(call, returned history.Moment, reads ...history.Read) *story {
		s := newStory()
		s.tx(0, 10).op(history.Operation{Kind: history.Create, Key: "x", Value: "x0", Index: "ByDue"})
		s.tx(call, returned).op(history.Operation{Kind: history.Query, Index: "ByDue", Whole: true, Reads: reads})
		return s
	}
	whole(20, 30).fails(t, check.MissedEntry)
	whole(20, 30, history.Read{Key: "x", Value: "x0"}).passes(t)
	whole(9, 30).passes(t) // it may have come first
	whole(20, 30, history.Read{Key: "x", Value: "x0"}, history.Read{Key: "x", Value: "x0"}).fails(t, check.MissedEntry)
}

func TestRecordClaimedTwice(t *testing.T) {
	claims := func(call, returned history.Moment) *story {
		s := initial()
		first := s.tx(20, 60).read(history.Exclusive, "x", "x0").replace("x", "x1").at(55)
		first.a.Ops[0].Return = 30
		s.tx(call, returned).read(history.Exclusive, "x", "x0").ends(history.Failed)
		return s
	}
	claims(40, 50).fails(t, check.SharedClaim)
	claims(25, 50).passes(t) // it may have come first and given up
}

func TestStreams(t *testing.T) {
	const head = "ObservationHeads/s"
	items := func(at ...string) *teller {
		s := newStory()
		return s.tx(0, 10).appends(head, 1, at...)
	}
	page := func(tl *teller, positions ...int64) *story {
		reads := []history.Read{}
		for _, p := range positions {
			reads = append(reads, tl.s.observation(head, p))
		}
		tl.s.tx(20, 30).op(history.Operation{Kind: history.Query, Index: check.ByPosition + "s", Whole: true, Reads: reads})
		return tl.s
	}
	page(items("i1", "i2", "i3"), 1, 2, 3).passes(t)
	page(items("i1", "i2", "i3"), 1, 3).fails(t, check.BadStream)
	page(items("i1", "i2", "i3"), 2, 3).fails(t, check.BadStream)
	page(items("i1", "i2", "i3"), 1, 2).fails(t, check.MissedEntry)

	twice := items("i1")
	twice.s.tx(20, 30).appends(head, 1, "i2")
	twice.s.fails(t, check.BadStream)
	gap := items("i1")
	gap.s.tx(20, 30).appends(head, 3, "i2")
	gap.s.fails(t, check.BadStream)

	// The order of a stream is an order of transactions like any other.
	order := items("i1").create("x", "x1")
	order.s.tx(20, 30).appends(head, 2, "i2").get("x", "x1")
	order.s.passes(t)
	order = items("i1").create("x", "x1")
	order.s.tx(20, 30).appends(head, 2, "i2").swap("x", "x1", "x2")
	order.s.tx(20, 30).appends(head, 3, "i3").get("x", "x1")
	order.s.fails(t, check.Cycle)

	// Of unknown outcome: seen in the stream, and so all of it.
	lost := items("i1")
	half := lost.s.tx(20, 30).appends(head, 0, "i2", "i3").create("x", "x1").ends(history.Unknown)
	half.t.Appended = nil
	lost.s.h.Settled = 35
	page(lost, 1, 2, 3).passes(t)
	lost.s.tx(40, 50).get("x", "")
	lost.s.fails(t, check.NoPlace)

	require.Empty(t, check.Check(newStory().finish()).Violations)
}

// TestLostAppend: an append committed, and nothing of it is there, or only a part.
func TestLostAppend(t *testing.T) {
	const head, records = "ObservationHeads/s", "ObservationRecords/s/"
	begun := func() *story {
		s := newStory()
		s.tx(0, 10).appends(head, 1, "i1", "i2")
		return s
	}
	s := begun()
	s.tx(20, 30).get(head, "").get(records+"1", "").get(records+"2", "")
	s.fails(t, check.NoPlace)
	s = begun()
	s.tx(20, 30).get(head, "2").get(records+"1", "i1").get(records+"2", "")
	s.fails(t, check.NoPlace)
	// Its positions were given out once more, and nobody reads the stream.
	s = begun()
	s.tx(20, 30).appends(head, 1, "i3", "i4")
	s.fails(t, check.BadStream)

	s = begun()
	s.tx(20, 30).get(head, "2").get(records+"1", "i1").get(records+"2", "i2")
	s.tx(40, 50).appends(head, 3, "i3", "i4")
	s.passes(t)
}

// appends appends items at a position, one after the other.
func (t *teller) appends(head string, first int64, items ...string) *teller {
	t.t.Appended = append(t.t.Appended, history.Span{Head: head, First: first, Last: first + int64(len(items)) - 1})
	t.s.items = append(t.s.items, items...)
	return t.op(history.Operation{Kind: history.Append, Key: head, Items: items})
}

// observation is the read of the item at a position, counted over all appends.
func (s *story) observation(head string, position int64) history.Read {
	key := "ObservationRecords/" + head[len("ObservationHeads/"):] + "/" + string(rune('0'+position))
	value := s.items[position-1]
	return history.Read{Key: key, Value: value, Version: s.version(key, value)}
}
