package source

import (
	"go/ast"
	"go/token"
	"path"
	"strings"
)

// Packages knows the constants of all Go files of a check, and the functions that
// hand a parameter on to a query.
type Packages struct {
	module func(folder string) (path, root string) // the module that a folder is in
	values map[string]map[string][]value           // by folder and name
	sinks  map[string]map[string]int               // by folder and function: which parameter is SQL
}

// value is what a name of a package stands for.
type value struct {
	file *GoFile
	expr ast.Expr
}

// NewPackages gathers what Go files declare. Module says which module a folder is in,
// and where that begins.
func NewPackages(files []*GoFile, module func(folder string) (path, root string)) *Packages {
	p := &Packages{module: module, values: map[string]map[string][]value{}, sinks: map[string]map[string]int{}}
	for _, f := range files {
		if !f.broken {
			p.declare(f)
		}
	}
	for range 3 { // a parameter may be handed on more than once
		for _, f := range files {
			if !f.broken {
				p.handOn(f)
			}
		}
	}
	return p
}

func (p *Packages) declare(f *GoFile) {
	names := p.values[f.folder]
	if names == nil {
		names = map[string][]value{}
		p.values[f.folder] = names
	}
	for _, d := range f.tree.Decls {
		group, ok := d.(*ast.GenDecl)
		if !ok {
			continue
		}
		for _, s := range group.Specs {
			v, ok := s.(*ast.ValueSpec)
			if !ok || len(v.Values) != len(v.Names) {
				continue
			}
			for i, n := range v.Names {
				names[n.Name] = append(names[n.Name], value{f, v.Values[i]})
			}
		}
	}
}

// handOn finds the functions of a file that pass a parameter as the SQL of a query.
func (p *Packages) handOn(f *GoFile) {
	for _, d := range f.tree.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok || fn.Body == nil {
			continue
		}
		parameters := map[string]int{}
		n := 0
		for _, field := range fn.Type.Params.List {
			for _, name := range field.Names {
				if isString(field.Type) {
					parameters[name.Name] = n
				}
				n++
			}
		}
		if len(parameters) == 0 {
			continue
		}
		ast.Inspect(fn.Body, func(n ast.Node) bool {
			c, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			for _, i := range p.places(f, c) {
				if i >= len(c.Args) {
					continue
				}
				if id, ok := c.Args[i].(*ast.Ident); ok {
					if at, ok := parameters[id.Name]; ok {
						p.sinkAt(f.folder, key(fn), at)
						return false
					}
				}
			}
			return true
		})
	}
}

// key names a function within its package; methods by their name alone, since the
// types of receivers are not known where they are called.
func key(fn *ast.FuncDecl) string {
	if fn.Recv != nil {
		return "." + fn.Name.Name
	}
	return fn.Name.Name
}

func (p *Packages) sinkAt(folder, function string, at int) {
	if p.sinks[folder] == nil {
		p.sinks[folder] = map[string]int{}
	}
	if _, ok := p.sinks[folder][function]; !ok {
		p.sinks[folder][function] = at
	}
}

// places are the arguments of a call that may be SQL.
func (p *Packages) places(f *GoFile, c *ast.CallExpr) []int {
	if at, ok := p.sink(f, c); ok {
		return []int{at}
	}
	s, ok := c.Fun.(*ast.SelectorExpr)
	if !ok || !sure[s.Sel.Name] {
		return nil
	}
	if last := queries[s.Sel.Name]; last == 0 || len(c.Args) > 1 && isContext(c.Args[0]) {
		return []int{last}
	}
	return []int{0}
}

// sink is the argument that a function of the module hands on to a query.
func (p *Packages) sink(f *GoFile, c *ast.CallExpr) (int, bool) {
	switch fun := c.Fun.(type) {
	case *ast.Ident:
		at, ok := p.sinks[f.folder][fun.Name]
		return at, ok
	case *ast.SelectorExpr:
		if folder, ok := p.folder(f, fun.X); ok {
			at, ok := p.sinks[folder][fun.Sel.Name]
			return at, ok
		}
		if _, known := queries[fun.Sel.Name]; known {
			return 0, false
		}
		at, ok := p.sinks[f.folder]["."+fun.Sel.Name]
		return at, ok
	}
	return 0, false
}

// folder is where the package that an expression names lies, if it is of the module.
func (p *Packages) folder(f *GoFile, e ast.Expr) (string, bool) {
	id, ok := e.(*ast.Ident)
	if !ok {
		return "", false
	}
	imported, ok := f.importOf(id.Name)
	if !ok {
		return "", false
	}
	module, root := p.module(f.folder)
	rest, ok := strings.CutPrefix(imported, module)
	if module == "" || !ok || rest != "" && rest[0] != '/' {
		return "", false
	}
	return path.Join(root, rest), true
}

func isString(e ast.Expr) bool {
	id, ok := e.(*ast.Ident)
	return ok && id.Name == "string"
}

// maxTexts bounds how many texts may be put together of the values of several names.
const maxTexts = 64

// fold are the texts that an expression may be: more than one if a variable is
// assigned more than once. Parts that are not constant are holes; what is one hole
// alone is left out.
func (p *Packages) fold(f *GoFile, e ast.Expr, fn *ast.FuncDecl) []mapped {
	list := (&folder{packages: p, file: f, function: fn, home: f}).fold(e, 0)
	var known []mapped
	for _, m := range list {
		if strings.TrimSpace(strings.ReplaceAll(m.text, unknownText, "")) != "" {
			known = append(known, m)
		}
	}
	return known
}

// folder folds within a function.
type folder struct {
	packages *Packages
	file     *GoFile // whose expression it is
	home     *GoFile // whose finding it would be
	function *ast.FuncDecl
	origin   token.Pos // in home, of the name that led to another file
}

func (f *folder) hole(e ast.Expr) []mapped {
	m := instead(unknownText, f.place(e.Pos()))
	m.holes = 1
	return []mapped{m}
}

// place is where something stands, in the file that is judged.
func (f *folder) place(pos token.Pos) int {
	if f.file != f.home {
		return f.home.offset(f.origin)
	}
	return f.file.offset(pos)
}

const maxFold = 40

func (f *folder) fold(e ast.Expr, depth int) []mapped {
	if depth > maxFold {
		return f.hole(e)
	}
	switch e := e.(type) {
	case *ast.ParenExpr:
		return f.fold(e.X, depth)
	case *ast.BasicLit:
		if e.Kind != token.STRING {
			return f.hole(e)
		}
		m, ok := unquoted(e.Value, f.file.offset(e.Pos()))
		if !ok {
			return f.hole(e)
		}
		if f.file != f.home {
			m = instead(m.text, f.place(e.Pos()))
		}
		return []mapped{m}
	case *ast.BinaryExpr:
		if e.Op == token.ADD {
			return product(f.fold(e.X, depth+1), f.fold(e.Y, depth+1))
		}
	case *ast.Ident:
		return f.name(e, depth)
	case *ast.SelectorExpr:
		if folder, ok := f.packages.folder(f.file, e.X); ok {
			if list := f.values(folder, e.Sel.Name, e, depth); list != nil {
				return list
			}
		}
		if list := f.field(e, depth); list != nil {
			return list
		}
	case *ast.CallExpr:
		return f.call(e, depth)
	}
	return f.hole(e)
}

// product puts each text before each other one. Of too many it is the first, marked
// as not known.
func product(a, b []mapped) (list []mapped) {
	if len(a) > 1 && len(b) > 1 && len(a)*len(b) > maxTexts {
		first := a[0].then(b[0])
		first.holes++
		return []mapped{first}
	}
	for _, x := range a {
		for _, y := range b {
			list = append(list, x.then(y))
		}
	}
	return list
}

// name is what a name stands for: a variable of the function, or of the package.
func (f *folder) name(id *ast.Ident, depth int) []mapped {
	if f.function != nil {
		if list, ok := f.local(id, depth); ok {
			return list
		}
	}
	if list := f.values(f.file.folder, id.Name, id, depth); list != nil {
		return list
	}
	return f.hole(id)
}

// values are those of a name of a package; nil if there are none.
func (f *folder) values(in, name string, from ast.Expr, depth int) (list []mapped) {
	for _, v := range f.packages.values[in][name] {
		inner := &folder{packages: f.packages, file: v.file, home: f.home, origin: f.origin}
		if f.file == f.home {
			inner.origin = from.Pos()
		}
		list = append(list, inner.fold(v.expr, depth+1)...)
	}
	return list
}
