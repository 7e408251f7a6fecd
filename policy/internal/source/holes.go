package source

import (
	"regexp"
	"strings"

	"github.com/seed4391e180/runlane/policy/internal/lex"
)

// A Hole is a mark in a template, and what stands for it when the text is judged.
type Hole struct {
	Mark string // as it is written; one * in it stands for a name
	Text string
}

// Name is the text of a hole that stands for a name: its own.
const Name = "name"

func (h Hole) pattern() *regexp.Regexp {
	before, after, named := strings.Cut(h.Mark, "*")
	if !named {
		return regexp.MustCompile(regexp.QuoteMeta(h.Mark))
	}
	return regexp.MustCompile(regexp.QuoteMeta(before) + `\s*([\w.]+)\s*` + regexp.QuoteMeta(after))
}

// fill puts texts in place of the holes of a template. It says which holes occur.
func fill(text string, offset int, holes []Hole) (mapped, map[int]bool) {
	out := mapped{}
	used := map[int]bool{}
	patterns := make([]*regexp.Regexp, len(holes))
	for i, h := range holes {
		patterns[i] = h.pattern()
	}
	for at := 0; at < len(text); {
		first, which := []int(nil), -1
		for i, p := range patterns {
			m := p.FindStringSubmatchIndex(text[at:])
			if m != nil && (first == nil || m[0] < first[0] || m[0] == first[0] && !strings.Contains(holes[i].Mark, "*")) {
				first, which = m, i
			}
		}
		if first == nil {
			return out.then(plain(text[at:], offset+at)), used
		}
		used[which] = true
		value := holes[which].Text
		if value == Name {
			value = "hole"
			if len(first) > 3 {
				value += "_" + strings.ReplaceAll(text[at+first[2]:at+first[3]], ".", "_")
			}
		}
		out = out.then(plain(text[at:at+first[0]], offset+at)).then(instead(value, offset+at+first[0]))
		at += max(first[1], 1)
	}
	return out, used
}

// marks are the spellings of holes by which a template is known, when its text does
// not parse.
var marks = []struct {
	pattern *regexp.Regexp
	mark    string
}{
	{regexp.MustCompile(`\{\{-?\s*[\w.][^}]*\}\}`), "{{ }}"},
	{regexp.MustCompile(`\$\{\w+\}`), "${ }"},
	{regexp.MustCompile(`\{\w*\}`), "{ }"},
	{regexp.MustCompile(`<%=?.*%>`), "<% %>"},
	{regexp.MustCompile(`%\[?\d*\]?[sdvqtI]\b`), "%s"},
	{regexp.MustCompile(`%\(\w+\)s`), "%()s"},
	{regexp.MustCompile(`@\w+(:\w+)?@`), "@ @"},
}

// template is the kind of hole in a text, "" if there is none, and the text with
// names in place of the holes.
func template(text string) (kind, filled string) {
	for _, m := range marks {
		if outside(text, m.pattern.FindAllStringIndex(text, -1)) {
			return m.mark, m.pattern.ReplaceAllStringFunc(text, func(hole string) string {
				return "h" + strings.Repeat("_", max(0, len(hole)-1)) // as long, so that places stay
			})
		}
	}
	return "", text
}

// outside reports whether one of the spans begins outside of all quotation.
func outside(text string, spans [][]int) bool {
	for _, span := range spans {
		quoted := false
		for _, t := range lex.Tokens(text) {
			quotes := t.Kind == lex.String || t.Kind == lex.Quoted || t.Kind == lex.Dollar
			quoted = quoted || quotes && t.Start <= span[0] && span[0] < t.End
		}
		if !quoted {
			return true
		}
	}
	return false
}

// parameters puts PostgreSQL's parameters in place of those of other libraries: ? and
// :name. It says what the first of them was. The text keeps its length where it can.
func parameters(text string) (changed, first string) {
	tokens := lex.Tokens(text)
	out := []byte(text)
	for i, t := range tokens {
		switch {
		case t.Kind != lex.Symbol:
		case text[t.Start] == '?':
			first = or(first, "?")
			out[t.Start] = 'p' // a name, as long as the mark
		case text[t.Start] == ':' && i+1 < len(tokens) && tokens[i+1].Start == t.End && colon(tokens, i, text):
			next := tokens[i+1]
			first = or(first, text[t.Start:next.End])
			out[t.Start] = ' '
			if next.Kind == lex.Word && (text[next.Start] < '0' || text[next.Start] > '9') {
				out[next.Start] = '_' // never a keyword
			}
		}
	}
	return string(out), first
}

// cast reports whether the colon at i is the second of two.
func cast(tokens []lex.Token, i int, text string) bool {
	return i > 0 && tokens[i-1].End == tokens[i].Start && tokens[i-1].Text(text) == ":"
}

func or(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// colon reports whether the colon at i begins a parameter: it is not part of a cast,
// an assignment or a slice.
func colon(tokens []lex.Token, i int, text string) bool {
	next := tokens[i+1].Kind
	if next != lex.Word && next != lex.String && next != lex.Quoted || cast(tokens, i, text) {
		return false
	}
	return i == 0 || tokens[i-1].End < tokens[i].Start || tokens[i-1].Kind == lex.Symbol
}
