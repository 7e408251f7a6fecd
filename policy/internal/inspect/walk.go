package inspect

import (
	"slices"
	"strings"

	pg "github.com/pganalyze/pg_query_go/v6"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/seed4391e180/runlane/policy/internal/rule"
)

// walker goes through the tree of one statement.
type walker struct {
	*reader
	sql   string // what was parsed
	place at     // where it stands
	start int    // where the statement begins in it

	table  string          // whose definition this is within
	column string          // likewise
	works  bool            // within a statement that writes: its locks are part of its work
	feeds  map[string]bool // common table expressions that a writing one reads
	writes []string        // tables that a writing one changes
}

// top walks a statement, and notes what it does for rules that look at more than one.
func (w *walker) top(n *pg.Node) {
	w.out.Steps = append(w.out.Steps, step(n, w.place.offset(w.start)))
	w.schema(n)
	w.node(n.ProtoReflect())
}

func (w *walker) found(code rule.Code, location int, object string) {
	if location < w.start {
		location = w.start
	}
	w.hit(code, w.place.offset(location), object, "")
}

// node visits a message of the tree and all below it.
func (w *walker) node(m protoreflect.Message) {
	saved := *w
	switch n := m.Interface().(type) {
	case *pg.CreateStmt:
		w.table = relation(n.GetRelation())
	case *pg.AlterTableStmt:
		w.table = relation(n.GetRelation())
	case *pg.CreateDomainStmt:
		w.table = dotted(n.GetDomainname())
	case *pg.AlterDomainStmt:
		w.table = dotted(n.GetTypeName())
	case *pg.ColumnDef:
		w.column = n.GetColname()
	case *pg.Constraint:
		w.constraint(n)
	case *pg.CreateTrigStmt:
		w.found(rule.Trigger, w.start, n.GetTrigname()+" on "+relation(n.GetRelation()))
	case *pg.CreateEventTrigStmt:
		w.found(rule.Trigger, w.start, n.GetTrigname()+" on "+n.GetEventname())
	case *pg.LockStmt:
		w.lockTable(n)
	case *pg.FuncCall:
		w.call(n)
	case *pg.DefineStmt:
		w.define(n)
	case *pg.VariableSetStmt:
		w.setting(n)
	case *pg.TransactionStmt:
		w.transaction(n)
	case *pg.CreateFunctionStmt:
		w.function(n)
	case *pg.DoStmt:
		w.do(n)
	case *pg.InsertStmt:
		w.works = true
		w.onConflict(n)
	case *pg.DeleteStmt, *pg.MergeStmt, *pg.CreateTableAsStmt:
		w.works = true
	case *pg.UpdateStmt:
		w.works = true
		w.update(n)
	case *pg.SelectStmt:
		w.works = w.works || n.GetIntoClause() != nil
		w.feeds = feeding(n.GetWithClause())
		w.writes = slices.Concat(w.writes, changed(n.GetWithClause()))
	case *pg.CommonTableExpr:
		w.works = w.works || w.feeds[n.GetCtename()]
	case *pg.DefElem:
		w.option(n)
	}
	w.children(m)
	if s, ok := m.Interface().(*pg.SelectStmt); ok && !w.works {
		w.rowLocks(s)
	}
	*w = saved // what a node says of its children does not hold for its neighbours
}

func (w *walker) children(m protoreflect.Message) {
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case f.Message() == nil:
		case f.IsList():
			for i := range v.List().Len() {
				w.node(v.List().Get(i).Message())
			}
		default:
			w.node(v.Message())
		}
		return true
	})
}

func (w *walker) constraint(n *pg.Constraint) {
	if n.GetContype() != pg.ConstrType_CONSTR_CHECK {
		return
	}
	object := w.table
	switch {
	case n.GetConname() != "":
		object += "." + n.GetConname()
	case w.column != "":
		object += "." + w.column
	}
	w.found(rule.Check, int(n.GetLocation()), object)
}

func (w *walker) lockTable(n *pg.LockStmt) {
	var tables []string
	for _, r := range n.GetRelations() {
		tables = append(tables, relation(r.GetRangeVar()))
	}
	w.found(rule.LockTable, w.start, strings.Join(tables, ", "))
}

// advisory reports whether PostgreSQL's function of a name takes or releases
// advisory locks.
func advisory(name string) bool {
	rest, ok := strings.CutPrefix(name, "pg_")
	if !ok {
		return false
	}
	rest = strings.TrimPrefix(rest, "try_")
	switch rest {
	case "advisory_lock", "advisory_lock_shared", "advisory_xact_lock", "advisory_xact_lock_shared",
		"advisory_unlock", "advisory_unlock_shared", "advisory_unlock_all":
		return true
	}
	return false
}

// call judges a call of a function.
func (w *walker) call(n *pg.FuncCall) {
	last, own := name(n.GetFuncname())
	switch {
	case own && advisory(last):
		w.found(rule.Advisory, int(n.GetLocation()), last)
	case own && last == "set_config" && len(n.GetArgs()) > 1:
		if key, ok := text(n.GetArgs()[0]); ok && isolation(key) {
			w.level(strings.ToLower(key), n.GetArgs()[1], int(n.GetLocation()))
		}
	case executes(last):
		for _, arg := range n.GetArgs() {
			if sql, ok := text(arg); ok {
				w.embedded(sql, int(n.GetLocation()))
			}
		}
	}
}

// executes reports whether a function runs SQL that it is given as a text.
func executes(name string) bool {
	switch name {
	case "dblink", "dblink_exec", "dblink_open", "dblink_send_query", "query_to_xml", "query_to_xmlschema", "query_to_xml_and_xmlschema",
		"cursor_to_xml", "ts_stat", "ts_rewrite", "crosstab", "connectby", "schedule", "schedule_in_database":
		return true
	}
	return false
}

// embedded judges a literal that holds SQL, if it does.
func (w *walker) embedded(sql string, location int) {
	r := Text(sql)
	for _, h := range r.Hits {
		if h.Code != rule.Unparsed {
			w.hit(h.Code, w.place.offset(location), h.Object, "within a literal that is executed")
		}
	}
}

// define judges CREATE OPERATOR, AGGREGATE and the like: they call what they name.
func (w *walker) define(n *pg.DefineStmt) {
	for _, d := range n.GetDefinition() {
		t := d.GetDefElem().GetArg().GetTypeName()
		if last, own := name(t.GetNames()); own && advisory(last) {
			w.found(rule.Advisory, int(t.GetLocation()), last)
		}
	}
}
