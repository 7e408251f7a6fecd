package migrations_test

import (
	"os"
	"strings"
	"testing"

	"entgo.io/ent/dialect"
	"entgo.io/ent/dialect/sql/schema"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/internal/pgtest"
)

// declaredDatabase makes a database from the declarations, without a migration.
func declaredDatabase(t *testing.T) *pgtest.DB {
	t.Helper()
	ddl, err := schema.DDL(t.Context(), schema.DDLArgs{Dialect: dialect.Postgres, Version: "15", Tables: declared(t)})
	require.NoError(t, err)
	objects, err := os.ReadFile("../../ent/schema/objects.sql")
	require.NoError(t, err)

	db := pgtest.New(t, pgtest.Empty())
	conn := connect(t, db.URL)
	sql(t, conn, "CREATE SCHEMA runlane; SET search_path = runlane")
	sql(t, conn, ddl)
	sql(t, conn, string(objects))
	return db
}

// The migrations give the database that the declarations describe, object by object
// and of whatever kind, down to what Atlas never compares: collations, storage
// parameters, the function, the sequence. It asks the server alone, so it holds on
// servers that no pg_dump at hand can read.
func TestWholeDatabaseMatchesTheDeclarations(t *testing.T) {
	migrated := whole(t, connect(t, pgtest.New(t).URL))
	for _, part := range []string{
		"table runlane.runlane_runs", "column environment_key of table runlane.runlane_runs", "sequence runlane.runlane_record_versions",
		"function runlane.runlane_assert_record_write(", "index runlane.runlane_runs_active_singleton", "schema runlane",
	} {
		require.Contains(t, migrated, "\n"+part)
	}
	require.Equal(t, whole(t, connect(t, declaredDatabase(t).URL)), migrated)
}

// Whatever somebody could change in a database shows in its description.
func TestWholeShowsEveryChange(t *testing.T) {
	conn := connect(t, pgtest.New(t).URL)
	before := whole(t, conn)
	for _, change := range []string{
		"ALTER TABLE runlane.runlane_runs SET (fillfactor = 71)",
		"ALTER TABLE runlane.runlane_runs SET (toast.autovacuum_vacuum_scale_factor = 0.07)",
		"ALTER TABLE runlane.runlane_runs SET UNLOGGED",
		"ALTER TABLE runlane.runlane_runs ENABLE ROW LEVEL SECURITY",
		"ALTER TABLE runlane.runlane_runs REPLICA IDENTITY FULL",
		"ALTER TABLE runlane.runlane_runs CLUSTER ON runlane_runs_pkey",
		`ALTER TABLE runlane.runlane_runs ALTER task TYPE text COLLATE "POSIX"`,
		"ALTER TABLE runlane.runlane_runs ALTER task SET DEFAULT 'x'",
		"ALTER TABLE runlane.runlane_runs ALTER task SET STORAGE external",
		"ALTER TABLE runlane.runlane_runs ALTER record_payload SET COMPRESSION pglz",
		"ALTER TABLE runlane.runlane_runs ALTER task SET STATISTICS 77",
		"ALTER TABLE runlane.runlane_runs ALTER task SET (n_distinct = 7)",
		"ALTER TABLE runlane.runlane_runs ALTER record_document DROP NOT NULL",
		"ALTER TABLE runlane.runlane_runs ADD extra int",
		"ALTER TABLE runlane.runlane_runs ADD CHECK (task <> '') NOT VALID",
		"ALTER TABLE runlane.runlane_runs DROP CONSTRAINT runlane_runs_operator_columns",
		"ALTER INDEX runlane.runlane_runs_active_singleton SET (fillfactor = 71)",
		"DROP INDEX runlane.runlane_runs_active_singleton",
		"CREATE INDEX ON runlane.runlane_runs (task)",
		"ALTER SEQUENCE runlane.runlane_record_versions CACHE 5",
		"ALTER SEQUENCE runlane.runlane_record_versions CYCLE",
		"ALTER SEQUENCE runlane.runlane_record_versions OWNED BY runlane.runlane_runs.record_version",
		"ALTER FUNCTION runlane.runlane_assert_record_write RESET search_path",
		"ALTER FUNCTION runlane.runlane_assert_record_write STABLE",
		"REVOKE EXECUTE ON FUNCTION runlane.runlane_assert_record_write FROM PUBLIC",
		"GRANT SELECT ON runlane.runlane_runs TO PUBLIC",
		"GRANT SELECT (task) ON runlane.runlane_runs TO PUBLIC",
		"GRANT USAGE ON SCHEMA runlane TO PUBLIC",
		"COMMENT ON TABLE runlane.runlane_runs IS 'x'",
		"COMMENT ON COLUMN runlane.runlane_runs.task IS 'x'",
		"COMMENT ON FUNCTION runlane.runlane_assert_record_write IS 'x'",
		"CREATE TRIGGER t BEFORE UPDATE ON runlane.runlane_runs FOR EACH ROW EXECUTE FUNCTION suppress_redundant_updates_trigger()",
		"CREATE RULE r AS ON DELETE TO runlane.runlane_runs DO INSTEAD NOTHING",
		"CREATE POLICY p ON runlane.runlane_runs USING (task = 'x')",
		"CREATE STATISTICS runlane.s ON task, queue FROM runlane.runlane_runs",
		"CREATE VIEW runlane.v AS SELECT 1 AS n",
		"CREATE TYPE runlane.e AS ENUM ('x')",
		"CREATE DOMAIN runlane.d AS int CHECK (VALUE > 0)",
		"CREATE TABLE public.elsewhere (n int)",
		"CREATE SCHEMA elsewhere",
		"ALTER DEFAULT PRIVILEGES IN SCHEMA runlane GRANT SELECT ON TABLES TO PUBLIC",
	} {
		sql(t, conn, "BEGIN")
		sql(t, conn, change)
		require.NotEqual(t, before, whole(t, conn), change)
		sql(t, conn, "ROLLBACK")
	}
	require.Equal(t, before, whole(t, conn))
}

// whole describes all that a database holds beyond what every new one does, except
// the ledger of the migrations and the tables that the server makes for long values.
func whole(t *testing.T, conn *pgx.Conn) string {
	t.Helper()
	sql(t, conn, "SET search_path = ''") // so that every name is given with its schema
	rows, err := conn.Query(t.Context(), wholeOf)
	require.NoError(t, err)
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	return "\n" + strings.Join(lines, "\n") + "\n"
}

// wholeOf starts with the dependencies, in which every object of whatever kind has
// an entry, except schemas, which depend on nothing, and columns. What a new
// database holds has ids below 16384.
const wholeOf = `WITH object AS (
  SELECT DISTINCT classid, objid, 0 AS objsubid FROM pg_depend WHERE objid >= 16384
  UNION ALL SELECT 'pg_namespace'::regclass, oid, 0 FROM pg_namespace WHERE oid >= 16384
  UNION ALL SELECT 'pg_class'::regclass, attrelid, attnum FROM pg_attribute
    WHERE attrelid >= 16384 AND attnum > 0 AND NOT attisdropped
), described AS (
  SELECT pg_describe_object(classid, objid, objsubid) AS name, CASE
    WHEN objsubid > 0 THEN (
      SELECT concat_ws(' ', attnum, format_type(atttypid, atttypmod), attcollation::regcollation, 'notnull=', attnotnull,
        'storage=', attstorage, 'compression=', attcompression, 'statistics=', attstattarget, 'identity=', attidentity,
        'generated=', attgenerated, attoptions, attacl, col_description(objid, objsubid))
      FROM pg_attribute WHERE attrelid = objid AND attnum = objsubid)
    WHEN classid = 'pg_class'::regclass THEN (
      SELECT concat_ws(' ', c.relkind, c.relpersistence, c.reloptions, 'toast=', (SELECT reloptions FROM pg_class WHERE oid = c.reltoastrelid),
        'security=', c.relrowsecurity, c.relforcerowsecurity, 'identity=', c.relreplident, 'tablespace=', c.reltablespace,
        (SELECT amname FROM pg_am WHERE oid = c.relam), c.relacl, obj_description(objid, 'pg_class'),
        (SELECT concat_ws(' ', pg_get_indexdef(objid), indisvalid, indisready, indisclustered, indisreplident)
         FROM pg_index WHERE indexrelid = objid),
        (SELECT concat_ws(' ', format_type(seqtypid, NULL), seqstart, seqincrement, seqmin, seqmax, seqcache, seqcycle)
         FROM pg_sequence WHERE seqrelid = objid),
        (SELECT string_agg(pg_describe_object(refclassid, refobjid, refobjsubid), ', ')
         FROM pg_depend d WHERE d.classid = 'pg_class'::regclass AND d.objid = object.objid AND deptype = 'a' AND c.relkind = 'S'))
      FROM pg_class c WHERE oid = objid)
    WHEN classid = 'pg_attrdef'::regclass THEN (SELECT pg_get_expr(adbin, adrelid) FROM pg_attrdef WHERE oid = objid)
    WHEN classid = 'pg_constraint'::regclass THEN (SELECT concat_ws(' ', pg_get_constraintdef(oid), convalidated) FROM pg_constraint WHERE oid = objid)
    WHEN classid = 'pg_namespace'::regclass THEN (SELECT nspacl::text FROM pg_namespace WHERE oid = objid)
    WHEN classid = 'pg_proc'::regclass THEN (
      SELECT concat_ws(' ', pg_get_functiondef(oid), proacl, obj_description(oid, 'pg_proc')) FROM pg_proc WHERE oid = objid)
    WHEN classid = 'pg_trigger'::regclass THEN (SELECT concat_ws(' ', pg_get_triggerdef(oid), tgenabled) FROM pg_trigger WHERE oid = objid)
    WHEN classid = 'pg_rewrite'::regclass THEN pg_get_ruledef(objid)
  END AS definition
  FROM object
)
SELECT concat_ws(': ', name, definition) FROM described
WHERE name !~ '(atlas_schema_revisions|pg_toast)' ORDER BY 1`
