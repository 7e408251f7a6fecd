package inspect

import (
	"slices"
	"strings"

	pg "github.com/pganalyze/pg_query_go/v6"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/seed4391e180/runlane/policy/internal/lex"
	"github.com/seed4391e180/runlane/policy/internal/rule"
)

// rowLocks judges the locking clauses of a SELECT that no writing statement reads.
func (w *walker) rowLocks(n *pg.SelectStmt) {
	if len(n.GetLockingClause()) == 0 {
		return
	}
	from := lastPlace(n)
	for _, c := range n.GetLockingClause() {
		clause := c.GetLockingClause()
		var location int
		if named := clause.GetLockedRels(); len(named) > 0 {
			location = lastFor(w.sql, int(named[0].GetRangeVar().GetLocation()))
		} else {
			location = nextFor(w.sql, from)
		}
		from = location + 1
		if w.changes(n, clause) {
			continue
		}
		w.found(rule.RowLock, location, lockText(clause))
	}
}

// lastPlace is the last place that a SELECT names before its locking clauses, which
// come behind everything else.
func lastPlace(n *pg.SelectStmt) (last int) {
	n.ProtoReflect().Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		if f.Message() == nil || f.Name() == "locking_clause" {
			return true
		}
		look := func(m protoreflect.Message) bool {
			if d := m.Descriptor().Fields().ByName("location"); d != nil {
				last = max(last, int(m.Get(d).Int()))
			}
			return true
		}
		if !f.IsList() {
			return visit(v.Message(), look)
		}
		for i := range v.List().Len() {
			visit(v.List().Get(i).Message(), look)
		}
		return true
	})
	return last
}

// changes reports whether the statement writes every table that a clause locks: then
// the lock is one that the write would take.
func (w *walker) changes(n *pg.SelectStmt, clause *pg.LockingClause) bool {
	named := map[string]string{} // tables by the names that a clause may call them
	for _, f := range n.GetFromClause() {
		visit(f.ProtoReflect(), func(m protoreflect.Message) bool {
			if v, ok := m.Interface().(*pg.RangeVar); ok {
				alias := v.GetAlias().GetAliasname()
				if alias == "" {
					alias = v.GetRelname()
				}
				named[alias] = relation(v)
			}
			return true
		})
	}
	if len(clause.GetLockedRels()) > 0 {
		only := map[string]string{}
		for _, r := range clause.GetLockedRels() {
			only[r.GetRangeVar().GetRelname()] = named[r.GetRangeVar().GetRelname()]
		}
		named = only
	}
	for _, table := range named {
		if !slices.Contains(w.writes, table) {
			return false
		}
	}
	return len(named) > 0
}

// changed are the tables that the writing common table expressions change.
func changed(with *pg.WithClause) (tables []string) {
	for _, c := range with.GetCtes() {
		switch q := c.GetCommonTableExpr().GetCtequery().GetNode().(type) {
		case *pg.Node_InsertStmt:
			tables = append(tables, relation(q.InsertStmt.GetRelation()))
		case *pg.Node_UpdateStmt:
			tables = append(tables, relation(q.UpdateStmt.GetRelation()))
		case *pg.Node_DeleteStmt:
			tables = append(tables, relation(q.DeleteStmt.GetRelation()))
		case *pg.Node_MergeStmt:
			tables = append(tables, relation(q.MergeStmt.GetRelation()))
		}
	}
	return tables
}

// lockText is a locking clause in one spelling.
func lockText(c *pg.LockingClause) string {
	text := map[pg.LockClauseStrength]string{
		pg.LockClauseStrength_LCS_FORKEYSHARE:    "FOR KEY SHARE",
		pg.LockClauseStrength_LCS_FORSHARE:       "FOR SHARE",
		pg.LockClauseStrength_LCS_FORNOKEYUPDATE: "FOR NO KEY UPDATE",
		pg.LockClauseStrength_LCS_FORUPDATE:      "FOR UPDATE",
	}[c.GetStrength()]
	var tables []string
	for _, r := range c.GetLockedRels() {
		tables = append(tables, relation(r.GetRangeVar()))
	}
	if len(tables) > 0 {
		text += " OF " + strings.Join(tables, ", ")
	}
	switch c.GetWaitPolicy() {
	case pg.LockWaitPolicy_LockWaitSkip:
		text += " SKIP LOCKED"
	case pg.LockWaitPolicy_LockWaitError:
		text += " NOWAIT"
	}
	return text
}

// nextFor is where the next locking clause behind a place begins.
func nextFor(sql string, from int) int {
	tokens := lex.Tokens(sql)
	for i, t := range tokens {
		if t.Start >= from && locks(sql, tokens[i:]) {
			return t.Start
		}
	}
	return from
}

// lastFor is where the last locking clause before a place begins.
func lastFor(sql string, until int) int {
	tokens, found := lex.Tokens(sql), until
	for i, t := range tokens {
		if t.Start < until && locks(sql, tokens[i:]) {
			found = t.Start
		}
	}
	return found
}

func locks(sql string, tokens []lex.Token) bool {
	if len(tokens) < 2 || !tokens[0].Is(sql, "for") {
		return false
	}
	for _, word := range []string{"update", "share", "no", "key"} {
		if tokens[1].Is(sql, word) {
			return true
		}
	}
	return false
}

// feeding names the common table expressions that a writing one reads, directly or
// through others: the locks they take are part of the work.
func feeding(with *pg.WithClause) map[string]bool {
	if with == nil {
		return nil
	}
	reads := map[string][]string{}
	var writers []string
	for _, c := range with.GetCtes() {
		cte := c.GetCommonTableExpr()
		reads[cte.GetCtename()] = tables(cte.GetCtequery().ProtoReflect())
		if writes(cte.GetCtequery()) {
			writers = append(writers, cte.GetCtename())
		}
	}
	feeds := map[string]bool{}
	for len(writers) > 0 {
		next := writers[0]
		writers = writers[1:]
		for _, t := range reads[next] {
			if _, ours := reads[t]; ours && !feeds[t] {
				feeds[t] = true
				writers = append(writers, t)
			}
		}
	}
	return feeds
}

// writes reports whether a statement changes rows by itself.
func writes(n *pg.Node) bool {
	switch s := n.GetNode().(type) {
	case *pg.Node_InsertStmt, *pg.Node_UpdateStmt, *pg.Node_DeleteStmt, *pg.Node_MergeStmt:
		return true
	case *pg.Node_SelectStmt:
		for _, c := range s.SelectStmt.GetWithClause().GetCtes() {
			if writes(c.GetCommonTableExpr().GetCtequery()) {
				return true
			}
		}
	}
	return false
}

// tables are the unqualified names of tables that a tree reads.
func tables(m protoreflect.Message) (list []string) {
	visit(m, func(m protoreflect.Message) bool {
		if v, ok := m.Interface().(*pg.RangeVar); ok && v.GetSchemaname() == "" {
			list = append(list, v.GetRelname())
		}
		return true
	})
	return list
}

// visit calls a function for a message and all below it, until it returns false.
func visit(m protoreflect.Message, f func(protoreflect.Message) bool) bool {
	if !m.IsValid() {
		return true
	}
	if !f(m) {
		return false
	}
	more := true
	m.Range(func(d protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case d.Message() == nil:
		case d.IsList():
			for i := range v.List().Len() {
				if more = visit(v.List().Get(i).Message(), f); !more {
					return false
				}
			}
		default:
			more = visit(v.Message(), f)
		}
		return more
	})
	return more
}

// mentions reports whether a tree has a text literal that a function accepts.
func mentions(n *pg.Node, accept func(string) bool) bool {
	return !visit(n.ProtoReflect(), func(m protoreflect.Message) bool {
		c, ok := m.Interface().(*pg.A_Const)
		return !ok || !accept(c.GetSval().GetSval())
	})
}
