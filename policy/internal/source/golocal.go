package source

import (
	"go/ast"
	"go/token"
	"strings"
)

// local are the values of a variable of the function: what it is assigned, and what is
// appended to that.
func (f *folder) local(id *ast.Ident, depth int) (list []mapped, ok bool) {
	var bases, appended []ast.Expr
	declared := false
	ast.Inspect(f.function, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.Field:
			for _, name := range n.Names {
				declared = declared || name.Name == id.Name
			}
		case *ast.AssignStmt:
			for i, left := range n.Lhs {
				if l, ok := left.(*ast.Ident); !ok || l.Name != id.Name {
					continue
				}
				declared = true
				switch {
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
				if name.Name == id.Name {
					declared = true
					if len(n.Values) == len(n.Names) {
						bases = append(bases, n.Values[i])
					}
				}
			}
		case *ast.RangeStmt:
			if ids(n.Key, id.Name) || ids(n.Value, id.Name) {
				declared = true
				bases = append(bases, elements(n, id.Name)...)
			}
		}
		return true
	})
	if !declared {
		return nil, false
	}
	if len(bases) == 0 && len(appended) == 0 {
		return f.hole(id), true // a parameter
	}
	for _, b := range bases {
		if self(b, id.Name) {
			continue // q = q + "…", or f(q)
		}
		list = append(list, f.fold(b, depth+8)...)
	}
	if len(list) == 0 {
		list = f.hole(id)
	}
	if len(appended) > 0 {
		longer := list
		for _, a := range appended {
			longer = product(longer, f.fold(a, depth+8))
		}
		list = append(list, longer...)
	}
	return list[:min(len(list), maxTexts)], true
}

func ids(e ast.Expr, name string) bool {
	id, ok := e.(*ast.Ident)
	return ok && id.Name == name
}

// elements are what a loop over a literal list gives its variable.
func elements(n *ast.RangeStmt, name string) (list []ast.Expr) {
	c, ok := n.X.(*ast.CompositeLit)
	if !ok {
		return nil
	}
	for _, e := range c.Elts {
		if kv, ok := e.(*ast.KeyValueExpr); ok {
			if ids(n.Key, name) {
				list = append(list, kv.Key)
			} else {
				list = append(list, kv.Value)
			}
		} else if ids(n.Value, name) {
			list = append(list, e)
		}
	}
	return list
}

// self reports whether an expression mentions a name.
func self(e ast.Expr, name string) bool {
	found := false
	ast.Inspect(e, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok && id.Name == name {
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
