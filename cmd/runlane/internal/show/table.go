package show

import (
	"slices"
	"strings"

	"github.com/clipperhouse/displaywidth"
)

// Screen is what a table is written for.
type Screen struct {
	Width int  // in columns; 0: as wide as it takes
	Color bool // colours are understood, and wanted
}

// Column is one column of a table.
type Column struct {
	Title string
	// Least is how far the column may be cut on a narrow screen; 0: not at all.
	Least int
	// Spare columns are left out, those with the largest number first, when cutting is
	// not enough; 0: never.
	Spare int
	// Color is the code by which a value is coloured; nil: none.
	Color func(value string) string
}

// Table lays out rows. Columns keep the width they once had from one call of Write to
// the next, so that rows which are added stay aligned with those above.
type Table struct {
	Columns []Column
	widths  []int
}

const gap = "  "

// Text returns the rows as lines, beneath a line of titles if titled.
func (t *Table) Text(s Screen, titled bool, rows [][]string) string {
	all := make([][]string, 0, len(rows)+1)
	titles := make([]string, len(t.Columns))
	for i, c := range t.Columns {
		titles[i] = c.Title
	}
	all = append(all, titles)
	for _, row := range rows {
		clean := make([]string, len(row))
		for i := range row {
			clean[i] = Clean(row[i])
		}
		all = append(all, clean)
	}
	if t.widths == nil {
		t.widths = make([]int, len(t.Columns))
	}
	for _, row := range all {
		for i, cell := range row {
			t.widths[i] = max(t.widths[i], displaywidth.String(cell))
		}
	}
	widths := t.fit(s.Width)
	if !titled {
		all = all[1:]
	}
	var b strings.Builder
	for i, row := range all {
		t.line(&b, row, widths, s.Color && (!titled || i > 0))
	}
	return b.String()
}

// fit returns the widths that a screen has room for; -1 is a column left out.
func (t *Table) fit(screen int) []int {
	widths := slices.Clone(t.widths)
	for screen > 0 && total(widths) > screen {
		cut := -1
		for i, c := range t.Columns {
			if c.Least > 0 && widths[i] > c.Least && (cut < 0 || widths[i] > widths[cut]) {
				cut = i
			}
		}
		if cut >= 0 {
			widths[cut]--
			continue
		}
		out := -1
		for i, c := range t.Columns {
			if widths[i] >= 0 && c.Spare > 0 && (out < 0 || c.Spare > t.Columns[out].Spare) {
				out = i
			}
		}
		if out < 0 {
			break
		}
		copy(widths, t.widths) // with that column gone, the others may need no cut
		t.leaveOut(widths, t.Columns[out].Spare)
	}
	return widths
}

func (t *Table) leaveOut(widths []int, spare int) {
	for i, c := range t.Columns {
		if c.Spare >= spare {
			widths[i] = -1
		}
	}
}

func total(widths []int) int {
	sum := -len(gap)
	for _, w := range widths {
		if w >= 0 {
			sum += w + len(gap)
		}
	}
	return sum
}

func (t *Table) line(b *strings.Builder, row []string, widths []int, color bool) {
	var line strings.Builder
	pending := 0
	for i, cell := range row {
		if widths[i] < 0 {
			continue
		}
		code := ""
		if color && t.Columns[i].Color != nil {
			code = t.Columns[i].Color(cell)
		}
		if displaywidth.String(cell) > widths[i] {
			cell = displaywidth.TruncateString(cell, widths[i], "…")
		}
		if cell != "" {
			line.WriteString(strings.Repeat(" ", pending))
			pending = 0
		}
		pending += widths[i] - displaywidth.String(cell) + len(gap)
		if code != "" && cell != "" {
			cell = "\x1b[" + code + "m" + cell + "\x1b[0m"
		}
		line.WriteString(cell)
	}
	b.WriteString(line.String() + "\n")
}
