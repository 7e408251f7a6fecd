package main

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestPatches holds what the full run takes minutes to find out: that each patch
// fits the code, and that the test which it names exists.
func TestPatches(t *testing.T) {
	root, err := rootFolder(t.Context())
	require.NoError(t, err)
	all, err := load("patches")
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(all), 30)
	dir := t.TempDir()
	require.NoError(t, copyTree(t.Context(), root, dir))
	names := regexp.MustCompile(`Test[A-Za-z0-9_]+`)
	for _, m := range all {
		t.Run(m.name, func(t *testing.T) {
			out, err := m.apply(context.Background(), dir, "--check")
			require.NoError(t, err, out)
			folder, pattern, ok := strings.Cut(m.kill, " ")
			require.True(t, ok)
			name := names.FindString(pattern)
			require.NotEmpty(t, name, "the test is named")
			require.True(t, declares(t, filepath.Join(root, folder), name), "%s has no %s", folder, name)
		})
	}
}

func declares(t *testing.T, folder, name string) bool {
	files, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
	require.NoError(t, err)
	for _, file := range files {
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		if strings.Contains(string(data), "func "+name+"(t *testing.T)") {
			return true
		}
	}
	return false
}

func TestParse(t *testing.T) {
	m, err := parse("a", []byte("# break: it\n# kill: ./x -run TestX\n# short\n--- a/x.go\n+++ b/x.go\n"))
	require.NoError(t, err)
	require.Equal(t, &mutant{name: "a", breaks: "it", kill: "./x -run TestX", short: true, patch: []byte("--- a/x.go\n+++ b/x.go\n")}, m)
	for _, bad := range []string{"", "# break: it\n--- a/x.go\n+++ b/x.go\n", "# kill: x\n--- a/x.go\n+++ b/x.go\n", "# break: it\n# kill: x\n", "# what: it\n"} {
		_, err := parse("a", []byte(bad))
		require.Error(t, err, "%q", bad)
	}
}
