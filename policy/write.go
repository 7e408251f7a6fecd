package policy

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// WriteText prints a report for people.
func (r *Report) WriteText(w io.Writer) error {
	var b strings.Builder
	for _, f := range r.Findings {
		level := ""
		if f.Level == "warn" {
			level = "warning: "
		}
		fmt.Fprintf(&b, "%s:%d:%d: %s%s %s: %s\n", f.File, f.Line, f.Column, level, f.Code, f.Name, f.Object)
		if f.Note != "" {
			fmt.Fprintf(&b, "    %s\n", f.Note)
		}
		fmt.Fprintf(&b, "    why: %s\n    instead: %s\n", f.Why, f.Instead)
		if r.Inventory && f.Listed != "" {
			fmt.Fprintf(&b, "    if it is approved, list it: %s\n", f.Listed)
		}
	}
	fmt.Fprintf(&b, "%d findings, %d listed or allowed; %d statements in %d SQL files and %d Go files, by the grammar of PostgreSQL %s\n",
		len(r.Findings), r.Listed, r.Statements, r.SQLFiles, r.GoFiles, r.Grammar)
	if r.Dynamic > 0 {
		fmt.Fprintf(&b, "%d statements are put together at run time and were judged in part or not at all: turn on SP006 to see them\n", r.Dynamic)
	}
	if len(r.Skipped) > 0 {
		fmt.Fprintf(&b, "not read: %s\n", strings.Join(r.Skipped, ", "))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// WriteJSON prints a report as one JSON object.
func (r *Report) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(r)
}
