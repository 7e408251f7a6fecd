package pgtest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"
)

// binEnv names the environment variable with the folder of the server programs.
const binEnv = "RUNLANE_PG_BIN"

// errNoServer tells a person what to do. scripts/deps.sh searches the same
// places in the same order.
var errNoServer = errors.New("no PostgreSQL server programs found: run `make deps`, or set " + binEnv +
	" to the folder that holds postgres and initdb, or set " + urlEnv + " to the URL of a server on which tests may create databases")

// usualFolders are where distributions put the server programs, in the order
// in which they are looked at; of the matches of one pattern the newest version
// comes first.
var usualFolders = []string{
	"/usr/lib/postgresql/*/bin",
	"/usr/pgsql-*/bin",
	"/usr/local/pgsql/bin",
	"/opt/homebrew/opt/postgresql*/bin",
	"/usr/local/opt/postgresql*/bin",
	"/Applications/Postgres.app/Contents/Versions/*/bin",
}

// findBinaries returns the folder that holds postgres and initdb.
func findBinaries() (string, error) {
	if dir := os.Getenv(binEnv); dir != "" {
		if !holdsServer(dir) {
			return "", fmt.Errorf("%s=%s: the folder does not hold the programs postgres and initdb", binEnv, dir)
		}
		return filepath.Abs(dir)
	}
	for _, program := range []string{"initdb", "postgres"} {
		// A program in PATH is often a link out of a folder with only some of
		// the programs, so the folder that counts is the one of the link's end.
		path, err := exec.LookPath(program)
		if err != nil {
			continue
		}
		if path, err = filepath.EvalSymlinks(path); err != nil {
			continue
		}
		if dir := filepath.Dir(path); holdsServer(dir) {
			return filepath.Abs(dir)
		}
	}
	if out, err := exec.Command("pg_config", "--bindir").Output(); err == nil {
		if dir := strings.TrimSpace(string(out)); holdsServer(dir) {
			return dir, nil
		}
	}
	for _, pattern := range usualFolders {
		dirs, err := filepath.Glob(pattern)
		if err != nil {
			return "", err
		}
		slices.SortFunc(dirs, func(a, b string) int { return slices.Compare(numbers(b), numbers(a)) })
		for _, dir := range dirs {
			if holdsServer(dir) {
				return dir, nil
			}
		}
	}
	return "", errNoServer
}

// holdsServer says whether the folder has both programs that make a cluster.
func holdsServer(dir string) bool {
	for _, program := range []string{"postgres", "initdb"} {
		info, err := os.Stat(filepath.Join(dir, program))
		if err != nil || !info.Mode().IsRegular() || info.Mode()&0o111 == 0 {
			return false
		}
	}
	return true
}

// Major returns the major version of the server that [Start] runs, so that a test
// can tell beforehand which settings it has.
func Major(t testing.TB) int {
	t.Helper()
	major, err := majorVersion()
	if err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	return major
}

func majorVersion() (int, error) {
	dir, err := findBinaries()
	if err != nil {
		return 0, err
	}
	// "postgres (PostgreSQL) 18.4", "postgres (PostgreSQL) 19beta1"
	out, err := exec.Command(filepath.Join(dir, "postgres"), "--version").Output()
	if err != nil {
		return 0, fmt.Errorf("%s: %w", filepath.Join(dir, "postgres"), err)
	}
	version := numbers(string(out))
	if len(version) == 0 {
		return 0, fmt.Errorf("%s says %q, which names no version", filepath.Join(dir, "postgres"), out)
	}
	return version[0], nil
}

// numbers returns the numbers in a text: in a path, so that version 10 sorts after 9.6.
func numbers(path string) (all []int) {
	for _, field := range strings.FieldsFunc(path, func(r rune) bool { return !unicode.IsDigit(r) }) {
		if n, err := strconv.Atoi(field); err == nil {
			all = append(all, n)
		}
	}
	return all
}
