package check

import (
	"slices"

	"github.com/seed4391e180/runlane/tests/histories/history"
)

// resolve finds out which transactions of unknown outcome took effect. A write that
// took effect is read by whoever replaces or deletes it, or by the reads that end
// the history; so if nobody ever read anything of a transaction, it may be left out.
// Transactions that only delete leave nothing to read; makeChains looks for them.
func (c *checker) resolve() {
	seen := make(map[*history.Transaction]bool)
	c.eachRead(func(_ *history.Transaction, _ int, _ *history.Operation, r history.Read, own bool) {
		if own || r.Value == "" {
			return
		}
		w := c.writes[ref{r.Key, r.Value}]
		if w == nil {
			return
		}
		if w.t.Outcome == history.Unknown && !seen[w.t] {
			seen[w.t] = true
			c.report.Resolved++
		}
		if c.seenAt[w.t] == 0 && c.items[r.Value] == nil { // items have times of their own
			c.seenAt[w.t] = r.At
		}
	})
	for _, t := range c.h.Transactions {
		if t.Outcome == history.Committed || seen[t] {
			c.byTx[t] = nil // takes effect; makeNodes fills it in
		}
	}
}

// effective reports whether a transaction took effect.
func (c *checker) effective(t *history.Transaction) bool {
	n, ok := c.byTx[t]
	return ok && (n == nil || n.writes)
}

// observe checks everything that any attempt was told, whatever became of it:
// somebody must have committed it.
func (c *checker) observe() {
	c.eachRead(func(t *history.Transaction, attempt int, op *history.Operation, r history.Read, own bool) {
		if r.Torn != "" {
			c.violate(TornRecord, []*history.Transaction{t}, "%s was told of %s = %s: %s", name(t), r.Key, r.Value, r.Torn)
		}
		if own || r.Value == "" {
			return
		}
		w := c.writes[ref{r.Key, r.Value}]
		if w == nil {
			c.violate(Nowhere, []*history.Transaction{t}, "%s (%s) was told of %s = %s, which nobody wrote", name(t), op.Kind, r.Key, r.Value)
			return
		}
		both := []*history.Transaction{w.t, t}
		switch {
		case w.t == t && w.attempt == attempt:
			c.violate(DirtyRead, both, "%s (%s) was told of %s = %s, which it had staged itself and not committed yet", name(t), op.Kind, r.Key, r.Value)
		case !c.effective(w.t):
			c.violate(AbortedRead, both, "%s (%s) was told of %s = %s, written by %s, which did not commit", name(t), op.Kind, r.Key, r.Value, name(w.t))
		case w.attempt != len(w.t.Attempts)-1:
			c.violate(DoubleEffect, both, "%s (%s) was told of %s = %s, written by attempt %d of %s, which attempted %d times", name(t), op.Kind, r.Key, r.Value, w.attempt+1, name(w.t), len(w.t.Attempts))
		case !w.final:
			c.violate(Intermediate, both, "%s (%s) was told of %s = %s, which %s replaced before it committed", name(t), op.Kind, r.Key, r.Value, name(w.t))
		case w.t.Call > op.Return:
			c.violate(Malformed, both, "%s was told of %s = %s before %s was called", name(t), r.Key, r.Value, name(w.t))
		}
	})
	c.checkTimes()
}

// checkTimes compares the times in documents with those that the commits reported.
// Items of streams have times of their own, see streams.
func (c *checker) checkTimes() {
	c.eachRead(func(t *history.Transaction, _ int, _ *history.Operation, r history.Read, own bool) {
		w := c.writes[ref{r.Key, r.Value}]
		if own || w == nil || r.At == 0 || c.items[r.Value] != nil {
			return
		}
		want := w.t.Time
		if want == 0 {
			want = c.seenAt[w.t]
		}
		if r.At != want {
			c.violate(WrongTime, []*history.Transaction{w.t, t}, "%s was told that %s = %s was committed at %d, but %s committed at %d", name(t), r.Key, r.Value, r.At, name(w.t), want)
		}
	})
}

// checkVersions checks that a version of the store stands for one write, whoever
// reports it.
func (c *checker) checkVersions() {
	versions := make(map[ref]int64)
	owners := make(map[int64]ref)
	learn := func(t *history.Transaction, r ref, version int64) {
		if before, ok := versions[r]; ok && before != version {
			c.violate(WrongVersion, []*history.Transaction{t}, "%s was told that %s = %s has version %d, others were told %d", name(t), r.key, r.value, version, before)
		}
		if before, ok := owners[version]; ok && before != r {
			c.violate(WrongVersion, []*history.Transaction{t}, "version %d is both of %s = %s and of %s = %s", version, r.key, r.value, before.key, before.value)
		}
		versions[r], owners[version] = version, r
	}
	for _, t := range c.h.Transactions {
		if t.Outcome != history.Committed || t.Last() == nil {
			continue
		}
		final := make(map[string]string)
		for _, op := range t.Last().Ops {
			if op.Error == "" && op.Key != "" && op.Kind != history.Append {
				final[op.Key] = op.Value
			}
		}
		for key, value := range final {
			version, reported := t.Versions[key]
			if reported != (value != "") {
				c.violate(WrongVersion, []*history.Transaction{t}, "%s left %s as %s, and its commit reported version %d", name(t), key, show(value), version)
			} else if reported {
				learn(t, ref{key, value}, version)
			}
		}
	}
	c.eachRead(func(t *history.Transaction, _ int, _ *history.Operation, r history.Read, own bool) {
		if !own && r.Value != "" {
			learn(t, ref{r.Key, r.Value}, r.Version)
		}
	})
}

// stale checks reads that add no edges, and those of attempts that came to nothing:
// what they were told had not been replaced before they asked.
func (c *checker) stale() {
	c.eachRead(func(t *history.Transaction, attempt int, op *history.Operation, r history.Read, own bool) {
		if own || op.Kind == history.Assume || op.Kind == history.Get && !firstRead(t.Attempts[attempt], op, r.Key) {
			return // told from memory
		}
		ch := c.chains[r.Key]
		if ch == nil {
			return
		}
		if r.Value == "" {
			c.staleAbsence(t, op, ch)
			return
		}
		for _, next := range ch.byBase[r.Value] {
			if next.n.returned < op.Call && next.n.t != t {
				c.violate(StaleRead, []*history.Transaction{next.n.t, t}, "%s (%s) was told of %s = %s, which %s had replaced before", name(t), op.Kind, r.Key, r.Value, name(next.n.t))
			}
		}
	})
}

// staleAbsence checks that a key was absent at some moment of the read.
func (c *checker) staleAbsence(t *history.Transaction, op *history.Operation, ch *chain) {
	for _, seg := range ch.segments {
		if seg.create.n.returned < op.Call && (seg.end == nil || seg.end.n.t.Call > op.Return) && seg.create.n.t != t {
			c.violate(StaleRead, []*history.Transaction{seg.create.n.t, t}, "%s (%s) found %s absent, which %s had created before and nobody had deleted", name(t), op.Kind, ch.key, name(seg.create.n.t))
		}
	}
}

// firstRead reports whether op is the first operation of an attempt that was told of
// key; later ones answer from what the attempt remembers.
func firstRead(a *history.Attempt, op *history.Operation, key string) bool {
	for _, o := range a.Ops {
		if o == op {
			return true
		}
		if o.Kind == history.Peek || o.Kind == history.Query {
			continue
		}
		if slices.ContainsFunc(o.Reads, func(r history.Read) bool { return r.Key == key }) {
			return false
		}
	}
	return true
}
