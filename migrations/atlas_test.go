package migrations_test

import (
	"context"
	"database/sql"
	"io/fs"
	"testing"
	"time"

	"ariga.io/atlas/sql/migrate"
	"ariga.io/atlas/sql/postgres"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/migrations"
)

// These tests drive the executor that the Atlas CLI runs, over the same ledger
// table, and compare.

func TestLedgerIsTheOneThatAtlasWrites(t *testing.T) {
	dir := three.with("4_odd.sql", "-- a;\nSELECT 'a;b', $x$;$x$;\n/* ; */ SELECT 1;\nSELECT 2;\nALTER TABLE \"runlane_one\" ADD COLUMN \"size\" bigint").with("5_index.sql", grown["5_index.sql"]).fs(t)

	ours := empty(t)
	apply(t, ours, dir)

	theirs := empty(t)
	exec(t, theirs, "CREATE SCHEMA runlane; CREATE TABLE runlane.atlas_schema_revisions %s", ledgerColumns)
	require.NoError(t, executor(t, theirs, dir).ExecuteN(t.Context(), 0))

	require.Equal(t, ledgerOf(t, theirs), ledgerOf(t, ours))
	require.Len(t, ledgerOf(t, ours), 5)
}

func TestAtlasContinuesWhatTheRunnerBegan(t *testing.T) {
	conn := empty(t)
	apply(t, conn, three.without("3_three.sql").fs(t))
	ex := executor(t, conn, three.fs(t))
	pending, err := ex.Pending(t.Context())
	require.NoError(t, err)
	require.Len(t, pending, 1)
	require.NoError(t, ex.ExecuteN(t.Context(), 0))
	require.NoError(t, migrations.Verify(t.Context(), conn, migrations.Options{Dir: three.fs(t)}))
}

func TestTheRunnerContinuesWhatAtlasBegan(t *testing.T) {
	conn := empty(t)
	exec(t, conn, "CREATE SCHEMA runlane; CREATE TABLE runlane.atlas_schema_revisions %s", ledgerColumns)
	require.NoError(t, executor(t, conn, three.fs(t)).ExecuteN(t.Context(), 2))
	result := apply(t, conn, three.fs(t))
	require.Equal(t, []string{"3_three.sql"}, names(result.Applied))
	_, err := executor(t, conn, three.fs(t)).Pending(t.Context())
	require.ErrorIs(t, err, migrate.ErrNoPendingFiles)
}

// An index that the runner began and did not finish is one that Atlas can.
func TestAtlasContinuesAnIndexThatTheRunnerBegan(t *testing.T) {
	conn, worker := populated(t)
	exec(t, worker, "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1")
	_, err := migrations.Apply(t.Context(), conn, migrations.Options{Dir: grown.fs(t), IndexWait: 20 * time.Millisecond})
	require.ErrorIs(t, err, migrations.ErrLocked)
	exec(t, worker, "ROLLBACK")
	require.NoError(t, executor(t, conn, grown.fs(t)).ExecuteN(t.Context(), 0))
	requireWhole(t, conn)
}

// And the other way round: Atlas has written its row, and its build has failed.
func TestTheRunnerContinuesAnIndexThatAtlasBegan(t *testing.T) {
	conn, worker := populated(t)
	exec(t, worker, "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1")
	exec(t, conn, "ALTER DATABASE %s SET lock_timeout = '20ms'", pgx.Identifier{conn.Config().Database}.Sanitize())
	require.ErrorContains(t, executor(t, conn, grown.fs(t)).ExecuteN(t.Context(), 0), "lock timeout")
	refused(t, migrations.Verify(t.Context(), conn, migrations.Options{Dir: grown.fs(t)}), migrations.ErrInvalidIndex, "runlane_one_size")
	exec(t, worker, "ROLLBACK")
	apply(t, conn, grown.fs(t))
	requireWhole(t, conn)
}

// The row by which Atlas's cloud knows a database is no migration.
func TestAtlasCloudRowIsNoMigration(t *testing.T) {
	conn := empty(t)
	apply(t, conn, three.fs(t))
	exec(t, conn, `INSERT INTO runlane.atlas_schema_revisions VALUES ('.atlas_cloud_identifier', 'x', 2, 0, 0, now(), 0, '', '', '', 'null', 'Atlas CLI')`)
	require.NoError(t, migrations.Verify(t.Context(), conn, migrations.Options{Dir: three.fs(t)}))
}

// ledgerOf reads what does not depend on when and by whom a file was applied.
func ledgerOf(t *testing.T, conn *pgx.Conn) []string {
	t.Helper()
	rows, err := conn.Query(t.Context(), `SELECT (to_jsonb(r) - 'executed_at' - 'execution_time' - 'operator_version')::text
FROM runlane.atlas_schema_revisions r ORDER BY version`)
	require.NoError(t, err)
	all, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	return all
}

func executor(t *testing.T, conn *pgx.Conn, dir fs.FS) *migrate.Executor {
	t.Helper()
	config := conn.Config().Copy()
	config.RuntimeParams["search_path"] = "runlane"
	db := openDBWith(t, config)
	driver, err := postgres.Open(db)
	require.NoError(t, err)
	mem := &migrate.MemDir{}
	list, err := fs.Glob(dir, "*")
	require.NoError(t, err)
	for _, name := range list {
		text, err := fs.ReadFile(dir, name)
		require.NoError(t, err)
		require.NoError(t, mem.WriteFile(name, text))
	}
	ex, err := migrate.NewExecutor(driver, mem, revisions{db}, migrate.WithOperatorVersion("atlas"), migrate.WithAllowDirty(true))
	require.NoError(t, err)
	return ex
}

// revisions is a ledger as the CLI keeps it.
type revisions struct{ db *sql.DB }

func (revisions) Ident() *migrate.TableIdent {
	return &migrate.TableIdent{Name: "atlas_schema_revisions"}
}

func (r revisions) ReadRevisions(ctx context.Context) (all []*migrate.Revision, err error) {
	rows, err := r.db.QueryContext(ctx, `SELECT version, description, type, applied, total, hash FROM atlas_schema_revisions ORDER BY version`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var v migrate.Revision
		if err := rows.Scan(&v.Version, &v.Description, &v.Type, &v.Applied, &v.Total, &v.Hash); err != nil {
			return nil, err
		}
		all = append(all, &v)
	}
	return all, rows.Err()
}

func (r revisions) ReadRevision(ctx context.Context, version string) (*migrate.Revision, error) {
	all, err := r.ReadRevisions(ctx)
	for _, v := range all {
		if v.Version == version {
			return v, nil
		}
	}
	if err != nil {
		return nil, err
	}
	return nil, migrate.ErrRevisionNotExist
}

func (r revisions) WriteRevision(ctx context.Context, v *migrate.Revision) error {
	_, err := r.db.ExecContext(ctx, `INSERT INTO atlas_schema_revisions VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, 'null', $11)
ON CONFLICT (version) DO UPDATE SET applied = excluded.applied, error = excluded.error, error_stmt = excluded.error_stmt, execution_time = excluded.execution_time`,
		v.Version, v.Description, int64(v.Type), v.Applied, v.Total, v.ExecutedAt, int64(v.ExecutionTime), v.Error, v.ErrorStmt, v.Hash, v.OperatorVersion)
	return err
}

func (r revisions) DeleteRevision(ctx context.Context, version string) error {
	_, err := r.db.ExecContext(ctx, `DELETE FROM atlas_schema_revisions WHERE version = $1`, version)
	return err
}
