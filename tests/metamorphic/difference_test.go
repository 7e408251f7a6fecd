package metamorphic_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// difference is two histories of one script.
type difference struct{ memory, other []string }

// The files of the folder of a difference.
const (
	scriptFile        = "script.json"
	configurationFile = "configuration"
)

// write keeps a difference in a folder of its own.
func (d *difference) write(c *configuration, s script) (folder string, err error) {
	if folder, err = os.MkdirTemp("", "metamorphic-"); err != nil {
		return "", err
	}
	whole := draw(s.Seed)
	for name, text := range map[string]string{
		scriptFile:        s.text(),
		configurationFile: c.name + "\n",
		"seed":            fmt.Sprintln(s.Seed),
		"whole.json":      whole.text(), // before it was shortened
		"memory.txt":      strings.Join(d.memory, "\n") + "\n",
		"other.txt":       strings.Join(d.other, "\n") + "\n",
		"diff.txt":        strings.Join(d.lines(), "\n") + "\n",
		"rerun.sh":        rerunCommand(folder) + "\n",
	} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			return folder, err
		}
	}
	return folder, nil
}

func rerunCommand(folder string) string {
	return "go test ./tests/metamorphic -run TestRerun -folder " + folder
}

// excerpt is the beginning of the difference.
func (d *difference) excerpt() string {
	const shownLines, shownWidth = 16, 500
	lines := d.lines()
	if len(lines) > shownLines {
		lines = append(lines[:shownLines:shownLines], "…")
	}
	for i, l := range lines {
		if r := []rune(l); len(r) > shownWidth {
			lines[i] = string(r[:shownWidth]) + "…"
		}
	}
	return strings.Join(lines, "\n")
}

// lines is a diff: what memory says begins with "-", what the other says with "+", and
// two lines of both stand around each place.
func (d *difference) lines() []string {
	const around = 2
	a, b := d.memory, d.other
	common := longestCommon(a, b)
	var all []string
	marks := []int{} // places in all that differ
	i, j := 0, 0
	for _, pair := range append(common, [2]int{len(a), len(b)}) {
		for ; i < pair[0]; i++ {
			marks, all = append(marks, len(all)), append(all, "-"+a[i])
		}
		for ; j < pair[1]; j++ {
			marks, all = append(marks, len(all)), append(all, "+"+b[j])
		}
		if i < len(a) {
			all = append(all, " "+a[i])
		}
		i, j = i+1, j+1
	}
	var shown []string
	heading := ""
	for at, l := range all {
		if strings.HasPrefix(l, " transaction") || strings.HasPrefix(l, " in the end") {
			heading = l
		}
		if slices.ContainsFunc(marks, func(m int) bool { return at-around <= m && m <= at+around }) {
			if heading != "" && heading != l {
				shown = append(shown, heading)
			}
			heading, shown = "", append(shown, l)
		}
	}
	return shown
}

// longestCommon returns the places of a longest common subsequence, in order.
func longestCommon(a, b []string) [][2]int {
	length := make([][]int, len(a)+1)
	for i := range length {
		length[i] = make([]int, len(b)+1)
	}
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			if a[i] == b[j] {
				length[i][j] = length[i+1][j+1] + 1
			} else {
				length[i][j] = max(length[i+1][j], length[i][j+1])
			}
		}
	}
	var pairs [][2]int
	for i, j := 0, 0; i < len(a) && j < len(b); {
		switch {
		case a[i] == b[j]:
			pairs = append(pairs, [2]int{i, j})
			i, j = i+1, j+1
		case length[i+1][j] >= length[i][j+1]:
			i++
		default:
			j++
		}
	}
	return pairs
}
