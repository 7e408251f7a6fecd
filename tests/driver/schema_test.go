package driver_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/internal/pgtest"
	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/postgres"
)

// TestSchemaChangesUnderPreparedStatements changes the type of columns that prepared
// statements return. PostgreSQL refuses such a statement once ("cached plan must not
// change result type"); nobody sees it.
func TestSchemaChangesUnderPreparedStatements(t *testing.T) {
	ctx := context.Background()
	db := pgtest.New(t)
	config := db.Config(t)
	config.MaxConns = 1
	pool, err := pgxpool.NewWithConfig(ctx, config)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	d, err := postgres.New(pool, postgres.Config{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	_, recs := newRun(t, "r1", `{}`)
	_, err = d.Transact(ctx, "create", createAll(recs))
	require.NoError(t, err)

	replace := func() (storage.Commit, error) {
		return d.Transact(ctx, "replace", func(ctx context.Context, tx storage.Tx) error {
			if _, found, err := tx.Get(ctx, recs[0].Key); err != nil || !found {
				return err
			}
			return tx.Replace(ctx, recs[0])
		})
	}
	read := func() {
		_, found, err := d.GetRun(ctx, "prod", "r1")
		require.NoError(t, err)
		require.True(t, found)
	}
	commit, err := replace()
	require.NoError(t, err)
	require.Equal(t, 1, commit.Attempts)
	read()
	_, err = db.Pool(t).Exec(ctx, `ALTER TABLE runlane.runlane_runs ALTER run_id TYPE varchar(1024) COLLATE "C"`)
	require.NoError(t, err)
	read()
	commit, err = replace()
	require.NoError(t, err)
	require.Equal(t, 2, commit.Attempts, "the first attempt met the outdated statement")
}
