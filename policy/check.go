package policy

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/seed4391e180/runlane/policy/internal/grammar"
	"github.com/seed4391e180/runlane/policy/internal/inspect"
	"github.com/seed4391e180/runlane/policy/internal/inventory"
	"github.com/seed4391e180/runlane/policy/internal/rule"
	"github.com/seed4391e180/runlane/policy/internal/source"
)

// Grammar is the version of PostgreSQL whose grammar reads the SQL.
const Grammar = grammar.Version

// Options say what to check.
type Options struct {
	// Paths are files and folders. A folder is read with all below it, except
	// vendor, node_modules, folders whose name begins with a dot, and what Git ignores.
	Paths []string
	// Inventory is the policy file; none if it is empty. Files are named relative to
	// its folder, and without one relative to the current folder.
	Inventory string
	// Base is a revision of Git to compare the policy file with; none if it is empty.
	Base string
}

// A Rule is one thing that the gate looks for.
type Rule = rule.Rule

// Rules are all rules, in the order of their codes.
func Rules() []Rule { return rule.All() }

// A Finding is a place that a rule applies to.
type Finding struct {
	Code    string `json:"code"`
	Name    string `json:"name"`
	Level   string `json:"level"` // refuse or warn
	File    string `json:"file"`
	Line    int    `json:"line"`
	Column  int    `json:"column"` // counts characters from 1
	Object  string `json:"object"` // what it is, as a line of the policy file names it
	Note    string `json:"note,omitempty"`
	Why     string `json:"why"`
	Instead string `json:"instead"`
	// Listed is the line of the policy file that would list the finding and those
	// like it in its file; empty for findings about the policy file itself.
	Listed string `json:"listed,omitempty"`
}

// A Report is what a check found.
type Report struct {
	Grammar    string    `json:"grammar"`
	Findings   []Finding `json:"findings"`
	SQLFiles   int       `json:"sqlFiles"`
	GoFiles    int       `json:"goFiles"`
	Statements int       `json:"statements"`
	Dynamic    int       `json:"dynamic"` // statements put together at run time: not judged, or in part
	Inventory  bool      `json:"-"`       // a policy file was given
	Listed     int       `json:"listed"`  // findings that the policy file lists
	Skipped    []string  `json:"skipped,omitempty"`
	Start      []string  `json:"-"` // the lines that would list the findings
}

// Refused reports whether the check fails.
func (r *Report) Refused() bool {
	return slices.ContainsFunc(r.Findings, func(f Finding) bool { return f.Level == string(rule.Refuse) })
}

// defaultOwners are the columns that say whose a row is, unless the policy file says
// which they are.
var defaultOwners = []string{"tenant_id", "organization_id", "org_id", "workspace_id", "account_id"}

// Check reads the paths and judges all SQL in them. An error means that it could not:
// a path or the policy file cannot be read, there is no SQL, the base is unknown.
func Check(o Options) (*Report, error) {
	if len(o.Paths) == 0 {
		return nil, errors.New("no path was given: name the files and folders to check")
	}
	p, err := open(o)
	if err != nil {
		return nil, err
	}
	if err := p.collect(o.Paths); err != nil {
		return nil, err
	}
	p.read()
	return p.judge()
}

// project is a check under way.
type project struct {
	root    string // files are named relative to it
	file    *inventory.File
	base    *inventory.File
	revised string

	names   []string // of the files to read, relative to root
	forced  map[string]bool
	sums    []string // folders with an atlas.sum
	skipped []string
	skips   map[int]bool
	holes   map[int]bool

	findings []source.Finding
	report   Report
	tables   inspect.Schema
	keys     []source.Key
}

// noFile is the name of the policy file where there is none.
const noFile = ""

// open reads the policy file and what it refers to.
func open(o Options) (*project, error) {
	root, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	p := &project{file: &inventory.File{Name: noFile}, forced: map[string]bool{}, skips: map[int]bool{}, holes: map[int]bool{}}
	p.root = resolved(root)
	if o.Inventory == "" {
		if o.Base != "" {
			return nil, errors.New("--base compares the policy file with another revision: it needs --inventory")
		}
		return p, nil
	}
	text, err := os.ReadFile(o.Inventory)
	if err != nil {
		return nil, fmt.Errorf("the policy file: %w", err)
	}
	path, err := filepath.Abs(o.Inventory)
	if err != nil {
		return nil, err
	}
	p.root = resolved(filepath.Dir(path))
	if p.file, err = inventory.Parse(filepath.Base(path), string(text)); err != nil {
		return nil, err
	}
	if err := p.approvals(); err != nil {
		return nil, err
	}
	if o.Base != "" {
		p.revised = o.Base
		if p.base, err = atRevision(p.root, filepath.Base(path), o.Base); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// resolved follows symbolic links, so that one file has one name.
func resolved(path string) string {
	if target, err := filepath.EvalSymlinks(path); err == nil {
		return target
	}
	return path
}

func (p *project) approvals() error {
	if p.file.Approvals == "" {
		p.findings = append(p.findings, p.file.Unfounded()...)
		return nil
	}
	text, err := os.ReadFile(filepath.Join(p.root, filepath.FromSlash(p.file.Approvals)))
	if err != nil {
		return fmt.Errorf("the file of approvals: %w", err)
	}
	p.findings = append(p.findings, p.file.Approve(string(text))...)
	return nil
}

// judge compares what was found with the policy file.
func (p *project) judge() (*Report, error) {
	owners := p.file.Owners
	if len(owners) == 0 {
		owners = defaultOwners
	}
	for _, k := range p.keys {
		if len(inspect.Orphans([]inspect.Key{k.Key}, p.tables.Tables, owners)) > 0 {
			p.findings = append(p.findings, k.Finding)
		}
	}
	levels := map[rule.Code]rule.Level{}
	for _, r := range rule.All() {
		levels[r.Code] = p.file.Level(r)
	}
	p.findings = slices.DeleteFunc(p.findings, func(f source.Finding) bool { return levels[f.Code] == rule.Off })
	lines := map[[3]string]string{}
	for _, l := range inventory.Start(p.findings) {
		l.Reason = "REASON"
		lines[[3]string{string(l.Code), l.File, l.Object}] = inventory.Write(l)
	}
	before := len(p.findings)
	p.findings = p.file.Judge(p.findings, p.holes, p.skips)
	for _, f := range p.findings {
		if f.Code < rule.Stale {
			before--
		}
	}
	p.report.Listed = before
	if p.base != nil {
		p.findings = append(p.findings, p.file.Grown(p.base, p.revised)...)
	}
	slices.SortStableFunc(p.findings, func(a, b source.Finding) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column), cmp.Compare(a.Code, b.Code), cmp.Compare(a.Object, b.Object))
	})
	p.report.Grammar, p.report.Inventory = Grammar, p.file.Name != noFile
	p.report.Findings = []Finding{}
	var listable []source.Finding
	for _, f := range p.findings {
		r, _ := rule.Of(f.Code)
		x := Finding{
			Code: string(f.Code), Name: r.Name, Level: string(levels[f.Code]), File: f.File, Line: f.Line, Column: f.Column,
			Object: f.Object, Note: f.Note, Why: r.Why, Instead: r.Instead,
		}
		if f.Code < rule.Stale {
			listable = append(listable, f)
			x.Listed = lines[[3]string{x.Code, x.File, x.Object}]
		}
		p.report.Findings = append(p.report.Findings, x)
	}
	for _, l := range inventory.Start(listable) {
		p.report.Start = append(p.report.Start, inventory.Write(l))
	}
	p.report.Skipped = p.skipped
	return &p.report, nil
}
