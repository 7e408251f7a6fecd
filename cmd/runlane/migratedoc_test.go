package main

import (
	"encoding/json"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/internal/pgtest"
	"github.com/seed4391e180/runlane/migrations"
)

// parsed runs a command line with --output json and returns its exit code and its one document.
func parsed(t *testing.T, args ...string) (code int, document map[string]any) {
	t.Helper()
	code, out, errors := command(t.Context(), append(args, "--output", "json")...)
	require.NoError(t, json.Unmarshal([]byte(out), &document), "%s\n%s", out, errors)
	if code != 0 {
		require.Regexp(t, `^runlane: [^\n]+\n$`, errors)
	}
	return code, document
}

func keysOf(m map[string]any) (keys []string) {
	for k := range m {
		keys = append(keys, k)
	}
	return keys
}

// Programs rely on these members.
func TestMigrateDocuments(t *testing.T) {
	db := pgtest.New(t, pgtest.Empty())
	on := func(args ...string) []string { return append([]string{"migrate", "--url", db.URL}, args...) }

	code, d := parsed(t, on("status")...)
	require.Zero(t, code)
	require.ElementsMatch(t, []string{"schema", "exists", "applied", "pending", "started", "invalid"}, keysOf(d))
	require.Equal(t, false, d["exists"])
	require.Equal(t, []any{}, d["applied"])
	pending := d["pending"].([]any)
	require.ElementsMatch(t, []string{"version", "name", "statements"}, keysOf(pending[0].(map[string]any)))

	code, d = parsed(t, on("plan")...)
	require.Zero(t, code)
	require.Equal(t, map[string]any{"schema": "runlane", "pending": pending}, d)

	code, d = parsed(t, on("verify")...)
	require.Equal(t, 1, code)
	require.Equal(t, 1.0, d["exit_code"])
	e := d["error"].(map[string]any)
	require.Equal(t, "pending", e["kind"])
	require.Equal(t, "runlane", e["schema"])
	require.Equal(t, pending[0].(map[string]any)["name"], e["file"])
	require.Contains(t, e["mend"], "runlane migrate apply")
	require.Contains(t, e["message"], "migrations are pending")

	code, d = parsed(t, on("apply")...)
	require.Zero(t, code)
	require.ElementsMatch(t, []string{"schema", "created", "applied", "version"}, keysOf(d))
	require.Equal(t, true, d["created"])
	require.Equal(t, pending, d["applied"])
	version := d["version"]
	code, d = parsed(t, on("apply")...)
	require.Zero(t, code)
	require.Equal(t, map[string]any{"schema": "runlane", "created": false, "applied": []any{}, "version": version}, d)

	_, d = parsed(t, on("status")...)
	require.Equal(t, true, d["exists"])
	require.Equal(t, []any{}, d["pending"])
	require.ElementsMatch(t, []string{"version", "name", "statements", "applied_at", "took_ms", "by"}, keysOf(d["applied"].([]any)[0].(map[string]any)))

	code, d = parsed(t, on("verify")...)
	require.Zero(t, code)
	require.Equal(t, map[string]any{"schema": "runlane", "verified": true}, d)

	grants, err := migrations.Grants("runlane", "app")
	require.NoError(t, err)
	_, d = parsed(t, on("grants", "--role", "app")...)
	require.Equal(t, "app", d["role"])
	require.Len(t, d["statements"], len(grants))
	require.Equal(t, grants[0], d["statements"].([]any)[0])

	conn, err := pgx.Connect(t.Context(), db.URL)
	require.NoError(t, err)
	defer conn.Close(t.Context())
	_, err = conn.Exec(t.Context(), "UPDATE runlane.atlas_schema_revisions SET hash = 'x'")
	require.NoError(t, err)
	for _, name := range []string{"status", "plan", "verify", "apply"} {
		code, d = parsed(t, on(name)...)
		require.Equal(t, 1, code)
		require.Equal(t, "changed", d["error"].(map[string]any)["kind"])
	}
}

func TestFailureDocuments(t *testing.T) {
	db := pgtest.New(t, pgtest.Empty()).URL
	for name, c := range map[string]struct {
		code int
		kind string
		args []string
	}{
		"nobody there": {1, "connection", []string{"migrate", "apply", "--url", "postgres://127.0.0.1:1/none?connect_timeout=5"}},
		"a bad schema": {2, "schema_name", []string{"migrate", "apply", "--url", db, "--schema", "pg_mine"}},
		"a bad role":   {2, "role_name", []string{"migrate", "grants", "--role", "public"}},
		"a bad URL":    {2, "usage", []string{"migrate", "plan", "--url", "postgres://host:port"}},
	} {
		t.Run(name, func(t *testing.T) {
			code, d := parsed(t, c.args...)
			require.Equal(t, c.code, code)
			require.EqualValues(t, c.code, d["exit_code"])
			require.Equal(t, c.kind, d["error"].(map[string]any)["kind"])
		})
	}
}
