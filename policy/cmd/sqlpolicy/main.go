// Command sqlpolicy checks the SQL of a project against the policy that package
// policy describes.
//
//	sqlpolicy check [--inventory FILE] [--base REVISION] [--format text|json|sarif] PATH...
//	sqlpolicy start PATH...   the lines of a first policy file
//	sqlpolicy rules           all rules, why and what instead
//
// It exits with 0 if there is nothing to refuse, with 1 if there is, and with 2 if it
// could not check.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/seed4391e180/runlane/policy"
)

const usage = `usage:
  sqlpolicy check [--inventory FILE] [--base REVISION] [--format text|json|sarif] PATH...
  sqlpolicy start [--inventory FILE] PATH...   print the lines that would list what check finds
  sqlpolicy rules                              print all rules
exit codes: 0 nothing to refuse, 1 findings, 2 could not check
`

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

const (
	clean    = 0
	findings = 1
	failed   = 2
)

func run(args []string, out, problems io.Writer) int {
	code, err := command(args, out, problems)
	if err != nil {
		fmt.Fprintf(problems, "sqlpolicy: %v\n", err)
		return failed
	}
	return code
}

func command(args []string, out, problems io.Writer) (int, error) {
	if len(args) == 0 {
		fmt.Fprint(problems, usage)
		return failed, errors.New("no command was given")
	}
	switch args[0] {
	case "check", "start":
		return check(args[0], args[1:], out, problems)
	case "rules":
		for _, r := range policy.Rules() {
			if _, err := fmt.Fprintf(out, "%s %s (%s)\n    why: %s\n    instead: %s\n", r.Code, r.Name, r.Level, r.Why, r.Instead); err != nil {
				return failed, err
			}
		}
		return clean, nil
	case "help", "-h", "--help":
		_, err := fmt.Fprint(out, usage)
		return clean, err
	}
	fmt.Fprint(problems, usage)
	return failed, fmt.Errorf("there is no command %q", args[0])
}

func check(name string, args []string, out, problems io.Writer) (int, error) {
	flags := flag.NewFlagSet(name, flag.ContinueOnError)
	flags.SetOutput(problems)
	flags.Usage = func() { fmt.Fprint(problems, usage) }
	var o policy.Options
	flags.StringVar(&o.Inventory, "inventory", "", "the policy file")
	flags.StringVar(&o.Base, "base", "", "a revision of Git: lines that it does not have fail")
	format := flags.String("format", "text", "text, json or sarif")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return clean, nil
		}
		return failed, err
	}
	write := map[string]func(*policy.Report, io.Writer) error{
		"text": (*policy.Report).WriteText, "json": (*policy.Report).WriteJSON, "sarif": (*policy.Report).WriteSARIF,
	}[*format]
	if write == nil {
		return failed, fmt.Errorf("there is no format %q: text, json or sarif", *format)
	}
	o.Paths = flags.Args()
	report, err := policy.Check(o)
	if err != nil {
		return failed, err
	}
	if name == "start" {
		for _, line := range report.Start {
			if _, err := fmt.Fprintln(out, line); err != nil {
				return failed, err
			}
		}
		return clean, nil
	}
	if err := write(report, out); err != nil {
		return failed, err
	}
	if report.Refused() {
		return findings, nil
	}
	return clean, nil
}
