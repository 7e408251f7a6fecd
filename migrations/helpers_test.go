package migrations_test

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"testing"
	"testing/fstest"
	"time"

	"ariga.io/atlas/sql/migrate"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/internal/pgtest"
	"github.com/seed4391e180/runlane/migrations"
)

// connect opens a connection that is closed when the test ends.
func connect(t *testing.T, url string, change ...func(*pgx.ConnConfig)) *pgx.Conn {
	t.Helper()
	config, err := pgx.ParseConfig(url)
	require.NoError(t, err)
	for _, f := range change {
		f(config)
	}
	conn, err := pgx.ConnectConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(t.Context())) })
	return conn
}

// empty returns a connection to a database of the test's own with nothing in it.
func empty(t *testing.T) *pgx.Conn {
	t.Helper()
	return connect(t, pgtest.New(t, pgtest.Empty()).URL)
}

// reset takes away what a test made in a database that others have used.
func reset(t *testing.T, conn *pgx.Conn) {
	t.Helper()
	exec(t, conn, "DROP SCHEMA IF EXISTS runlane CASCADE")
}

// again opens another session on the same database.
func again(t *testing.T, conn *pgx.Conn) *pgx.Conn {
	t.Helper()
	return connect(t, conn.Config().ConnString())
}

// files is a migration directory under test.
type files map[string]string

// fs returns the directory with an atlas.sum that agrees with it.
func (f files) fs(t *testing.T) fs.FS {
	t.Helper()
	m := fstest.MapFS{}
	dir := &migrate.MemDir{}
	for name, text := range f {
		m[name] = &fstest.MapFile{Data: []byte(text)}
		require.NoError(t, dir.WriteFile(name, []byte(text)))
	}
	sum, err := dir.Checksum()
	require.NoError(t, err)
	text, err := sum.MarshalText()
	require.NoError(t, err)
	m[migrate.HashFileName] = &fstest.MapFile{Data: text}
	return m
}

// with returns a copy of the directory with a file added or changed.
func (f files) with(name, text string) files {
	c := maps.Clone(f)
	c[name] = text
	return c
}

// without returns a copy of the directory that lacks a file.
func (f files) without(name string) files {
	c := maps.Clone(f)
	delete(c, name)
	return c
}

// three is a small directory of three files.
var three = files{
	"1_one.sql":   "-- Create \"one\".\nCREATE TABLE \"runlane_one\" (\"id\" bigint);\nCREATE INDEX \"runlane_one_id\" ON \"runlane_one\" (\"id\");\n",
	"2_two.sql":   "CREATE TABLE \"runlane_two\" (\"id\" bigint);\n",
	"3_three.sql": "CREATE FUNCTION \"runlane_three\"() RETURNS text LANGUAGE plpgsql AS $$ BEGIN RETURN ';'; END $$;\nCREATE TABLE \"runlane_three\" (\"id\" bigint);\n",
}

func apply(t *testing.T, conn *pgx.Conn, dir fs.FS) migrations.Result {
	t.Helper()
	result, err := migrations.Apply(t.Context(), conn, migrations.Options{Dir: dir})
	require.NoError(t, err)
	return result
}

// names lists the names of files.
func names(list []migrations.File) []string {
	all := make([]string, len(list))
	for i, f := range list {
		all[i] = f.Name
	}
	return all
}

// objects lists everything that the database has outside PostgreSQL's own schemas.
func objects(t *testing.T, conn *pgx.Conn) []string {
	t.Helper()
	rows, err := conn.Query(t.Context(), `SELECT n.nspname || '.' || c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname NOT LIKE 'pg\_%' AND n.nspname <> 'information_schema'
UNION ALL SELECT n.nspname || '.' || p.proname FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
WHERE n.nspname NOT LIKE 'pg\_%' AND n.nspname <> 'information_schema'
UNION ALL SELECT nspname FROM pg_namespace WHERE nspname NOT LIKE 'pg\_%' AND nspname NOT IN ('information_schema', 'public')
ORDER BY 1`)
	require.NoError(t, err)
	all, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	return all
}

func exec(t *testing.T, conn *pgx.Conn, format string, args ...any) {
	t.Helper()
	_, err := conn.Exec(t.Context(), fmt.Sprintf(format, args...))
	require.NoError(t, err)
}

func value[T any](t *testing.T, conn *pgx.Conn, sql string, args ...any) T {
	t.Helper()
	var v T
	require.NoError(t, conn.QueryRow(t.Context(), sql, args...).Scan(&v))
	return v
}

// refused asserts that err is a refusal of the kind that names the file and says
// a mend.
func refused(t *testing.T, err error, kind error, file string) {
	t.Helper()
	require.ErrorIs(t, err, kind)
	var e *migrations.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, file, e.File)
	require.NotEmpty(t, e.Mend, "the error says no mend: %v", err)
	require.Contains(t, err.Error(), e.Mend)
	require.Contains(t, err.Error(), file)
}

// await waits until a query on a session of its own says yes.
func await(t *testing.T, conn *pgx.Conn, sql string, args ...any) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	end := time.NewTimer(10 * soon)
	defer end.Stop()
	for !value[bool](t, conn, sql, args...) {
		select {
		case <-tick.C:
		case <-end.C:
			require.Fail(t, "it never came to pass", sql)
		}
	}
}

// soon bounds what must happen without a wait.
const soon = 5 * time.Second
