// Package inspect judges SQL text: it parses each statement with PostgreSQL's
// grammar and walks the whole tree, through function bodies, DO blocks and strings
// that are executed.
package inspect

import (
	"cmp"
	"errors"
	"slices"
	"strings"

	pg "github.com/pganalyze/pg_query_go/v6"

	"github.com/seed4391e180/runlane/policy/internal/grammar"
	"github.com/seed4391e180/runlane/policy/internal/lex"
	"github.com/seed4391e180/runlane/policy/internal/rule"
)

// A Hit is a place that a rule applies to.
type Hit struct {
	Code   rule.Code
	Offset int    // in the text
	Object string // what it is, as an inventory names it
	Note   string // more for the reader; may be empty
}

// A Result is what a text holds.
type Result struct {
	Hits       []Hit
	Steps      []Step // what its statements do, for rules that look at more than one
	Schema     Schema
	Statements int
}

// Text judges all statements of a text. Commands of psql are left to the caller.
func Text(sql string) Result {
	statements, _ := lex.Split(sql)
	r := &reader{}
	for _, s := range statements {
		r.statement(s.Text, at{base: s.Start})
	}
	return r.result()
}

// Fragment judges a text that need not be a statement: common table expressions, an
// expression or an item of FROM will do.
func Fragment(sql string) Result {
	if _, err := grammar.Parse(sql); err == nil {
		return Text(sql)
	}
	for _, frame := range []struct{ before, after string }{
		{"WITH ", "\nSELECT 1"}, {"SELECT ", "\n"}, {"SELECT FROM ", "\n"}, {"SELECT WHERE ", "\n"}, {"", "\nSELECT 1"}, {"SELECT 1 ", "\n"},
	} {
		if _, err := grammar.Parse(frame.before + sql + frame.after); err == nil {
			r := &reader{}
			r.statement(frame.before+sql+frame.after, at{base: -len(frame.before)})
			return r.result()
		}
	}
	return Text(sql)
}

// reader gathers what a text holds.
type reader struct {
	out Result
}

// at says where a text stands in the text that was given. Within a literal that had
// to be unescaped only the place of the literal is known.
type at struct {
	base  int
	fixed bool
}

func (a at) offset(i int) int {
	if a.fixed {
		return a.base
	}
	return a.base + max(i, 0)
}

func (r *reader) result() Result {
	slices.SortStableFunc(r.out.Hits, func(a, b Hit) int {
		return cmp.Or(cmp.Compare(a.Offset, b.Offset), cmp.Compare(a.Code, b.Code))
	})
	return r.out
}

func (r *reader) hit(code rule.Code, offset int, object, note string) {
	r.out.Hits = append(r.out.Hits, Hit{code, max(offset, 0), object, note})
}

// statement judges the text of one statement, or of several that the splitter did
// not tell apart.
func (r *reader) statement(sql string, place at) {
	tree, err := grammar.Parse(sql)
	if err != nil {
		r.unparsed(sql, place, err)
		return
	}
	for _, raw := range tree.GetStmts() {
		r.out.Statements++
		w := &walker{reader: r, sql: sql, place: place, start: firstToken(sql, int(raw.GetStmtLocation()))}
		w.top(raw.GetStmt())
	}
}

func (r *reader) unparsed(sql string, place at, err error) {
	offset, text := 0, err.Error()
	var e *grammar.Error
	if errors.As(err, &e) && e.Offset > 0 {
		offset = e.Offset
	}
	r.out.Statements++
	r.hit(rule.Unparsed, place.offset(min(offset, len(sql))), summary(sql), text)
}

// summary is the beginning of a statement, on one line.
func summary(sql string) string {
	var words []string
	for _, t := range lex.Tokens(sql) {
		if len(words) == 5 {
			break
		}
		words = append(words, t.Text(sql))
	}
	text := strings.Join(strings.Fields(strings.Join(words, " ")), " ")
	if runes := []rune(text); len(runes) > 60 {
		text = string(runes[:60])
	}
	return text
}

// firstToken is where the first token at or after an offset begins.
func firstToken(sql string, offset int) int {
	offset = min(max(offset, 0), len(sql))
	for _, t := range lex.Tokens(sql[offset:]) {
		return offset + t.Start
	}
	return offset
}

// name is the last part of a qualified name, and whether it can be PostgreSQL's own:
// it is not qualified, or with pg_catalog.
func name(parts []*pg.Node) (last string, own bool) {
	if len(parts) == 0 {
		return "", false
	}
	last = parts[len(parts)-1].GetString_().GetSval()
	if len(parts) == 1 {
		return last, true
	}
	return last, parts[len(parts)-2].GetString_().GetSval() == "pg_catalog"
}

// dotted is a qualified name as it is written.
func dotted(parts []*pg.Node) string {
	var list []string
	for _, p := range parts {
		list = append(list, p.GetString_().GetSval())
	}
	return strings.Join(list, ".")
}

// relation is the name of a table as it is written.
func relation(v *pg.RangeVar) string {
	if v.GetSchemaname() != "" {
		return v.GetSchemaname() + "." + v.GetRelname()
	}
	return v.GetRelname()
}
