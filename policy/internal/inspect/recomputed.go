package inspect

import (
	"slices"

	pg "github.com/pganalyze/pg_query_go/v6"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/seed4391e180/runlane/policy/internal/rule"
)

// aggregates are the functions that make one value of many rows.
var aggregates = []string{"count", "sum", "avg", "max", "min", "bool_or", "bool_and", "every", "array_agg", "string_agg", "json_agg", "jsonb_agg"}

// recomputed judges the columns that an UPDATE sets: none may be an aggregate of
// other rows. Rows that the statement itself writes are no others.
func (w *walker) recomputed(target *pg.RangeVar, sets, from []*pg.Node, with *pg.WithClause) {
	own := written(with)
	sources := summaries(from, with, own)
	for _, s := range sets {
		set := s.GetResTarget()
		if summarises(set.GetVal(), sources, own) {
			w.found(rule.Recomputed, int(set.GetLocation()), relation(target)+"."+set.GetName())
		}
	}
}

// onConflict judges the update of an upsert.
func (w *walker) onConflict(n *pg.InsertStmt) {
	clause := n.GetOnConflictClause()
	if clause.GetAction() != pg.OnConflictAction_ONCONFLICT_UPDATE {
		return
	}
	w.recomputed(n.GetRelation(), clause.GetTargetList(), nil, n.GetWithClause())
	if clause.GetWhereClause() != nil {
		return // guarded by a version
	}
	source := n.GetSelectStmt().GetSelectStmt()
	for i, t := range source.GetTargetList() {
		if i >= len(n.GetCols()) || len(source.GetFromClause()) == 0 || !aggregate(t.GetResTarget().GetVal()) {
			continue
		}
		column := n.GetCols()[i].GetResTarget().GetName()
		for _, s := range clause.GetTargetList() {
			if excluded(s.GetResTarget().GetVal(), column) {
				w.found(rule.Recomputed, int(s.GetResTarget().GetLocation()), relation(n.GetRelation())+"."+s.GetResTarget().GetName())
			}
		}
	}
}

// excluded reports whether a value is the proposed row's column, as it is.
func excluded(n *pg.Node, column string) bool {
	f := n.GetColumnRef().GetFields()
	return len(f) == 2 && f[0].GetString_().GetSval() == "excluded" && f[1].GetString_().GetSval() == column
}

// written names the common table expressions that write.
func written(with *pg.WithClause) (names []string) {
	for _, c := range with.GetCtes() {
		if cte := c.GetCommonTableExpr(); writes(cte.GetCtequery()) {
			names = append(names, cte.GetCtename())
		}
	}
	return names
}

// summaries names what the FROM of an UPDATE calls an aggregate of other rows.
func summaries(from []*pg.Node, with *pg.WithClause, own []string) (names []string) {
	for _, f := range from {
		if s := f.GetRangeSubselect(); s != nil && others(s.GetSubquery(), own) && aggregate(s.GetSubquery()) {
			names = append(names, s.GetAlias().GetAliasname())
		}
	}
	for _, c := range with.GetCtes() {
		cte := c.GetCommonTableExpr()
		if cte.GetCtequery().GetSelectStmt() == nil || !aggregate(cte.GetCtequery()) || !others(cte.GetCtequery(), own) {
			continue
		}
		names = append(names, cte.GetCtename())
		for _, f := range from {
			if v := f.GetRangeVar(); v.GetRelname() == cte.GetCtename() && v.GetAlias() != nil {
				names = append(names, v.GetAlias().GetAliasname())
			}
		}
	}
	return names
}

// summarises reports whether a value is made from an aggregate of other rows.
func summarises(value *pg.Node, sources, own []string) bool {
	found := false
	visit(value.ProtoReflect(), func(m protoreflect.Message) bool {
		switch e := m.Interface().(type) {
		case *pg.SubLink:
			found = found || aggregate(e.GetSubselect()) && others(e.GetSubselect(), own)
			for _, t := range tables(e.GetSubselect().ProtoReflect()) {
				found = found || slices.Contains(sources, t)
			}
		case *pg.ColumnRef:
			if f := e.GetFields(); len(f) == 2 && slices.Contains(sources, f[0].GetString_().GetSval()) {
				found = true
			}
		}
		return !found
	})
	return found
}

// others reports whether a query reads a table that is not one of these.
func others(n *pg.Node, own []string) bool {
	reads := false
	visit(n.ProtoReflect(), func(m protoreflect.Message) bool {
		if v, ok := m.Interface().(*pg.RangeVar); ok && (v.GetSchemaname() != "" || !slices.Contains(own, v.GetRelname())) {
			reads = true
		}
		return !reads
	})
	return reads
}

// aggregate reports whether a tree calls an aggregate.
func aggregate(n *pg.Node) bool {
	return !visit(n.ProtoReflect(), func(m protoreflect.Message) bool {
		c, ok := m.Interface().(*pg.FuncCall)
		if !ok {
			return true
		}
		last, own := name(c.GetFuncname())
		return !own || !slices.Contains(aggregates, last)
	})
}
