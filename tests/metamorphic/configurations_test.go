package metamorphic_test

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/internal/pgtest"
	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/memory"
	"github.com/seed4391e180/runlane/storage/postgres"
)

// oddSchema is a legal name that needs quotes.
const oddSchema = `a"b'c {table} $1`

// configuration is one way to play scripts.
type configuration struct {
	name      string
	manner    manner
	noAppends bool // it does not append; compare with the history of a script that does not
	memory    bool
	schema    string // DefaultSchema if empty
	pool      func(c *pgxpool.Config)
	driver    postgres.Config
	join      joiner
	restarts  bool // on a server of its own
}

// joiner begins a transaction of an application and joins it.
type joiner func(ctx context.Context, d *postgres.Driver, pool *pgxpool.Pool) (storage.Transactor, func() error, error)

const wholePage = 500

// oracle is the configuration that the others are compared with.
var oracle = configuration{name: "memory", memory: true, manner: manner{page: wholePage}}

func execMode(m pgx.QueryExecMode) func(*pgxpool.Config) {
	return func(c *pgxpool.Config) { c.ConnConfig.DefaultQueryExecMode = m }
}

func oneConnection(c *pgxpool.Config) { c.MaxConns = 1 }

func genericPlans(c *pgxpool.Config) {
	c.ConnConfig.RuntimeParams["plan_cache_mode"] = "force_generic_plan"
}

func customPlans(c *pgxpool.Config) {
	c.ConnConfig.RuntimeParams["plan_cache_mode"] = "force_custom_plan"
}

func both(one, other func(*pgxpool.Config)) func(*pgxpool.Config) {
	return func(c *pgxpool.Config) {
		one(c)
		other(c)
	}
}

// configurations lists them. In the short form each setting occurs once or twice,
// together with others; the long form adds each by itself, all other exec modes with
// all else, and a server that restarts.
func configurations(long bool) []configuration {
	all := []configuration{
		{name: "memory, key by key, pages of one", memory: true, manner: manner{singles: true, page: 1}},
		{name: "defaults"},
		{name: "cache_describe, pages of three, coalesced wakes", pool: execMode(pgx.QueryExecModeCacheDescribe), manner: manner{page: 3},
			driver: postgres.Config{Wakes: postgres.WakeCoalesced}},
		{name: "describe_exec, one connection", pool: both(execMode(pgx.QueryExecModeDescribeExec), oneConnection)},
		{name: "exec, key by key, pages of one", pool: execMode(pgx.QueryExecModeExec), manner: manner{singles: true, page: 1}},
		{name: "simple protocol, odd schema, no wakes", pool: execMode(pgx.QueryExecModeSimpleProtocol), schema: oddSchema,
			driver: postgres.Config{Wakes: postgres.WakeOff}},
		{name: "generic plans, one connection, key by key", pool: both(genericPlans, oneConnection), manner: manner{singles: true}},
		{name: "custom plans, odd schema, pages of one", pool: customPlans, schema: oddSchema, manner: manner{page: 1}},
		{name: "joined", noAppends: true, join: joinPgx},
		{name: "joined by database/sql, key by key", noAppends: true, join: joinSQL, manner: manner{singles: true}},
	}
	if long {
		all = slices.Concat(all, alone(), crossed(), []configuration{{name: "restarts", restarts: true, pool: oneConnection}})
	}
	for i := range all {
		if all[i].manner.page == 0 {
			all[i].manner.page = wholePage
		}
	}
	return all
}

// alone lists configurations that differ from the defaults in one thing.
func alone() []configuration {
	return []configuration{
		{name: "cache_describe alone", pool: execMode(pgx.QueryExecModeCacheDescribe)},
		{name: "describe_exec alone", pool: execMode(pgx.QueryExecModeDescribeExec)},
		{name: "exec alone", pool: execMode(pgx.QueryExecModeExec)},
		{name: "simple protocol alone", pool: execMode(pgx.QueryExecModeSimpleProtocol)},
		{name: "one connection alone", pool: oneConnection},
		{name: "odd schema alone", schema: oddSchema},
		{name: "key by key alone", manner: manner{singles: true}},
		{name: "pages of one alone", manner: manner{page: 1}},
		{name: "joined by database/sql alone", noAppends: true, join: joinSQL},
		{name: "coalesced wakes alone", driver: postgres.Config{Wakes: postgres.WakeCoalesced}},
		{name: "no wakes alone", driver: postgres.Config{Wakes: postgres.WakeOff}},
		{name: "generic plans alone", pool: genericPlans},
		{name: "custom plans alone", pool: customPlans},
	}
}

// crossed lists the exec modes other than the default, each together with the rest.
func crossed() []configuration {
	var all []configuration
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec, pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol} {
		change, name := execMode(mode), fmt.Sprintf(" with %s", mode)
		all = append(all,
			configuration{name: "one connection, key by key, pages of three" + name, pool: both(change, oneConnection), manner: manner{singles: true, page: 3}},
			configuration{name: "odd schema, pages of one, no wakes" + name, pool: change, schema: oddSchema, manner: manner{page: 1}, driver: postgres.Config{Wakes: postgres.WakeOff}},
			configuration{name: "joined, key by key" + name, pool: change, noAppends: true, join: joinPgx, manner: manner{singles: true}},
			configuration{name: "joined by database/sql, odd schema" + name, pool: change, noAppends: true, join: joinSQL, schema: oddSchema},
			configuration{name: "generic plans, coalesced wakes" + name, pool: both(change, genericPlans), driver: postgres.Config{Wakes: postgres.WakeCoalesced}},
		)
	}
	return all
}

// databases are those that configurations share: environments keep them apart.
type databases map[string]*pgtest.DB

func openDatabases(t testing.TB) databases {
	return databases{
		postgres.DefaultSchema: pgtest.New(t),
		oddSchema:              pgtest.New(t, pgtest.Schema(oddSchema)),
	}
}

// open makes a store of the configuration, which ends with the test.
func (c *configuration) open(t testing.TB, dbs databases) store {
	t.Helper()
	if c.memory {
		return inMemory()
	}
	schema := c.schema
	if schema == "" {
		schema = postgres.DefaultSchema
	}
	var restart func(ctx context.Context) error
	db := dbs[schema]
	if c.restarts {
		cluster := pgtest.Private(t, pgtest.Options{}) // durable: a crash takes nothing away
		db = pgtest.New(t, pgtest.On(cluster))
		restart = alternately(cluster)
	}
	config := db.Config(t)
	config.MaxConns = 4
	if c.pool != nil {
		c.pool(config)
	}
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	settings := c.driver
	settings.Schema = schema
	d, err := postgres.New(pool, settings)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	st := store{Driver: d, restart: restart}
	if c.join != nil {
		st.join = func(ctx context.Context) (storage.Transactor, func() error, error) { return c.join(ctx, d, pool) }
	}
	return st
}

// inMemory is an empty store.
func inMemory() store { return store{Driver: memory.New(memory.Config{Clock: steadyClock()})} }

// steadyClock goes on by a millisecond whenever it is asked.
func steadyClock() func() time.Time {
	now := time.Now()
	return func() time.Time {
		now = now.Add(time.Millisecond)
		return now
	}
}

// alternately restarts a server, with and without a shutdown.
func alternately(cluster *pgtest.Cluster) func(ctx context.Context) error {
	n := 0
	return func(ctx context.Context) error {
		n++
		return cluster.Restart(ctx, []pgtest.Mode{pgtest.Fast, pgtest.Immediate}[n%2])
	}
}

func joinPgx(ctx context.Context, d *postgres.Driver, pool *pgxpool.Pool) (storage.Transactor, func() error, error) {
	tx, err := pool.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted})
	if err != nil {
		return nil, nil, err
	}
	j, err := d.Join(ctx, tx)
	if err != nil {
		_ = tx.Rollback(ctx)
		return nil, nil, err
	}
	return j, func() error { return tx.Commit(ctx) }, nil
}

func joinSQL(ctx context.Context, d *postgres.Driver, pool *pgxpool.Pool) (storage.Transactor, func() error, error) {
	db := stdlib.OpenDBFromPool(pool)
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, nil, err
	}
	tx, err := conn.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	if err != nil {
		return nil, nil, err
	}
	j, err := d.JoinSQL(ctx, conn)
	if err != nil {
		_ = tx.Rollback()
		return nil, nil, err
	}
	return j, func() error {
		err := tx.Commit()
		if cerr := conn.Close(); err == nil {
			err = cerr
		}
		if cerr := db.Close(); err == nil {
			err = cerr
		}
		return err
	}, nil
}
