package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/policy"
	"github.com/seed4391e180/runlane/policy/internal/grammar"
)

const asCommand = "SQLPOLICY_TEST_RUNS_THE_COMMAND"

// TestMain lets the test program be the command, so that its memory and its exit code
// can be seen from outside.
func TestMain(m *testing.M) {
	if os.Getenv(asCommand) != "" {
		main()
	}
	os.Exit(m.Run())
}

func TestExitCodes(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		full := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(full, []byte(text), 0o644))
		return full
	}
	good, bad, empty := file("good.sql", "SELECT 1"), file("bad.sql", "LOCK TABLE t"), filepath.Join(dir, "empty")
	require.NoError(t, os.Mkdir(empty, 0o755))
	warns := file("warns", "rule | SP103 | warn | - | tried out")
	broken := file("broken", "SP103 | bad.sql")
	for _, c := range []struct {
		args []string
		code int
		out  string // in the report or the error
	}{
		{[]string{"check", good}, 0, "0 findings, 0 listed or allowed; 1 statements in 1 SQL files and 0 Go files, by the grammar of PostgreSQL 17"},
		{[]string{"check", bad}, 1, "bad.sql:1:1: SP103 lock-table: t\n    why: "},
		{[]string{"check", "--inventory", warns, bad}, 0, "bad.sql:1:1: warning: SP103 lock-table: t"},
		{[]string{"check", "--format", "json", bad}, 1, `"code": "SP103"`},
		{[]string{"check", "--format", "sarif", bad}, 1, `"ruleId": "SP103"`},
		{[]string{"check", "--format", "xml", bad}, 2, `there is no format "xml"`},
		{[]string{"check", "--inventory", broken, bad}, 2, "broken:1: want"},
		{[]string{"check", empty}, 2, "neither SQL nor Go"},
		{[]string{"check", good, filepath.Join(dir, "nowhere")}, 2, "no such file"},
		{[]string{"check"}, 2, "no path was given"},
		{[]string{"check", "--nothing"}, 2, "flag provided but not defined"},
		{[]string{"check", "--help"}, 0, "usage:"},
		{[]string{"start", bad}, 0, "bad.sql | t | 1 | - | TODO: why this exists"},
		{[]string{"rules"}, 0, "SP103 lock-table (refuse)"},
		{[]string{"help"}, 0, "exit codes"},
		{[]string{"chekc"}, 2, `there is no command "chekc"`},
		{nil, 2, "usage:"},
	} {
		var out, problems bytes.Buffer
		code := run(c.args, &out, &problems)
		assert.Equal(t, c.code, code, "%v\n%s%s", c.args, out.String(), problems.String())
		assert.Contains(t, out.String()+problems.String(), c.out, "%v", c.args)
	}
}

// TestStart: what start prints is a policy file with which the check is clean, and
// what the check says of a new lock is a line that lists it.
func TestStart(t *testing.T) {
	dir := t.TempDir()
	sql := "LOCK TABLE \"a|b\";\nSELECT pg_advisory_lock(1);\nSELECT pg_advisory_lock(2);\nSELECT 1 FROM t FOR UPDATE;\nSELEKT;\n\\i x.sql\n"
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a.sql"), []byte(sql), 0o644))
	list := filepath.Join(dir, "list")
	require.NoError(t, os.WriteFile(list, nil, 0o644))
	call := func(args ...string) (int, string) {
		var out, problems bytes.Buffer
		code := run(args, &out, &problems)
		require.Empty(t, problems.String())
		return code, out.String()
	}
	_, start := call("start", "--inventory", list, dir)
	assert.Equal(t, 5, strings.Count(start, "\n"), start)
	require.NoError(t, os.WriteFile(list, []byte(start), 0o644))
	code, out := call("check", "--inventory", list, dir)
	assert.Equal(t, 0, code, out)

	require.NoError(t, os.WriteFile(filepath.Join(dir, "a.sql"), []byte(sql+"LOCK TABLE new;"), 0o644))
	code, out = call("check", "--inventory", list, dir)
	assert.Equal(t, 1, code)
	_, line, ok := strings.Cut(out, "if it is approved, list it: ")
	require.True(t, ok, out)
	line, _, _ = strings.Cut(line, "\n")
	require.NoError(t, os.WriteFile(list, []byte(start+line), 0o644))
	code, out = call("check", "--inventory", list, dir)
	assert.Equal(t, 0, code, out)
}

// TestSpeed: a thousand migrations take less than five seconds of two processors, and
// less than 400 MB.
func TestSpeed(t *testing.T) {
	if !grammar.Compiled {
		t.Skip("WebAssembly begins each run with seconds of compilation and needs more memory: docs/policy.md says how much")
	}
	dir := t.TempDir()
	bytes := 0
	r := rand.New(rand.NewPCG(1, 2))
	for i := range 1000 {
		text := migration(r, i)
		bytes += len(text)
		require.NoError(t, os.WriteFile(filepath.Join(dir, fmt.Sprintf("%04d.sql", i)), []byte(text), 0o644))
	}
	self, err := os.Executable()
	require.NoError(t, err)
	command := exec.Command(self, "check", dir)
	command.Env = append(os.Environ(), asCommand+"=1", "GOMAXPROCS=2")
	begun := time.Now()
	out, err := command.Output()
	took := time.Since(begun)
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit)
	require.Equal(t, findings, exit.ExitCode(), string(exit.Stderr))
	require.Contains(t, string(out), " in 1000 SQL files")
	processor := command.ProcessState.UserTime() + command.ProcessState.SystemTime()
	t.Logf("%d kB in 1000 files: %v of processor time, %v in all; %s", bytes>>10, processor, took, lastLine(string(out)))
	assert.Less(t, processor, 10*time.Second)
	// Linux counts the size of a process in kilobytes, other systems in other units.
	if usage, ok := command.ProcessState.SysUsage().(*syscall.Rusage); ok && runtime.GOOS == "linux" {
		t.Logf("%d MB at most", usage.Maxrss>>10)
		assert.Less(t, usage.Maxrss>>10, int64(400))
	}
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}

// migration is a migration of the usual kind: a few tables with their indexes, a
// backfill, now and then a function, a trigger or a CHECK.
func migration(r *rand.Rand, n int) string {
	var b strings.Builder
	for i := range 1 + r.IntN(4) {
		table := fmt.Sprintf("t_%d_%d", n, i)
		fmt.Fprintf(&b, "-- what the table is for\nCREATE TABLE app.%s (\n  id bigint PRIMARY KEY,\n  tenant_id bigint NOT NULL REFERENCES tenants (id)", table)
		for c := range 5 + r.IntN(20) {
			fmt.Fprintf(&b, ",\n  column_%d %s", c, []string{"text NOT NULL DEFAULT ''", "jsonb", "timestamptz NOT NULL DEFAULT now()", "numeric(10, 2) NULL"}[r.IntN(4)])
		}
		if r.IntN(4) == 0 {
			b.WriteString(",\n  CHECK (column_0 IS NOT NULL)")
		}
		b.WriteString("\n);\n")
		fmt.Fprintf(&b, "CREATE INDEX CONCURRENTLY ON app.%s (tenant_id, (lower(column_1::text))) WHERE column_2 IS NOT NULL;\n", table)
		fmt.Fprintf(&b, "UPDATE app.%s SET column_1 = coalesce((SELECT o.column_1 FROM app.other o WHERE o.id = %s.id), 'none') WHERE id IN (1, 2, 3);\n", table, table)
	}
	if r.IntN(3) == 0 {
		fmt.Fprintf(&b, "CREATE FUNCTION f_%d() RETURNS trigger LANGUAGE plpgsql AS $$\nDECLARE\n  n int;\nBEGIN\n  SELECT count(*) INTO n FROM app.other;\n  IF n > 1 THEN\n    NEW.column_1 := n::text;\n  END IF;\n  RETURN NEW;\nEND $$;\n", n)
		fmt.Fprintf(&b, "CREATE TRIGGER x BEFORE UPDATE ON app.t_%d_0 FOR EACH ROW EXECUTE FUNCTION f_%d();\n", n, n)
	}
	return b.String()
}

// TestManual: the manual names every rule with its level.
func TestManual(t *testing.T) {
	manual, err := os.ReadFile("../../../docs/policy.md")
	require.NoError(t, err)
	for _, r := range policy.Rules() {
		assert.Contains(t, string(manual), fmt.Sprintf("| %s | %s | %s |", r.Code, r.Name, r.Level))
	}
}
