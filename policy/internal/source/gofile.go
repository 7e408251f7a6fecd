package source

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"strconv"
	"strings"

	"github.com/seed4391e180/runlane/policy/internal/inspect"
	"github.com/seed4391e180/runlane/policy/internal/lex"
	"github.com/seed4391e180/runlane/policy/internal/rule"
)

// A GoFile is a Go file that was parsed, not yet judged: its constants may stand in
// other files.
type GoFile struct {
	file   *file
	tree   *ast.File
	set    *token.FileSet
	folder string // of the file
	marked map[int]bool
	broken bool
}

// ParseGo parses a Go file. A file that does not parse has that as its finding.
func ParseGo(name string, data []byte) *GoFile {
	text, problem := decode(data)
	g := &GoFile{file: newFile(name, text), folder: path.Dir(name), set: token.NewFileSet()}
	if problem != "" {
		g.file.found(rule.Unreadable, 0, "file", problem)
		g.broken = true
		return g
	}
	tree, err := parser.ParseFile(g.set, name, data, parser.ParseComments)
	if err != nil {
		g.file.found(rule.Unreadable, 0, "file", "not Go: "+err.Error())
		g.broken = true
		return g
	}
	g.tree = tree
	g.marked = g.markedLines()
	return g
}

// offset is where a node begins in the file.
func (g *GoFile) offset(p token.Pos) int { return g.set.PositionFor(p, false).Offset }

// markedLines are the lines whose strings a comment //sql marks: its own, and the next
// if it stands alone.
func (g *GoFile) markedLines() map[int]bool {
	lines := map[int]bool{}
	for _, group := range g.tree.Comments {
		for _, c := range group.List {
			words := strings.Fields(strings.TrimSuffix(strings.TrimLeft(c.Text, "/*"), "*/"))
			if len(words) == 0 || words[0] != "sql" || strings.HasPrefix(c.Text, "// ") && len(words) > 1 {
				continue
			}
			line, column := g.file.place(g.offset(c.Pos()))
			lines[line] = true
			start := g.file.lines[line-1]
			if strings.TrimSpace(g.file.text[start:start+column-1]) == "" {
				lines[g.set.PositionFor(group.End(), false).Line+1] = true
			}
		}
	}
	return lines
}

// queries are the methods that take SQL, and how many arguments may come before it.
var queries = map[string]int{
	"Query": 1, "QueryRow": 1, "Exec": 1, "Queue": 0, "Prepare": 2,
	"QueryContext": 1, "QueryRowContext": 1, "ExecContext": 1, "PrepareContext": 1,
	"Queryx": 0, "QueryRowx": 0, "QueryxContext": 1, "QueryRowxContext": 1, "Preparex": 0, "PreparexContext": 1, "MustExec": 0, "MustExecContext": 1,
	"NamedExec": 0, "NamedExecContext": 1, "NamedQuery": 0, "NamedQueryContext": 1, "PrepareNamed": 0, "PrepareNamedContext": 1,
	"Get": 2, "GetContext": 2, "Select": 2, "SelectContext": 2, "Raw": 0, "NewRaw": 0, "ExecParams": 1, "SimpleQuery": 1,
}

// sure are those of them whose argument is taken for SQL whatever it is.
var sure = map[string]bool{
	"Query": true, "QueryRow": true, "Exec": true, "QueryContext": true, "QueryRowContext": true, "ExecContext": true,
	"PrepareContext": true, "Queryx": true, "QueryRowx": true, "MustExec": true,
}

// Judge judges the SQL of a file.
func (g *GoFile) Judge(all *Packages) Result {
	if g.broken {
		return g.file.out
	}
	j := &goJudge{GoFile: g, all: all, steps: map[ast.Node]map[string][]inspect.Step{}, seen: map[token.Pos]bool{}}
	j.walk()
	j.marks()
	j.sequences()
	j.embeds()
	g.file.out.Embeds = j.embedded
	return g.file.out
}

// goJudge judges one file.
type goJudge struct {
	*GoFile
	all      *Packages
	stack    []ast.Node
	seen     map[token.Pos]bool // texts that were judged
	steps    map[ast.Node]map[string][]inspect.Step
	order    []ast.Node
	embedded []string
}

func (j *goJudge) walk() {
	ast.Inspect(j.tree, func(n ast.Node) bool {
		if n == nil {
			j.stack = j.stack[:len(j.stack)-1]
			return true
		}
		j.stack = append(j.stack, n)
		switch n := n.(type) {
		case *ast.CallExpr:
			j.call(n)
			j.conversion(n)
		case *ast.SelectorExpr:
			j.selector(n)
		case *ast.KeyValueExpr:
			j.member(n)
		case *ast.AssignStmt:
			j.assignment(n)
		case *ast.BasicLit:
			if n.Kind == token.STRING && inspect.Startup(n.Value) {
				j.file.found(rule.Serializable, j.offset(n.Pos()), "default_transaction_isolation", "")
			}
		}
		return true
	})
}

// call judges a call that may take SQL.
func (j *goJudge) call(c *ast.CallExpr) {
	method := ""
	s, ok := c.Fun.(*ast.SelectorExpr)
	if ok {
		method = s.Sel.Name
	}
	last, known := queries[method]
	if at, sink := j.all.sink(j.GoFile, c); sink {
		j.argument(c, at, "")
		return
	}
	if !known {
		return
	}
	receiver := j.receiver(s.X)
	for i := 0; i <= last && i < len(c.Args); i++ {
		if j.argument(c, i, receiver) {
			return
		}
	}
	if at := 0; sure[method] && len(c.Args) > 0 {
		if len(c.Args) > 1 && last > 0 && isContext(c.Args[0]) {
			at = 1
		} else if last > 0 {
			return // no context: another library's method
		}
		if !j.text(c.Args[at]) {
			return
		}
		j.file.found(rule.Dynamic, j.offset(c.Args[at].Pos()), method, "")
	}
}

// isContext reports whether an argument looks like a context.
func isContext(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.Ident:
		return strings.Contains(strings.ToLower(e.Name), "ctx") || e.Name == "c"
	case *ast.SelectorExpr:
		return strings.Contains(strings.ToLower(e.Sel.Name), "ctx")
	case *ast.CallExpr:
		if s, ok := e.Fun.(*ast.SelectorExpr); ok {
			return s.Sel.Name == "Context" || s.Sel.Name == "Background" || s.Sel.Name == "TODO" || strings.HasPrefix(s.Sel.Name, "With")
		}
	}
	return false
}

// text reports whether an expression may be a text: it is no literal of another kind.
func (j *goJudge) text(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.BasicLit:
		return false // a constant, and judged if it is SQL
	case *ast.FuncLit, *ast.CompositeLit, *ast.UnaryExpr:
		return false
	case *ast.Ident:
		return e.Name != "nil"
	}
	return true
}

// argument judges an argument if it is SQL.
func (j *goJudge) argument(c *ast.CallExpr, i int, receiver string) bool {
	if i >= len(c.Args) {
		return false
	}
	found := false
	for _, m := range j.all.fold(j.GoFile, c.Args[i], j.function()) {
		if begins(m.text) {
			found = true
			j.judge(m, false, receiver)
		}
	}
	return found
}

// begins reports whether a text begins like a statement.
func begins(text string) bool {
	tokens := lex.Tokens(text)
	for len(tokens) > 0 && tokens[0].Text(text) == "(" {
		tokens = tokens[1:]
	}
	return len(tokens) > 0 && tokens[0].Kind == lex.Word && statementWords[strings.ToLower(tokens[0].Text(text))]
}

var statementWords = words(`abort alter analyze begin call checkpoint close cluster comment commit copy create deallocate declare delete
	discard do drop end execute explain fetch grant import insert listen load lock merge move notify prepare reassign refresh reindex
	release reset revoke rollback savepoint security select set show start table truncate unlisten update vacuum values with`)

func words(text string) map[string]bool {
	set := map[string]bool{}
	for _, w := range strings.Fields(text) {
		set[w] = true
	}
	return set
}

// fillings are what a part that is not constant may be, by where it stands.
var fillings = []string{unknownText, "1", "", "ASC", ", " + unknownText, "AND true", "WHERE true", "text"}

const unknownText = "unknown_text"

// judge judges a text that a file puts together.
func (j *goJudge) judge(m mapped, fragment bool, receiver string) {
	if len(m.pieces) > 0 && m.holes == 0 {
		at := token.Pos(m.pieces[0].offset + 1 + len(m.text)<<32)
		if j.seen[at] {
			return
		}
		j.seen[at] = true
	}
	look := inspect.Text
	if fragment {
		look = inspect.Fragment
	}
	r := look(m.text)
	if unparsed(r) {
		if changed, first := parameters(m.text); first != "" {
			if again := look(changed); !unparsed(again) {
				r = again
			}
		}
	}
	if unparsed(r) && m.holes == 0 {
		if kind, filled := template(m.text); kind != "" {
			j.file.found(rule.Template, m.offset(0), object(m.text), "holes like "+kind)
			if r = look(filled); unparsed(r) {
				return
			}
		}
	}
	if m.holes > 0 {
		for _, f := range fillings[1:] {
			if !unparsed(r) {
				break
			}
			changed := strings.ReplaceAll(m.text, unknownText, f)
			if again := look(changed); !unparsed(again) {
				r = again
				for i := range r.Hits {
					r.Hits[i].Offset = 0 // places have moved
				}
			}
		}
		j.file.found(rule.Dynamic, m.offset(0), object(m.text), "")
		if unparsed(r) {
			return
		}
	}
	j.file.take(m, r)
	for i := range r.Steps {
		r.Steps[i].Offset = m.offset(r.Steps[i].Offset)
	}
	j.note(receiver, r.Steps)
}

// marks judges the texts that a comment marks.
func (j *goJudge) marks() {
	if len(j.marked) == 0 {
		return
	}
	ast.Inspect(j.tree, func(n ast.Node) bool {
		if group, ok := n.(*ast.GenDecl); ok && group.Doc != nil && j.marked[j.line(group.Doc.End())] {
			for _, s := range group.Specs {
				if v, ok := s.(*ast.ValueSpec); ok {
					for _, value := range v.Values {
						j.marked[j.line(value.Pos())] = true
					}
				}
			}
		}
		e, ok := n.(ast.Expr)
		if !ok || !j.marked[j.line(e.Pos())] {
			return true
		}
		switch n := n.(type) {
		case *ast.BasicLit:
			if n.Kind != token.STRING {
				return true
			}
		case *ast.BinaryExpr:
		default:
			return true
		}
		texts := j.all.fold(j.GoFile, e, nil)
		for _, m := range texts {
			j.judge(m, true, "")
		}
		return len(texts) == 0
	})
}

func (j *goJudge) line(p token.Pos) int { return j.set.PositionFor(p, false).Line }

// function is the function that is being walked, and the literal functions within
// belong to it.
func (j *goJudge) function() *ast.FuncDecl {
	for _, n := range j.stack {
		if f, ok := n.(*ast.FuncDecl); ok {
			return f
		}
	}
	return nil
}

// unquoted is a literal's text, with the places of its parts.
func unquoted(value string, offset int) (mapped, bool) {
	if strings.HasPrefix(value, "`") {
		return plain(strings.Trim(value, "`"), offset+1), true
	}
	out := mapped{}
	body := strings.TrimSuffix(strings.TrimPrefix(value, `"`), `"`)
	start := 0
	for at := 0; at < len(body); {
		if body[at] != '\\' {
			at++
			continue
		}
		out = out.then(plain(body[start:at], offset+1+start))
		r, multibyte, rest, err := strconv.UnquoteChar(body[at:], '"')
		if err != nil {
			return mapped{}, false
		}
		s := string(r)
		if !multibyte && r >= 0x80 {
			s = string([]byte{byte(r)})
		}
		out = out.then(instead(s, offset+1+at))
		at = len(body) - len(rest)
		start = at
	}
	return out.then(plain(body[start:], offset+1+start)), true
}
