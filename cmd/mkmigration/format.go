package main

import (
	"fmt"
	"regexp"
	"strings"
	"time"

	"ariga.io/atlas/sql/migrate"
)

// header is the first line of a migration file: what the person who deploys it
// has to know of the workers that are still running.
type header string

const (
	baselineHeader   header = "-- Old workers may run while this file is applied: it is the first version, there are none.\n\n"
	unreviewedHeader header = "-- Old workers must be stopped while this file is applied: nobody has shown that they can go on.\n\n"
)

// newHeader reads the flag -old-workers. A plan that says nothing gets the
// cautious answer.
func newHeader(flag string, baseline bool) (header, error) {
	verdict, why, ok := strings.Cut(flag, ":")
	why = strings.TrimSpace(why)
	switch {
	case flag == "" && baseline:
		return baselineHeader, nil
	case flag == "":
		return unreviewedHeader, nil
	case !ok || why == "" || (verdict != "may run" && verdict != "must be stopped") || strings.ContainsAny(why, "\r\n"):
		return "", fmt.Errorf(`-old-workers %q: write "may run: why" or "must be stopped: why", on one line`, flag)
	}
	return header("-- Old workers " + verdict + " while this file is applied: " + why + "\n\n"), nil
}

// formatter makes a file of the statements that ent plans.
func (p *planner) formatter() migrate.Formatter { return formatter{p} }

type formatter struct{ *planner }

// Format adds the header and the hand-written SQL before anything is hashed. An index
// of a table that is there already gets a file of its own, after the others: it is
// built while workers write, outside of a transaction.
func (f formatter) Format(plan *migrate.Plan) ([]migrate.File, error) {
	first, indexes := *plan, []*migrate.Change(nil)
	switch {
	case f.replan && len(f.old) == 1:
		first.Version = f.old[0].Version()
	case !f.replan:
		first.Version = migrate.NewVersion()
		first.Changes, indexes = splitIndexes(plan.Changes)
	}
	f.planned = nil
	if len(first.Changes) > 0 || f.hasCustom() {
		if err := f.add(&first, string(f.header), string(f.custom)); err != nil {
			return nil, err
		}
	}
	for _, c := range indexes {
		next := *plan
		next.Changes = []*migrate.Change{c}
		next.Name += "_" + strings.TrimPrefix(indexName(c), "runlane_")
		next.Version = f.following(first.Version)
		if err := f.add(&next, strings.TrimSuffix(string(f.header), "\n")+"-- atlas:txmode none\n\n", ""); err != nil {
			return nil, err
		}
	}
	return f.planned, nil
}

// add formats a file.
func (f formatter) add(plan *migrate.Plan, head, tail string) error {
	files, err := migrate.DefaultFormatter.Format(plan)
	if err != nil {
		return err
	}
	for _, file := range files {
		if n := len(f.old); !f.replan && n > 0 && file.Version() <= f.old[n-1].Version() {
			return fmt.Errorf("the clock is behind the last migration (%s is not after %s)", file.Version(), f.old[n-1].Name())
		}
		text := head + string(file.Bytes())
		if tail != "" {
			text += "\n" + tail
		}
		f.planned = append(f.planned, migrate.NewLocalFile(file.Name(), []byte(text)))
	}
	return nil
}

// following is a version a second after that of the last planned file, if there is one.
func (f formatter) following(first string) string {
	n := len(f.planned)
	if n == 0 {
		return first
	}
	const layout = "20060102150405"
	last, err := time.Parse(layout, f.planned[n-1].Version())
	if err != nil {
		return first // two files of one version are refused
	}
	return last.Add(time.Second).Format(layout)
}

var (
	newTable = regexp.MustCompile(`^CREATE TABLE "([^"]+)"`)
	newIndex = regexp.MustCompile(`^(CREATE (?:UNIQUE )?INDEX) ("([^"]+)" ON "([^"]+)")`)
)

// splitIndexes takes the indexes of tables that the plan does not make out of it, and
// spells them so that they are built concurrently.
func splitIndexes(changes []*migrate.Change) (rest, indexes []*migrate.Change) {
	made := map[string]bool{}
	for _, c := range changes {
		if m := newTable.FindStringSubmatch(c.Cmd); m != nil {
			made[m[1]] = true
		}
	}
	for _, c := range changes {
		if m := newIndex.FindStringSubmatch(c.Cmd); m == nil || made[m[4]] {
			rest = append(rest, c)
			continue
		}
		own := *c
		own.Cmd = newIndex.ReplaceAllString(c.Cmd, "$1 CONCURRENTLY $2")
		indexes = append(indexes, &own)
	}
	return rest, indexes
}

// indexName names the index of a change that splitIndexes returned.
func indexName(c *migrate.Change) string {
	return newIndex.FindStringSubmatch(strings.Replace(c.Cmd, " CONCURRENTLY", "", 1))[3]
}

func (p *planner) hasCustom() bool { return len(p.custom) > 0 }

// planCustom makes a file of nothing but hand-written SQL.
func (p *planner) planCustom() error {
	_, err := p.formatter().Format(&migrate.Plan{Name: p.name})
	return err
}
