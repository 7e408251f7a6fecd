package main

import (
	"bytes"
	"context"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/internal/pgtest"
)

// command runs one command line in this process.
func command(ctx context.Context, args ...string) (code int, stdout, stderr string) {
	var out, errors bytes.Buffer
	code = run(ctx, args, strings.NewReader(""), &out, &errors)
	return code, out.String(), errors.String()
}

// succeed runs a command line that must succeed and returns what it says.
func succeed(t *testing.T, args ...string) string {
	t.Helper()
	code, out, errors := command(t.Context(), args...)
	require.Empty(t, errors)
	require.Zero(t, code, out)
	return out
}

func TestMigrate(t *testing.T) {
	url := pgtest.New(t, pgtest.Empty()).URL
	migrate := func(args ...string) []string { return append([]string{"migrate", "--url", url}, args...) }

	require.Regexp(t, `(?s)^schema "runlane" does not exist\n(pending  \d+_\w+\.sql\n)+$`, succeed(t, migrate("status")...))
	require.Regexp(t, `^(pending  \d+_\w+\.sql  \d+ statements\n)+$`, succeed(t, migrate("plan")...))
	code, out, errors := command(t.Context(), migrate("verify")...)
	require.Equal(t, 1, code)
	require.Empty(t, out)
	require.Regexp(t, `^runlane: .*migrations are pending.*\n$`, errors)

	code, out, errors = command(t.Context(), migrate("apply")...)
	require.Zero(t, code, errors)
	require.Regexp(t, `^(applied  \d+_\w+\.sql\n)+schema "runlane" is now at \d+\n$`, out)
	require.Regexp(t, `^(applying \d+_\w+\.sql, \d+ statements\n)+$`, errors, "progress is not a result")
	require.Regexp(t, `^schema "runlane" is up to date at \d+\n$`, succeed(t, migrate("apply")...))
	require.Regexp(t, `^(applied  \d+_\w+\.sql  \S+Z by runlane\n)+$`, succeed(t, migrate("status")...))
	require.Equal(t, "nothing to apply\n", succeed(t, migrate("plan")...))
	require.Equal(t, "schema \"runlane\" is what this program wants\n", succeed(t, migrate("verify")...))

	_, out, _ = command(t.Context(), migrate("apply", "--schema", `another "one"`)...)
	require.Contains(t, out, `schema "another \"one\"" is now at`)
}

// Without --url the environment says where the database is.
func TestMigrateByTheEnvironment(t *testing.T) {
	u, err := url.Parse(pgtest.New(t).URL)
	require.NoError(t, err)
	password, _ := u.User.Password()
	for name, value := range map[string]string{
		"PGHOST": u.Hostname(), "PGPORT": u.Port(), "PGUSER": u.User.Username(), "PGPASSWORD": password,
		"PGDATABASE": strings.TrimPrefix(u.Path, "/"), "PGSSLMODE": "disable",
	} {
		t.Setenv(name, value)
	}
	succeed(t, "migrate", "verify")
}

func TestMigrateCommandLines(t *testing.T) {
	db := pgtest.New(t, pgtest.Empty()).URL
	for name, c := range map[string]struct {
		code int
		args []string
		says string
	}{
		"no command":      {2, []string{"migrate"}, `"runlane migrate" needs a command`},
		"unknown command": {2, []string{"migrate", "down"}, `unknown command "down" for "runlane migrate"`},
		"unknown flag":    {2, []string{"migrate", "apply", "--force"}, `unknown flag: --force`},
		"an argument":     {2, []string{"migrate", "apply", "now"}, `unknown command "now" for "runlane migrate apply"`},
		"unknown format":  {2, []string{"migrate", "plan", "--output", "xml"}, `it is text or json`},
		"bad URL":         {2, []string{"migrate", "apply", "--url", "postgres://host:port"}, `the database: `},
		"bad schema name": {2, []string{"migrate", "apply", "--url", db, "--schema", "pg_mine"}, `invalid schema name`},
		"nobody there":    {1, []string{"migrate", "apply", "--url", "postgres://127.0.0.1:1/none?connect_timeout=5"}, `refused`},
	} {
		t.Run(name, func(t *testing.T) {
			code, out, errors := command(t.Context(), c.args...)
			require.Equal(t, c.code, code, errors)
			require.Empty(t, out)
			require.Contains(t, errors, c.says)
			require.Equal(t, 1, strings.Count(errors, "\n"), errors)
			require.NotContains(t, errors, "password=")
		})
	}
}

func TestVersion(t *testing.T) {
	require.Regexp(t, `^runlane \S+.*, schema version \d+, go\S+\n$`, succeed(t, "version"))
}

func TestInterruption(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	code, _, errors := command(ctx, "migrate", "apply", "--url", pgtest.New(t, pgtest.Empty()).URL)
	require.Equal(t, 1, code)
	require.Equal(t, "runlane: interrupted\n", errors)
}

// A worker is started by the demo: alone it has nothing to do.
func TestDemoWorkerAlone(t *testing.T) {
	code, out, errors := command(t.Context(), "demo-worker", "A")
	require.Equal(t, 1, code)
	require.Empty(t, out)
	require.Equal(t, "runlane: a worker of the demo is started by the demo\n", errors)
}

func TestOneLine(t *testing.T) {
	require.Equal(t, "a | b | c", oneLine("a\n\tb\r\n\n c"))
}
