package policy

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/seed4391e180/runlane/policy/internal/rule"
	"github.com/seed4391e180/runlane/policy/internal/source"
)

// collect finds the files to read.
func (p *project) collect(paths []string) error {
	for _, given := range paths {
		info, err := os.Stat(given)
		if err != nil {
			return err
		}
		full, err := filepath.Abs(given)
		if err != nil {
			return err
		}
		full = resolved(full)
		if !info.IsDir() {
			name := p.name(full)
			p.forced[name] = true
			p.names = append(p.names, name)
			continue
		}
		before := len(p.names)
		if err := p.walk(full); err != nil {
			return err
		}
		if len(p.names) == before {
			return fmt.Errorf("there is neither SQL nor Go in %s: nothing was checked", given)
		}
	}
	slices.Sort(p.names)
	p.names = slices.Compact(p.names)
	return nil
}

// name is the name of a file in findings.
func (p *project) name(full string) string {
	rel, err := filepath.Rel(p.root, full)
	if err != nil {
		return filepath.ToSlash(full)
	}
	return filepath.ToSlash(rel)
}

func (p *project) full(name string) string {
	if path.IsAbs(name) || filepath.IsAbs(name) {
		return filepath.FromSlash(name)
	}
	return filepath.Join(p.root, filepath.FromSlash(name))
}

// ignored are the files and folders below dir that Git does not keep and is told to
// ignore: what was fetched or built there is not the project's. Without Git there are
// none.
func ignored(dir string) map[string]bool {
	all := make(map[string]bool)
	out, err := git(dir, "ls-files", "--others", "--ignored", "--exclude-standard", "--directory", "-z")
	if err != nil {
		return all
	}
	for _, name := range strings.Split(out, "\x00") {
		if name != "" {
			all[filepath.Join(dir, filepath.FromSlash(name))] = true
		}
	}
	return all
}

func (p *project) walk(dir string) error {
	passed := ignored(dir)
	return filepath.WalkDir(dir, func(full string, d fs.DirEntry, err error) error {
		name := p.name(full)
		if err != nil {
			if full == dir {
				return err
			}
			p.findings = append(p.findings, unreadable(name, err))
			return nil
		}
		if d.IsDir() {
			base := d.Name()
			if full != dir && (strings.HasPrefix(base, ".") || base == "vendor" || base == "node_modules" || passed[full]) {
				p.skipped = append(p.skipped, name+"/")
				return filepath.SkipDir
			}
			return nil
		}
		switch ext := path.Ext(name); {
		case passed[full]:
			p.skipped = append(p.skipped, name)
		case ext == ".go", sqlExtension(ext):
			p.names = append(p.names, name)
		case path.Base(name) == source.SumFile:
			p.sums = append(p.sums, path.Dir(name))
		}
		return nil
	})
}

func sqlExtension(ext string) bool {
	return slices.Contains([]string{".sql", ".psql", ".pgsql", ".ddl"}, ext)
}

func unreadable(name string, err error) source.Finding {
	reason := err.Error()
	if e := (*fs.PathError)(nil); errors.As(err, &e) {
		reason = e.Err.Error()
	}
	return source.Finding{Code: rule.Unreadable, File: name, Line: 1, Column: 1, Object: "file", Note: reason}
}

// read reads and judges all files: first SQL and Go side by side, then what Go files
// embed.
func (p *project) read() {
	var sql, golang []string
	for _, n := range p.names {
		if i, skip := p.file.Skipped(n); skip {
			p.skips[i] = true
			continue
		}
		if path.Ext(n) == ".go" {
			golang = append(golang, n)
		} else {
			sql = append(sql, n)
		}
	}
	p.sql(sql)
	embeds := p.golang(golang)
	var more []string
	for _, e := range embeds {
		for _, n := range p.expand(e) {
			if _, skip := p.file.Skipped(n); !skip && !slices.Contains(sql, n) && !slices.Contains(more, n) {
				more = append(more, n)
			}
		}
	}
	p.sql(more)
	for _, dir := range p.sums {
		p.sum(dir)
	}
}

// expand are the files of a pattern of //go:embed. A pattern for many files stands
// for those that are SQL by their names.
func (p *project) expand(pattern string) (names []string) {
	matches, _ := filepath.Glob(p.full(pattern))
	for _, full := range matches {
		_ = filepath.WalkDir(full, func(file string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() && (sqlExtension(filepath.Ext(file)) || file == p.full(pattern)) {
				names = append(names, p.name(file))
			}
			return nil
		})
	}
	return names
}

// sql reads files of SQL.
func (p *project) sql(names []string) {
	results := make([]source.Result, len(names))
	which := make([][]int, len(names))
	each(len(names), func(i int) {
		data, err := os.ReadFile(p.full(names[i]))
		if err != nil {
			results[i].Findings = []source.Finding{unreadable(names[i], err)}
			return
		}
		holes, of := p.file.Holes(names[i])
		which[i] = of
		results[i] = source.SQL(names[i], data, holes, slices.Contains(p.sums, path.Dir(names[i])))
	})
	p.report.SQLFiles += len(names)
	for i, r := range results {
		for h := range r.Holes {
			p.holes[which[i][h]] = true
		}
		p.take(r)
	}
}

// golang reads Go files, and returns the patterns of what they embed.
func (p *project) golang(names []string) (embeds []string) {
	files := make([]*source.GoFile, len(names))
	unread := make([]*source.Finding, len(names))
	each(len(names), func(i int) {
		data, err := os.ReadFile(p.full(names[i]))
		if err != nil {
			f := unreadable(names[i], err)
			unread[i] = &f
			return
		}
		files[i] = source.ParseGo(names[i], data)
	})
	for i := range unread {
		if unread[i] != nil {
			p.findings = append(p.findings, *unread[i])
		}
	}
	files = slices.DeleteFunc(files, func(f *source.GoFile) bool { return f == nil })
	all := source.NewPackages(files, p.module())
	results := make([]source.Result, len(files))
	each(len(files), func(i int) { results[i] = files[i].Judge(all) })
	p.report.GoFiles += len(names)
	for _, r := range results {
		p.take(r)
		embeds = append(embeds, r.Embeds...)
	}
	return embeds
}

func (p *project) take(r source.Result) {
	p.findings = append(p.findings, r.Findings...)
	p.report.Statements += r.Statements
	p.report.Dynamic += r.Dynamic
	p.tables.Add(r.Tables)
	p.keys = append(p.keys, r.Keys...)
}

// sum compares a directory of migrations with its atlas.sum.
func (p *project) sum(dir string) {
	name := path.Join(dir, source.SumFile)
	sum, err := os.ReadFile(p.full(name))
	if err != nil {
		p.findings = append(p.findings, unreadable(name, err))
		return
	}
	migrations := map[string][]byte{}
	files, _ := filepath.Glob(filepath.Join(p.full(dir), "*.sql"))
	for _, f := range files {
		if data, err := os.ReadFile(f); err == nil { // what cannot be read is a finding already
			migrations[filepath.Base(f)] = data
		}
	}
	p.take(source.Sum(name, sum, migrations))
}

// module finds the module that a folder is in, by the go.mod above it.
func (p *project) module() func(string) (string, string) {
	type known struct{ path, root string }
	cache := map[string]known{}
	var lock sync.Mutex
	var find func(folder string) known
	find = func(folder string) known {
		if k, ok := cache[folder]; ok {
			return k
		}
		var k known
		text, err := os.ReadFile(filepath.Join(p.full(folder), "go.mod"))
		switch parent := path.Dir(path.Clean(folder)); {
		case err == nil:
			k = known{moduleLine(string(text)), path.Clean(folder)}
		case parent != folder && folder != ".":
			k = find(parent)
		}
		cache[folder] = k
		return k
	}
	return func(folder string) (string, string) {
		lock.Lock()
		defer lock.Unlock()
		k := find(folder)
		return k.path, k.root
	}
}

func moduleLine(text string) string {
	for _, line := range strings.Split(text, "\n") {
		if rest, ok := strings.CutPrefix(strings.TrimSpace(line), "module "); ok {
			return strings.Trim(strings.TrimSpace(rest), `"`)
		}
	}
	return ""
}

// each calls a function for 0 to n-1, on all processors.
func each(n int, f func(int)) {
	next := make(chan int)
	var group sync.WaitGroup
	for range min(n, runtime.GOMAXPROCS(0)) {
		group.Go(func() {
			for i := range next {
				f(i)
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	group.Wait()
}
