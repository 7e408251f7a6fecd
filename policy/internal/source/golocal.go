package source

import (
	"go/ast"
	"go/token"
	"strings"
)

// same reports whether two names in one file stand for one variable. The parser
// resolves names within a function; nothing more is needed of it.
func same(e ast.Expr, id *ast.Ident) bool {
	other, ok := e.(*ast.Ident)
	return ok && other.Obj != nil && other.Obj == id.Obj
}

// inside reports whether a name is declared within a function.
func inside(fn *ast.FuncDecl, id *ast.Ident) bool {
	return id.Obj != nil && fn.Pos() <= id.Obj.Pos() && id.Obj.Pos() < fn.End()
}

// local are the values of a variable of the function: what it is assigned, and what is
// appended to that.
func (f *folder) local(id *ast.Ident, depth int) (list []mapped, ok bool) {
	if !inside(f.function, id) {
		return nil, false
	}
	var bases, appended []ast.Expr
	ast.Inspect(f.function, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			for i, left := range n.Lhs {
				switch {
				case !same(left, id):
				case n.Tok == token.ADD_ASSIGN:
					appended = append(appended, n.Rhs[0])
				case len(n.Rhs) == len(n.Lhs):
					bases = append(bases, n.Rhs[i])
				default:
					bases = append(bases, n.Rhs[0])
				}
			}
		case *ast.ValueSpec:
			for i, name := range n.Names {
				if same(name, id) && len(n.Values) == len(n.Names) {
					bases = append(bases, n.Values[i])
				}
			}
		case *ast.RangeStmt:
			if same(n.Key, id) || same(n.Value, id) {
				bases = append(bases, f.elements(n, id)...)
			}
		}
		return true
	})
	for _, b := range bases {
		if mentions(b, id) { // q = q + "…" is appended, f(q) is not known
			if e, ok := b.(*ast.BinaryExpr); ok && e.Op == token.ADD && same(e.X, id) {
				appended = append(appended, e.Y)
			}
			continue
		}
		list = append(list, f.fold(b, depth+8)...)
	}
	if len(list) == 0 {
		list = f.hole(id) // a parameter, say
	}
	if len(appended) > 0 {
		longer := list
		for _, a := range appended {
			longer = product(longer, f.fold(a, depth+8))
		}
		list = append(list, longer...)
	}
	return list, true
}

func ids(e ast.Expr, name string) bool {
	id, ok := e.(*ast.Ident)
	return ok && id.Name == name
}

// elements are what a loop over a list of literals gives its variable.
func (f *folder) elements(n *ast.RangeStmt, id *ast.Ident) (list []ast.Expr) {
	for _, c := range f.lists(n.X, 0) {
		for _, e := range c.Elts {
			kv, keyed := e.(*ast.KeyValueExpr)
			switch {
			case keyed && same(n.Key, id):
				list = append(list, kv.Key)
			case keyed:
				list = append(list, kv.Value)
			case same(n.Value, id):
				list = append(list, e)
			}
		}
	}
	return list
}

// lists are the literals that an expression puts together: itself, what a name stands
// for, and the arguments of append.
func (f *folder) lists(e ast.Expr, depth int) (found []*ast.CompositeLit) {
	if depth > 4 {
		return nil
	}
	switch e := e.(type) {
	case *ast.CompositeLit:
		return []*ast.CompositeLit{e}
	case *ast.CallExpr:
		if ids(e.Fun, "append") {
			for _, a := range e.Args {
				found = append(found, f.lists(a, depth+1)...)
			}
		}
	case *ast.Ident:
		if f.function != nil && inside(f.function, e) {
			ast.Inspect(f.function, func(n ast.Node) bool {
				if a, ok := n.(*ast.AssignStmt); ok && len(a.Lhs) == len(a.Rhs) {
					for i, left := range a.Lhs {
						if same(left, e) && !mentions(a.Rhs[i], e) {
							found = append(found, f.lists(a.Rhs[i], depth+1)...)
						}
					}
				}
				return true
			})
		}
		if found == nil && (f.function == nil || !inside(f.function, e)) {
			for _, v := range f.packages.values[f.file.folder][e.Name] {
				if v.file == f.file { // places in another file are not this file's
					found = append(found, f.lists(v.expr, depth+1)...)
				}
			}
		}
	}
	return found
}

// field is the text of a field of the variable of a loop over literals of structs.
func (f *folder) field(s *ast.SelectorExpr, depth int) (list []mapped) {
	id, ok := s.X.(*ast.Ident)
	if !ok || f.function == nil {
		return nil
	}
	ast.Inspect(f.function, func(n ast.Node) bool {
		loop, ok := n.(*ast.RangeStmt)
		if !ok || !same(loop.Value, id) && !same(loop.Key, id) {
			return true
		}
		for _, e := range f.elements(loop, id) {
			c, ok := e.(*ast.CompositeLit)
			if !ok {
				continue
			}
			for _, member := range c.Elts {
				if kv, ok := member.(*ast.KeyValueExpr); ok && ids(kv.Key, s.Sel.Name) {
					list = append(list, f.fold(kv.Value, depth+8)...)
				}
			}
		}
		return true
	})
	return list
}

// mentions reports whether an expression mentions a variable.
func mentions(e ast.Expr, id *ast.Ident) bool {
	found := false
	ast.Inspect(e, func(n ast.Node) bool {
		if other, ok := n.(*ast.Ident); ok && same(other, id) {
			found = true
		}
		return !found
	})
	return found
}

// call is the text of a call that puts texts together.
func (f *folder) call(c *ast.CallExpr, depth int) []mapped {
	switch fun := c.Fun.(type) {
	case *ast.Ident:
		if fun.Name == "string" && len(c.Args) == 1 {
			return f.fold(c.Args[0], depth+1)
		}
	case *ast.SelectorExpr:
		path, _ := f.file.importOf(identName(fun.X))
		switch {
		case path == "strings" && strings.HasPrefix(fun.Sel.Name, "Trim") && len(c.Args) > 0:
			return f.fold(c.Args[0], depth+1)
		case path == "strings" && fun.Sel.Name == "Join" && len(c.Args) == 2:
			return f.joined(c, depth)
		case path == "fmt" && fun.Sel.Name == "Sprintf" && len(c.Args) > 0:
			var list []mapped
			for _, format := range f.fold(c.Args[0], depth+1) {
				list = append(list, f.format(format, c, depth))
			}
			return list
		}
	}
	return f.hole(c)
}

// joined are the texts of a list of literals with another one between them.
func (f *folder) joined(c *ast.CallExpr, depth int) []mapped {
	lists := f.lists(c.Args[0], 0)
	if len(lists) != 1 || len(lists[0].Elts) == 0 {
		return f.hole(c)
	}
	var texts []mapped
	for i, e := range lists[0].Elts {
		if i == 0 {
			texts = f.fold(e, depth+8)
			continue
		}
		texts = product(product(texts, f.fold(c.Args[1], depth+8)), f.fold(e, depth+8))
	}
	return texts
}

func identName(e ast.Expr) string {
	if id, ok := e.(*ast.Ident); ok {
		return id.Name
	}
	return ""
}

// format is a format with its arguments in place; of those that may be several texts
// the longest.
func (f *folder) format(m mapped, c *ast.CallExpr, depth int) mapped {
	out := mapped{holes: m.holes}
	next := 1
	start := 0
	add := func(end int) {
		part := m.slice(start, end)
		out = out.then(part)
	}
	for at := 0; at < len(m.text); at++ {
		if m.text[at] != '%' {
			continue
		}
		end := at + 1
		index := 0
		for end < len(m.text) && strings.IndexByte("+-# 0123456789.[]*", m.text[end]) >= 0 {
			if m.text[end] == '[' && end+1 < len(m.text) && m.text[end+1] >= '1' && m.text[end+1] <= '9' {
				index = int(m.text[end+1] - '0')
			}
			end++
		}
		if end == len(m.text) {
			break
		}
		add(at)
		start = end + 1
		if m.text[end] == '%' {
			out = out.then(instead("%", m.offset(at)))
			at = end
			continue
		}
		if index > 0 {
			next = index
		}
		value := mapped{text: unknownText, pieces: []piece{{0, m.offset(at), false}}, holes: 1}
		if m.text[end] == 'd' {
			value = instead("1", m.offset(at))
		}
		if next < len(c.Args) {
			if folded := f.fold(c.Args[next], depth+8); len(folded) > 0 && m.text[end] != 'd' {
				for _, v := range folded {
					if value.holes > 0 || len(v.text) > len(value.text) && v.holes == 0 {
						value = v
					}
				}
			}
		}
		if m.text[end] == 'q' {
			value = instead(`"`, m.offset(at)).then(value).then(instead(`"`, m.offset(at)))
		}
		out = out.then(value)
		next++
		at = end
	}
	add(len(m.text))
	out.holes = strings.Count(out.text, unknownText)
	return out
}

// slice is a part of a text.
func (m mapped) slice(from, to int) mapped {
	out := mapped{text: m.text[from:to]}
	for i, p := range m.pieces {
		end := len(m.text)
		if i+1 < len(m.pieces) {
			end = m.pieces[i+1].start
		}
		if end <= from || p.start >= to {
			continue
		}
		q := piece{max(p.start-from, 0), p.offset, p.exact}
		if p.exact && p.start < from {
			q.offset += from - p.start
		}
		out.pieces = append(out.pieces, q)
	}
	return out
}
