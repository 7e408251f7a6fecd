package migrations_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/migrations"
)

func TestAnyLegalSchemaName(t *testing.T) {
	conn := empty(t)
	for _, name := range []string{
		`a"b`, `a'b`, `a\b`, `a b`, `a,b`, `A`, `a`, `täble`, `$1`, `%s`, `a;--`, `"`, `select`, ` `,
		strings.Repeat("s", 63), "ä" + strings.Repeat("ö", 30) + "x",
	} {
		t.Run(name, func(t *testing.T) {
			o := migrations.Options{Schema: name}
			result, err := migrations.Apply(t.Context(), conn, o)
			require.NoError(t, err)
			require.True(t, result.Created)
			require.Equal(t, name, result.Schema)
			require.NoError(t, migrations.Verify(t.Context(), conn, o))
			result, err = migrations.Apply(t.Context(), conn, o)
			require.NoError(t, err)
			require.Empty(t, result.Applied)
			require.Equal(t, 1, value[int](t, conn, `SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace
WHERE nspname = $1 AND relname = 'runlane_runs'`, name))
		})
	}
}

func TestIllegalSchemaNameIsRefusedBeforeSQL(t *testing.T) {
	conn := empty(t)
	for _, name := range []string{strings.Repeat("s", 64), strings.Repeat("ö", 32), "a\x00b", "a\xffb", "pg_runlane", "$user"} {
		_, err := migrations.Apply(t.Context(), conn, migrations.Options{Schema: name})
		require.ErrorIs(t, err, migrations.ErrSchemaName, "%q", name)
	}
	require.Empty(t, objects(t, conn))
}

// asRole makes the session one of a new role that may do nothing.
func asRole(t *testing.T, conn *pgx.Conn) string {
	t.Helper()
	admin := again(t, conn)
	role := fmt.Sprintf("runlane_test_%d", rand.Uint64())
	exec(t, admin, "CREATE ROLE %s", role)
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		cleanup, err := pgx.ConnectConfig(ctx, conn.Config())
		require.NoError(t, err)
		_, err = cleanup.Exec(ctx, "DROP OWNED BY "+role+" CASCADE; DROP ROLE "+role)
		require.NoError(t, errors.Join(err, cleanup.Close(ctx)))
	})
	exec(t, conn, "SET ROLE %s", role)
	return role
}

func TestPermissions(t *testing.T) {
	conn := empty(t)
	admin := again(t, conn)
	role := asRole(t, conn)
	denied := func(file, mend string) {
		t.Helper()
		_, err := migrations.Apply(t.Context(), conn, migrations.Options{})
		refused(t, err, migrations.ErrPermission, file)
		require.ErrorContains(t, err, mend)
	}
	denied("", `CREATE SCHEMA "runlane" AUTHORIZATION`)
	exec(t, admin, "CREATE SCHEMA runlane")
	denied("", `GRANT USAGE ON SCHEMA "runlane"`)
	exec(t, admin, "GRANT USAGE ON SCHEMA runlane TO %s", role)
	denied("", `GRANT CREATE ON SCHEMA "runlane"`)
	exec(t, admin, "GRANT CREATE ON SCHEMA runlane TO %s", role)
	_, err := migrations.Apply(t.Context(), conn, migrations.Options{})
	require.NoError(t, err)

	// A second role may read the ledger only if it was told that it may.
	reader := again(t, conn)
	name := asRole(t, reader)
	exec(t, admin, "GRANT USAGE ON SCHEMA runlane TO %s", name)
	err = migrations.Verify(t.Context(), reader, migrations.Options{})
	refused(t, err, migrations.ErrPermission, "atlas_schema_revisions")
	exec(t, admin, "GRANT SELECT ON runlane.atlas_schema_revisions TO %s", name)
	require.NoError(t, migrations.Verify(t.Context(), reader, migrations.Options{}))
	_, err = migrations.Apply(t.Context(), reader, migrations.Options{})
	require.NoError(t, err, "nothing is pending, so nothing needs to be allowed")
}

func TestMigratingWithoutOwnership(t *testing.T) {
	conn := empty(t)
	apply(t, conn, three.fs(t))
	admin := again(t, conn)
	role := asRole(t, conn)
	exec(t, admin, "GRANT USAGE, CREATE ON SCHEMA runlane TO %s; GRANT ALL ON ALL TABLES IN SCHEMA runlane TO %s", role, role)
	next := three.with("4_alter.sql", "ALTER TABLE \"runlane_two\" ADD COLUMN \"x\" bigint;\n")
	_, err := migrations.Apply(t.Context(), conn, migrations.Options{Dir: next.fs(t)})
	refused(t, err, migrations.ErrPermission, "4_alter.sql")
}

func TestIndexInAnyLegalSchema(t *testing.T) {
	conn := empty(t)
	for _, name := range []string{`a"b`, `a'b`, `a\b`, `A b,c`, strings.Repeat("s", 63)} {
		o := migrations.Options{Schema: name, Dir: grown.fs(t)}
		_, err := migrations.Apply(t.Context(), conn, o)
		require.NoError(t, err, name)
		require.NoError(t, migrations.Verify(t.Context(), conn, o))
		require.Equal(t, 1, value[int](t, conn, `SELECT count(*) FROM pg_indexes WHERE schemaname = $1 AND indexname = 'runlane_one_size'`, name))
	}
}

// A role that may write rows and create tables is no owner of a table, whose index it
// wants to build. Nothing of it stays, and the owner can go on.
func TestIndexWithoutOwnership(t *testing.T) {
	conn, admin := populated(t)
	role := asRole(t, conn)
	o := migrations.Options{Dir: grown.fs(t)}
	exec(t, admin, "GRANT USAGE, CREATE ON SCHEMA runlane TO %s; GRANT SELECT ON ALL TABLES IN SCHEMA runlane TO %s", role, role)
	_, err := migrations.Apply(t.Context(), conn, o)
	refused(t, err, migrations.ErrPermission, "5_index.sql")
	require.ErrorContains(t, err, "GRANT INSERT, UPDATE")
	exec(t, admin, "GRANT ALL ON ALL TABLES IN SCHEMA runlane TO %s", role)
	_, err = migrations.Apply(t.Context(), conn, o)
	refused(t, err, migrations.ErrPermission, "5_index.sql")
	require.ErrorContains(t, err, "owner")
	apply(t, admin, grown.fs(t))
	requireWhole(t, admin)
}
