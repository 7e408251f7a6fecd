// Package inventory reads the policy file of a project: what is known and approved,
// one line each, and how the project's files are to be read.
package inventory

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/seed4391e180/runlane/policy/internal/rule"
	"github.com/seed4391e180/runlane/policy/internal/source"
)

// A File is a policy file.
type File struct {
	Name      string
	Lines     []Line
	Allows    []Allow
	Levels    []Level
	Templates []Template
	Owners    []string // columns that say whose a row is
	Approvals string   // the file whose numbered rows approve lines
	Required  bool     // every line must name one
	Approving int      // the line that says so
}

// A Line lists findings that are known: so many of one object in one file.
type Line struct {
	Number   int
	Code     rule.Code
	File     string
	Object   string
	Count    int
	Approved []string
	Reason   string
}

// An Allow lists files in which rules do not apply, or which are not read at all.
type Allow struct {
	Number   int
	Codes    []rule.Code // none: all, and the files are not read
	Pattern  string
	Approved []string
	Reason   string
}

// A Level is a rule's level in this project.
type Level struct {
	Number   int
	Code     rule.Code
	Level    rule.Level
	Approved []string
	Reason   string
}

// A Template says what a hole stands for in the files of a pattern.
type Template struct {
	Number  int
	Pattern string
	source.Hole
}

// An Error is a line that cannot be read.
type Error struct {
	File    string
	Number  int
	Message string
}

func (e *Error) Error() string { return fmt.Sprintf("%s:%d: %s", e.File, e.Number, e.Message) }

// Parse reads a policy file.
func Parse(name, text string) (*File, error) {
	f := &File{Name: name}
	seen := map[string]int{}
	for i, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		fields := split(line)
		if err := f.line(i+1, fields); err != nil {
			return nil, &Error{name, i + 1, err.Error()}
		}
		key := strings.Join(fields[:min(len(fields), 3)], "|")
		if before := seen[key]; before > 0 {
			return nil, &Error{name, i + 1, fmt.Sprintf("repeats line %d", before)}
		}
		seen[key] = i + 1
	}
	return f, nil
}

// split cuts a line at its bars; \| is a bar within a field.
func split(line string) []string {
	fields := strings.Split(strings.ReplaceAll(line, `\|`, "\x00"), "|")
	for i := range fields {
		fields[i] = strings.TrimSpace(strings.ReplaceAll(fields[i], "\x00", "|"))
	}
	return fields
}

// join is the inverse of split.
func join(fields ...string) string {
	for i := range fields {
		fields[i] = strings.ReplaceAll(fields[i], "|", `\|`)
	}
	return strings.Join(fields, " | ")
}

func (f *File) line(number int, fields []string) error {
	want := func(n int, form string) error {
		if len(fields) != n || slices.Contains(fields, "") {
			return fmt.Errorf("want %q", form)
		}
		return nil
	}
	switch fields[0] {
	case "approvals":
		if len(fields) == 3 && fields[2] == "required" {
			f.Required = true
			fields = fields[:2]
		}
		if err := want(2, "approvals | FILE [| required]"); err != nil {
			return err
		}
		if f.Approvals != "" {
			return fmt.Errorf("repeats line %d", f.Approving)
		}
		f.Approvals, f.Approving = fields[1], number
	case "owner":
		if err := want(2, "owner | COLUMN…"); err != nil {
			return err
		}
		f.Owners = append(f.Owners, strings.Fields(fields[1])...)
	case "template":
		if len(fields) == 4 && fields[1] != "" && fields[2] != "" {
			f.Templates = append(f.Templates, Template{number, fields[1], source.Hole{Mark: fields[2], Text: fields[3]}})
			return nil
		}
		return fmt.Errorf("want %q", "template | FILES | HOLE | TEXT")
	case "rule":
		if err := want(5, "rule | CODE | refuse, warn or off | APPROVAL | REASON"); err != nil {
			return err
		}
		return f.level(number, fields)
	case "allow":
		if err := want(5, "allow | CODES or * | FILES | APPROVAL | REASON"); err != nil {
			return err
		}
		return f.allow(number, fields)
	default:
		if _, ok := rule.Of(rule.Code(fields[0])); !ok {
			return fmt.Errorf("%q is neither a code nor one of approvals, allow, owner, rule, template", fields[0])
		}
		if err := want(6, "CODE | FILE | OBJECT | COUNT | APPROVAL | REASON"); err != nil {
			return err
		}
		return f.known(number, fields)
	}
	return nil
}

func (f *File) known(number int, fields []string) error {
	count, err := strconv.Atoi(fields[3])
	if err != nil || count < 1 {
		return fmt.Errorf("%q is no count", fields[3])
	}
	if about(rule.Code(fields[0])) {
		return fmt.Errorf("%s is about this file itself and cannot be listed", fields[0])
	}
	f.Lines = append(f.Lines, Line{number, rule.Code(fields[0]), fields[1], fields[2], count, approvals(fields[4]), fields[5]})
	return nil
}

func (f *File) level(number int, fields []string) error {
	r, ok := rule.Of(rule.Code(fields[1]))
	if !ok || about(r.Code) {
		return fmt.Errorf("%q is no code", fields[1])
	}
	level := rule.Level(fields[2])
	if level != rule.Refuse && level != rule.Warn && level != rule.Off {
		return fmt.Errorf("%q is no level", fields[2])
	}
	f.Levels = append(f.Levels, Level{number, r.Code, level, approvals(fields[3]), fields[4]})
	return nil
}

func (f *File) allow(number int, fields []string) error {
	a := Allow{Number: number, Pattern: fields[2], Approved: approvals(fields[3]), Reason: fields[4]}
	if fields[1] != "*" {
		for _, c := range strings.Fields(strings.ReplaceAll(fields[1], ",", " ")) {
			if _, ok := rule.Of(rule.Code(c)); !ok || about(rule.Code(c)) {
				return fmt.Errorf("%q is no code", c)
			}
			a.Codes = append(a.Codes, rule.Code(c))
		}
	}
	f.Allows = append(f.Allows, a)
	return nil
}

// about reports whether a rule is about the policy file.
func about(c rule.Code) bool { return c >= rule.Stale }

// approvals are the numbers of a field; "-" is none.
func approvals(field string) (list []string) {
	for _, a := range strings.Fields(strings.ReplaceAll(field, ",", " ")) {
		if a != "-" {
			list = append(list, a)
		}
	}
	return list
}

// Level is the level of a rule in this project.
func (f *File) Level(r rule.Rule) rule.Level {
	for _, l := range f.Levels {
		if l.Code == r.Code {
			return l.Level
		}
	}
	return r.Level
}

// Holes are those that are declared for a file, the more exact ones first.
func (f *File) Holes(file string) (holes []source.Hole, which []int) {
	for i, t := range f.Templates {
		if Match(t.Pattern, file) {
			holes, which = append(holes, t.Hole), append(which, i)
		}
	}
	return holes, which
}

// Skipped reports whether a file is not to be read, and by which of the allowances.
func (f *File) Skipped(file string) (int, bool) {
	for i, a := range f.Allows {
		if len(a.Codes) == 0 && Match(a.Pattern, file) {
			return i, true
		}
	}
	return 0, false
}

// Match reports whether a path matches a pattern: ** stands for any folders, * and ?
// for any text and any character within a name. A pattern that ends with a slash
// stands for all below.
func Match(pattern, file string) bool {
	if strings.HasSuffix(pattern, "/") {
		pattern += "**"
	}
	return match(strings.Split(pattern, "/"), strings.Split(file, "/"))
}

func match(pattern, file []string) bool {
	if len(pattern) == 0 {
		return len(file) == 0
	}
	if pattern[0] == "**" {
		if len(pattern) == 1 {
			return len(file) > 0
		}
		return match(pattern[1:], file) || len(file) > 0 && match(pattern, file[1:])
	}
	return len(file) > 0 && name(pattern[0], file[0]) && match(pattern[1:], file[1:])
}

// name matches one name with * and ?.
func name(pattern, text string) bool {
	switch {
	case pattern == "":
		return text == ""
	case pattern[0] == '*':
		return name(pattern[1:], text) || text != "" && name(pattern, text[1:])
	case text == "":
		return false
	}
	return (pattern[0] == '?' || pattern[0] == text[0]) && name(pattern[1:], text[1:])
}
