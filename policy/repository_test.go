package policy_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/policy"
	"github.com/seed4391e180/runlane/policy/internal/inspect"
)

// The repository that this module is part of.
const (
	root      = ".."
	inventory = "../sqlpolicy.inventory"
)

// TestThisRepository: nothing is refused but what the inventory lists, and the
// inventory lists nothing else.
func TestThisRepository(t *testing.T) {
	report, err := policy.Check(policy.Options{Paths: []string{root}, Inventory: inventory})
	require.NoError(t, err)
	assert.Empty(t, report.Findings, describe(report.Findings))
	assert.Greater(t, report.SQLFiles, 30)
	assert.Greater(t, report.GoFiles, 300)

	// A lock that is taken out of the list is refused: the list is not beside the point.
	lines, err := os.ReadFile(inventory)
	require.NoError(t, err)
	for _, code := range []string{"SP101", "SP104", "SP106"} {
		changed := regexp.MustCompile(`(?m)^`+code+` .*\n`).ReplaceAllString(string(lines), "")
		report, err := policy.Check(policy.Options{Paths: []string{root}, Inventory: beside(t, changed)})
		require.NoError(t, err)
		assert.Equal(t, []string{code}, codes(report.Findings))
	}
}

// beside writes a policy file into the folder of the real one, since files are named
// relative to it.
func beside(t *testing.T, text string) string {
	t.Helper()
	file, err := os.CreateTemp(root, "sqlpolicy-*.inventory")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.Remove(file.Name())) })
	_, err = file.WriteString(text)
	require.NoError(t, err)
	require.NoError(t, file.Close())
	return file.Name()
}

// TestLinesAreJustified: every line for the library's own code names its reason and a
// row of the specification that speaks of locks, checks or what they hold.
func TestLinesAreJustified(t *testing.T) {
	text, err := os.ReadFile(inventory)
	require.NoError(t, err)
	lines := 0
	for _, line := range strings.Split(string(text), "\n") {
		fields := strings.Split(line, "|")
		if !strings.HasPrefix(line, "SP") {
			continue
		}
		lines++
		require.Len(t, fields, 6, line)
		assert.Regexp(t, `^ [0-9]+(,[0-9]+)* $`, fields[4], line)
		assert.Greater(t, len(fields[5]), 15, line)
		file := strings.TrimSpace(fields[1])
		assert.True(t, strings.HasPrefix(file, "rawsql/") || strings.HasPrefix(file, "migrations/"), "locks belong to the driver and the migrator: %s", line)
		assert.NotContains(t, line, "_test.go")
	}
	assert.Greater(t, lines, 20)
}

// TestRenderedStatements: what the driver sends holds the same locks as the templates
// that the inventory lists, so no hole hides one.
func TestRenderedStatements(t *testing.T) {
	listed := map[string]bool{}
	text, err := os.ReadFile(inventory)
	require.NoError(t, err)
	for _, line := range strings.Split(string(text), "\n") {
		if fields := strings.Split(line, " | "); len(fields) == 6 && strings.HasPrefix(fields[1], "rawsql/") {
			listed[fields[0]+" "+fields[2]] = true
		}
	}
	files, err := filepath.Glob("../storage/postgres/testdata/*.sql")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	heading := regexp.MustCompile(`(?m)^-- .*\n`)
	rendered := map[string]bool{}
	statements := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, sql := range heading.Split(string(text), -1) {
			if strings.TrimSpace(sql) == "" {
				continue
			}
			r := inspect.Text(sql)
			statements += r.Statements
			for _, h := range r.Hits {
				rendered[string(h.Code)+" "+h.Object] = true
			}
		}
	}
	assert.Greater(t, statements, 50)
	assert.Equal(t, sorted(listed), sorted(rendered))
}

func sorted(set map[string]bool) (list []string) {
	for k := range set {
		list = append(list, k)
	}
	slices.Sort(list)
	return list
}
