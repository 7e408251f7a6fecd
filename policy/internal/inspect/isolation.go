package inspect

import (
	"regexp"
	"strings"

	pg "github.com/pganalyze/pg_query_go/v6"

	"github.com/seed4391e180/runlane/policy/internal/rule"
)

const serializable = "serializable"

// isolation reports whether a setting is one of the isolation level. The names of
// settings know no case.
func isolation(setting string) bool {
	return strings.EqualFold(setting, "default_transaction_isolation") || strings.EqualFold(setting, "transaction_isolation")
}

// level judges a value that an isolation level is set to.
func (w *walker) level(object string, value *pg.Node, location int) {
	if t, ok := text(value); ok && strings.EqualFold(t, serializable) {
		w.found(rule.Serializable, location, object)
	}
}

// setting judges SET, alone or within ALTER ROLE, DATABASE, SYSTEM and CREATE FUNCTION.
func (w *walker) setting(n *pg.VariableSetStmt) {
	switch {
	case n.GetKind() == pg.VariableSetKind_VAR_SET_MULTI:
		object := "SET " + strings.ToUpper(n.GetName())
		for _, arg := range n.GetArgs() {
			w.mode(object, arg.GetDefElem())
		}
	case isolation(n.GetName()):
		for _, arg := range n.GetArgs() {
			w.level(strings.ToLower(n.GetName()), arg, w.start)
		}
	}
}

// mode judges a mode of a transaction.
func (w *walker) mode(object string, d *pg.DefElem) {
	if d.GetDefname() == "transaction_isolation" {
		w.level(object, d.GetArg(), w.start)
	}
}

func (w *walker) transaction(n *pg.TransactionStmt) {
	object := "BEGIN"
	if n.GetKind() == pg.TransactionStmtKind_TRANS_STMT_START {
		object = "START TRANSACTION"
	}
	for _, o := range n.GetOptions() {
		w.mode(object, o.GetDefElem())
	}
}

// startup is the spelling of a setting in the options of a connection.
var startup = regexp.MustCompile(`(?i)(?:^|[^a-z_.])default_transaction_isolation(=|%3d)\\*'?"?serializable\b`)

// Startup reports whether the options of a connection ask for serializable
// transactions.
func Startup(options string) bool { return startup.MatchString(options) }

// option judges the options of servers and subscriptions, which may hold settings.
func (w *walker) option(d *pg.DefElem) {
	if s := d.GetArg().GetString_().GetSval(); d.GetDefname() != "as" && Startup(s) { // a body is judged itself
		w.found(rule.Serializable, int(d.GetLocation()), "default_transaction_isolation")
	}
}

// update judges what UPDATE sets: the settings of the session can be written like a
// table, and values can be recomputed from other rows.
func (w *walker) update(n *pg.UpdateStmt) {
	if n.GetRelation().GetRelname() == "pg_settings" && mentions(n.GetWhereClause(), isolation) {
		for _, t := range n.GetTargetList() {
			if t.GetResTarget().GetName() == "setting" {
				w.level("pg_settings", t.GetResTarget().GetVal(), w.start)
			}
		}
	}
	w.recomputed(n.GetRelation(), n.GetTargetList(), n.GetFromClause(), n.GetWithClause())
}
