package conformance_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/internal/pgtest"
	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/postgres"
	"github.com/seed4391e180/runlane/storage/storagetest"
)

// setting is a way in which users run the driver.
type setting struct {
	name   string
	schema string // default: the driver's
	pool   func(*pgxpool.Config)
	// through gives the tests another way to the database than pgtest's: another role,
	// or a pooler.
	through func(t *testing.T, db *pgtest.DB) *pgtest.DB
	config  func(db *pgtest.DB) postgres.Config
}

// session makes a change of a pool's configuration out of session settings, such as
// "TimeZone", "Asia/Kolkata".
func session(pairs ...string) func(*pgxpool.Config) {
	return func(c *pgxpool.Config) {
		for i := 0; i < len(pairs); i += 2 {
			c.ConnConfig.RuntimeParams[pairs[i]] = pairs[i+1]
		}
	}
}

func mode(m pgx.QueryExecMode) func(*pgxpool.Config) {
	return func(c *pgxpool.Config) { c.ConnConfig.DefaultQueryExecMode = m }
}

// all makes one change of several.
func all(changes ...func(*pgxpool.Config)) func(*pgxpool.Config) {
	return func(c *pgxpool.Config) {
		for _, change := range changes {
			change(c)
		}
	}
}

// world is a database in a setting.
type world struct {
	setting
	db    *pgtest.DB // as its owner sees it
	owner *pgx.Conn
	pool  *pgxpool.Pool
	empty string // SQL that deletes all records
}

// world makes the setting's database and pool, which end with the test.
func (s setting) world(t *testing.T) *world {
	t.Helper()
	if s.schema == "" {
		s.schema = postgres.DefaultSchema
	}
	w := &world{setting: s, db: pgtest.New(t, pgtest.Schema(s.schema))}
	var err error
	w.owner, err = pgx.Connect(t.Context(), w.db.URL)
	require.NoError(t, err)
	t.Cleanup(func() { w.owner.Close(context.Background()) })
	for _, c := range storage.Collections() {
		w.empty += "DELETE FROM " + w.table(c) + ";\n"
	}
	seen := w.db
	if s.through != nil {
		seen = s.through(t, w.db)
	}
	config := seen.Config(t)
	if s.pool != nil {
		s.pool(config)
	}
	w.pool, err = pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(w.pool.Close)
	return w
}

func (w *world) table(c storage.Collection) string {
	return pgx.Identifier{w.schema, postgres.TableName(c)}.Sanitize()
}

func (w *world) exec(t testing.TB, sql string) {
	t.Helper()
	_, err := w.owner.PgConn().Exec(context.Background(), sql).ReadAll()
	require.NoError(t, err, sql)
}

// driver makes a driver on the pool.
func (w *world) driver(t testing.TB) *postgres.Driver {
	t.Helper()
	config := postgres.Config{}
	if w.config != nil {
		config = w.config(w.db)
	}
	config.Schema = w.schema
	d, err := postgres.New(w.pool, config)
	require.NoError(t, err)
	return d
}

// open is the suite's constructor: a new driver on the database, emptied. A database
// and a pool for each store would take most of the time that the suite takes. The
// store before must have given back all its connections by now.
func (w *world) open(t testing.TB) storage.Driver {
	t.Helper()
	w.requireIdle(t)
	w.exec(t, w.empty)
	return w.driver(t)
}

// requireIdle waits until no connection of the pool is in use. One that was cut off
// is closed behind the driver's back, so to speak, and that takes a moment.
func (w *world) requireIdle(t testing.TB) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	deadline := time.After(20 * time.Second)
	for w.pool.Stat().AcquiredConns() > 0 {
		select {
		case <-tick.C:
		case <-deadline:
			require.Zero(t, w.pool.Stat().AcquiredConns(), "connections that a closed driver still holds")
		}
	}
}

// requireEmpty is for tests of what must not be written.
func (w *world) requireEmpty(t testing.TB) {
	t.Helper()
	var arms []string
	for _, c := range storage.Collections() {
		arms = append(arms, "SELECT 1 FROM "+w.table(c))
	}
	var n int
	require.NoError(t, w.owner.QueryRow(context.Background(), "SELECT count(*) FROM ("+strings.Join(arms, " UNION ALL ")+") r").Scan(&n))
	require.Zero(t, n, "something was written")
}

// prove runs the suite in a setting, beside others.
func prove(t *testing.T, s setting, o storagetest.Options) {
	t.Run(s.name, func(t *testing.T) {
		t.Parallel()
		storagetest.RunWith(t, s.world(t).open, o)
	})
}
