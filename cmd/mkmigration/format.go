package main

import (
	"fmt"
	"strings"

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

// Format adds the header and the hand-written SQL before anything is hashed.
func (f formatter) Format(plan *migrate.Plan) ([]migrate.File, error) {
	if f.replan && len(f.old) == 1 {
		plan.Version = f.old[0].Version()
	}
	files, err := migrate.DefaultFormatter.Format(plan)
	if err != nil {
		return nil, err
	}
	for i, file := range files {
		if n := len(f.old); !f.replan && n > 0 && file.Version() <= f.old[n-1].Version() {
			return nil, fmt.Errorf("the clock is behind the last migration (%s is not after %s)", file.Version(), f.old[n-1].Name())
		}
		text := append([]byte(f.header), file.Bytes()...)
		if f.hasCustom() {
			text = append(append(text, '\n'), f.custom...)
		}
		files[i] = migrate.NewLocalFile(file.Name(), text)
	}
	f.planned = files
	return files, nil
}

func (p *planner) hasCustom() bool { return len(p.custom) > 0 }

// planCustom makes a file of nothing but hand-written SQL.
func (p *planner) planCustom() error {
	_, err := p.formatter().Format(&migrate.Plan{Name: p.name})
	return err
}
