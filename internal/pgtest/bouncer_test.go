package pgtest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// bouncerHelperEnv makes the test binary a process that starts a PgBouncer for the
// database URL that it holds, prints what it started, and waits for its end.
const bouncerHelperEnv = "RUNLANE_PGTEST_BOUNCER"

type bouncerReport struct {
	URL, Dir, Error string
	Bouncer, Guard  int
}

func init() {
	target := os.Getenv(bouncerHelperEnv)
	if target == "" {
		return
	}
	var r bouncerReport
	b, err := startBouncer(context.Background(), target, 1)
	if err != nil {
		r.Error = err.Error()
	} else {
		r = bouncerReport{URL: b.url, Dir: b.dir, Bouncer: b.cmd.Process.Pid, Guard: b.guard.Process.Pid}
	}
	_ = json.NewEncoder(os.Stdout).Encode(r)
	_, _ = io.Copy(io.Discard, os.Stdin)
	os.Exit(0) // as abruptly as a crash: nothing is stopped
}

func backend(t *testing.T, conn *pgx.Conn) (pid int) {
	t.Helper()
	require.NoError(t, conn.QueryRow(t.Context(), "select pg_backend_pid()", pgx.QueryExecModeExec).Scan(&pid))
	return pid
}

// In session mode the second client would wait for the end of the first; statement
// mode refuses transactions.
func TestBounceIsInTransactionMode(t *testing.T) {
	db := New(t)
	bounced := Bounce(t, db, 1)
	require.Equal(t, []string{db.Name, db.Schema}, []string{bounced.Name, bounced.Schema})
	require.NotEqual(t, db.Config(t).ConnConfig.Port, bounced.Config(t).ConnConfig.Port)

	a, b := connect(t, bounced.URL), connect(t, bounced.URL)
	require.Equal(t, backend(t, a), backend(t, b))
	for _, conn := range []*pgx.Conn{a, b} {
		tx, err := conn.Begin(t.Context())
		require.NoError(t, err)
		_, err = tx.Exec(t.Context(), "create temporary table mine on commit drop as select 1")
		require.NoError(t, err)
		require.NoError(t, tx.Commit(t.Context()))
	}
	var name string
	require.NoError(t, a.QueryRow(t.Context(), "select current_database()", pgx.QueryExecModeExec).Scan(&name))
	require.Equal(t, db.Name, name)
}

// Two transactions of one client meet different server connections, so that a test
// cannot pass by chance.
func TestBounceTakesTurns(t *testing.T) {
	const connections = 3
	url := Bounce(t, New(t), connections).URL
	var open []pgx.Tx
	for range connections { // a connection is made when there is need of it
		tx, err := connect(t, url).Begin(t.Context())
		require.NoError(t, err)
		open = append(open, tx)
	}
	for _, tx := range open {
		require.NoError(t, tx.Commit(t.Context()))
	}
	conn, seen := connect(t, url), map[int]bool{}
	for range connections {
		seen[backend(t, conn)] = true
	}
	require.Len(t, seen, connections)
}

func TestBounceAsksForThePassword(t *testing.T) {
	config := Bounce(t, New(t), 1).Config(t).ConnConfig
	config.Password = "guessed"
	conn, err := pgx.ConnectConfig(t.Context(), config)
	if err == nil {
		conn.Close(t.Context())
	}
	require.ErrorContains(t, err, "SASL authentication failed")
}

func TestBouncerVersion(t *testing.T) {
	major, minor := BouncerVersion(t)
	require.Positive(t, major)
	out, err := exec.Command("/bin/sh", "-c", `"$(sh ../../scripts/deps.sh --find-pgbouncer)" --version`).Output()
	require.NoError(t, err)
	require.Contains(t, string(out), fmt.Sprintf("PgBouncer %d.%d.", major, minor))
}

func TestBouncerEndsWithItsTest(t *testing.T) {
	db := New(t)
	b, err := startBouncer(t.Context(), db.URL, 1)
	require.NoError(t, err)
	pids := []int{b.cmd.Process.Pid, b.guard.Process.Pid}
	require.True(t, runs(pids[0]) && runs(pids[1]))
	require.NoError(t, b.stop())
	for _, pid := range pids {
		require.False(t, runs(pid))
	}
	require.NoDirExists(t, b.dir)
}

// A test that is killed leaves nothing behind.
func TestBouncerEndsWithItsProcess(t *testing.T) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), bouncerHelperEnv+"="+New(t).URL)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	defer stdin.Close()
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	var r bouncerReport
	require.NoError(t, json.NewDecoder(stdout).Decode(&r))
	require.Empty(t, r.Error)
	backend(t, connect(t, r.URL))

	require.NoError(t, cmd.Process.Kill())
	_ = cmd.Wait()
	eventually(t, fmt.Sprintf("the end of %+v", r), func() bool {
		_, err := os.Stat(r.Dir)
		return !runs(r.Bouncer) && !runs(r.Guard) && os.IsNotExist(err)
	})
}

func TestMissingBouncerFailsTheTest(t *testing.T) {
	out, err := runTests(t, "^TestBounceIsInTransactionMode$", withEnv(bouncerEnv+"=/nowhere/pgbouncer"))
	require.Error(t, err, "a test without PgBouncer must fail")
	require.Contains(t, out, "pgtest: RUNLANE_PGBOUNCER=/nowhere/pgbouncer: ")
	require.NotContains(t, out, "SKIP")

	t.Setenv(bouncerEnv, "")
	t.Setenv("PATH", t.TempDir())
	hidden := bouncerFolders
	t.Cleanup(func() { bouncerFolders = hidden })
	bouncerFolders = nil
	_, err = findBouncer()
	require.ErrorIs(t, err, errNoBouncer)
	require.ErrorContains(t, err, "make deps")
}

// TestDepsScriptSearchesTheSameBouncer compares the script with the search.
func TestDepsScriptSearchesTheSameBouncer(t *testing.T) {
	compare := func() {
		t.Helper()
		path, err := findBouncer()
		if err != nil {
			path = ""
		}
		out, _ := exec.Command("/bin/sh", "../../scripts/deps.sh", "--find-pgbouncer").Output()
		require.Equal(t, path, strings.TrimSpace(string(out)))
	}
	t.Setenv(bouncerEnv, "")
	compare()
	t.Setenv("PATH", "/usr/bin:/bin")
	compare()
	bin := t.TempDir()
	program := filepath.Join(bin, "pgbouncer")
	require.NoError(t, os.WriteFile(program, []byte("#!/bin/sh\n"), 0o755))
	t.Setenv(bouncerEnv, program)
	compare()
	t.Setenv(bouncerEnv, "/nowhere/pgbouncer")
	compare()
	t.Setenv(bouncerEnv, "")
	t.Setenv("PATH", bin+":/usr/bin:/bin")
	compare()
}

// A start that fails says why, and leaves nothing.
func TestBouncerThatDoesNotStart(t *testing.T) {
	program := filepath.Join(publicDir(t), "pgbouncer")
	require.NoError(t, os.WriteFile(program, []byte("#!/bin/sh\necho out of order >&2\nexit 1\n"), 0o755))
	t.Setenv(bouncerEnv, program)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	_, err := startBouncer(ctx, "postgres://a:b@127.0.0.1:1/c", 1)
	require.ErrorContains(t, err, "PgBouncer did not start")
	require.ErrorContains(t, err, "out of order")
}
