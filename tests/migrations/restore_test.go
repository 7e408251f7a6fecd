package migrations_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/internal/pgtest"
	"github.com/seed4391e180/runlane/migrations"
)

// restore plays a dump that has INSERTs into an empty database.
func restore(t *testing.T, text string) *pgtest.DB {
	t.Helper()
	db := pgtest.New(t, pgtest.Empty())
	var lines []string
	for _, line := range strings.Split(text, "\n") {
		if !strings.HasPrefix(line, `\`) { // psql's own commands, in dumps of newer versions
			lines = append(lines, line)
		}
	}
	sql(t, connect(t, db.URL), strings.Join(lines, "\n"))
	return db
}

// dumpAll returns a dump of a database with everything in it.
func dumpAll(t *testing.T, url string) string {
	t.Helper()
	return output(t, pgDump(t, connect(t, url)), "--no-owner", "--inserts", "--dbname="+url)
}

// ledger returns the rows of the ledger as they are.
func ledger(t *testing.T, conn *pgx.Conn) []string {
	t.Helper()
	return column(t, conn, "SELECT to_jsonb(r)::text FROM runlane.atlas_schema_revisions r ORDER BY version")
}

// A database that the Atlas CLI has migrated is looked at, proved and migrated further
// like one of our own.
func TestDatabaseOfTheAtlasCLI(t *testing.T) {
	text, err := os.ReadFile("testdata/cli/dump.sql")
	require.NoError(t, err)
	db := restore(t, string(text))
	conn, o := connect(t, db.URL), migrations.Options{Dir: os.DirFS("testdata/cli/files")}
	before := ledger(t, conn)

	state, err := migrations.Status(t.Context(), conn, o)
	require.NoError(t, err)
	require.Len(t, state.Applied, 3)
	require.Equal(t, migrations.Revision{
		File:      migrations.File{Version: "20261203000000", Name: "20261203000000_by_note.sql", Statements: 1},
		AppliedAt: state.Applied[2].AppliedAt, Took: 1938417, By: "Atlas CLI v1.2.3",
	}, state.Applied[2])
	require.Equal(t, "2026-12-01T09:30:00.28125Z", state.Applied[2].AppliedAt.UTC().Format(time.RFC3339Nano))
	require.Len(t, state.Pending, 1)
	require.False(t, state.Started)
	require.ErrorIs(t, migrations.Verify(t.Context(), conn, o), migrations.ErrPending)

	result, err := migrations.Apply(t.Context(), conn, o)
	require.NoError(t, err)
	require.Equal(t, state.Pending, result.Applied)
	require.NoError(t, migrations.Verify(t.Context(), conn, o))
	require.Equal(t, before, ledger(t, conn)[:3])

	restored := connect(t, restore(t, dumpAll(t, db.URL)).URL)
	require.NoError(t, migrations.Verify(t.Context(), restored, o))
	require.Equal(t, ledger(t, conn), ledger(t, restored))
	require.Equal(t, whole(t, conn), whole(t, restored))
}

// A dump of a migrated database restores to one that is as good: everything is there,
// the ledger included, and versions go on where they were.
func TestDumpAndRestore(t *testing.T) {
	db := pgtest.New(t)
	conn := connect(t, db.URL)
	sql(t, conn, `INSERT INTO runlane.runlane_runs (environment_key, run_id, record_version, record_document)
SELECT 'env', n::text, nextval('runlane.runlane_record_versions'), jsonb_build_object('n', n) FROM generate_series(1, 10) AS n`)
	restored := connect(t, restore(t, dumpAll(t, db.URL)).URL)
	require.NoError(t, migrations.Verify(t.Context(), restored, migrations.Options{}))
	result, err := migrations.Apply(t.Context(), restored, migrations.Options{})
	require.NoError(t, err)
	require.Empty(t, result.Applied)
	require.Equal(t, ledger(t, conn), ledger(t, restored))
	require.Equal(t, whole(t, conn), whole(t, restored))
	require.Equal(t, []string{"10"}, column(t, restored, "SELECT count(*)::text FROM runlane.runlane_runs"))
	require.Equal(t, []string{"11"}, column(t, restored, "SELECT nextval('runlane.runlane_record_versions')::text"))
}
