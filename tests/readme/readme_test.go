// Package readme_test keeps the README's promises: its program is the one in
// examples/hello, and that one runs; its versions are those of the driver.
package readme_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/internal/pgtest"
	"github.com/seed4391e180/runlane/storage/postgres"
)

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", path))
	require.NoError(t, err)
	return string(text)
}

func TestProgram(t *testing.T) {
	program := read(t, "examples/hello/main.go")
	_, program, ok := strings.Cut(program, "\nfunc main() {")
	require.True(t, ok)
	require.Contains(t, read(t, "README.md"), "func main() {"+program, "the README's program is examples/hello")

	db := pgtest.New(t)
	for range 2 { // the second time the key stands for the run of the first
		cmd := exec.CommandContext(context.Background(), "go", "run", ".")
		cmd.Dir = filepath.Join("..", "..", "examples", "hello")
		cmd.Env = append(os.Environ(), "DATABASE_URL="+db.URL)
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
		require.Regexp(t, regexp.MustCompile(`^hello, world, from run [0-9a-f-]{36}\n$`), string(out))
	}
	var runs int
	require.NoError(t, db.Pool(t).QueryRow(t.Context(), "SELECT count(*) FROM runlane.runlane_runs").Scan(&runs))
	require.Equal(t, 1, runs)
}

func TestVersions(t *testing.T) {
	readme := read(t, "README.md")
	require.Contains(t, readme, fmt.Sprintf("PostgreSQL %d", postgres.OldestServer))
	require.Contains(t, readme, fmt.Sprintf("PostgreSQL %d is the newest", postgres.NewestServer))
	goMod := read(t, "go.mod")
	version := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindStringSubmatch(goMod)
	require.NotNil(t, version)
	require.Contains(t, readme, "Go "+version[1])
}

// TestNamedFiles finds every file and folder that the documents link to.
func TestNamedFiles(t *testing.T) {
	for _, doc := range []string{"README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"} {
		for _, link := range regexp.MustCompile(`\]\(([^)#:]+)\)`).FindAllStringSubmatch(read(t, doc), -1) {
			_, err := os.Stat(filepath.Join("..", "..", link[1]))
			require.NoError(t, err, "%s links to %s", doc, link[1])
		}
	}
}
