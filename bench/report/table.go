package report

import (
	"fmt"
	"math"
	"strings"

	"github.com/seed4391e180/runlane/bench/measure"
)

// Header says how the rows came about.
type Header struct {
	Form    string // "short" or "full"
	Server  string
	Machine string
	Peers   string
	Took    string
}

// Table is the report as Markdown.
func Table(h Header, rows []*Row) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# Benchmarks, %s form\n\n", h.Form)
	fmt.Fprintf(&b, "PostgreSQL %s with default durability, %s. %s. Took %s.\n\n", h.Server, h.Machine, h.Peers, h.Took)
	b.WriteString("Ratios are runlane by the peer, of medians; absolute figures hold for this machine alone. How each was measured: bench/README.md.\n\n")
	b.WriteString("| work | peer, at its best | runlane | peer | ratio | aim | met |\n| --- | --- | ---: | ---: | ---: | --- | --- |\n")
	for _, r := range rows {
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s | %s |\n", cell(r.Name), cell(r.Peer), figure(r.Ours, r.Unit), figure(r.Them, r.Unit),
			fmt.Sprintf("%.4g", round(r.Ratio())), r.Aim, verdict(r))
	}
	b.WriteString("\n## What a unit of work cost the server\n\nEach cell is runlane / peer.\n\n")
	b.WriteString("| work | unit | commits | round trips | rows | index entries | WAL bytes |\n| --- | --- | ---: | ---: | ---: | ---: | ---: |\n")
	for _, r := range rows {
		if r.Spent.Ours == nil && r.Spent.Them == nil {
			continue
		}
		fmt.Fprintf(&b, "| %s, %s | %s |", cell(r.Name), cell(r.Peer), r.Spent.Unit)
		for _, get := range costs {
			fmt.Fprintf(&b, " %s / %s |", each(r.Spent.Ours, get), each(r.Spent.Them, get))
		}
		b.WriteString("\n")
	}
	writeNotes(&b, rows)
	return b.String()
}

func writeNotes(b *strings.Builder, rows []*Row) {
	title := "\n## Notes\n\n"
	for _, r := range rows {
		for _, note := range r.Notes {
			fmt.Fprintf(b, "%s- %s, %s: %s\n", title, r.Name, r.Peer, note)
			title = ""
		}
	}
}

var costs = []func(*measure.PerUnit) float64{
	func(c *measure.PerUnit) float64 { return c.Commits },
	func(c *measure.PerUnit) float64 { return c.RoundTrips },
	func(c *measure.PerUnit) float64 { return c.Rows },
	func(c *measure.PerUnit) float64 { return c.Entries },
	func(c *measure.PerUnit) float64 { return c.WALBytes },
}

func each(c *measure.PerUnit, get func(*measure.PerUnit) float64) string {
	if c == nil {
		return "–"
	}
	switch v := get(c); {
	case v == 0:
		return "0"
	case v < 0.01:
		return fmt.Sprintf("%.4f", v)
	case v < 100:
		return fmt.Sprintf("%.2f", v)
	default:
		return fmt.Sprintf("%.0f", v)
	}
}

func verdict(r *Row) string {
	switch met := r.Aim.Met(r.Ratio()); {
	case met == nil:
		return ""
	case *met:
		return "yes"
	}
	return "**no**"
}

func figure(v float64, u Unit) string {
	if math.Abs(v) >= 100 {
		return thousands(fmt.Sprintf("%.0f", v)) + " " + string(u)
	}
	return fmt.Sprintf("%.4g", v) + " " + string(u)
}

// thousands separates groups of three digits.
func thousands(digits string) string {
	sign := ""
	if strings.HasPrefix(digits, "-") {
		sign, digits = "-", digits[1:]
	}
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return sign + digits
}

func cell(text string) string { return strings.ReplaceAll(text, "|", "\\|") }
