// Package specification_test keeps docs/specification.md true: a table of every
// behaviour that the storage's specification states, with the tests that prove it.
package specification_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const root = "../.."

// headings are the parts of the specification.
var headings = []string{
	"Logical collections and physical tables",
	"Named indexes and physical indexes",
	"Operator read projection",
	"Transaction and replay algorithm",
	"Migrations and compatibility",
	"Default profile",
	"Verification",
}

// incomplete are the parts in which a row may say that something is missing.
var incomplete = []string{"Migrations and compatibility"}

const notYet = "not complete yet: "

// row is one row of the table.
type row struct {
	number    int
	heading   string
	behaviour string
	files     []string
	tests     []string
	missing   string // what is not complete yet
}

var (
	quoted  = regexp.MustCompile("`([^`]+)`")
	heading = regexp.MustCompile(`^## (.+)$`)
	line    = regexp.MustCompile(`^\| ([0-9]+) \| (.+) \| (.+) \| (.+) \|$`)
)

func rows(t *testing.T) (all []row) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "docs", "specification.md"))
	require.NoError(t, err)
	under := ""
	for _, l := range strings.Split(string(text), "\n") {
		if m := heading.FindStringSubmatch(l); m != nil {
			under = m[1]
			continue
		}
		m := line.FindStringSubmatch(l)
		if m == nil {
			require.NotRegexp(t, `^\|\s*[0-9]`, l, "a row that cannot be read")
			continue
		}
		n, err := strconv.Atoi(m[1])
		require.NoError(t, err)
		r := row{number: n, heading: under, behaviour: m[2], files: quotedIn(m[3])}
		proof, missing, _ := strings.Cut(m[4], "; "+notYet)
		r.tests, r.missing = quotedIn(proof), missing
		all = append(all, r)
	}
	return all
}

func quotedIn(text string) (list []string) {
	for _, m := range quoted.FindAllStringSubmatch(text, -1) {
		list = append(list, m[1])
	}
	return list
}

func TestRows(t *testing.T) {
	all := rows(t)
	require.GreaterOrEqual(t, len(all), 100)
	perHeading, perTest := map[string]int{}, map[string]int{}
	for i, r := range all {
		assert.Equal(t, i+1, r.number, "rows have no gap")
		assert.Contains(t, headings, r.heading, "row %d", r.number)
		assert.NotEmpty(t, r.tests, "row %d has no test", r.number)
		assert.NotEmpty(t, r.files, "row %d names no file", r.number)
		if r.missing != "" {
			assert.Contains(t, incomplete, r.heading, "row %d must be complete", r.number)
		}
		perHeading[r.heading]++
		for _, test := range r.tests {
			perTest[test]++
		}
		for _, file := range r.files {
			_, err := os.Stat(filepath.Join(root, file))
			assert.NoError(t, err, "row %d", r.number)
		}
	}
	for _, h := range headings {
		assert.NotZero(t, perHeading[h], "nothing is said of %q", h)
	}
	for test, n := range perTest {
		assert.LessOrEqual(t, n, 4, "%s stands for too much", test)
	}
}

// TestNamedTestsExist finds the function of each test in its package, and the names
// of its subtests as texts of that package or of the conformance suite.
func TestNamedTestsExist(t *testing.T) {
	packages := map[string]*tests{}
	load := func(path string) *tests {
		if packages[path] == nil {
			packages[path] = parse(t, path)
		}
		return packages[path]
	}
	suite := load("storage/storagetest")
	for _, r := range rows(t) {
		for _, name := range r.tests {
			test, err := named(name)
			require.NoError(t, err, "row %d", r.number)
			p := load(test.path)
			assert.True(t, p.functions[test.function], "row %d: there is no %s in %s", r.number, test.function, test.path)
			for _, sub := range test.subtests {
				assert.True(t, p.texts[sub] || suite.texts[sub], "row %d: %s has no subtest %q", r.number, test.function, sub)
			}
		}
	}
}

// test is the name of a test.
type test struct {
	path, function string
	subtests       []string
}

// named splits "path/of/package.TestName/subtest/subtest".
func named(name string) (test, error) {
	m := regexp.MustCompile(`^([a-z/]+)\.(Test[A-Za-z]+)(/.+)?$`).FindStringSubmatch(name)
	if m == nil {
		return test{}, &fs.PathError{Op: "read the name of a test", Path: name, Err: fs.ErrInvalid}
	}
	t := test{path: m[1], function: m[2]}
	if m[3] != "" {
		t.subtests = strings.Split(m[3][1:], "/")
	}
	return t, nil
}

// tests is what a package's files say about its tests.
type tests struct{ functions, texts map[string]bool }

func parse(t *testing.T, path string) *tests {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, path, "*.go"))
	require.NoError(t, err)
	require.NotEmpty(t, files, "there is no package %s", path)
	p := &tests{map[string]bool{}, map[string]bool{}}
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				p.functions[n.Name.Name] = p.functions[n.Name.Name] || n.Recv == nil
			case *ast.BasicLit:
				if n.Kind == token.STRING {
					if text, err := strconv.Unquote(n.Value); err == nil {
						p.texts[text] = true
					}
				}
			}
			return true
		})
	}
	return p
}
