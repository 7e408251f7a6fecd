package main

import (
	"bytes"
	"context"
	"encoding/json"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/internal/pgtest"
	"github.com/seed4391e180/runlane/lane"
	"github.com/seed4391e180/runlane/storage/postgres"
)

// TestMain lets a test start this program as a process of its own.
func TestMain(m *testing.M) {
	if os.Getenv("RUNLANE_TEST_MAIN") != "" {
		main()
	}
	os.Exit(m.Run())
}

// reader is a role that may read what operators read, and nothing else. It returns its
// URL and the id of a run.
func reader(t *testing.T) (readerURL, runID string) {
	t.Helper()
	db := pgtest.New(t)
	driver, err := postgres.Open(t.Context(), db.URL, postgres.Config{})
	require.NoError(t, err)
	defer driver.Close()
	l, err := lane.New(driver, lane.Config{Environment: "prod"})
	require.NoError(t, err)
	hello := lane.Define(l, "hello", func(context.Context, *lane.Attempt, json.RawMessage) (string, error) { return "", nil }, lane.TaskOptions{})
	triggered, err := hello.Trigger(t.Context(), json.RawMessage(`{"n":12345678901234567890.10}`), lane.TriggerOptions{})
	require.NoError(t, err)

	conn, err := pgx.Connect(t.Context(), db.URL)
	require.NoError(t, err)
	role := db.Name + "_reader"
	for _, sql := range []string{
		"CREATE ROLE " + role + " LOGIN PASSWORD 'reader'", "GRANT USAGE ON SCHEMA runlane TO " + role,
		"GRANT SELECT ON runlane.runlane_runs, runlane.runlane_record_run_events TO " + role,
	} {
		_, err := conn.Exec(t.Context(), sql)
		require.NoError(t, err, sql)
	}
	t.Cleanup(func() {
		ctx := context.Background()
		defer conn.Close(ctx)
		for _, sql := range []string{"DROP OWNED BY " + role, "DROP ROLE " + role} {
			_, err := conn.Exec(ctx, sql)
			require.NoError(t, err, sql)
		}
	})
	u, err := url.Parse(db.URL)
	require.NoError(t, err)
	u.User = url.UserPassword(role, "reader")
	return u.String(), triggered.RunID
}

// A role that may only read is enough for everything, although the driver's own check
// finds that it lacks rights.
func TestRunsAsAReader(t *testing.T) {
	db, id := reader(t)
	driver, err := postgres.Open(t.Context(), db, postgres.Config{})
	require.NoError(t, err)
	_, err = driver.Check(t.Context())
	require.ErrorContains(t, err, "lacks")
	require.NoError(t, driver.Close())

	runs := func(args ...string) string {
		return succeed(t, append([]string{"runs", "--url", db, "-e", "prod"}, args...)...)
	}
	require.Regexp(t, `(?s)^ID .*`+id+` .*queued`, runs("list"))
	require.Contains(t, runs("list", "--full", "-o", "ndjson"), id)
	require.Regexp(t, `task +hello\n`, runs("get", id))
	require.Regexp(t, id+` +1 +run\.created`, runs("events", id))
	require.Regexp(t, id+` +1 +run\.created`, runs("events"))
	require.Regexp(t, `queued +1\n`, runs("count"))
	require.Regexp(t, `queued +1\n`, runs("count", "--task", "hello", "--created-after", "1d"))
}

func TestRunsFailures(t *testing.T) {
	db, _ := reader(t)
	for name, c := range map[string]struct {
		code int
		args []string
		says string
	}{
		"no command":       {2, []string{}, `"runlane runs" needs a command`},
		"no such run":      {3, []string{"get", "nobody", "--url", db, "-e", "prod"}, "there is no such run"},
		"unsupported":      {2, []string{"list", "--url", db, "-e", "prod", "--task", "x"}, "unsupported filter: tasks"},
		"bad cursor":       {2, []string{"list", "--url", db, "-e", "prod", "--cursor", "x"}, "invalid cursor"},
		"bad limit":        {2, []string{"list", "--url", db, "-e", "prod", "--limit", "501"}, "--limit is 501"},
		"bad range":        {2, []string{"list", "--url", db, "-e", "prod", "--created-after", "1h", "--created-before", "2h"}, "is not before"},
		"no limit":         {2, []string{"list", "--limit", "many"}, "invalid argument"},
		"both directions":  {2, []string{"list", "-e", "prod", "--asc", "--direction", "desc"}, "asc"},
		"bad URL":          {2, []string{"list", "-e", "prod", "--url", "postgres://host:port"}, "the database: "},
		"bad schema":       {2, []string{"list", "-e", "prod", "--url", db, "--schema", "a\x00"}, "schema"},
		"no schema":        {1, []string{"list", "-e", "prod", "--url", db, "--schema", "elsewhere"}, "elsewhere"},
		"nobody there":     {1, []string{"list", "-e", "prod", "--url", "postgres://127.0.0.1:1/none?connect_timeout=5"}, "refused"},
		"watching nobody":  {1, []string{"list", "-e", "prod", "-w", "--url", "postgres://127.0.0.1:1/none?connect_timeout=5"}, "refused"},
		"an argument":      {2, []string{"list", "now"}, `unknown command "now"`},
		"a run is missing": {2, []string{"get"}, "accepts 1 arg"},
	} {
		t.Run(name, func(t *testing.T) {
			code, out, errors := command(t.Context(), append([]string{"runs"}, c.args...)...)
			require.Equal(t, c.code, code, errors)
			require.Empty(t, out)
			require.Contains(t, errors, c.says)
			require.Equal(t, 1, strings.Count(errors, "\n"), errors)
			require.NotContains(t, errors, "reader@")
		})
	}
}

// SIGINT ends a watch, and that is no failure.
func TestWatchIsInterrupted(t *testing.T) {
	db, id := reader(t)
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(self, "runs", "events", "--watch", "--interval", "1h", "-e", "prod", "-o", "ndjson", "--url", db)
	cmd.Env = append(os.Environ(), "RUNLANE_TEST_MAIN=1")
	var errors bytes.Buffer
	cmd.Stderr = &errors
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	decoder := json.NewDecoder(out)
	var event struct{ Run string }
	require.NoError(t, decoder.Decode(&event))
	require.Equal(t, id, event.Run)
	require.NoError(t, cmd.Process.Signal(syscall.SIGINT))
	require.Error(t, decoder.Decode(&event), "the end of the output")
	require.NoError(t, cmd.Wait(), errors.String())
	require.Empty(t, errors.String())
}

// What is no terminal gets no colours, no cuts and no clearing of the screen.
func TestScreen(t *testing.T) {
	require.Zero(t, screen(&bytes.Buffer{}))
	file, err := os.Create(t.TempDir() + "/out")
	require.NoError(t, err)
	defer file.Close()
	require.Zero(t, screen(file))
	null, err := os.Open(os.DevNull)
	require.NoError(t, err)
	defer null.Close()
	require.Zero(t, screen(null))
}
