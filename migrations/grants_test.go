package migrations_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/internal/pgtest"
	"github.com/seed4391e180/runlane/migrations"
)

func TestGrantsAreStatements(t *testing.T) {
	grants, err := migrations.Grants("", "app")
	require.NoError(t, err)
	require.Equal(t, `GRANT USAGE ON SCHEMA "runlane" TO "app"`, grants[0])
	require.Equal(t, `GRANT SELECT, INSERT, UPDATE, DELETE ON TABLE "runlane"."runlane_runs" TO "app"`, grants[1])
	require.Equal(t, []string{
		`GRANT USAGE ON SEQUENCE "runlane"."runlane_record_versions" TO "app"`,
		`GRANT EXECUTE ON FUNCTION "runlane"."runlane_assert_record_write"(boolean, text) TO "app"`,
	}, grants[len(grants)-2:])
	again, err := migrations.Grants(migrations.DefaultSchema, "app")
	require.NoError(t, err)
	require.Equal(t, grants, again)
}

// rightsOf lists everything in the database that a role may do by name.
const rightsOf = `
WITH objects AS (
  SELECT 'schema' AS kind, n.nspname::text AS name, n.nspacl AS acl FROM pg_namespace n
  UNION ALL
  SELECT CASE c.relkind WHEN 'S' THEN 'sequence' ELSE 'table' END, c.relname::text, c.relacl FROM pg_class c
  UNION ALL
  SELECT 'column', a.attname::text, a.attacl FROM pg_attribute a
  UNION ALL
  SELECT 'function', p.proname::text, p.proacl FROM pg_proc p
  UNION ALL
  SELECT 'database', d.datname::text, d.datacl FROM pg_database d
  UNION ALL
  SELECT 'default', d.defaclobjtype::text, d.defaclacl FROM pg_default_acl d
)
SELECT concat_ws(' ', o.kind, o.name, a.privilege_type, CASE WHEN a.is_grantable THEN 'with grant option' END)
FROM objects o, LATERAL aclexplode(o.acl) a JOIN pg_roles r ON r.oid = a.grantee
WHERE r.rolname = $1
ORDER BY 1`

// The grants reach everything that the migrations made but the ledger, in whatever
// schema and for whatever role, and reach nothing else.
func TestGrantsCoverTheSchema(t *testing.T) {
	for i, schema := range []string{migrations.DefaultSchema, `a"b'c {table} $1`, `back\slash`, "Größe 1"} {
		t.Run(schema, func(t *testing.T) {
			conn := connect(t, pgtest.New(t, pgtest.Schema(schema)).URL)
			role := fmt.Sprintf(`%s_r"o'l\e %d`, conn.Config().Database, i)
			quoted := pgx.Identifier{role}.Sanitize()
			exec(t, conn, "CREATE ROLE %s", quoted)
			// Roles are the whole server's, and what one was granted keeps it.
			t.Cleanup(func() {
				_, err := conn.Exec(context.Background(), "DROP OWNED BY "+quoted+"; DROP ROLE "+quoted)
				require.NoError(t, err)
			})
			grants, err := migrations.Grants(schema, role)
			require.NoError(t, err)
			for range 2 {
				for _, grant := range grants {
					exec(t, conn, "%s", grant)
				}
			}

			rows, err := conn.Query(t.Context(), `SELECT c.relname::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = $1 AND c.relkind IN ('r', 'p', 'v', 'm', 'f') AND c.relname <> 'atlas_schema_revisions' ORDER BY 1`, schema)
			require.NoError(t, err)
			tables, err := pgx.CollectRows(rows, pgx.RowTo[string])
			require.NoError(t, err)
			want := []string{"function runlane_assert_record_write EXECUTE", "schema " + schema + " USAGE", "sequence runlane_record_versions USAGE"}
			for _, table := range tables {
				for _, right := range []string{"DELETE", "INSERT", "SELECT", "UPDATE"} {
					want = append(want, "table "+table+" "+right)
				}
			}
			require.ElementsMatch(t, want, rights(t, conn, role))

			exec(t, conn, "DROP OWNED BY %s", quoted)
			grants, err = migrations.OperatorGrants(schema, role)
			require.NoError(t, err)
			for _, grant := range grants {
				exec(t, conn, "%s", grant)
			}
			require.ElementsMatch(t, []string{"schema " + schema + " USAGE", "table runlane_runs SELECT", "table runlane_record_run_events SELECT"},
				rights(t, conn, role))
		})
	}
}

func rights(t *testing.T, conn *pgx.Conn, role string) []string {
	t.Helper()
	rows, err := conn.Query(t.Context(), rightsOf, role)
	require.NoError(t, err)
	all, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	return all
}

func TestGrantsRefuseNames(t *testing.T) {
	for name, c := range map[string]struct {
		schema, role string
		kind         error
	}{
		"no role":              {"runlane", "", migrations.ErrRoleName},
		"everybody":            {"runlane", "public", migrations.ErrRoleName},
		"nobody":               {"runlane", "none", migrations.ErrRoleName},
		"a long role":          {"runlane", strings.Repeat("x", 64), migrations.ErrRoleName},
		"NUL in the role":      {"runlane", "a\x00b", migrations.ErrRoleName},
		"a role in no charset": {"runlane", "\xff", migrations.ErrRoleName},
		"PostgreSQL's schema":  {"pg_mine", "app", migrations.ErrSchemaName},
		"a long schema":        {strings.Repeat("x", 64), "app", migrations.ErrSchemaName},
	} {
		t.Run(name, func(t *testing.T) {
			for _, f := range []func(schema, role string) ([]string, error){migrations.Grants, migrations.OperatorGrants} {
				grants, err := f(c.schema, c.role)
				require.ErrorIs(t, err, c.kind)
				require.Empty(t, grants)
				var told *migrations.Error
				require.ErrorAs(t, err, &told)
				require.Equal(t, c.schema, told.Schema)
				require.NotEmpty(t, told.Mend)
			}
		})
	}
	_, err := migrations.Grants(strings.Repeat("x", 63), strings.Repeat("x", 63))
	require.NoError(t, err)
}
