package migrations_test

import (
	"io/fs"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/migrations"
)

const added = "CREATE TABLE \"runlane_added\" (\"id\" bigint);\n"

// edited is one of the files with other words in it.
func edited(name string) string { return three[name] + "-- changed\n" }

// stale is the directory with a file whose change atlas.sum does not know.
func stale(t *testing.T, name, text string) fs.FS {
	m := fstest.MapFS{}
	for n, f := range three.fs(t).(fstest.MapFS) {
		m[n] = f
	}
	m[name] = &fstest.MapFile{Data: []byte(text)}
	return m
}

func TestDeviatingHistoryIsRefused(t *testing.T) {
	conn := empty(t)
	for name, c := range map[string]struct {
		ledger string // what happens to the ledger of a database that has all three
		dir    func(*testing.T) fs.FS
		kind   error
		file   string
	}{
		"edited": {dir: func(t *testing.T) fs.FS { return stale(t, "2_two.sql", edited("2_two.sql")) },
			kind: migrations.ErrChanged, file: "2_two.sql"},
		"added without a rehash": {dir: func(t *testing.T) fs.FS { return stale(t, "4_four.sql", added) },
			kind: migrations.ErrChanged, file: "4_four.sql"},
		"edited sum": {dir: func(t *testing.T) fs.FS { return stale(t, "atlas.sum", "h1:x\n1_one.sql h1:y\n") },
			kind: migrations.ErrChanged, file: "atlas.sum"},
		"no sum": {dir: func(t *testing.T) fs.FS {
			d := stale(t, "1_one.sql", three["1_one.sql"]).(fstest.MapFS)
			delete(d, "atlas.sum")
			return d
		}, kind: migrations.ErrChanged, file: "atlas.sum"},
		"edited and rehashed": {dir: three.with("2_two.sql", edited("2_two.sql")).fs,
			kind: migrations.ErrChanged, file: "2_two.sql"},
		"only the last edited and rehashed": {dir: three.with("3_three.sql", edited("3_three.sql")).fs,
			kind: migrations.ErrChanged, file: "3_three.sql"},
		"missing": {dir: three.without("2_two.sql").fs,
			kind: migrations.ErrMissing, file: "2_two.sql"},
		"the first missing": {dir: three.without("1_one.sql").fs,
			kind: migrations.ErrMissing, file: "1_one.sql"},
		"newer": {dir: three.without("3_three.sql").fs,
			kind: migrations.ErrNewer, file: "3_three.sql"},
		"newer, with an empty directory": {dir: files{}.fs,
			kind: migrations.ErrNewer, file: "1_one.sql"},
		"reordered: one in between": {dir: three.with("2a_late.sql", added).fs,
			kind: migrations.ErrReordered, file: "2a_late.sql"},
		"reordered: one in front": {dir: three.with("0_early.sql", added).fs,
			kind: migrations.ErrReordered, file: "0_early.sql"},
		"swapped and rehashed": {dir: three.with("1_one.sql", three["2_two.sql"]).with("2_two.sql", three["1_one.sql"]).fs,
			kind: migrations.ErrChanged, file: "1_one.sql"},
		"two files of one version": {dir: three.with("3_again.sql", added).fs,
			kind: migrations.ErrReordered, file: "3_three.sql"},
		"incomplete": {ledger: "SET applied = 1, error = 'boom' WHERE version = '3'", dir: three.fs,
			kind: migrations.ErrIncomplete, file: "3_three.sql"},
		"incomplete in the middle": {ledger: "SET total = 2 WHERE version = '2'", dir: three.fs,
			kind: migrations.ErrIncomplete, file: "2_two.sql"},
		"failed": {ledger: "SET error = 'boom' WHERE version = '1'", dir: three.fs,
			kind: migrations.ErrIncomplete, file: "1_one.sql"},
		"only marked as applied": {ledger: "SET type = 4 WHERE version = '2'", dir: three.fs,
			kind: migrations.ErrIncomplete, file: "2_two.sql"},
		"other hash in the ledger": {ledger: "SET hash = 'x' WHERE version = '2'", dir: three.fs,
			kind: migrations.ErrChanged, file: "2_two.sql"},
	} {
		t.Run(name, func(t *testing.T) {
			reset(t, conn)
			apply(t, conn, three.fs(t))
			if c.ledger != "" {
				exec(t, conn, "UPDATE runlane.atlas_schema_revisions %s", c.ledger)
			}
			made := objects(t, conn)
			o := migrations.Options{Dir: c.dir(t)}
			_, err := migrations.Apply(t.Context(), conn, o)
			refused(t, err, c.kind, c.file)
			refused(t, migrations.Verify(t.Context(), conn, o), c.kind, c.file)
			_, err = migrations.Plan(t.Context(), conn, o)
			refused(t, err, c.kind, c.file)
			_, err = migrations.Status(t.Context(), conn, o)
			refused(t, err, c.kind, c.file)
			require.Equal(t, made, objects(t, conn))
			require.Equal(t, byte('I'), conn.PgConn().TxStatus())
		})
	}
}

// A deviation anywhere stops a file that is pending, too.
func TestNothingIsAppliedToADeviatingHistory(t *testing.T) {
	conn := empty(t)
	apply(t, conn, three.fs(t))
	made := objects(t, conn)
	next := three.with("1_one.sql", edited("1_one.sql")).with("4_four.sql", added)
	_, err := migrations.Apply(t.Context(), conn, migrations.Options{Dir: next.fs(t)})
	refused(t, err, migrations.ErrChanged, "1_one.sql")
	require.Equal(t, made, objects(t, conn))
}

func TestForeignSchemaIsRefused(t *testing.T) {
	conn := empty(t)
	for name, c := range map[string]struct{ sql, file string }{
		"our table, no ledger":    {`CREATE TABLE runlane.runlane_runs (x int)`, "runlane_runs"},
		"our function, no ledger": {`CREATE FUNCTION runlane.runlane_assert_record_write() RETURNS int LANGUAGE sql AS 'SELECT 1'`, "runlane_assert_record_write"},
		"our sequence, empty ledger": {`CREATE SEQUENCE runlane.runlane_record_versions; CREATE TABLE runlane.atlas_schema_revisions ` + ledgerColumns,
			"runlane_record_versions"},
		"another tool":              {`CREATE TABLE runlane.goose_db_version (id int)`, "goose_db_version"},
		"our table, another tool":   {`CREATE TABLE runlane.runlane_runs (x int); CREATE TABLE runlane.__drizzle_migrations (id int)`, "runlane_runs"},
		"a table that is no ledger": {`CREATE TABLE runlane.atlas_schema_revisions (version text)`, "atlas_schema_revisions"},
		"another project's Atlas ledger": {`CREATE TABLE runlane.users (id int); CREATE TABLE runlane.atlas_schema_revisions ` + ledgerColumns +
			`; INSERT INTO runlane.atlas_schema_revisions VALUES ('20200101000000', 'users', 2, 1, 1, now(), 1, '', '', 'x', 'null', 'Atlas CLI')`,
			"atlas_schema_revisions"},
	} {
		t.Run(name, func(t *testing.T) {
			reset(t, conn)
			exec(t, conn, "CREATE SCHEMA runlane; %s", c.sql)
			made := objects(t, conn)
			_, err := migrations.Apply(t.Context(), conn, migrations.Options{})
			refused(t, err, migrations.ErrForeign, c.file)
			refused(t, migrations.Verify(t.Context(), conn, migrations.Options{}), migrations.ErrForeign, c.file)
			require.Equal(t, made, objects(t, conn))
		})
	}
}

// What is not ours and no ledger either is left alone: an application may keep its
// own tables in the schema, and the CLI may have made an empty ledger there.
func TestSchemaWithOtherTables(t *testing.T) {
	conn := empty(t)
	exec(t, conn, "CREATE TABLE public.users (id int); CREATE TABLE public.atlas_schema_revisions %s", ledgerColumns)
	result, err := migrations.Apply(t.Context(), conn, migrations.Options{Schema: "public"})
	require.NoError(t, err)
	require.False(t, result.Created)
	require.NoError(t, migrations.Verify(t.Context(), conn, migrations.Options{Schema: "public"}))
	require.Contains(t, objects(t, conn), "public.users")
}

const ledgerColumns = `(version varchar PRIMARY KEY, description varchar NOT NULL, type bigint NOT NULL DEFAULT 2,
applied bigint NOT NULL DEFAULT 0, total bigint NOT NULL DEFAULT 0, executed_at timestamptz NOT NULL, execution_time bigint NOT NULL,
error text, error_stmt text, hash varchar NOT NULL, partial_hashes jsonb, operator_version varchar NOT NULL)`
