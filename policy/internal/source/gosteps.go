package source

import (
	"go/ast"
	"go/token"
	"path"
	"strings"

	"github.com/seed4391e180/runlane/policy/internal/inspect"
)

// receiver is what a query is called on, in words.
func (j *goJudge) receiver(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return j.receiver(e.X) + "." + e.Sel.Name
	}
	return "?"
}

// note keeps what the function does on a connection or a transaction.
func (j *goJudge) note(receiver string, steps []inspect.Step) {
	fn := j.function()
	if fn == nil || receiver == "" {
		return
	}
	if j.steps[fn] == nil {
		j.steps[fn] = map[string][]inspect.Step{}
		j.order = append(j.order, fn)
	}
	j.steps[fn][receiver] = append(j.steps[fn][receiver], steps...)
}

// sequences judges what functions do, one statement after the other.
func (j *goJudge) sequences() {
	for _, fn := range j.order {
		for receiver, steps := range j.steps[fn] {
			begun, given := j.transaction(fn.(*ast.FuncDecl), receiver)
			for _, h := range inspect.Sequence(steps, inspect.Transaction{Whole: begun, Joins: given}) {
				j.file.found(h.Code, h.Offset, h.Object, h.Note)
			}
		}
	}
}

// transaction reports whether a name is a transaction that the function begins, or
// one that it is given.
func (j *goJudge) transaction(fn *ast.FuncDecl, name string) (begun, given bool) {
	ast.Inspect(fn, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			given = given || hasTx(n.Type, name)
		case *ast.FuncLit:
			begun = begun || hasTx(n.Type, name)
		case *ast.AssignStmt:
			if len(n.Lhs) == 0 || len(n.Rhs) != 1 || !ids(n.Lhs[0], name) {
				return true
			}
			if c, ok := n.Rhs[0].(*ast.CallExpr); ok {
				if s, ok := c.Fun.(*ast.SelectorExpr); ok && strings.HasPrefix(s.Sel.Name, "Begin") {
					begun = true
				}
			}
		}
		return true
	})
	return begun, given
}

func hasTx(t *ast.FuncType, name string) bool {
	for _, field := range t.Params.List {
		for _, n := range field.Names {
			if n.Name != name {
				continue
			}
			e := field.Type
			if s, ok := e.(*ast.StarExpr); ok {
				e = s.X
			}
			if s, ok := e.(*ast.SelectorExpr); ok && strings.HasPrefix(s.Sel.Name, "Tx") {
				return true
			}
		}
	}
	return false
}

// embeds finds the files that the file embeds and that hold SQL: by their names, or
// because their text reaches a query or is marked.
func (j *goJudge) embeds() {
	for _, d := range j.tree.Decls {
		group, ok := d.(*ast.GenDecl)
		if !ok || group.Tok != token.VAR {
			continue
		}
		for _, s := range group.Specs {
			v := s.(*ast.ValueSpec)
			doc := v.Doc
			if doc == nil {
				doc = group.Doc
			}
			for _, p := range patterns(doc) {
				text := len(v.Names) == 1 && isString(v.Type)
				if isSQLName(p) || strings.ContainsAny(p, "*[?") || text && j.reaches(v.Names[0].Name) || j.marked[j.line(v.Pos())] {
					j.embedded = append(j.embedded, path.Join(j.folder, p))
				}
			}
		}
	}
}

// patterns are those of //go:embed in a comment.
func patterns(doc *ast.CommentGroup) (list []string) {
	if doc == nil {
		return nil
	}
	for _, c := range doc.List {
		if rest, ok := strings.CutPrefix(c.Text, "//go:embed "); ok {
			for _, p := range strings.Fields(rest) {
				list = append(list, strings.TrimPrefix(strings.Trim(p, "`\""), "all:"))
			}
		}
	}
	return list
}

// reaches reports whether a variable is the SQL of a query in this file.
func (j *goJudge) reaches(name string) bool {
	found := false
	ast.Inspect(j.tree, func(n ast.Node) bool {
		if c, ok := n.(*ast.CallExpr); ok {
			for _, i := range j.all.places(j.GoFile, c) {
				found = found || i < len(c.Args) && ids(c.Args[i], name)
			}
		}
		return !found
	})
	return found
}

// isSQLName reports whether a file is one of SQL by its name.
func isSQLName(name string) bool {
	switch path.Ext(name) {
	case ".sql", ".psql", ".pgsql", ".ddl":
		return true
	}
	return false
}
