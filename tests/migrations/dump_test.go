package migrations_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/internal/pgtest"
)

// pg_dump sees no difference either, where there is one that can read the server.
func TestDumpMatchesTheDeclarations(t *testing.T) {
	db := pgtest.New(t)
	program := pgDump(t, connect(t, db.URL))
	migrated := dump(t, program, db.URL)
	require.Contains(t, migrated, "CREATE TABLE runlane.runlane_runs")
	require.Contains(t, migrated, `COLLATE pg_catalog."C"`)
	require.Equal(t, dump(t, program, declaredDatabase(t).URL), migrated)
}

// dump returns pg_dump's description of a database, without the ledger.
func dump(t *testing.T, program, url string) string {
	t.Helper()
	args := []string{"--schema-only", "--no-owner", "--exclude-table=*.atlas_schema_revisions", "--dbname=" + url}
	if strings.Contains(output(t, program, "--help"), "--restrict-key") {
		args = append(args, "--restrict-key=x") // it is random otherwise
	}
	return output(t, program, args...)
}

// pgDump finds the newest pg_dump there is: one that is older than the server
// refuses it. Servers that come without their client programs are described by
// TestWholeDatabaseMatchesTheDeclarations alone.
func pgDump(t *testing.T, conn *pgx.Conn) string {
	t.Helper()
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/pg_dump")
	require.NoError(t, err)
	chosen := os.Getenv("RUNLANE_PG_BIN")
	if own := filepath.Join(chosen, "pg_dump"); chosen != "" && isFile(own) {
		found = append(found, own)
	}
	if path, err := exec.LookPath("pg_dump"); err == nil {
		found = append(found, path)
	}
	server := number(t, column(t, conn, "SELECT current_setting('server_version_num')")[0]) / 10000
	best, newest := "", 0
	for _, program := range found {
		// "pg_dump (PostgreSQL) 15.14 (Debian 15.14-0+deb12u1)"
		words := strings.FieldsFunc(output(t, program, "--version"), func(r rune) bool { return r < '0' || r > '9' })
		if version := number(t, words[0]); version > newest {
			best, newest = program, version
		}
	}
	if newest == 0 && chosen == "" {
		require.Fail(t, "this test needs pg_dump: run `make deps`, or put it in PATH")
	}
	if newest < server {
		t.Skipf("the server is PostgreSQL %d and has no pg_dump here; that of PostgreSQL %d refuses it", server, newest)
	}
	return best
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

func number(t *testing.T, text string) int {
	t.Helper()
	n, err := strconv.Atoi(text)
	require.NoError(t, err)
	return n
}

func output(t *testing.T, program string, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), program, args...).Output()
	if failed := (*exec.ExitError)(nil); errors.As(err, &failed) {
		require.NoError(t, err, "%s: %s", program, failed.Stderr)
	}
	require.NoError(t, err)
	return string(out)
}
