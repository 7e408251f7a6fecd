// Package demo_test runs `runlane demo` the way a person does: as a process of
// its own, on trees of a few hundred files.
package demo_test

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// built is the program under test.
var built string

func TestMain(m *testing.M) {
	code, err := buildAndRun(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// lookAtSources reads the folders of the module. The go command keeps the results
// of tests and cannot know of a program that a test builds, but it remembers what a
// test looked at (not what TestMain did), and runs it again when that has changed.
var lookAtSources = sync.OnceValue(func() error {
	const module = "../.."
	return filepath.WalkDir(module, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && path != module && strings.HasPrefix(d.Name(), ".") {
			return fs.SkipDir
		}
		return err
	})
})

// buildAndRun builds the program into a folder that everybody can enter, since
// some tests run it as another user.
func buildAndRun(m *testing.M) (code int, err error) {
	dir, err := os.MkdirTemp("/tmp", "runlane-demo-")
	if err != nil {
		return 0, err
	}
	defer func() {
		if gone := os.RemoveAll(dir); err == nil {
			err = gone
		}
	}()
	if err := os.Chmod(dir, 0o755); err != nil {
		return 0, err
	}
	built = filepath.Join(dir, "runlane")
	build := exec.Command("go", "build", "-o", built, "../../cmd/runlane")
	build.Stdout, build.Stderr = os.Stderr, os.Stderr
	if err := build.Run(); err != nil {
		return 0, fmt.Errorf("building the program: %w", err)
	}
	return m.Run(), nil
}
