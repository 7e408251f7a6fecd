package lex_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/policy/internal/lex"
)

func TestSplit(t *testing.T) {
	for _, c := range []struct {
		sql      string
		want     []string
		commands []string
	}{
		{"", nil, nil},
		{" ; ;; -- x", nil, nil},
		{"a;b ; c", []string{"a", "b", "c"}, nil},
		{"a -- ;\n;b /* ; /* ; */ ; */;", []string{"a", "b"}, nil},
		{"'a;''b'; E'\\';'; \"a;\"; $$ ; $$; $x$ $$ ; $x$; N';'; U&';'", []string{"'a;''b'", "E'\\';'", "\"a;\"", "$$ ; $$", "$x$ $$ ; $x$", "N';'", "U&';'"}, nil},
		{"a$b; $1; $1$; c", []string{"a$b", "$1", "$1$", "c"}, nil},
		{"(a; b); c", []string{"(a; b)", "c"}, nil},
		{"CREATE FUNCTION f() BEGIN ATOMIC; CASE a; END; b; END; c", []string{"CREATE FUNCTION f() BEGIN ATOMIC; CASE a; END; b; END", "c"}, nil},
		{"create or replace procedure p() begin atomic a; end; c", []string{"create or replace procedure p() begin atomic a; end", "c"}, nil},
		{"BEGIN; a; END; b", []string{"BEGIN", "a", "END", "b"}, nil},
		{"CREATE TABLE f (begin int); END; b", []string{"CREATE TABLE f (begin int)", "END", "b"}, nil},
		{"COPY t FROM STDIN;\n;a;\n\\.\nb", []string{"COPY t FROM STDIN", "b"}, nil},
		{"COPY t FROM STDIN;\na;b", []string{"COPY t FROM STDIN", "a", "b"}, nil},
		{"COPY t TO STDOUT;\na;\n\\.\n", []string{"COPY t TO STDOUT", "a"}, []string{"\\."}},
		{"\\i x;y\na", []string{"a"}, []string{"\\i x;y"}},
		{"a \\g b\nc;", []string{"a", "c"}, []string{"\\g b"}},
		{"a \\echo x\n b; c", []string{"a        \n b", "c"}, []string{"\\echo x"}},
		{"\\set a 1 \\\\ b;", []string{"b"}, []string{"\\set a 1 \\\\"}},
		{"'never closed; b", []string{"'never closed; b"}, nil},
	} {
		statements, commands := lex.Split(c.sql)
		var got, gotCommands []string
		for _, s := range statements {
			got = append(got, s.Text)
		}
		for _, k := range commands {
			gotCommands = append(gotCommands, k.Text(c.sql))
		}
		assert.Equal(t, c.want, got, c.sql)
		assert.Equal(t, c.commands, gotCommands, c.sql)
	}
}

func TestBlank(t *testing.T) {
	for sql, want := range map[string]string{
		"a":                         "a",
		"a -- b\nc":                 "a     \nc",
		"a /* b\n/* c */ */ '-- d'": "a     \n           '-- d'",
		"$$ -- a $$ /* b":           "$$ -- a $$     ",
		"-- \u00e4":                 "     ",
	} {
		assert.Equal(t, want, lex.Blank(sql))
	}
}

// FuzzLex: tokens and statements are pieces of the text, in order, and every byte that
// is neither space nor comment is in a token.
func FuzzLex(f *testing.F) {
	for _, seed := range []string{"SELECT 'a', $1 -- x\n; $$ ; $$", "\\i x\nCOPY a FROM STDIN;\n1\n\\.\n", "/* /* */ E'\\'' U&\"a\" $a$ $", "create function f() begin atomic; end;"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, sql string) {
		end := 0
		var all strings.Builder
		for _, token := range lex.Tokens(sql) {
			require.GreaterOrEqual(t, token.Start, end)
			require.Greater(t, token.End, token.Start)
			require.LessOrEqual(t, token.End, len(sql))
			if token.Kind == lex.Dollar {
				from, to := token.Body(sql)
				require.True(t, token.Start < from && from <= to && to <= token.End)
			}
			end = token.End
			all.WriteString(token.Text(sql))
		}
		require.Len(t, lex.Blank(sql), len(sql))
		var blank strings.Builder
		for _, token := range lex.Tokens(lex.Blank(sql)) {
			blank.WriteString(token.Text(lex.Blank(sql)))
		}
		require.Equal(t, all.String(), blank.String(), "comments are no tokens")
		end = 0
		statements, commands := lex.Split(sql)
		for _, s := range statements {
			require.GreaterOrEqual(t, s.Start, end)
			require.Len(t, s.Text, s.End-s.Start)
			require.LessOrEqual(t, s.End, len(sql))
			end = s.End
		}
		for _, c := range commands {
			require.Equal(t, byte('\\'), sql[c.Start])
		}
	})
}
