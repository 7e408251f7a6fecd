package metamorphic_test

import (
	"slices"
	"time"
)

// shortenFor bounds the search for a shorter script.
const shortenFor = 20 * time.Second

// shorten drops whatever can be dropped from a script without losing what differs:
// transactions, then operations, then looks, until nothing more can go.
func shorten(s script, differs func(script) bool) script {
	until := time.Now().Add(shortenFor)
	try := func(shorter script) bool {
		if !time.Now().Before(until) || !differs(shorter) {
			return false
		}
		s = shorter
		return true
	}
	for before := ""; before != s.text() && time.Now().Before(until); {
		before = s.text()
		for i := len(s.Transactions) - 1; i >= 0; i-- {
			shorter := s
			shorter.Transactions = slices.Delete(slices.Clone(s.Transactions), i, i+1)
			try(shorter)
		}
		for i := range s.Transactions {
			if t := s.Transactions[i]; len(t.Looks) > 0 {
				t.Looks = nil
				try(s.with(i, t))
			}
			s.shortenOps(i, try)
		}
	}
	return s
}

// shortenOps tries to do without each operation of a transaction, and without each of
// those within it.
func (s *script) shortenOps(i int, try func(script) bool) {
	for j := len(s.Transactions[i].Ops) - 1; j >= 0; j-- {
		t := s.Transactions[i]
		t.Ops = slices.Delete(slices.Clone(t.Ops), j, j+1)
		if try(s.with(i, t)) {
			continue
		}
		for k := len(s.Transactions[i].Ops[j].Ops) - 1; k >= 0; k-- {
			t := s.Transactions[i]
			t.Ops = slices.Clone(t.Ops)
			t.Ops[j].Ops = slices.Delete(slices.Clone(t.Ops[j].Ops), k, k+1)
			try(s.with(i, t))
		}
	}
}

// with is the script with another transaction in a place.
func (s *script) with(i int, t transaction) script {
	changed := *s
	changed.Transactions = slices.Clone(s.Transactions)
	changed.Transactions[i] = t
	return changed
}
