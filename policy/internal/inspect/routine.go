package inspect

import (
	"strings"

	pg "github.com/pganalyze/pg_query_go/v6"

	"github.com/seed4391e180/runlane/policy/internal/lex"
	"github.com/seed4391e180/runlane/policy/internal/rule"
)

// function judges the body of CREATE FUNCTION and CREATE PROCEDURE. A body between
// BEGIN ATOMIC and END is part of the tree already.
func (w *walker) function(n *pg.CreateFunctionStmt) {
	language := ""
	var body []*pg.Node
	location := 0
	for _, o := range n.GetOptions() {
		d := o.GetDefElem()
		switch d.GetDefname() {
		case "language":
			language = strings.ToLower(d.GetArg().GetString_().GetSval())
		case "as":
			body, location = d.GetArg().GetList().GetItems(), int(d.GetLocation())
		}
	}
	if len(body) == 0 {
		return
	}
	object := dotted(n.GetFuncname())
	if language == "internal" {
		if symbol := strings.TrimSuffix(strings.TrimSuffix(body[0].GetString_().GetSval(), "_int8"), "_int4"); advisory(symbol) {
			w.found(rule.Advisory, location, symbol)
		}
		return
	}
	w.body(language, object, body[0].GetString_().GetSval(), location, trigger(n))
}

// trigger reports whether a function is one for triggers: it runs in the transaction
// that writes.
func trigger(n *pg.CreateFunctionStmt) bool {
	last, _ := name(n.GetReturnType().GetNames())
	return last == "trigger" || last == "event_trigger"
}

func (w *walker) do(n *pg.DoStmt) {
	language, body, location := "plpgsql", "", 0
	for _, a := range n.GetArgs() {
		d := a.GetDefElem()
		switch d.GetDefname() {
		case "language":
			language = strings.ToLower(d.GetArg().GetString_().GetSval())
		case "as":
			body, location = d.GetArg().GetString_().GetSval(), int(d.GetLocation())
		}
	}
	w.body(language, "DO", body, location, false)
}

// body judges a body that the grammar takes for a literal.
func (w *walker) body(language, object, body string, location int, trigger bool) {
	place := w.literal(body, location)
	switch language {
	case "sql":
		inner := &reader{}
		statements, _ := lex.Split(body)
		for _, s := range statements {
			inner.statement(s.Text, at{place.offset(s.Start), place.fixed})
		}
		w.merge(inner, trigger)
	case "plpgsql":
		inner := &reader{}
		inner.plpgsql(w.sql, body, object, place)
		w.merge(inner, trigger)
	case "c", "internal":
	default:
		w.hit(rule.Dynamic, place.offset(0), object, "a body in the language "+language+" is not read")
	}
}

// merge takes over what was found in a body. Its statements are a sequence of their
// own.
func (w *walker) merge(inner *reader, trigger bool) {
	w.out.Hits = append(w.out.Hits, inner.out.Hits...)
	w.out.Statements += inner.out.Statements
	w.out.Hits = append(w.out.Hits, Sequence(inner.out.Steps, Transaction{Whole: true, Joins: trigger})...)
}

// literal is where the text of a literal behind a place begins.
func (w *walker) literal(value string, location int) at {
	for _, t := range lex.Tokens(w.sql[min(max(location, 0), len(w.sql)):]) {
		t.Start, t.End = t.Start+location, t.End+location
		switch t.Kind {
		case lex.Dollar:
			start, _ := t.Body(w.sql)
			return at{base: w.place.offset(start), fixed: w.place.fixed}
		case lex.String:
			if start := t.Start + 1; strings.HasPrefix(w.sql[start:], value) {
				return at{base: w.place.offset(start), fixed: w.place.fixed}
			}
			return at{base: w.place.offset(t.Start), fixed: true}
		}
	}
	return at{base: w.place.offset(w.start), fixed: true}
}
