// Command orders is a small service: it takes orders by HTTP, stores each together
// with the run that sees to it, charges and ships, and reports each morning.
// DATABASE_URL names a migrated database; ADDRESS where to listen (localhost:8080).
package main

import (
	"cmp"
	"context"
	"errors"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed4391e180/runlane/lane"
)

func main() {
	if err := start(); err != nil {
		log.Fatal(err)
	}
}

func start() error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	listener, err := net.Listen("tcp", cmp.Or(os.Getenv("ADDRESS"), "localhost:8080"))
	if err != nil {
		return err
	}
	return serve(ctx, os.Getenv("DATABASE_URL"), listener)
}

// serve takes and works on orders until ctx ends. Then it stops in order: no new
// requests, then no new runs. Handlers get time to finish; what does not is given back
// and done by another process, or by this one when it starts again.
func serve(ctx context.Context, databaseURL string, listener net.Listener) (err error) {
	pool, err := pgxpool.New(ctx, databaseURL)
	if err != nil {
		return err
	}
	defer pool.Close()
	s, err := newService(ctx, pool)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.store.Close()) }()
	server := &http.Server{Handler: s.handler(), ReadHeaderTimeout: 5 * time.Second}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()

	working, stopWorking := context.WithCancel(context.WithoutCancel(ctx))
	defer stopWorking()
	worked := make(chan error, 1)
	go func() { worked <- s.lane.Work(working, lane.WorkerConfig{Concurrency: 50, Grace: 20 * time.Second}) }()

	select {
	case <-ctx.Done():
	case err = <-failed: // of the server, which does not end by itself
	case err = <-worked: // of the database: it cannot be used
		return errors.Join(err, server.Close())
	}
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	err = errors.Join(err, server.Shutdown(closing))
	stopWorking()
	return errors.Join(err, <-worked)
}
