package source

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/seed4391e180/runlane/policy/internal/inspect"
	"github.com/seed4391e180/runlane/policy/internal/lex"
	"github.com/seed4391e180/runlane/policy/internal/rule"
)

// SQL reads a file of SQL. Holes are those that the policy file declares for it; with
// any, it is a template and may be a fragment of a statement. Whole says that its
// statements share one transaction.
func SQL(name string, data []byte, holes []Hole, whole bool) Result {
	text, problem := decode(data)
	f := newFile(name, text)
	if problem != "" {
		f.found(rule.Unreadable, 0, "file", problem)
		return f.out
	}
	if len(holes) > 0 {
		f.template(holes, whole)
	} else {
		f.script(whole)
	}
	return f.out
}

// decode is the text of a file, or why it is none.
func decode(data []byte) (text, problem string) {
	for _, mark := range []struct{ bytes, name string }{{"\xff\xfe", "UTF-16"}, {"\xfe\xff", "UTF-16"}} {
		if bytes.HasPrefix(data, []byte(mark.bytes)) {
			return "", "the file is in " + mark.name
		}
	}
	// A byte order mark is no character of the text; a space keeps the offsets.
	if bytes.HasPrefix(data, []byte("\xef\xbb\xbf")) {
		data = append([]byte("   "), data[3:]...)
	}
	if i := bytes.IndexByte(data, 0); i >= 0 {
		return "", fmt.Sprintf("the file is binary: byte %d is zero", i)
	}
	if !utf8.Valid(data) {
		return "", "the file is not valid UTF-8"
	}
	return string(data), ""
}

// script judges a file statement by statement.
func (f *file) script(whole bool) {
	statements, commands := lex.Split(f.text)
	for _, c := range commands {
		f.found(rule.Meta, c.Start, command(c.Text(f.text)), "")
	}
	var steps []inspect.Step
	for _, s := range statements {
		steps = append(steps, f.statement(s)...)
	}
	if named.MatchString(f.text) { // each is a query of its own
		for _, s := range steps {
			f.sequence([]inspect.Step{s}, false)
		}
		return
	}
	f.sequence(steps, whole)
}

// named is the comment before a query of a file from which code is generated.
var named = regexp.MustCompile(`(?m)^-- name: \w+`)

func (f *file) sequence(steps []inspect.Step, whole bool) {
	for _, h := range inspect.Sequence(steps, inspect.Transaction{Whole: whole}) {
		f.found(h.Code, h.Offset, h.Object, h.Note)
	}
}

// command is a command of psql on one line.
func command(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if runes := []rune(text); len(runes) > 40 {
		text = string(runes[:40])
	}
	return text
}

// statement judges a statement. One that does not parse may be a template, or have
// variables of psql.
func (f *file) statement(s lex.Statement) []inspect.Step {
	r := inspect.Text(s.Text)
	if unparsed(r) {
		if changed, first := parameters(s.Text); first != "" {
			if again := inspect.Text(changed); !unparsed(again) {
				if strings.HasPrefix(first, ":") && first[1] != '\'' && first[1] != '"' {
					f.found(rule.Meta, s.Start+strings.Index(s.Text, first), first, "a variable of psql, or a named parameter")
				}
				r = again
			}
		}
	}
	if unparsed(r) {
		if kind, filled := template(s.Text); kind != "" {
			f.found(rule.Template, s.Start, object(s.Text), "holes like "+kind)
			r = inspect.Text(filled)
			if unparsed(r) {
				return nil // said already
			}
		}
	}
	f.take(plain(s.Text, s.Start), r)
	for i := range r.Steps {
		r.Steps[i].Offset += s.Start
	}
	return r.Steps
}

// object is the beginning of a statement on one line.
func object(text string) string {
	return command(strings.ReplaceAll(text, "|", " "))
}

func unparsed(r inspect.Result) bool {
	for _, h := range r.Hits {
		if h.Code == rule.Unparsed {
			return true
		}
	}
	return false
}

// template judges a file whose holes are declared. Most templates are fragments of a
// statement, so the file is judged as a whole.
func (f *file) template(holes []Hole, whole bool) {
	m, used := fill(f.text, 0, holes)
	f.out.Holes = used
	r := inspect.Fragment(m.text)
	f.take(m, r)
	for _, h := range inspect.Sequence(r.Steps, inspect.Transaction{Whole: whole}) {
		f.found(h.Code, m.offset(h.Offset), h.Object, h.Note)
	}
}
