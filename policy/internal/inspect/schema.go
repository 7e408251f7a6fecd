package inspect

import (
	"slices"
	"strings"

	pg "github.com/pganalyze/pg_query_go/v6"

	"github.com/seed4391e180/runlane/policy/internal/rule"
)

// A Schema is what texts declare: tables with their columns, and foreign keys.
type Schema struct {
	Tables map[string][]string
	Keys   []Key
}

// A Key is a foreign key.
type Key struct {
	Offset  int
	Table   string
	Columns []string
	Parent  string
}

// Add takes over the tables of another schema.
func (s *Schema) Add(tables map[string][]string) {
	if s.Tables == nil {
		s.Tables = map[string][]string{}
	}
	for t, columns := range tables {
		s.Tables[t] = append(s.Tables[t], columns...)
	}
}

// Orphans are the keys that lack the owner column, though both tables have it. A
// parent that nobody declares is taken to have it, unless the key is the owner's own.
func Orphans(keys []Key, tables map[string][]string, owners []string) (list []Key) {
	for _, k := range keys {
		for _, owner := range owners {
			if !slices.Contains(tables[k.Table], owner) || slices.Contains(k.Columns, owner) {
				continue
			}
			if parent, known := tables[k.Parent]; known && !slices.Contains(parent, owner) {
				continue
			}
			list = append(list, k)
			break
		}
	}
	return list
}

// schema notes what a statement declares.
func (w *walker) schema(n *pg.Node) {
	switch n := n.GetNode().(type) {
	case *pg.Node_CreateStmt:
		w.create(n.CreateStmt)
	case *pg.Node_CreateForeignTableStmt:
		w.create(n.CreateForeignTableStmt.GetBaseStmt())
	case *pg.Node_CreateSchemaStmt:
		for _, e := range n.CreateSchemaStmt.GetSchemaElts() {
			w.schema(e)
		}
	case *pg.Node_AlterTableStmt:
		for _, c := range n.AlterTableStmt.GetCmds() {
			w.element(n.AlterTableStmt.GetRelation().GetRelname(), c.GetAlterTableCmd().GetDef())
		}
	}
}

func (w *walker) create(n *pg.CreateStmt) {
	table := n.GetRelation().GetRelname()
	w.out.Schema.Add(map[string][]string{table: nil})
	for _, e := range n.GetTableElts() {
		w.element(table, e)
	}
	if reason := workTable(table, w.out.Schema.Tables[table]); reason != "" {
		w.hit(rule.WorkTable, w.place.offset(int(n.GetRelation().GetLocation())), relation(n.GetRelation()), reason)
	}
}

// element notes a column or a constraint of a table.
func (w *walker) element(table string, e *pg.Node) {
	if c := e.GetColumnDef(); c != nil {
		w.out.Schema.Add(map[string][]string{table: {c.GetColname()}})
		for _, k := range c.GetConstraints() {
			w.key(table, k.GetConstraint(), []string{c.GetColname()})
		}
	}
	if k := e.GetConstraint(); k != nil {
		var columns []string
		for _, a := range k.GetFkAttrs() {
			columns = append(columns, a.GetString_().GetSval())
		}
		w.key(table, k, columns)
	}
}

func (w *walker) key(table string, k *pg.Constraint, columns []string) {
	if k.GetContype() != pg.ConstrType_CONSTR_FOREIGN {
		return
	}
	w.out.Schema.Keys = append(w.out.Schema.Keys, Key{
		Offset: w.place.offset(int(k.GetLocation())), Table: table, Columns: columns, Parent: k.GetPktable().GetRelname(),
	})
}

// workTable says why a table looks like one of pending work: its name, or a payload
// with a mark that it was dealt with.
func workTable(table string, columns []string) string {
	words := strings.FieldsFunc(strings.ToLower(table), func(r rune) bool { return r == '_' || r == '.' })
	for _, w := range words {
		switch w {
		case "outbox", "inbox", "dispatch", "workqueue", "workitems", "backlog":
			return "by its name"
		}
	}
	joined := "_" + strings.Join(words, "_") + "_"
	for _, p := range []string{"_work_queue_", "_work_items_", "_work_item_", "_job_queue_", "_task_queue_", "_event_queue_", "_message_queue_", "_pending_"} {
		if strings.Contains(joined, p) {
			return "by its name"
		}
	}
	payload := anyOf(columns, "payload", "body", "message", "event_data", "data")
	done := anyOf(columns, "processed", "processed_at", "published", "published_at", "sent_at", "delivered_at", "dispatched_at", "handled_at", "consumed_at", "acked_at")
	tries := anyOf(columns, "attempts", "attempt", "retries", "retry_count", "next_attempt_at", "next_retry_at", "locked_at", "locked_by", "available_at")
	if payload != "" && done != "" && tries != "" {
		return "by its columns " + payload + ", " + done + " and " + tries
	}
	return ""
}

func anyOf(columns []string, wanted ...string) string {
	for _, w := range wanted {
		if slices.Contains(columns, w) {
			return w
		}
	}
	return ""
}
