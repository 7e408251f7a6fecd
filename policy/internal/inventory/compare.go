package inventory

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/seed4391e180/runlane/policy/internal/rule"
	"github.com/seed4391e180/runlane/policy/internal/source"
)

// Write is the line that lists a number of findings.
func Write(l Line) string {
	approval := strings.Join(l.Approved, ",")
	if approval == "" {
		approval = "-"
	}
	return join(string(l.Code), l.File, l.Object, strconv.Itoa(l.Count), approval, l.Reason)
}

// Start lists findings in lines, in the order of file, code and object.
func Start(findings []source.Finding) []Line {
	var lines []Line
	for _, f := range findings {
		i := slices.IndexFunc(lines, func(l Line) bool { return l.Code == f.Code && l.File == f.File && l.Object == f.Object })
		if i < 0 {
			lines = append(lines, Line{Code: f.Code, File: f.File, Object: f.Object, Reason: "TODO: why this exists"})
			i = len(lines) - 1
		}
		lines[i].Count++
	}
	slices.SortFunc(lines, func(a, b Line) int {
		return strings.Compare(string(a.Code)+"\x00"+a.File+"\x00"+a.Object, string(b.Code)+"\x00"+b.File+"\x00"+b.Object)
	})
	return lines
}

// Judge compares findings with what is listed. It returns those that are not, and a
// finding for each line that lists more than there is. Holes and skipped are the
// template lines and the allowances that were used while files were read.
func (f *File) Judge(findings []source.Finding, holes map[int]bool, skipped map[int]bool) []source.Finding {
	var left []source.Finding
	used := map[int]bool{}
	count := map[int]int{}
	for _, x := range findings {
		if i := f.allowed(x); i >= 0 {
			used[i] = true
			continue
		}
		i := slices.IndexFunc(f.Lines, func(l Line) bool { return l.Code == x.Code && l.File == x.File && l.Object == x.Object })
		if i >= 0 {
			count[i]++
		}
		left = append(left, x)
	}
	left = slices.DeleteFunc(left, func(x source.Finding) bool {
		i := slices.IndexFunc(f.Lines, func(l Line) bool { return l.Code == x.Code && l.File == x.File && l.Object == x.Object })
		return i >= 0 && count[i] <= f.Lines[i].Count
	})
	for i := range left {
		if at := slices.IndexFunc(f.Lines, func(l Line) bool {
			return l.Code == left[i].Code && l.File == left[i].File && l.Object == left[i].Object
		}); at >= 0 {
			left[i].Note = strings.TrimSpace(fmt.Sprintf("%s; there are %d, line %d of %s lists %d", left[i].Note, count[at], f.Lines[at].Number, f.Name, f.Lines[at].Count))
			left[i].Note = strings.TrimPrefix(left[i].Note, "; ")
		}
	}
	for i, l := range f.Lines {
		switch {
		case count[i] == 0:
			left = append(left, f.own(rule.Stale, l.Number, string(l.Code)+" "+l.Object, "nothing is behind this line any more: delete it"))
		case count[i] < l.Count:
			left = append(left, f.own(rule.Stale, l.Number, string(l.Code)+" "+l.Object, fmt.Sprintf("there are %d and the line lists %d: lower its count", count[i], l.Count)))
		}
	}
	for i, a := range f.Allows {
		if len(a.Codes) == 0 && !skipped[i] || len(a.Codes) > 0 && !used[i] {
			left = append(left, f.own(rule.Stale, a.Number, "allow "+a.Pattern, "there is nothing to allow: delete the line"))
		}
	}
	for i, t := range f.Templates {
		if !holes[i] {
			left = append(left, f.own(rule.Stale, t.Number, "template "+t.Mark, "no file has this hole: delete the line"))
		}
	}
	return left
}

// allowed is the allowance that a finding falls under, or -1.
func (f *File) allowed(x source.Finding) int {
	return slices.IndexFunc(f.Allows, func(a Allow) bool { return slices.Contains(a.Codes, x.Code) && Match(a.Pattern, x.File) })
}

func (f *File) own(code rule.Code, number int, object, note string) source.Finding {
	return source.Finding{Code: code, File: f.Name, Line: number, Column: 1, Object: object, Note: note}
}

// loose is a line that lets something pass, as far as it counts for the comparison
// with another revision.
type loose struct {
	number   int
	key      string // what it lets pass, wherever it stands
	exact    string // and where
	count    int
	approved []string
}

func (f *File) loose() (list []loose) {
	for _, l := range f.Lines {
		list = append(list, loose{l.Number, string(l.Code) + " " + l.Object, l.File, l.Count, l.Approved})
	}
	for _, a := range f.Allows {
		codes := "*"
		if len(a.Codes) > 0 {
			codes = fmt.Sprint(a.Codes)
		}
		list = append(list, loose{a.Number, "allow " + codes + " " + a.Pattern, "", 1, a.Approved})
	}
	for _, l := range f.Levels {
		if r, _ := rule.Of(l.Code); r.Level == rule.Refuse && l.Level != rule.Refuse {
			list = append(list, loose{l.Number, "rule " + string(l.Code) + " " + string(l.Level), "", 1, l.Approved})
		}
	}
	return list
}

// Grown finds the lines that the base revision does not have, or with a lower count.
// A line may follow its statement to another file. A new line must name an approval, a
// higher count one that the line in the base does not name.
func (f *File) Grown(base *File, revision string) (findings []source.Finding) {
	var moved []loose // base lines that are gone from their file
	now := f.loose()
	before := base.loose()
	for _, b := range before {
		if !slices.ContainsFunc(now, func(n loose) bool { return n.key == b.key && n.exact == b.exact }) {
			moved = append(moved, b)
		}
	}
	if base.Approvals != "" && (f.Approvals != base.Approvals || base.Required && !f.Required) {
		findings = append(findings, f.own(rule.Grown, max(f.Approving, 1), "approvals", "in "+revision+" lines are approved by "+base.Approvals+", and not as freely as here"))
	}
	for _, n := range now {
		i := slices.IndexFunc(before, func(b loose) bool { return b.key == n.key && b.exact == n.exact })
		if i < 0 {
			if m := slices.IndexFunc(moved, func(b loose) bool { return b.key == n.key && b.count >= n.count }); m >= 0 {
				moved[m].count -= n.count
				continue
			}
			if len(n.approved) == 0 {
				findings = append(findings, f.own(rule.Grown, n.number, n.key, "the line is not in "+revision))
			}
			continue
		}
		more := slices.DeleteFunc(slices.Clone(n.approved), func(a string) bool { return slices.Contains(before[i].approved, a) })
		if n.count > before[i].count && len(more) == 0 {
			findings = append(findings, f.own(rule.Grown, n.number, n.key,
				fmt.Sprintf("the count is %d, and %d in %s: a higher count needs a further approval", n.count, before[i].count, revision)))
		}
	}
	return findings
}

// row is a row of a Markdown table that begins with its number.
var row = regexp.MustCompile(`(?m)^\|\s*([0-9]+)\s*\|`)

// Approve finds the lines whose approval does not exist among the rows of a text.
func (f *File) Approve(text string) (findings []source.Finding) {
	rows := map[string]bool{}
	for _, m := range row.FindAllStringSubmatch(text, -1) {
		rows[m[1]] = true
	}
	for _, l := range f.loose() {
		for _, a := range l.approved {
			if !rows[a] {
				findings = append(findings, f.own(rule.Unapproved, l.number, l.key, fmt.Sprintf("%s has no row %s", f.Approvals, a)))
			}
		}
		if f.Required && len(l.approved) == 0 {
			findings = append(findings, f.own(rule.Unapproved, l.number, l.key, "every line must name a row of "+f.Approvals))
		}
	}
	return findings
}

// Unfounded finds the lines that name an approval though the project has no file of
// approvals.
func (f *File) Unfounded() (findings []source.Finding) {
	for _, l := range f.loose() {
		if len(l.approved) > 0 {
			findings = append(findings, f.own(rule.Unapproved, l.number, l.key, "there is no line approvals | FILE in "+f.Name))
		}
	}
	return findings
}
