package check_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/tests/histories/check"
	"github.com/seed4391e180/runlane/tests/histories/history"
)

// story builds a history by hand.
type story struct {
	h        *history.History
	versions map[[2]string]int64
	items    []string // appended, in order
}

func newStory() *story {
	return &story{h: &history.History{About: "made by hand", MaxAttempts: 8}, versions: map[[2]string]int64{}}
}

// teller adds operations to one transaction.
type teller struct {
	s *story
	t *history.Transaction
	a *history.Attempt
}

// tx adds a transaction that committed and ran from one moment to another. Its
// commit time, if it writes, is the moment of its return unless told otherwise.
func (s *story) tx(call, returned history.Moment) *teller {
	a := &history.Attempt{Call: call, Return: returned}
	t := &history.Transaction{
		Client: len(s.h.Transactions), Label: "story", Call: call, Return: returned,
		Outcome: history.Committed, Attempts: []*history.Attempt{a},
	}
	s.h.Transactions = append(s.h.Transactions, t)
	return &teller{s, t, a}
}

func (t *teller) op(op history.Operation) *teller {
	op.Call, op.Return = t.a.Call, t.a.Return
	t.a.Ops = append(t.a.Ops, &op)
	return t
}

func (t *teller) read(kind history.Kind, key, value string) *teller {
	return t.op(history.Operation{Kind: kind, Reads: []history.Read{{Key: key, Value: value}}})
}

func (t *teller) get(key, value string) *teller  { return t.read(history.Get, key, value) }
func (t *teller) peek(key, value string) *teller { return t.read(history.Peek, key, value) }
func (t *teller) create(key, value string) *teller {
	return t.op(history.Operation{Kind: history.Create, Key: key, Value: value})
}
func (t *teller) replace(key, value string) *teller {
	return t.op(history.Operation{Kind: history.Replace, Key: key, Value: value})
}
func (t *teller) delete(key string) *teller {
	return t.op(history.Operation{Kind: history.Delete, Key: key})
}
func (t *teller) told(now history.Clock) *teller {
	return t.op(history.Operation{Kind: history.Now, Time: now})
}

// swap reads a version and replaces it.
func (t *teller) swap(key, before, after string) *teller {
	return t.get(key, before).replace(key, after)
}

func (t *teller) ends(o history.Outcome) *teller { t.t.Outcome = o; return t }
func (t *teller) at(time history.Clock) *teller  { t.t.Time = time; return t }

// again begins another attempt; what came before was abandoned.
func (t *teller) again() *teller {
	t.a = &history.Attempt{Call: t.a.Call, Return: t.a.Return}
	t.t.Attempts, t.t.Time = append(t.t.Attempts, t.a), 0
	return t
}

func (s *story) version(key, value string) int64 {
	r := [2]string{key, value}
	if s.versions[r] == 0 {
		s.versions[r] = int64(len(s.versions) + 1)
	}
	return s.versions[r]
}

// finish fills in what every store would tell: versions and times.
func (s *story) finish() *history.History {
	times := map[[2]string]history.Clock{}
	for _, t := range s.h.Transactions {
		final := map[string]string{}
		for _, op := range t.Last().Ops {
			if op.Key != "" && op.Kind != history.Append && op.Error == "" {
				final[op.Key] = op.Value
			}
		}
		if t.Time == 0 && len(final) > 0 {
			t.Time = history.Clock(t.Return)
		}
		for key, value := range final {
			times[[2]string{key, value}] = t.Time
			if value != "" && t.Outcome == history.Committed {
				if t.Versions == nil {
					t.Versions = map[string]int64{}
				}
				t.Versions[key] = s.version(key, value)
			}
		}
		if t.Outcome != history.Committed {
			t.Time = 0
		}
	}
	for _, t := range s.h.Transactions {
		for _, a := range t.Attempts {
			for _, op := range a.Ops {
				for i, r := range op.Reads {
					if r.Value != "" && op.Reads[i].Version == 0 {
						op.Reads[i].Version = s.version(r.Key, r.Value)
						op.Reads[i].At = times[[2]string{r.Key, r.Value}]
					}
				}
			}
		}
	}
	all := s.h.Transactions
	s.h.Transactions = nil
	s.h.Append(all...)
	return s.h
}

// passes requires that the checker has nothing to say.
func (s *story) passes(t *testing.T) {
	t.Helper()
	r := check.Check(s.finish())
	require.True(t, r.OK(), "%s", r)
}

// fails requires that the checker finds a violation of that kind.
func (s *story) fails(t *testing.T, kind check.Kind) *check.Report {
	t.Helper()
	r := check.Check(s.finish())
	require.True(t, r.Has(kind), "want %q, got: %s", kind, r)
	return r
}

// tell shows a whole history in a message.
func tell(h *history.History) string {
	var b strings.Builder
	for _, t := range h.Transactions {
		fmt.Fprintf(&b, "#%d [%d, %d] %s at %d:", t.ID, t.Call, t.Return, t.Outcome, t.Time)
		for i, a := range t.Attempts {
			if i > 0 {
				b.WriteString("; again:")
			}
			for _, op := range a.Ops {
				fmt.Fprintf(&b, " %s", op.Kind)
				for _, r := range op.Reads {
					fmt.Fprintf(&b, " %s=%q", r.Key, r.Value)
				}
				if op.Key != "" {
					fmt.Fprintf(&b, " %s:=%q", op.Key, op.Value)
				}
			}
		}
		b.WriteByte('\n')
	}
	return b.String()
}
