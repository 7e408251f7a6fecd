// Package source reads files and says what the rules find in them: SQL files,
// migration directories, and the SQL in Go files.
package source

import (
	"sort"
	"unicode/utf8"

	"github.com/seed4391e180/runlane/policy/internal/inspect"
	"github.com/seed4391e180/runlane/policy/internal/rule"
)

// A Finding is a place in a file that a rule applies to.
type Finding struct {
	Code         rule.Code
	File         string // slashes, as the caller named it
	Line, Column int    // from 1; columns count characters
	Object       string
	Note         string
}

// A Result is what a file holds.
type Result struct {
	Findings   []Finding
	Statements int
	Dynamic    int // statements that could not be judged, or only in part
	Tables     map[string][]string
	Keys       []Key
	Holes      map[int]bool // which of the given holes occur
	Embeds     []string     // files that it embeds and that hold SQL
}

// A Key is a foreign key, and where it stands.
type Key struct {
	inspect.Key
	Finding Finding
}

// file is a file as it is read.
type file struct {
	name  string
	text  string
	lines []int // where its lines begin
	out   Result
}

func newFile(name, text string) *file {
	f := &file{name: name, text: text, lines: []int{0}}
	for i := range len(text) {
		if text[i] == '\n' {
			f.lines = append(f.lines, i+1)
		}
	}
	return f
}

// place is the line and the column of an offset.
func (f *file) place(offset int) (line, column int) {
	offset = min(max(offset, 0), len(f.text))
	i := sort.SearchInts(f.lines, offset+1) - 1
	return i + 1, utf8.RuneCountInString(f.text[f.lines[i]:offset]) + 1
}

func (f *file) finding(code rule.Code, offset int, object, note string) Finding {
	line, column := f.place(offset)
	return Finding{Code: code, File: f.name, Line: line, Column: column, Object: object, Note: note}
}

func (f *file) found(code rule.Code, offset int, object, note string) {
	f.out.Findings = append(f.out.Findings, f.finding(code, offset, object, note))
	if code == rule.Dynamic {
		f.out.Dynamic++
	}
}

// take takes over what a text holds.
func (f *file) take(t mapped, r inspect.Result) {
	f.out.Statements += r.Statements
	for _, h := range r.Hits {
		f.found(h.Code, t.offset(h.Offset), h.Object, h.Note)
	}
	if f.out.Tables == nil {
		f.out.Tables = map[string][]string{}
	}
	for table, columns := range r.Schema.Tables {
		f.out.Tables[table] = append(f.out.Tables[table], columns...)
	}
	for _, k := range r.Schema.Keys {
		f.out.Keys = append(f.out.Keys, Key{k, f.finding(rule.OwnerKey, t.offset(k.Offset), k.Table+" to "+k.Parent, "")})
	}
}

// mapped is a text that was made from pieces of a file.
type mapped struct {
	text   string
	pieces []piece
	holes  int
}

// piece says where the text from a place on stands in the file.
type piece struct {
	start  int // in the text
	offset int // in the file
	exact  bool
}

// plain is a piece of a file as it stands there.
func plain(text string, offset int) mapped {
	return mapped{text: text, pieces: []piece{{0, offset, true}}}
}

// instead is a text that stands for something at an offset.
func instead(text string, offset int) mapped {
	return mapped{text: text, pieces: []piece{{0, offset, false}}}
}

func (m mapped) then(n mapped) mapped {
	out := mapped{text: m.text + n.text, holes: m.holes + n.holes}
	out.pieces = append(out.pieces, m.pieces...)
	for _, p := range n.pieces {
		out.pieces = append(out.pieces, piece{p.start + len(m.text), p.offset, p.exact})
	}
	return out
}

// offset is where a place in the text stands in the file.
func (m mapped) offset(i int) int {
	at := sort.Search(len(m.pieces), func(k int) bool { return m.pieces[k].start > i }) - 1
	if at < 0 {
		if len(m.pieces) == 0 {
			return 0
		}
		return m.pieces[0].offset
	}
	p := m.pieces[at]
	if !p.exact {
		return p.offset
	}
	return p.offset + i - p.start
}
