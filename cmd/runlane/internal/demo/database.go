package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed4391e180/runlane/internal/pgtest"
	"github.com/seed4391e180/runlane/migrations"
	"github.com/seed4391e180/runlane/run"
	"github.com/seed4391e180/runlane/storage/postgres"
)

const databaseName = "runlane"

// database is the private server with a migrated database, and this process's
// ways to it.
type database struct {
	cluster *pgtest.Cluster
	keep    bool
	url     string
	pool    *pgxpool.Pool
	driver  *postgres.Driver
	conn    *pgx.Conn // for the demo's own queries

	server, fsync, synchronousCommit, fullPageWrites string
	started                                          time.Duration // how long it took to start and migrate
}

// startDatabase starts a server with default durability and migrates a database.
func startDatabase(ctx context.Context, keep bool) (db *database, err error) {
	began := time.Now()
	cluster, err := pgtest.Start(ctx, pgtest.Options{Keep: keep})
	if err != nil {
		return nil, fmt.Errorf("starting PostgreSQL: %w", err)
	}
	db = &database{cluster: cluster, keep: keep, url: cluster.URL(databaseName)}
	defer func() {
		if err != nil {
			err = errors.Join(err, db.close(false))
		}
	}()
	if err := cluster.CreateDatabase(ctx, databaseName); err != nil {
		return db, fmt.Errorf("creating the database: %w", err)
	}
	if db.conn, err = pgx.Connect(ctx, db.url); err != nil {
		return db, err
	}
	if _, err := migrations.Apply(ctx, db.conn, migrations.Options{}); err != nil {
		return db, err
	}
	err = db.conn.QueryRow(ctx, queryServer).Scan(&db.server, &db.fsync, &db.synchronousCommit, &db.fullPageWrites)
	if err != nil {
		return db, err
	}
	if db.pool, err = openPool(ctx, db.url, "runlane demo", 4); err != nil {
		return db, err
	}
	db.driver, err = postgres.New(db.pool, postgres.Config{})
	db.started = time.Since(began)
	return db, err
}

// openPool opens a pool whose connections carry a name in pg_stat_activity.
func openPool(ctx context.Context, url, name string, most int32) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	config.MaxConns = most
	config.ConnConfig.RuntimeParams["application_name"] = name
	return pgxpool.NewWithConfig(ctx, config)
}

func (db *database) describe() string {
	return fmt.Sprintf("PostgreSQL %s with fsync %s, synchronous_commit %s, full_page_writes %s; started and migrated in %s",
		db.server, db.fsync, db.synchronousCommit, db.fullPageWrites, seconds(db.started))
}

// close closes everything and, unless the server is kept, ends it and removes
// its folder. It does not depend on a context: it is what is done when one ends.
func (db *database) close(kept bool) error {
	var err error
	if db.driver != nil {
		err = db.driver.Close()
	}
	if db.pool != nil {
		db.pool.Close()
	}
	if db.conn != nil {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		err = errors.Join(err, db.conn.Close(ctx))
	}
	if kept {
		return err // the server goes on when this process has ended
	}
	err = errors.Join(err, db.cluster.Stop())
	if db.keep { // it was to be kept, but the demo did not come to its end
		err = errors.Join(err, os.RemoveAll(db.folder()))
	}
	return err
}

// folder is where the cluster lies.
func (db *database) folder() string { return filepath.Dir(db.cluster.Log()) }

// explain says how to look around in a server that was kept, and how to end it.
func (db *database) explain(out io.Writer) {
	fmt.Fprintf(out, "\nThe server is left running. Its database:\n\n  %s\n\nLook around:\n\n", db.url)
	for _, query := range []string{
		queryStatuses, queryEventTypes, queryEndedTwice, queryHistory,
		`SELECT record_document->'value'->'result' FROM runlane.runlane_runs LIMIT 3`,
	} {
		fmt.Fprintf(out, "  psql '%s' -c \"%s\"\n", db.url, strings.ReplaceAll(query, "\n", " "))
	}
	fmt.Fprintf(out, "\nEnd it:\n\n  kill -INT %d && rm -rf '%s'\n", db.cluster.Pid(), db.folder())
}

// counters are the server's own counts since it started.
type counters struct{ commits, walBytes, walSyncs int64 }

func (db *database) counters(ctx context.Context) (c counters, err error) {
	err = db.conn.QueryRow(ctx, queryCounters).Scan(&c.commits, &c.walBytes, &c.walSyncs)
	return c, err
}

func (c counters) since(before counters) counters {
	return counters{c.commits - before.commits, c.walBytes - before.walBytes, c.walSyncs - before.walSyncs}
}

// clock is the database's clock.
func (db *database) clock(ctx context.Context) (at time.Time, err error) {
	err = db.conn.QueryRow(ctx, queryClock).Scan(&at)
	return at.UTC(), err
}

// sight is what the demo sees of a worker, and of the work, at one moment.
type sight struct {
	ended int // runs that have ended
	held  int // leases that the worker holds
	at    time.Time
}

func (db *database) look(ctx context.Context, worker string) (s sight, err error) {
	err = db.conn.QueryRow(ctx, queryLook, worker).Scan(&s.ended, &s.held, &s.at)
	return s, err
}

// statuses counts the runs by status.
func (db *database) statuses(ctx context.Context) (statuses, error) {
	rows, err := db.conn.Query(ctx, queryStatuses)
	if err != nil {
		return nil, err
	}
	counts := statuses{}
	var (
		status string
		runs   int
	)
	_, err = pgx.ForEachRow(rows, []any{&status, &runs}, func() error {
		counts[run.Status(status)] = runs
		return nil
	})
	return counts, err
}

// endedTwice counts the runs with more than one terminal event.
func (db *database) endedTwice(ctx context.Context) (n int, err error) {
	err = db.conn.QueryRow(ctx, queryEndedTwice).Scan(&n)
	return n, err
}
