// Command mutants breaks the code in ways that its tests must notice. Each file of
// patches/ is one break: it is applied to a copy of the tree, and the test that it
// names must fail there.
//
//	go run ./tests/mutants [-only text] [-short] [-v]
//
// A patch begins with a header:
//
//	# break: what no longer holds
//	# kill: ./internal/txn -run '^TestName$'
//	# short
//
// "kill" are arguments of go test. "short" marks what the short form runs too. A
// mutant that does not compile proves nothing, and is a failure of its own.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"time"
)

const patience = 5 * time.Minute // for one mutant

func main() {
	only := flag.String("only", "", "run the mutants whose name contains this")
	short := flag.Bool("short", false, "run the mutants that are marked as short")
	verbose := flag.Bool("v", false, "show what the tests print")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, *only, *short, *verbose)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, only string, short, verbose bool) error {
	root, err := rootFolder(ctx)
	if err != nil {
		return err
	}
	all, err := load(filepath.Join(root, "tests", "mutants", "patches"))
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "mutants")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := copyTree(ctx, root, dir); err != nil {
		return err
	}
	ran, bad := 0, 0
	for _, m := range all {
		if !strings.Contains(m.name, only) || short && !m.short {
			continue
		}
		ran++
		began := time.Now()
		output, err := m.try(ctx, dir)
		verdict := "killed"
		if err != nil {
			bad++
			verdict = err.Error()
		}
		fmt.Printf("%-9s %5.1fs  %-34s %s\n", verdict, time.Since(began).Seconds(), m.name, m.breaks)
		if verbose || err != nil {
			fmt.Println(output)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	switch {
	case ran == 0:
		return errors.New("no mutant was selected")
	case bad > 0:
		return fmt.Errorf("%d of %d mutants were not killed", bad, ran)
	}
	fmt.Printf("%d mutants killed\n", ran)
	return nil
}

func rootFolder(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}").Output()
	return strings.TrimSpace(string(out)), err
}

// copyTree copies what belongs to the repository, committed or not.
func copyTree(ctx context.Context, root, dir string) error {
	cmd := exec.CommandContext(ctx, "git", "ls-files", "-co", "--exclude-standard", "-z")
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("list the files of the repository: %w", err)
	}
	for name := range strings.SplitSeq(strings.TrimRight(string(out), "\x00"), "\x00") {
		data, err := os.ReadFile(filepath.Join(root, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue // deleted and not committed yet
		}
		if err != nil {
			return err
		}
		to := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(to, data, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// The ways in which a mutant is not killed.
var (
	errSurvived = errors.New("SURVIVED")
	errInvalid  = errors.New("INVALID")
)

// try applies the patch in dir, runs the test that must fail, and takes the patch back.
func (m *mutant) try(ctx context.Context, dir string) (output string, err error) {
	if out, err := m.apply(ctx, dir); err != nil {
		return out, errInvalid
	}
	defer func() {
		if out, reverse := m.apply(context.WithoutCancel(ctx), dir, "--reverse"); reverse != nil {
			panic("a patch cannot be taken back: " + out)
		}
	}()
	bounded, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	cmd := exec.CommandContext(bounded, "sh", "-c", "go test -count=1 -timeout 4m "+m.kill)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	switch {
	case err == nil:
		return string(out), errSurvived
	case bytes.Contains(out, []byte("--- FAIL")) || bytes.Contains(out, []byte("panic: test timed out")):
		return string(out), nil
	}
	return string(out), errInvalid
}

func (m *mutant) apply(ctx context.Context, dir string, flags ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", append(append([]string{"apply"}, flags...), "-")...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CEILING_DIRECTORIES="+filepath.Dir(dir))
	cmd.Stdin = bytes.NewReader(m.patch)
	out, err := cmd.CombinedOutput()
	return string(out), err
}
