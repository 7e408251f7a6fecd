// Package lab is the private PostgreSQL that all sides of a benchmark share: one
// server with default durability, a database for each side, and counters.
package lab

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed4391e180/runlane/internal/pgtest"
	"github.com/seed4391e180/runlane/tests/wire"
)

// settings are those that differ from PostgreSQL's defaults. None of them makes a
// write cheaper: room for the largest pools that are tried, and log that stays until
// it has been counted.
var settings = map[string]string{
	"max_connections": "300",
	"wal_keep_size":   "4GB",
}

// Lab is a server. Its methods may be called from any number of goroutines.
type Lab struct {
	Server string // its version

	cluster *pgtest.Cluster

	mu        sync.Mutex
	databases map[string]*Database
}

// Open starts a server. It refuses one that does not wait for the disk.
func Open(ctx context.Context) (l *Lab, err error) {
	cluster, err := pgtest.Start(ctx, pgtest.Options{Settings: settings})
	if err != nil {
		return nil, err
	}
	l = &Lab{cluster: cluster, databases: map[string]*Database{}}
	defer func() {
		if err != nil {
			err = errors.Join(err, cluster.Stop())
		}
	}()
	conn, err := pgx.Connect(ctx, cluster.URL("postgres"))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))) }()
	var fsync, synchronous, pages string
	err = conn.QueryRow(ctx, `SELECT current_setting('server_version'), current_setting('fsync'),
		current_setting('synchronous_commit'), current_setting('full_page_writes')`).Scan(&l.Server, &fsync, &synchronous, &pages)
	if err != nil {
		return nil, err
	}
	if fsync != "on" || synchronous != "on" || pages != "on" {
		return nil, fmt.Errorf("the server is not durable: fsync %s, synchronous_commit %s, full_page_writes %s", fsync, synchronous, pages)
	}
	return l, nil
}

// Close ends the server and removes what it stored.
func (l *Lab) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	var errs []error
	for _, db := range l.databases {
		errs = append(errs, db.watch.Close(context.Background()))
	}
	return errors.Join(append(errs, l.cluster.Stop())...)
}

// Database is a database of the server.
type Database struct {
	URL string

	watch *pgx.Conn // reads the counters
	mu    sync.Mutex
}

// Database returns the database of that name. The first call makes it, with prepare.
func (l *Lab) Database(ctx context.Context, name string, prepare func(ctx context.Context, db *Database) error) (*Database, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if db := l.databases[name]; db != nil {
		return db, nil
	}
	if err := l.cluster.CreateDatabase(ctx, name); err != nil {
		return nil, err
	}
	db := &Database{URL: l.cluster.URL(name)}
	var err error
	if db.watch, err = pgx.Connect(ctx, db.URL); err != nil {
		return nil, err
	}
	if _, err := db.watch.Exec(ctx, "CREATE EXTENSION pg_walinspect"); err != nil {
		return nil, errors.Join(fmt.Errorf("index entries and commits are counted by the extension pg_walinspect, which comes with PostgreSQL 15 and newer: %w", err), db.watch.Close(ctx))
	}
	if err := prepare(ctx, db); err != nil {
		return nil, errors.Join(fmt.Errorf("preparing the database %q: %w", name, err), db.watch.Close(ctx))
	}
	l.databases[name] = db
	return db, nil
}

// Exec runs statements in the database, beside everybody else.
func (db *Database) Exec(ctx context.Context, sql string) error {
	db.mu.Lock()
	defer db.mu.Unlock()
	_, err := db.watch.Exec(ctx, sql)
	return err
}

// Scalar returns the one value of a query.
func (db *Database) Scalar(ctx context.Context, sql string, args ...any) (n int64, err error) {
	db.mu.Lock()
	defer db.mu.Unlock()
	err = db.watch.QueryRow(ctx, sql, args...).Scan(&n)
	return n, err
}

// Pool is a pool whose round trips are counted.
type Pool struct {
	*pgxpool.Pool
	trips *wire.Counter
}

// Pool opens a pool of up to size connections; 0 is pgx's default.
func (db *Database) Pool(ctx context.Context, size int) (*Pool, error) {
	config, err := pgxpool.ParseConfig(db.URL)
	if err != nil {
		return nil, err
	}
	if size > 0 {
		config.MaxConns = int32(size)
	}
	trips := wire.Count(config)
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	return &Pool{pool, trips}, nil
}

// Drop removes a database, whoever is still connected to it.
func (l *Lab) Drop(ctx context.Context, name string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	db := l.databases[name]
	if db == nil {
		return fmt.Errorf("there is no database %q", name)
	}
	delete(l.databases, name)
	if err := db.watch.Close(ctx); err != nil {
		return err
	}
	conn, err := pgx.Connect(ctx, l.cluster.URL("postgres"))
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, "DROP DATABASE "+pgx.Identifier{name}.Sanitize()+" WITH (FORCE)")
	return errors.Join(err, conn.Close(ctx))
}

// Clear drops every database, so that what one comparison stored does not slow the next.
func (l *Lab) Clear(ctx context.Context) error {
	l.mu.Lock()
	var names []string
	for name := range l.databases {
		names = append(names, name)
	}
	l.mu.Unlock()
	var errs []error
	for _, name := range names {
		errs = append(errs, l.Drop(ctx, name))
	}
	return errors.Join(errs...)
}
