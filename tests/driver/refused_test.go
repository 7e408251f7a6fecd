package driver_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/internal/pgtest"
	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/codec"
	"github.com/seed4391e180/runlane/storage/postgres"
)

// TestRefusedInput gives every kind of bad input and finds a typed error, and
// nothing stored.
func TestRefusedInput(t *testing.T) {
	w := newWorld(t)
	key, err := codec.RunKey("prod", "r")
	require.NoError(t, err)
	long := strings.Repeat("x", 2000)
	entry := func(partition, sort string) []storage.Entry {
		return []storage.Entry{{Index: storage.RunsByDue, Partition: partition, Sort: sort}}
	}
	tests := []struct {
		name string
		want error
		rec  storage.Record
	}{
		{"NUL in a document", storage.ErrInvalidDocument, storage.Record{Key: key, Document: []byte(`{"value":{"a":"\u0000"}}`)}},
		{"NUL in an object key", storage.ErrInvalidDocument, storage.Record{Key: key, Document: []byte(`{"\u0000":1}`)}},
		{"a lone surrogate", storage.ErrInvalidDocument, storage.Record{Key: key, Document: []byte(`["\ud800"]`)}},
		{"invalid UTF-8", storage.ErrInvalidDocument, storage.Record{Key: key, Document: []byte("[\"\xff\"]")}},
		{"not JSON", storage.ErrInvalidDocument, storage.Record{Key: key, Document: []byte(`{`)}},
		{"no document", storage.ErrInvalidDocument, storage.Record{Key: key}},
		{"a number out of range", storage.ErrInvalidDocument, storage.Record{Key: key, Document: []byte(`1e200000`)}},
		{"too deep", storage.ErrInvalidDocument, storage.Record{Key: key, Document: []byte(strings.Repeat("[", 600) + strings.Repeat("]", 600))}},
		{"too large", storage.ErrTooLarge, storage.Record{Key: key, Document: []byte(`"` + strings.Repeat("x", 1<<20) + `"`)}},
		{"no collection", storage.ErrInvalidKey, storage.Record{Key: storage.Key{Partition: "$p!", ID: "$i!"}, Document: []byte(`1`)}},
		{"no id", storage.ErrInvalidKey, storage.Record{Key: storage.Key{Collection: storage.Runs, Partition: "$p!"}, Document: []byte(`1`)}},
		{"NUL in a key", storage.ErrInvalidKey, storage.Record{Key: storage.Key{Collection: storage.Runs, Partition: "$p!", ID: "a\x00"}, Document: []byte(`1`)}},
		{"a long key", storage.ErrTooLarge, storage.Record{Key: storage.Key{Collection: storage.Runs, Partition: "$p!", ID: long}, Document: []byte(`1`)}},
		{"half an entry", storage.ErrInvalidKey, storage.Record{Key: key, Document: []byte(`1`), Entries: entry(key.Partition, "")}},
		{"an entry in another environment", storage.ErrInvalidKey, storage.Record{Key: key, Document: []byte(`1`), Entries: entry("$other!", "#1")}},
		{"an entry of another collection", storage.ErrInvalidKey, storage.Record{Key: key, Document: []byte(`1`),
			Entries: []storage.Entry{{Index: storage.RunEventsBySequence, Partition: key.Partition, Sort: "#1"}}}},
		{"a long entry", storage.ErrTooLarge, storage.Record{Key: key, Document: []byte(`1`), Entries: entry(key.Partition+long, "#1")}},
		{"a negative delay", storage.ErrInvalidDocument, storage.Record{Key: key, Document: []byte(`1`), Later: -1}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := w.transact(func(ctx context.Context, tx storage.Tx) error { return tx.Create(ctx, test.rec) })
			require.ErrorIs(t, err, test.want)
			var input *storage.InputError
			require.ErrorAs(t, err, &input)
			require.NotEmpty(t, input.Field+input.Reason)
		})
	}
	for _, q := range []storage.Query{
		{Partition: "$p!"},
		{Index: storage.RunsByDue},
		{Index: storage.RunsByDue, Partition: "$p!", Limit: 501},
		{Index: storage.RunsByDue, Partition: "$p!", Limit: -1},
		{Index: storage.RunsByDue, Partition: "no encoding"},
		{Index: storage.RunsByDue, Partition: "x"},
		{Index: storage.RunsByDue, Partition: "$p!", Resume: storage.Resume{Sort: "x"}},
	} {
		_, err := w.transact(func(ctx context.Context, tx storage.Tx) error {
			_, err := tx.Query(ctx, q)
			return err
		})
		require.ErrorIs(t, err, storage.ErrInvalidQuery, "%+v", q)
	}
	_, err = w.d.ListRuns(t.Context(), storage.RunFilter{Environment: "prod", Limit: 501})
	require.ErrorIs(t, err, storage.ErrInvalidQuery)
	require.ErrorContains(t, err, "500")
	_, err = w.d.ListRuns(t.Context(), storage.RunFilter{Environment: "prod", Cursor: "page 2"})
	require.ErrorIs(t, err, storage.ErrInvalidCursor)
	_, err = w.d.ListRuns(t.Context(), storage.RunFilter{})
	require.ErrorIs(t, err, storage.ErrInvalidQuery)
	_, err = w.d.ListEvents(t.Context(), storage.EventFilter{Environment: "prod"})
	require.ErrorIs(t, err, storage.ErrUnsupportedFilter, "a sort by sequence needs a run")
	_, _, err = w.d.GetRun(t.Context(), "a:b", "r")
	require.ErrorIs(t, err, storage.ErrInvalidKey)

	for _, c := range storage.Collections() {
		var n int
		require.NoError(t, w.pool.QueryRow(t.Context(), "SELECT count(*) FROM runlane."+postgres.TableName(c)).Scan(&n))
		require.Zero(t, n, "%v", c)
	}
}

// TestRefusedConfiguration makes everything around the driver wrong, one thing at a
// time: each is ErrConfiguration, says the mend, is not retried, and stores nothing.
func TestRefusedConfiguration(t *testing.T) {
	create := func(ctx context.Context, d *postgres.Driver) error {
		key, err := codec.RunKey("prod", "r")
		require.NoError(t, err)
		attempts := 0
		_, err = d.Transact(ctx, "create", func(ctx context.Context, tx storage.Tx) error {
			attempts++
			return tx.Create(ctx, storage.Record{Key: key, Document: []byte(`{}`)})
		})
		require.LessOrEqual(t, attempts, 1)
		return err
	}
	refused := func(t *testing.T, err error, mend string) {
		t.Helper()
		require.ErrorIs(t, err, storage.ErrConfiguration)
		require.False(t, storage.Retryable(err))
		var c *storage.ConfigurationError
		require.ErrorAs(t, err, &c)
		require.Contains(t, c.Mend, mend)
	}
	checkRefuses := func(t *testing.T, d *postgres.Driver, mend string) {
		t.Helper()
		_, err := d.Check(t.Context())
		refused(t, err, mend)
	}
	withPool := func(t *testing.T, config *pgxpool.Config, c postgres.Config) *postgres.Driver {
		pool, err := pgxpool.NewWithConfig(t.Context(), config)
		require.NoError(t, err)
		t.Cleanup(pool.Close)
		d, err := postgres.New(pool, c)
		require.NoError(t, err)
		return d
	}

	t.Run("schema name", func(t *testing.T) {
		pool := pgtest.New(t, pgtest.Empty()).Pool(t)
		for _, schema := range []string{strings.Repeat("é", 32), "a\x00b", "\xff"} {
			_, err := postgres.New(pool, postgres.Config{Schema: schema})
			refused(t, err, "")
		}
		_, err := postgres.New(nil, postgres.Config{})
		refused(t, err, "Open")
		_, err = postgres.New(pool, postgres.Config{LockTimeout: -1})
		refused(t, err, "default")
	})
	t.Run("database URL", func(t *testing.T) {
		_, err := postgres.Open(t.Context(), "postgres://%zz", postgres.Config{})
		refused(t, err, "postgres://")
	})
	t.Run("no such database", func(t *testing.T) {
		config := pgtest.New(t, pgtest.Empty()).Config(t)
		config.ConnConfig.Database = "there is none"
		d := withPool(t, config, postgres.Config{})
		refused(t, create(t.Context(), d), "create the database")
	})
	t.Run("unmigrated database", func(t *testing.T) {
		d := withPool(t, pgtest.New(t, pgtest.Empty()).Config(t), postgres.Config{})
		refused(t, create(t.Context(), d), "runlane migrate apply")
		checkRefuses(t, d, "runlane migrate apply")
		_, _, err := d.GetRun(t.Context(), "prod", "r")
		refused(t, err, "runlane migrate apply")
	})
	t.Run("another schema", func(t *testing.T) {
		d := withPool(t, pgtest.New(t, pgtest.Schema(`a"b`)).Config(t), postgres.Config{})
		refused(t, create(t.Context(), d), "right schema")
	})
	t.Run("isolation level", func(t *testing.T) {
		db := pgtest.New(t)
		for _, level := range []string{"repeatable read", "serializable"} {
			config := db.Config(t)
			config.ConnConfig.RuntimeParams["default_transaction_isolation"] = level
			d := withPool(t, config, postgres.Config{})
			refused(t, create(t.Context(), d), "read committed")
			checkRefuses(t, d, "read committed")
		}
		requireEmpty(t, db)
	})
	t.Run("missing function", func(t *testing.T) {
		db := pgtest.New(t)
		_, err := db.Pool(t).Exec(t.Context(), "DROP FUNCTION runlane.runlane_assert_record_write")
		require.NoError(t, err)
		d := withPool(t, db.Config(t), postgres.Config{})
		refused(t, create(t.Context(), d), "migrate")
		checkRefuses(t, d, "migrate")
		requireEmpty(t, db)
	})
	t.Run("missing permission", func(t *testing.T) {
		db := pgtest.New(t)
		pool := db.Pool(t)
		role := "clerk_" + db.Name
		exec := func(sql string) {
			_, err := pool.Exec(t.Context(), sql)
			require.NoError(t, err, sql)
		}
		exec(fmt.Sprintf("CREATE ROLE %q LOGIN", role))
		t.Cleanup(func() {
			_, err := pool.Exec(context.Background(), fmt.Sprintf("DROP OWNED BY %q; DROP ROLE %q", role, role))
			require.NoError(t, err)
		})
		steps := []struct{ grant, missing string }{
			{"USAGE ON SCHEMA runlane", "permission denied for schema"},
			{"EXECUTE ON FUNCTION runlane.runlane_assert_record_write", ""},
			{"USAGE ON SEQUENCE runlane.runlane_record_versions", "sequence"},
			{"SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA runlane", "table"},
		}
		exec("REVOKE EXECUTE ON FUNCTION runlane.runlane_assert_record_write FROM PUBLIC")
		for _, step := range steps {
			config := db.Config(t)
			config.ConnConfig.RuntimeParams["role"] = role
			d := withPool(t, config, postgres.Config{})
			err := create(t.Context(), d)
			refused(t, err, "runlane migrate grants")
			require.ErrorContains(t, err, step.missing)
			checkRefuses(t, d, "runlane migrate grants")
			requireEmpty(t, db)
			exec(fmt.Sprintf("GRANT %s TO %q", step.grant, role))
		}
		config := db.Config(t)
		config.ConnConfig.RuntimeParams["role"] = role
		d := withPool(t, config, postgres.Config{})
		require.NoError(t, create(t.Context(), d))
		requireFit(t, d)
	})
}

func requireEmpty(t *testing.T, db *pgtest.DB) {
	t.Helper()
	var n int
	require.NoError(t, db.Pool(t).QueryRow(t.Context(), "SELECT count(*) FROM runlane.runlane_runs").Scan(&n))
	require.Zero(t, n)
}

// TestUnavailable shows what a server that is not there looks like.
func TestUnavailable(t *testing.T) {
	config := pgtest.New(t, pgtest.Empty()).Config(t)
	config.ConnConfig.Host, config.ConnConfig.Port = "127.0.0.1", 1
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	d, err := postgres.New(pool, postgres.Config{})
	require.NoError(t, err, "New does no input or output")
	_, err = d.Transact(t.Context(), "read", func(ctx context.Context, tx storage.Tx) error {
		key, err := codec.RunKey("prod", "r")
		require.NoError(t, err)
		_, _, err = tx.Get(ctx, key)
		return err
	})
	require.ErrorIs(t, err, storage.ErrUnavailable)
	require.True(t, storage.Retryable(err))
	require.NoError(t, d.Close())
	_, err = d.Transact(t.Context(), "closed", func(context.Context, storage.Tx) error { return nil })
	require.ErrorIs(t, err, storage.ErrClosed)
}
