package main

import (
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/internal/doctor"
	"github.com/seed4391e180/runlane/internal/pgtest"
	"github.com/seed4391e180/runlane/storage/postgres"
)

// The lines are aligned, one for each check, and each mend is beneath its check.
func TestDoctorText(t *testing.T) {
	db := pgtest.New(t, pgtest.On(pgtest.Private(t, pgtest.Options{})))
	code, out, errors := command(t.Context(), "doctor", "--url", db.URL)
	old := pgtest.Major(t) < postgres.OldestServer
	require.Equal(t, map[bool]int{false: 0, true: 1}[old], code, errors+out)
	if !old {
		require.Empty(t, errors)
		require.NotContains(t, out, "mend:")
	}
	lines := regexp.MustCompile(`(?m)^(\w+) +(\w+) +\S.*$`).FindAllStringSubmatch(out, -1)
	require.Len(t, lines, len(doctor.Names()))
	for i, l := range lines {
		require.Equal(t, doctor.Names()[i], l[2])
		require.Equal(t, strings.Index(lines[0][0], "role "), len(regexp.MustCompile(`^\w+ +\w+ +`).FindString(l[0])), "aligned: %s", l[0])
	}

	conn, err := pgx.Connect(t.Context(), db.URL)
	require.NoError(t, err)
	defer conn.Close(t.Context())
	_, err = conn.Exec(t.Context(), "DROP FUNCTION runlane.runlane_assert_record_write")
	require.NoError(t, err)
	code, out, errors = command(t.Context(), "doctor", "--url", db.URL)
	require.Equal(t, 1, code)
	require.Equal(t, "runlane: the database is not fit; the mends are above\n", errors)
	found := regexp.MustCompile(`(?m)^(fail +objects +)missing: function runlane_assert_record_write\n( +)mend: runlane migrate apply`).FindStringSubmatch(out)
	require.NotNil(t, found, out)
	require.Len(t, found[2], len(found[1]), "the mend is beneath the message")
}

func TestDoctorDocument(t *testing.T) {
	// This server does not wait for the disk, which the doctor does not like.
	db := pgtest.New(t)
	code, d := parsed(t, "doctor", "--url", db.URL, "--schema", "runlane")
	require.ElementsMatch(t, []string{"schema", "status", "checks"}, keysOf(d))
	require.Equal(t, "runlane", d["schema"])
	checks := d["checks"].([]any)
	require.Len(t, checks, len(doctor.Names()))
	for i, c := range checks {
		require.Equal(t, doctor.Names()[i], c.(map[string]any)["name"])
		require.Contains(t, []any{"ok", "warn", "fail", "unknown"}, c.(map[string]any)["status"])
	}
	require.Equal(t, map[bool]string{true: "fail", false: d["status"].(string)}[code == 1], d["status"])

	code, d = parsed(t, "doctor", "--url", "postgres://127.0.0.1:1/none?connect_timeout=5")
	require.Equal(t, 1, code)
	require.Equal(t, "fail", d["status"])
	require.Len(t, d["checks"], 1)
}

// Warnings are no failure. A server that is too old is one, whatever else there is.
func TestDoctorWarnings(t *testing.T) {
	wantCode, want := 0, "warn"
	if pgtest.Major(t) < postgres.OldestServer {
		wantCode, want = 1, "fail"
	}
	db := pgtest.New(t, pgtest.On(pgtest.Private(t, pgtest.Options{Settings: map[string]string{"max_wal_size": "64MB"}})))
	code, d := parsed(t, "doctor", "--url", db.URL)
	require.Equal(t, wantCode, code)
	require.Equal(t, want, d["status"])
	statuses := map[any]any{}
	for _, check := range d["checks"].([]any) {
		c := check.(map[string]any)
		statuses[c["name"]] = c["status"]
	}
	require.Equal(t, "warn", statuses["checkpoints"])
}

func TestDoctorCommandLines(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		says string
	}{
		"an argument":     {[]string{"now"}, `unknown command "now"`},
		"unknown flag":    {[]string{"--fix"}, "unknown flag"},
		"unknown format":  {[]string{"--output", "yaml"}, "it is text or json"},
		"no time":         {[]string{"--timeout", "0s"}, "longer than nothing"},
		"bad URL":         {[]string{"--url", "postgres://host:port"}, "the database: "},
		"bad schema name": {[]string{"--schema", "pg_mine"}, "invalid schema name"},
		"bad role name":   {[]string{"--role", "public"}, "invalid role name"},
	} {
		t.Run(name, func(t *testing.T) {
			code, out, errors := command(t.Context(), append([]string{"doctor"}, c.args...)...)
			require.Equal(t, exitUsage, code, errors)
			require.Empty(t, out)
			require.Contains(t, errors, c.says)
			require.Equal(t, 1, strings.Count(errors, "\n"), errors)
		})
	}
}
