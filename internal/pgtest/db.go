package pgtest

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// DB is a database that belongs to one test.
type DB struct {
	// Name is the database's name.
	Name string
	// URL connects to it, as a role that owns it.
	URL string
	// Schema is the schema it is migrated into; "" if it is empty.
	Schema string
}

type config struct {
	empty  bool
	schema string
	on     *Cluster
}

// Option changes what New makes.
type Option func(*config)

// Empty leaves the database unmigrated.
func Empty() Option { return func(c *config) { c.empty = true } }

// Schema migrates into the named schema, whose name may be one that needs
// quotes.
func Schema(name string) Option { return func(c *config) { c.schema = name } }

// On makes the database on a cluster of the test's own, with which it ends.
func On(cluster *Cluster) Option { return func(c *config) { c.on = cluster } }

// New returns a migrated database that nobody else uses. It is dropped when
// the test ends, after everything that the test cleans up itself.
func New(t testing.TB, opts ...Option) *DB {
	t.Helper()
	c := config{schema: DefaultSchema}
	for _, opt := range opts {
		opt(&c)
	}
	var s *server
	if c.on != nil {
		s = c.on.server
	} else {
		var err error
		if s, err = sharedServer(); err != nil {
			t.Fatalf("pgtest: %v", err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	name, err := s.create(ctx, c.empty, c.schema)
	if err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	if c.on == nil { // a test may leave its own cluster broken
		t.Cleanup(func() {
			ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
			defer cancel()
			if err := s.drop(ctx, name); err != nil {
				t.Errorf("pgtest: dropping the database: %v", err)
			}
		})
	}
	db := &DB{Name: name, URL: s.url(name), Schema: c.schema}
	if c.empty {
		db.Schema = ""
	}
	return db
}

// Config returns the configuration of a pool for the database, which the test
// may change before it makes a pool from it.
func (db *DB) Config(t testing.TB) *pgxpool.Config {
	t.Helper()
	config, err := pgxpool.ParseConfig(db.URL)
	if err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	return config
}

// Pool returns a new pool that is closed when the test ends. The test fails if
// it has not given back its connections by then.
func (db *DB) Pool(t testing.TB) *pgxpool.Pool {
	t.Helper()
	pool, err := pgxpool.NewWithConfig(t.Context(), db.Config(t))
	if err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	t.Cleanup(func() {
		closed := make(chan struct{})
		go func() {
			pool.Close()
			close(closed)
		}()
		timer := time.NewTimer(5 * time.Second)
		defer timer.Stop()
		select {
		case <-closed:
		case <-timer.C:
			t.Errorf("pgtest: the pool still has %d connections in use", pool.Stat().AcquiredConns())
		}
	})
	return pool
}
