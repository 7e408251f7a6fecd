package main

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/internal/pgtest"
	"github.com/seed4391e180/runlane/lane"
	"github.com/seed4391e180/runlane/storage/postgres"
)

// What the command line does to runs reaches PostgreSQL, and what it may not do is one
// line and an exit code.
func TestActions(t *testing.T) {
	db := pgtest.New(t)
	driver, err := postgres.Open(t.Context(), db.URL, postgres.Config{})
	require.NoError(t, err)
	defer driver.Close()
	l, err := lane.New(driver, lane.Config{Environment: "prod"})
	require.NoError(t, err)
	hello := lane.Define(l, "hello", func(context.Context, *lane.Attempt, json.RawMessage) (string, error) { return "", nil }, lane.TaskOptions{})
	triggered, err := hello.Trigger(t.Context(), json.RawMessage(`1`), lane.TriggerOptions{RunID: "one"})
	require.NoError(t, err)
	args := func(more ...string) []string { return append(more, "--url", db.URL, "-e", "prod") }

	require.Regexp(t, `one +cancelled +cancelled`, succeed(t, args("runs", "cancel", triggered.RunID)...))
	require.Regexp(t, `one +made +two`, succeed(t, args("runs", "rerun", "one", "--run-id", "two")...))
	require.NoError(t, l.Drain(t.Context(), lane.WorkerConfig{}))
	require.Regexp(t, `two .*succeeded`, succeed(t, args("runs", "list")...))
	require.Contains(t, succeed(t, args("runs", "prune", "--older-than", "1us", "--yes")...), "2 runs and 5 events")
	require.Contains(t, succeed(t, args("tick")...), "0 leases")

	code, out, errors := command(t.Context(), args("runs", "cancel", "one")...)
	require.Equal(t, 1, code)
	require.Contains(t, out, "no such run")
	require.Equal(t, "runlane: not all could be done: 1 of 1\n", errors)
	code, out, errors = command(t.Context(), args("runs", "prune", "--older-than", "1h")...)
	require.Equal(t, 2, code)
	require.Empty(t, out)
	require.Contains(t, errors, "--yes")
	readerURL, id := reader(t)
	code, _, errors = command(t.Context(), "runs", "cancel", id, "--url", readerURL, "-e", "prod")
	require.Equal(t, 1, code)
	require.Contains(t, errors, "permission denied")
}
