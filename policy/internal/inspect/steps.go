package inspect

import (
	"slices"

	pg "github.com/pganalyze/pg_query_go/v6"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/seed4391e180/runlane/policy/internal/rule"
)

// A Step is what one statement of a sequence does.
type Step struct {
	Offset   int
	Writes   bool
	Notifies bool
	Begins   bool // a transaction
	Ends     bool
	Skips    string // the table whose rows a SELECT takes FOR UPDATE SKIP LOCKED, with no work in it

	picks pick
	marks mark
}

// pick is a SELECT by columns that say what is to be done.
type pick struct {
	table   string
	columns []string // compared with constants
}

// mark is an UPDATE of columns.
type mark struct {
	table string
	sets  []string
	where []string // every column that the condition mentions
}

// A Transaction says how the statements of a sequence share one.
type Transaction struct {
	Whole bool // all of them are in one
	Joins bool // it is somebody else's, who writes
}

// step is what a statement does.
func step(n *pg.Node, offset int) Step {
	s := Step{Offset: offset, Writes: writes(n)}
	switch n := n.GetNode().(type) {
	case *pg.Node_TransactionStmt:
		switch n.TransactionStmt.GetKind() {
		case pg.TransactionStmtKind_TRANS_STMT_BEGIN, pg.TransactionStmtKind_TRANS_STMT_START:
			s.Begins = true
		case pg.TransactionStmtKind_TRANS_STMT_COMMIT, pg.TransactionStmtKind_TRANS_STMT_ROLLBACK, pg.TransactionStmtKind_TRANS_STMT_PREPARE:
			s.Ends = true
		}
	case *pg.Node_CopyStmt:
		s.Writes = n.CopyStmt.GetIsFrom()
	case *pg.Node_SelectStmt:
		if !s.Writes {
			s.picks = picks(n.SelectStmt)
			s.Skips = skips(n.SelectStmt)
		}
	case *pg.Node_UpdateStmt:
		s.marks = marks(n.UpdateStmt)
	}
	visit(n.ProtoReflect(), func(m protoreflect.Message) bool {
		switch n := m.Interface().(type) {
		case *pg.NotifyStmt:
			s.Notifies = true
		case *pg.FuncCall:
			if last, own := name(n.GetFuncname()); own && last == "pg_notify" {
				s.Notifies = true
			}
		case *pg.CreateFunctionStmt, *pg.DoStmt, *pg.RuleStmt: // runs elsewhere
			return false
		}
		return !s.Notifies
	})
	return s
}

// skips is the table that a SELECT locks with SKIP LOCKED.
func skips(n *pg.SelectStmt) string {
	table := ""
	visit(n.ProtoReflect(), func(m protoreflect.Message) bool {
		s, ok := m.Interface().(*pg.SelectStmt)
		if !ok {
			return true
		}
		for _, c := range s.GetLockingClause() {
			if c.GetLockingClause().GetWaitPolicy() == pg.LockWaitPolicy_LockWaitSkip {
				for _, t := range tables(s.ProtoReflect()) {
					table = t
					return false
				}
			}
		}
		return true
	})
	return table
}

func picks(n *pg.SelectStmt) pick {
	if len(n.GetFromClause()) != 1 {
		return pick{}
	}
	p := pick{table: n.GetFromClause()[0].GetRangeVar().GetRelname()}
	if p.table == "" {
		return pick{}
	}
	visit(n.GetWhereClause().ProtoReflect(), func(m protoreflect.Message) bool {
		switch e := m.Interface().(type) {
		case *pg.A_Expr:
			if constant(e.GetRexpr()) {
				p.columns = append(p.columns, columnOf(e.GetLexpr()))
			} else if constant(e.GetLexpr()) {
				p.columns = append(p.columns, columnOf(e.GetRexpr()))
			}
		case *pg.NullTest:
			p.columns = append(p.columns, columnOf(e.GetArg()))
		case *pg.BoolExpr:
			for _, a := range e.GetArgs() {
				p.columns = append(p.columns, columnOf(a))
			}
		}
		return true
	})
	p.columns = slices.DeleteFunc(p.columns, func(c string) bool { return c == "" })
	return p
}

func marks(n *pg.UpdateStmt) mark {
	m := mark{table: n.GetRelation().GetRelname()}
	for _, t := range n.GetTargetList() {
		m.sets = append(m.sets, t.GetResTarget().GetName())
	}
	if n.GetWhereClause() != nil {
		visit(n.GetWhereClause().ProtoReflect(), func(v protoreflect.Message) bool {
			if c, ok := v.Interface().(*pg.ColumnRef); ok {
				last, _ := name(c.GetFields())
				m.where = append(m.where, last)
			}
			return true
		})
	}
	return m
}

func constant(n *pg.Node) bool {
	switch e := n.GetNode().(type) {
	case *pg.Node_AConst, *pg.Node_ParamRef:
		return true
	case *pg.Node_TypeCast:
		return constant(e.TypeCast.GetArg())
	case *pg.Node_List:
		return len(e.List.GetItems()) > 0 && constant(e.List.GetItems()[0])
	}
	return false
}

func columnOf(n *pg.Node) string {
	last, _ := name(n.GetColumnRef().GetFields())
	return last
}

// Sequence judges what the statements of a sequence do together.
func Sequence(steps []Step, tx Transaction) (hits []Hit) {
	for i, s := range steps {
		if s.Notifies && !s.Writes && !tx.Joins && !writesAround(steps, i, tx.Whole) {
			hits = append(hits, Hit{rule.Notify, s.Offset, "notify", ""})
		}
		if s.Skips != "" {
			hits = append(hits, Hit{rule.Claim, s.Offset, s.Skips, ""})
		}
		if s.marks.table == "" {
			continue
		}
		for _, before := range steps[:i] {
			if before.picks.table != s.marks.table {
				continue
			}
			if c := stolen(before.picks, s.marks); c != "" {
				hits = append(hits, Hit{rule.Claim, s.Offset, s.marks.table, "the UPDATE does not ask again for the " + c + " that the SELECT saw"})
				break
			}
		}
	}
	return hits
}

// stolen is a column that a SELECT looked at and an UPDATE changes without looking
// again.
func stolen(p pick, m mark) string {
	for _, c := range p.columns {
		if slices.Contains(m.sets, c) && !slices.Contains(m.where, c) {
			return c
		}
	}
	return ""
}

// writesAround reports whether the transaction of a step writes.
func writesAround(steps []Step, i int, whole bool) bool {
	first, last := 0, len(steps)-1
	if !whole {
		last = i
		for first = i; first >= 0 && !steps[first].Begins; first-- {
			if steps[first].Ends {
				return false // no transaction was begun
			}
		}
		if first < 0 {
			return false
		}
		for last < len(steps)-1 && !steps[last].Ends {
			last++
		}
	}
	return slices.ContainsFunc(steps[first:last+1], func(s Step) bool { return s.Writes })
}
