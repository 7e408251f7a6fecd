package conformance_test

import (
	"context"
	"io/fs"
	"regexp"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/internal/pgtest"
	"github.com/seed4391e180/runlane/rawsql"
	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/postgres"
)

// lookAlikes puts a schema into the database in which everything has the name of
// something that the driver uses, and fails when it is used. Whoever may create
// objects in a schema of somebody's search path can do that, and would run with the
// rights of the driver's role: PostgreSQL looks at its own functions and operators
// first, but one that fits the arguments exactly is taken before one of its own that
// needs a conversion or takes anything.
func lookAlikes(t *testing.T, db *pgtest.DB) *pgtest.DB {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), db.URL)
	require.NoError(t, err)
	defer conn.Close(context.Background())
	exec := func(sql string, args ...any) {
		t.Helper()
		_, err := conn.Exec(t.Context(), sql, args...)
		require.NoError(t, err, sql)
	}
	exec(`CREATE SCHEMA hostile`)
	for _, c := range storage.Collections() {
		exec(`CREATE TABLE hostile.` + postgres.TableName(c) + ` (nothing int)`)
	}
	exec(`CREATE SEQUENCE hostile.runlane_record_versions`)
	exec(`CREATE TEMPORARY TABLE called AS SELECT DISTINCT p.proname FROM pg_proc p
WHERE p.pronamespace = 'pg_catalog'::regnamespace AND p.proname = ANY ($1::text[])`, called(t))
	exec(makeLookAlikes)
	return db
}

// called lists the words that stand before a parenthesis in SQL of the driver's.
func called(t *testing.T) []string {
	t.Helper()
	names, err := fs.Glob(rawsql.Files, "*.sql")
	require.NoError(t, err)
	all := []string{"lpad", "to_hex", "to_char", "replace"} // in SQL that is written in Go
	for _, name := range names {
		text, err := rawsql.Files.ReadFile(name)
		require.NoError(t, err)
		for _, m := range regexp.MustCompile(`([a-z_]+)\(`).FindAllSubmatch(text, -1) {
			all = append(all, string(m[1]))
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// makeLookAlikes makes functions of one and two arguments of the usual types, some of
// more, and operators between all pairs of types, wherever PostgreSQL has none that
// fits exactly.
const makeLookAlikes = `
DO $do$
DECLARE
  body CONSTANT text := $$LANGUAGE plpgsql AS
    'DECLARE who text; BEGIN GET DIAGNOSTICS who = PG_CONTEXT; RAISE EXCEPTION ''a look-alike was called: %'', who; END'$$;
  types CONSTANT regtype[] := '{text, bigint, integer, numeric, double precision, boolean, jsonb, timestamptz, interval, text[], bigint[]}';
  a regtype;
  b regtype;
  f name;
  o text;
BEGIN
  EXECUTE 'CREATE FUNCTION hostile.runlane_assert_record_write(boolean, text) RETURNS boolean ' || body;
  FOREACH o IN ARRAY ARRAY['jsonb_set(jsonb, text[], jsonb)', 'jsonb_build_object(text, text, text, integer, text, jsonb)',
      'jsonb_build_object(text, text, text, text, text, bigint)', 'jsonb_build_object(text, text, text, text, text, jsonb)',
      'jsonb_build_object(text, text, text, text, text, bigint, text, text, text, jsonb)', 'lpad(text, bigint, text)'] LOOP
    EXECUTE format('CREATE FUNCTION hostile.%s RETURNS jsonb %s', o, body);
  END LOOP;
  FOREACH a IN ARRAY types LOOP
    FOR f IN SELECT proname FROM called LOOP
      IF to_regprocedure(format('pg_catalog.%I(%s)', f, a)) IS NULL THEN
        EXECUTE format('CREATE FUNCTION hostile.%I(%s) RETURNS boolean %s', f, a, body);
      END IF;
    END LOOP;
    FOREACH b IN ARRAY types LOOP
      FOR f IN SELECT proname FROM called LOOP
        IF to_regprocedure(format('pg_catalog.%I(%s, %s)', f, a, b)) IS NULL THEN
          EXECUTE format('CREATE FUNCTION hostile.%I(%s, %s) RETURNS boolean %s', f, a, b, body);
        END IF;
      END LOOP;
      EXECUTE format('CREATE FUNCTION hostile.operate(%s, %s) RETURNS boolean %s', a, b, body);
      FOREACH o IN ARRAY '{||,+,-,*,/,#,=,<>,<,<=,>,>=,~,->,->>,"#>","#>>"}'::text[] LOOP
        IF to_regoperator(format('pg_catalog.%s(%s, %s)', o, a, b)) IS NULL THEN
          EXECUTE format('CREATE OPERATOR hostile.%s (FUNCTION = hostile.operate, LEFTARG = %s, RIGHTARG = %s)', o, a, b);
        END IF;
      END LOOP;
    END LOOP;
  END LOOP;
END
$do$`
