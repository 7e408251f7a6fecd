package policy_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/policy"
)

// shape is one text of the corpus.
type shape struct {
	refused bool
	golang  bool
	title   string
	also    []string // other codes that it must be refused with
	text    string
}

// shapes reads a file of the corpus: a line "=== refuse TITLE" or "=== pass TITLE",
// then the text. A title that begins with "go" is of a Go file; one that ends with
// "also CODE…" is refused with those rules as well.
func shapes(t *testing.T, file string) (list []shape) {
	t.Helper()
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	for _, part := range strings.Split("\n"+string(data), "\n=== ")[1:] {
		head, text, ok := strings.Cut(part, "\n")
		require.True(t, ok, "%s: %q has no text", file, head)
		kind, title, _ := strings.Cut(head, " ")
		require.Contains(t, []string{"refuse", "pass"}, kind)
		s := shape{refused: kind == "refuse", golang: title == "go" || strings.HasPrefix(title, "go:"), title: title, text: text}
		if _, also, ok := strings.Cut(title, "also "); ok {
			s.also = strings.Fields(also)
		}
		list = append(list, s)
	}
	return list
}

// TestCorpus holds, for every rule, texts that it must refuse and look-alikes that
// must pass, with every rule turned on. A text may be refused by its own rule only.
func TestCorpus(t *testing.T) {
	files, err := filepath.Glob("testdata/corpus/*.txt")
	require.NoError(t, err)
	total := 0
	for _, file := range files {
		code := strings.TrimSuffix(filepath.Base(file), ".txt")
		t.Run(code, func(t *testing.T) {
			list := shapes(t, file)
			total += len(list)
			refused := 0
			for i, s := range list {
				if s.refused {
					refused++
				}
				name := "a.sql"
				if s.golang {
					name = "a.go"
				}
				t.Run(fmt.Sprintf("%d %s", i+1, s.title), func(t *testing.T) {
					found := checkText(t, name, s.text, everyRule(code))
					want := slices.Clone(s.also)
					if s.refused {
						want = append(want, code)
					}
					slices.Sort(want)
					assert.Equal(t, want, codes(found), "%s\n%s", s.text, describe(found))
				})
			}
			if code > "SP1" {
				assert.GreaterOrEqual(t, len(list), 12, "shapes")
				assert.GreaterOrEqual(t, 2*(len(list)-refused), len(list), "look-alikes")
				assert.GreaterOrEqual(t, refused, 6, "refused shapes")
			}
		})
	}
	assert.GreaterOrEqual(t, total, 150)
	for _, r := range policy.Rules() {
		if r.Code > "SP1" && r.Code < "SP9" {
			assert.Contains(t, files, filepath.Join("testdata/corpus", string(r.Code)+".txt"), "%s has no corpus", r.Code)
		}
	}
}

// everyRule turns on the rules that are off. A text that is to show one of these may
// break others of them, which are left off then.
func everyRule(code string) string {
	var b strings.Builder
	for _, r := range policy.Rules() {
		if r.Level == "off" && string(r.Code) == code {
			fmt.Fprintf(&b, "rule | %s | refuse | - | shown here\n", r.Code)
		}
	}
	return b.String()
}

// checkText checks one file.
func checkText(t *testing.T, name, text, inventory string) []policy.Finding {
	t.Helper()
	dir := t.TempDir()
	write(t, dir, map[string]string{name: text, "policy": inventory})
	report, err := policy.Check(policy.Options{Paths: []string{filepath.Join(dir, name)}, Inventory: filepath.Join(dir, "policy")})
	require.NoError(t, err)
	return report.Findings
}

// write makes files below a folder.
func write(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		full := filepath.Join(dir, filepath.FromSlash(name))
		require.NoError(t, os.MkdirAll(filepath.Dir(full), 0o755))
		require.NoError(t, os.WriteFile(full, []byte(text), 0o644))
	}
}

// codes are the codes of findings, each once, in order.
func codes(findings []policy.Finding) []string {
	var list []string
	for _, f := range findings {
		list = append(list, f.Code)
	}
	slices.Sort(list)
	return slices.Compact(list)
}

func describe(findings []policy.Finding) string {
	var b strings.Builder
	for _, f := range findings {
		fmt.Fprintf(&b, "%d:%d: %s %s %s\n", f.Line, f.Column, f.Code, f.Object, f.Note)
	}
	return b.String()
}
