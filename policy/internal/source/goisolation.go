package source

import (
	"go/ast"
	"go/token"
	"strings"

	"github.com/seed4391e180/runlane/policy/internal/rule"
)

// imported reports whether an expression names a package, by the imports of the file.
func (g *GoFile) imported(e ast.Expr, is func(path string) bool) bool {
	id, ok := e.(*ast.Ident)
	if !ok {
		return false
	}
	path, ok := g.importOf(id.Name)
	return ok && is(path)
}

// importOf is the path that a name stands for.
func (g *GoFile) importOf(name string) (string, bool) {
	for _, i := range g.tree.Imports {
		path := strings.Trim(i.Path.Value, "`\"")
		own := path[strings.LastIndex(path, "/")+1:]
		if len(own) > 1 && own[0] == 'v' && own[1] >= '0' && own[1] <= '9' {
			rest := strings.TrimSuffix(path, "/"+own)
			own = rest[strings.LastIndex(rest, "/")+1:]
		}
		if i.Name != nil {
			own = i.Name.Name
		}
		if own == name {
			return path, true
		}
	}
	return "", false
}

func isPgx(path string) bool {
	return path == "github.com/jackc/pgx" || strings.HasPrefix(path, "github.com/jackc/pgx/")
}

func isSQL(path string) bool { return path == "database/sql" || path == "database/sql/driver" }

// selector judges pgx.Serializable and sql.LevelSerializable. To compare with one is
// not to ask for it.
func (j *goJudge) selector(s *ast.SelectorExpr) {
	switch {
	case s.Sel.Name == "Serializable" && j.imported(s.X, isPgx):
	case s.Sel.Name == "LevelSerializable" && j.imported(s.X, isSQL):
	default:
		return
	}
	if len(j.stack) > 1 {
		switch p := j.stack[len(j.stack)-2].(type) {
		case *ast.BinaryExpr:
			if p.Op == token.EQL || p.Op == token.NEQ {
				return
			}
		case *ast.CaseClause:
			return
		case *ast.KeyValueExpr:
			if p.Key == s {
				return
			}
		}
	}
	j.file.found(rule.Serializable, j.offset(s.Pos()), s.X.(*ast.Ident).Name+"."+s.Sel.Name, "")
}

// conversion judges sql.IsolationLevel(6) and pgx.TxIsoLevel("serializable").
func (j *goJudge) conversion(c *ast.CallExpr) {
	s, ok := c.Fun.(*ast.SelectorExpr)
	if !ok || len(c.Args) != 1 {
		return
	}
	switch {
	case s.Sel.Name == "IsolationLevel" && j.imported(s.X, isSQL) && literal(c.Args[0], "6"):
	case s.Sel.Name == "TxIsoLevel" && j.imported(s.X, isPgx) && j.serializable(c.Args[0]):
	default:
		return
	}
	j.file.found(rule.Serializable, j.offset(c.Pos()), s.X.(*ast.Ident).Name+"."+s.Sel.Name, "")
}

// member judges a member of a composite literal: an isolation level, a runtime
// parameter, the statement that begins a transaction.
func (j *goJudge) member(kv *ast.KeyValueExpr) {
	if id, ok := kv.Key.(*ast.Ident); ok {
		switch id.Name {
		case "IsoLevel":
			if j.serializable(kv.Value) {
				j.file.found(rule.Serializable, j.offset(kv.Pos()), id.Name, "")
			}
		case "Isolation":
			if literal(kv.Value, "6") {
				j.file.found(rule.Serializable, j.offset(kv.Pos()), id.Name, "")
			}
		case "BeginQuery", "CommitQuery":
			for _, m := range j.all.fold(j.GoFile, kv.Value, j.function()) {
				if begins(m.text) {
					j.judge(m, false, "")
				}
			}
		}
		return
	}
	j.parameter(kv.Key, kv.Value)
}

// assignment judges m["default_transaction_isolation"] = "serializable".
func (j *goJudge) assignment(a *ast.AssignStmt) {
	for i, left := range a.Lhs {
		if len(a.Rhs) != len(a.Lhs) {
			return
		}
		switch l := left.(type) {
		case *ast.IndexExpr:
			j.parameter(l.Index, a.Rhs[i])
		case *ast.SelectorExpr:
			if l.Sel.Name == "IsoLevel" && j.serializable(a.Rhs[i]) {
				j.file.found(rule.Serializable, j.offset(a.Pos()), l.Sel.Name, "")
			}
		}
	}
}

func (j *goJudge) parameter(key, value ast.Expr) {
	for _, k := range j.all.fold(j.GoFile, key, j.function()) {
		if k.holes == 0 && (strings.EqualFold(k.text, "default_transaction_isolation") || strings.EqualFold(k.text, "transaction_isolation")) && j.serializable(value) {
			j.file.found(rule.Serializable, j.offset(key.Pos()), strings.ToLower(k.text), "")
			return
		}
	}
}

func (j *goJudge) serializable(e ast.Expr) bool {
	for _, m := range j.all.fold(j.GoFile, e, j.function()) {
		if m.holes == 0 && strings.EqualFold(m.text, "serializable") {
			return true
		}
	}
	return false
}

func literal(e ast.Expr, value string) bool {
	l, ok := e.(*ast.BasicLit)
	return ok && l.Value == value
}
