package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"time"

	"github.com/jackc/pgx/v5/stdlib"

	"github.com/seed4391e180/runlane/internal/pgtest"
)

// atlas opens PostgreSQL by the driver name of another library.
func init() { sql.Register("postgres", stdlib.GetDefaultDriver()) }

// server is a PostgreSQL server where databases may be created.
type server struct{ url *url.URL }

// openServer returns the server at rawURL, or one that it starts if there is no
// URL. The function it returns ends what it started.
func openServer(ctx context.Context, rawURL string) (_ server, stop func() error, err error) {
	stop = func() error { return nil }
	if rawURL == "" {
		cluster, err := pgtest.Start(ctx, pgtest.Options{Volatile: true})
		if err != nil {
			return server{}, nil, fmt.Errorf("no -server and no RUNLANE_TEST_DATABASE_URL, and a server of its own does not start: %w", err)
		}
		rawURL, stop = cluster.URL("postgres"), cluster.Stop
	}
	u, err := url.Parse(rawURL)
	if err != nil {
		return server{}, nil, errors.Join(errors.New("the server must be given as a URL"), stop())
	}
	return server{u}, stop, nil
}

// withScratch calls f with the URL of an empty database that exists only for the
// call. ent drops the tables that it made while planning but neither sequences nor
// functions, so a database that is used twice gives wrong plans.
func (s server) withScratch(ctx context.Context, f func(url string) error) (err error) {
	db, err := sql.Open("postgres", s.url.String())
	if err != nil {
		return err
	}
	defer db.Close()
	name := fmt.Sprintf("runlane_plan_%d_%d", os.Getpid(), time.Now().UnixNano())
	if _, err := db.ExecContext(ctx, "CREATE DATABASE "+name+" TEMPLATE template0"); err != nil {
		return fmt.Errorf("create a scratch database: %w", err)
	}
	defer func() {
		// After an interrupt the database must still go.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		_, dropErr := db.ExecContext(ctx, "DROP DATABASE "+name+" WITH (FORCE)")
		err = errors.Join(err, dropErr)
	}()
	u := *s.url
	u.Path = "/" + name
	return f(u.String())
}
