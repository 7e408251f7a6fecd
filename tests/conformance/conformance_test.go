// Package conformance_test proves the PostgreSQL driver with the exported suite, in
// every setting that users have.
package conformance_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/internal/pgtest"
	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/postgres"
	"github.com/seed4391e180/runlane/storage/storagetest"
)

// open makes the suite's constructor: a database of its own for each store.
func open(schema string, change func(*pgxpool.Config)) storagetest.Open {
	return func(t testing.TB) storage.Driver {
		config := pgtest.New(t, pgtest.Schema(schema)).Config(t)
		if change != nil {
			change(config)
		}
		pool, err := pgxpool.NewWithConfig(context.Background(), config)
		require.NoError(t, err)
		t.Cleanup(pool.Close)
		d, err := postgres.New(pool, postgres.Config{Schema: schema})
		require.NoError(t, err)
		return d
	}
}

func TestDefaults(t *testing.T) { storagetest.Run(t, open(postgres.DefaultSchema, nil)) }

// TestSettings runs the suite in settings that change how statements travel or what
// names and texts mean. The first uses one connection for everything.
func TestSettings(t *testing.T) {
	setting := func(name, value string) func(*pgxpool.Config) {
		return func(c *pgxpool.Config) { c.ConnConfig.RuntimeParams[name] = value }
	}
	mode := func(m pgx.QueryExecMode) func(*pgxpool.Config) {
		return func(c *pgxpool.Config) { c.ConnConfig.DefaultQueryExecMode = m }
	}
	t.Run("one connection", func(t *testing.T) {
		storagetest.RunSingle(t, open(postgres.DefaultSchema, func(c *pgxpool.Config) { c.MaxConns = 1 }))
	})
	settings := []struct {
		name   string
		schema string
		change func(*pgxpool.Config)
	}{
		{"cache_describe", postgres.DefaultSchema, mode(pgx.QueryExecModeCacheDescribe)},
		{"describe_exec", postgres.DefaultSchema, mode(pgx.QueryExecModeDescribeExec)},
		{"exec", postgres.DefaultSchema, mode(pgx.QueryExecModeExec)},
		{"simple protocol", postgres.DefaultSchema, mode(pgx.QueryExecModeSimpleProtocol)},
		{"a schema name with quotes", `a"b'c {table} $1`, nil},
		{"an empty search path", postgres.DefaultSchema, setting("search_path", "")},
		{"a half-hour time zone and another date style", postgres.DefaultSchema, func(c *pgxpool.Config) {
			setting("TimeZone", "Asia/Kolkata")(c)
			setting("DateStyle", "SQL, DMY")(c)
		}},
		{"generic plans", postgres.DefaultSchema, setting("plan_cache_mode", "force_generic_plan")},
	}
	for _, s := range settings {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			storagetest.Run(t, open(s.schema, s.change))
		})
	}
}
