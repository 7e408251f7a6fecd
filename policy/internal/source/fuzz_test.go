package source_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/policy/internal/source"
)

// FuzzSQL: any file has its findings at places that it has, whatever is in it, with
// holes declared and without.
func FuzzSQL(f *testing.F) {
	for _, seed := range []string{
		"SELECT 1; LOCK TABLE t", "DO $$ BEGIN PERFORM pg_advisory_lock(1); EXECUTE format('%I %s', a, 'x'); END $$",
		"CREATE FUNCTION f() RETURNS int LANGUAGE plpgsql AS 'DECLARE a t%ROWTYPE; BEGIN a.b := ''x''; RETURN 1; END'",
		"\\i x\nSELECT :a, :'b', ? FROM {{ t }}", "WITH a AS (SELECT 1 FOR UPDATE) SELECT {x} FROM a FOR SHARE OF b", "\xff\xfe", "\x00", "{x} AS (SELECT 1)",
		"CREATE TABLE t (a int CHECK (a > 0), FOREIGN KEY (a) REFERENCES b)", "UPDATE a SET b = (SELECT count(*) FROM c)", "COPY a FROM STDIN;\nx\n\\.\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 10_000 {
			t.Skip("long texts are slow and say nothing new")
		}
		inPlace(t, data, source.SQL("a.sql", data, nil, false))
		inPlace(t, data, source.SQL("a.sql", data, []source.Hole{{Mark: "{x}", Text: ""}, {Mark: "{*}", Text: source.Name}}, true))
	})
}

// FuzzGo: likewise for Go files.
func FuzzGo(f *testing.F) {
	for _, seed := range []string{
		"package p\nfunc f() { db.Exec(\"LOCK TABLE \\x74\" + `, u`) }", "package p\nconst a = \"SELECT \" + b\nconst b = a\nfunc f() { db.Query(a) }",
		"package p\nimport \"fmt\"\nfunc f(x string) { q := fmt.Sprintf(\"SELECT %[2]q %d %%\", x, 1); q += q; c.Exec(ctx, q) }", "package p\n//sql\nvar x = `a = ?`",
		"package p\nfunc f() { for _, s := range append(list, \"SELECT 1\") { g(s) } }\nfunc g(s string) { db.Exec(s); g(s) }\nvar list = []string{`NOTIFY a`}",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 5_000 {
			t.Skip("long texts are slow and say nothing new")
		}
		g := source.ParseGo("a/a.go", data)
		all := source.NewPackages([]*source.GoFile{g}, func(string) (string, string) { return "example.com/a", "." })
		inPlace(t, data, g.Judge(all))
	})
}

func inPlace(t *testing.T, data []byte, r source.Result) {
	lines := strings.Split(string(data), "\n")
	for _, f := range r.Findings {
		require.GreaterOrEqual(t, f.Line, 1)
		require.LessOrEqual(t, f.Line, len(lines))
		require.GreaterOrEqual(t, f.Column, 1)
		require.LessOrEqual(t, f.Column, utf8.RuneCountInString(lines[f.Line-1])+1)
		require.NotEmpty(t, f.Object, "an inventory could not list %v", f)
	}
}
