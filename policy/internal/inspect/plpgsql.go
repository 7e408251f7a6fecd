package inspect

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	pg "github.com/pganalyze/pg_query_go/v6"

	"github.com/seed4391e180/runlane/policy/internal/grammar"
	"github.com/seed4391e180/runlane/policy/internal/lex"
	"github.com/seed4391e180/runlane/policy/internal/rule"
)

// plpgsql judges a body in PL/pgSQL. The parser wants the whole statement that the
// body stands in.
func (r *reader) plpgsql(statement, body, object string, place at) {
	if start, end, ok := bodyLiteral(statement); ok && statement[start:end] == body {
		body = lex.Blank(body) // as grammar.Parse does
		statement = statement[:start] + body + statement[end:]
	}
	tree, err := parseBody(statement)
	if err != nil {
		r.hit(rule.Unparsed, place.offset(firstToken(body, 0)), object, err.Error())
		return
	}
	var functions []any
	if err := json.Unmarshal([]byte(tree), &functions); err != nil {
		r.hit(rule.Unparsed, place.offset(0), object, err.Error())
		return
	}
	b := &plBody{reader: r, body: body, place: place, lines: lineStarts(body), texts: map[string][]string{}}
	b.gather(functions)
	b.value("", functions)
}

// unknown is what the parser says of a field of a variable whose type it does not
// know: it has no catalog, and takes such a variable for a scalar.
var unknown = regexp.MustCompile(`^"([^".]+)\.[^"]*" is not a known variable`)

// rowType is a type that is a row of a table.
var rowType = regexp.MustCompile(`(?i)[ \t]("?[\w.]+"?)[ \t]*%[ \t]*rowtype\b`)

// parseBody parses a body; variables whose fields are used are declared as records.
func parseBody(statement string) (string, error) {
	for range 100 {
		tree, err := grammar.ParsePLpgSQL(statement)
		if err == nil {
			return tree, nil
		}
		changed := rowType.ReplaceAllString(statement, " record")
		if m := unknown.FindStringSubmatch(err.Error()); changed == statement && m != nil {
			changed = asRecord(statement, m[1])
		}
		if changed == statement {
			return "", err
		}
		statement = changed
	}
	return "", fmt.Errorf("too many variables of unknown types")
}

// asRecord declares a variable as a record. The text keeps its lines.
func asRecord(statement, variable string) string {
	start, end, ok := bodyLiteral(statement)
	if !ok {
		return statement
	}
	body := statement[start:end]
	tokens := lex.Tokens(body)
	declares := false
	for i, t := range tokens {
		switch {
		case t.Is(body, "declare"):
			declares = true
		case t.Is(body, "begin"):
			declares = false
		case declares && (tokens[i-1].Is(body, "declare") || tokens[i-1].Text(body) == ";") && strings.EqualFold(strings.Trim(t.Text(body), `"`), variable):
			from := t.End
			to := from
			for _, next := range tokens[i+1:] {
				if text := next.Text(body); text == ";" || text == ":" || text == "=" || next.Is(body, "default") || next.Is(body, "not") {
					break
				}
				to = next.End
			}
			lines := strings.Repeat("\n", strings.Count(body[from:to], "\n"))
			if strings.EqualFold(strings.TrimSpace(body[from:to]), "record") {
				return statement
			}
			return statement[:start] + body[:from] + " record" + lines + body[to:] + statement[end:]
		}
	}
	return statement
}

// bodyLiteral is the last literal in dollar quotes of a statement.
func bodyLiteral(statement string) (start, end int, ok bool) {
	for _, t := range lex.Tokens(statement) {
		if t.Kind == lex.Dollar {
			start, end = t.Body(statement)
			ok = true
		}
	}
	return start, end, ok
}

// plBody is the body of a function in PL/pgSQL.
type plBody struct {
	*reader
	body  string
	place at
	lines []int
	line  int                 // of the statement within the body, from 1
	after int                 // where the last expression was found
	texts map[string][]string // constant texts that variables are given
}

// The modes in which the parser of PL/pgSQL reads an expression.
const (
	modeStatement = 0
	modeAssign    = 3 // and the two above
)

// value visits a value of the tree. key is its member's name.
func (b *plBody) value(key string, v any) {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			b.value(key, e)
		}
	case map[string]any:
		saved := b.line
		if n, ok := v["lineno"].(float64); ok {
			b.line = int(n)
		}
		if query, ok := v["query"].(string); ok {
			mode, _ := v["parseMode"].(float64)
			b.expression(key, query, int(mode))
		}
		for _, k := range inOrder(v) {
			inner := k
			if k == "PLpgSQL_expr" {
				inner = key
			} else if dynamic(key, k) {
				inner = dynamicKey
			}
			b.value(inner, v[k])
		}
		b.line = saved
	}
}

const dynamicKey = "dynamic"

// dynamic reports whether a member of a statement is an expression whose value is
// executed.
func dynamic(statement, member string) bool {
	switch statement {
	case "PLpgSQL_stmt_dynexecute", "PLpgSQL_stmt_dynfors":
		return member == "query"
	}
	return member == "dynquery"
}

// inOrder are the members of a statement in the order in which they run: what is
// looked at first, what is done then.
func inOrder(v map[string]any) []string {
	keys := make([]string, 0, len(v))
	for k := range v {
		keys = append(keys, k)
	}
	rank := func(k string) int {
		return slices.Index([]string{"else_body", "body", "then_body", "elsif_list", "query", "cond"}, k)
	}
	slices.SortFunc(keys, func(a, b string) int {
		if d := rank(b) - rank(a); d != 0 {
			return d
		}
		return strings.Compare(a, b)
	})
	return keys
}

// expression judges an expression or a statement within the body.
func (b *plBody) expression(key, query string, mode int) {
	place := b.find(query)
	before := ""
	if mode >= modeAssign {
		if i := strings.Index(query, "="); i >= 0 {
			place.base += i + 1
			query = query[i+1:]
		}
	}
	if mode != modeStatement {
		before = "SELECT "
	}
	if key == dynamicKey {
		b.executed(query, place)
	}
	if !place.fixed {
		place.base -= len(before)
	}
	steps := len(b.out.Steps)
	b.statement(before+query, place)
	if mode != modeStatement { // an expression is no step of its own unless it notifies
		b.out.Steps = slices.DeleteFunc(b.out.Steps, func(s Step) bool {
			steps--
			return steps < 0 && !s.Notifies
		})
	}
}

// find is where an expression stands in the body: at its statement's line or behind.
func (b *plBody) find(query string) at {
	from := 0
	if b.line >= 1 && b.line <= len(b.lines) {
		from = b.lines[b.line-1]
	}
	if b.place.fixed {
		return b.place
	}
	if rest, ok := strings.CutPrefix(query, "SELECT"); ok { // the parser's word for PERFORM
		for _, word := range []string{"PERFORM", "perform"} {
			if i := strings.Index(b.body[from:], word+rest); i >= 0 && !strings.Contains(b.body[from:from+i], query) {
				return at{base: b.place.base + from + i + 1}
			}
		}
	}
	from = max(from, min(b.after, len(b.body)))
	if i := strings.Index(b.body[from:], query); i >= 0 {
		b.after = from + i + 1
		return at{base: b.place.base + from + i}
	}
	if i := strings.Index(b.body, query); i >= 0 {
		return at{base: b.place.base + i}
	}
	if b.line >= 1 && b.line <= len(b.lines) {
		from = b.lines[b.line-1]
	}
	return at{base: b.place.base + firstToken(b.body, from), fixed: true}
}

// executed judges the text that EXECUTE runs, for each text that its variables may
// hold.
func (b *plBody) executed(expression string, place at) {
	value := expressionOf(expression)
	if value == nil {
		return // the expression itself is judged, and found not to parse
	}
	rounds := 1
	for _, list := range b.texts {
		rounds = max(rounds, len(list))
	}
	seen := map[string]bool{}
	for round := range rounds {
		sql, holes := b.round(round).fold(value)
		if !seen[sql] {
			seen[sql] = true
			b.execute(sql, holes, expression, place)
		}
	}
}

// round picks a text for each variable.
func (b *plBody) round(i int) values {
	v := values{}
	for name, list := range b.texts {
		v[name] = list[min(i, len(list)-1)]
	}
	return v
}

// expressionOf is the tree of an expression.
func expressionOf(text string) *pg.Node {
	tree, err := grammar.Parse("SELECT " + text)
	if err != nil || len(tree.GetStmts()) == 0 {
		return nil
	}
	targets := tree.GetStmts()[0].GetStmt().GetSelectStmt().GetTargetList()
	if len(targets) == 0 {
		return nil
	}
	return targets[0].GetResTarget().GetVal()
}

// gather notes the constant texts that variables are given, in the order of the body.
func (b *plBody) gather(v any) {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			b.gather(e)
		}
	case map[string]any:
		if name, ok := v["refname"].(string); ok {
			if e, ok := v["default_val"].(map[string]any); ok {
				if inner, ok := e["PLpgSQL_expr"].(map[string]any); ok {
					query, _ := inner["query"].(string)
					b.assign(name, query)
				}
			}
		}
		mode, _ := v["parseMode"].(float64)
		if query, ok := v["query"].(string); ok && mode >= modeAssign {
			if name, value, ok := strings.Cut(query, "="); ok {
				b.assign(strings.ToLower(strings.TrimSpace(strings.TrimSuffix(name, ":"))), value)
			}
		}
		b.gather(v["datums"]) // declarations come first
		for _, k := range inOrder(v) {
			if k != "datums" {
				b.gather(v[k])
			}
		}
	}
}

func (b *plBody) assign(name, value string) {
	n := expressionOf(value)
	if n == nil {
		return
	}
	for i := range max(1, len(b.texts[name])) {
		if s, ok := b.round(i).text(n); ok && !slices.Contains(b.texts[name], s) && len(b.texts[name]) < maxTexts {
			b.texts[name] = append(b.texts[name], s)
		}
	}
}

// maxTexts bounds how many texts a variable is followed through.
const maxTexts = 32

// execute judges a text that EXECUTE runs, with names in place of what is not known.
func (b *plBody) execute(sql string, holes int, expression string, place at) {
	if _, err := grammar.Parse(sql); err != nil || (holes > 0 && sql == hole) {
		code, note := rule.Dynamic, "EXECUTE of a text that is not constant"
		if holes == 0 && len(b.texts) == 0 {
			code, note = rule.Unparsed, "in EXECUTE: "+err.Error()
		}
		b.hit(code, place.offset(0), summary(expression), note)
		return
	}
	inner := &reader{}
	statements, _ := lex.Split(sql)
	for _, s := range statements {
		inner.statement(s.Text, at{base: place.offset(0), fixed: true})
	}
	b.out.Hits = append(b.out.Hits, inner.out.Hits...)
	b.out.Steps = append(b.out.Steps, inner.out.Steps...)
	b.out.Statements += inner.out.Statements
}

// lineStarts are where the lines of a text begin. PL/pgSQL counts them from the line
// of the opening quote.
func lineStarts(text string) []int {
	starts := []int{0}
	for i := range len(text) {
		if text[i] == '\n' {
			starts = append(starts, i+1)
		}
	}
	return starts
}
