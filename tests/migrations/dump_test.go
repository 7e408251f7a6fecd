package migrations_test

import (
	"cmp"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"entgo.io/ent/dialect"
	"entgo.io/ent/dialect/sql/schema"
	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/internal/pgtest"
)

// The migrations give the database that the declarations describe, down to what
// Atlas never compares: collations, storage parameters, the function, the sequence.
func TestDumpMatchesTheDeclarations(t *testing.T) {
	ddl, err := schema.DDL(t.Context(), schema.DDLArgs{Dialect: dialect.Postgres, Version: "15", Tables: declared(t)})
	require.NoError(t, err)
	objects, err := os.ReadFile("../../ent/schema/objects.sql")
	require.NoError(t, err)

	want := pgtest.New(t, pgtest.Empty())
	conn := connect(t, want.URL)
	sql(t, conn, "CREATE SCHEMA runlane; SET search_path = runlane")
	sql(t, conn, ddl)
	sql(t, conn, string(objects))

	migrated := dump(t, pgtest.New(t).URL)
	require.Contains(t, migrated, "CREATE TABLE runlane.runlane_runs")
	require.Contains(t, migrated, `COLLATE pg_catalog."C"`)
	require.Equal(t, dump(t, want.URL), migrated)
}

// dump returns pg_dump's description of a database, without the ledger.
func dump(t *testing.T, url string) string {
	t.Helper()
	program := pgDump(t)
	args := []string{"--schema-only", "--no-owner", "--exclude-table=*.atlas_schema_revisions", "--dbname=" + url}
	if strings.Contains(output(t, program, "--help"), "--restrict-key") {
		args = append(args, "--restrict-key=x") // it is random otherwise
	}
	return output(t, program, args...)
}

// pgDump finds a pg_dump of the newest version there is, since an older one refuses
// a newer server.
func pgDump(t *testing.T) string {
	t.Helper()
	if dir := os.Getenv("RUNLANE_PG_BIN"); dir != "" {
		return filepath.Join(dir, "pg_dump")
	}
	if found, err := filepath.Glob("/usr/lib/postgresql/*/bin/pg_dump"); err == nil && len(found) > 0 {
		return slices.MaxFunc(found, func(a, b string) int {
			return cmp.Or(cmp.Compare(len(a), len(b)), strings.Compare(a, b))
		})
	}
	path, err := exec.LookPath("pg_dump")
	require.NoError(t, err, "this test needs pg_dump: run `make deps`, or put it in PATH")
	return path
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
