package specification_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var (
	bug     = regexp.MustCompile(`^\| ([0-9]+) \| .+ \| .+ \| [0-9]{4}-[0-9]{2}-[0-9]{2} \| (.+) \|$`)
	command = regexp.MustCompile("^`go test -run \"(Test[A-Za-z]+)(/[^\"]+)?\" \\./([a-z/]+)`$")
)

// TestRegressions finds the test that each command of docs/regressions.md runs.
func TestRegressions(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "docs", "regressions.md"))
	require.NoError(t, err)
	suite := parse(t, "storage/storagetest")
	n := 0
	for _, l := range strings.Split(string(text), "\n") {
		m := bug.FindStringSubmatch(l)
		if m == nil {
			require.NotRegexp(t, `^\|\s*[0-9]`, l, "a row that cannot be read")
			continue
		}
		n++
		assert.Equal(t, strconv.Itoa(n), m[1], "rows have no gap")
		run := command.FindStringSubmatch(m[2])
		require.NotNil(t, run, "row %d has no command: %s", n, m[2])
		p := parse(t, run[3])
		assert.True(t, p.functions[run[1]], "row %d: there is no %s in %s", n, run[1], run[3])
		for _, sub := range strings.Split(strings.TrimPrefix(run[2], "/"), "/") {
			// Subtests have the names of texts in the code, or of folders in testdata.
			_, missing := os.Stat(filepath.Join(root, run[3], "testdata", sub))
			assert.True(t, sub == "" || p.texts[sub] || suite.texts[sub] || missing == nil, "row %d: %s has no subtest %q", n, run[1], sub)
		}
	}
	require.NotZero(t, n)
}
