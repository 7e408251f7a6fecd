package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/migrations"
)

// What is printed is a script: the statements of migrations.Grants, ended. The
// database that the flags and the environment name does not exist.
func TestMigrateGrants(t *testing.T) {
	t.Setenv("PGHOST", "/nowhere")
	for _, names := range [][2]string{{"runlane", "app"}, {`a"b'c`, `my "app"`}} {
		grants, err := migrations.Grants(names[0], names[1])
		require.NoError(t, err)
		want := strings.Join(grants, ";\n") + ";\n"
		require.Equal(t, want, succeed(t, "migrate", "grants", "--schema", names[0], "--role", names[1]))
	}
	grants, err := migrations.OperatorGrants("runlane", "auditor")
	require.NoError(t, err)
	require.Equal(t, strings.Join(grants, ";\n")+";\n", succeed(t, "migrate", "grants", "--read-only", "--role", "auditor"))
	require.Contains(t, succeed(t, "migrate", "grants", "--role", "app"), `GRANT USAGE ON SCHEMA "runlane" TO "app";`)
}

func TestMigrateGrantsCommandLines(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		says string
	}{
		"no role":         {nil, "invalid role name"},
		"everybody":       {[]string{"--role", "public"}, "invalid role name"},
		"bad schema name": {[]string{"--role", "app", "--schema", "pg_mine"}, "invalid schema name"},
		"an argument":     {[]string{"--role", "app", "now"}, `unknown command "now"`},
	} {
		t.Run(name, func(t *testing.T) {
			code, out, errors := command(t.Context(), append([]string{"migrate", "grants"}, c.args...)...)
			require.Equal(t, exitUsage, code, errors)
			require.Empty(t, out)
			require.Contains(t, errors, c.says)
			require.Equal(t, 1, strings.Count(errors, "\n"), errors)
		})
	}
}
