package rows

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"

	"github.com/jackc/pgx/v5"

	"github.com/seed4391e180/runlane/bench/lab"
	"github.com/seed4391e180/runlane/lane"
	"github.com/seed4391e180/runlane/migrations"
	"github.com/seed4391e180/runlane/storage/postgres"
)

const environment = "bench"

// runlaneDatabase is a migrated database.
func (b *Bench) runlaneDatabase(ctx context.Context, name string) (*lab.Database, error) {
	return b.Lab.Database(ctx, name, func(ctx context.Context, db *lab.Database) error {
		conn, err := pgx.Connect(ctx, db.URL)
		if err != nil {
			return err
		}
		_, err = migrations.Apply(ctx, conn, migrations.Options{})
		return errors.Join(err, conn.Close(ctx))
	})
}

// store is a driver on a pool of its own.
type store struct {
	db     *lab.Database
	pool   *lab.Pool
	driver *postgres.Driver
}

func (b *Bench) open(ctx context.Context, name string, config postgres.Config) (*store, error) {
	db, err := b.runlaneDatabase(ctx, name)
	if err != nil {
		return nil, err
	}
	pool, err := db.Pool(ctx, b.OwnPool)
	if err != nil {
		return nil, err
	}
	config.Logger = b.logger("runlane")
	driver, err := postgres.New(pool.Pool, config)
	if err != nil {
		pool.Close()
		return nil, err
	}
	return &store{db, pool, driver}, nil
}

func (s *store) close(err *error) {
	*err = errors.Join(*err, s.driver.Close())
	s.pool.Close()
}

// logger passes on what a program would want to know: a benchmark that runs into
// errors measures something else.
func (b *Bench) logger(who string) *slog.Logger {
	return slog.New(slog.NewTextHandler(b.Log, &slog.HandlerOptions{Level: slog.LevelError})).With("from", who)
}

// crew is a lane with one task, whose handler does nothing but tell that it began.
type crew struct {
	*store
	lane *lane.Lane
	task *lane.Task[payload, struct{}]
	tally
}

// tally counts what ended, and announces when there is enough of it.
type tally struct {
	ended  atomic.Int64
	target atomic.Int64
	enough chan struct{}
}

func newTally() tally { return tally{enough: make(chan struct{}, 1)} }

// expect arranges for an announcement once n more have ended.
func (t *tally) expect(n int) { t.target.Store(t.ended.Load() + int64(n)) }

func (t *tally) end() {
	if t.ended.Add(1) == t.target.Load() {
		t.enough <- struct{}{}
	}
}

func (t *tally) wait(ctx context.Context) error {
	select {
	case <-t.enough:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%d of %d ended: %w", t.ended.Load(), t.target.Load(), ctx.Err())
	}
}

func (b *Bench) newCrew(s *store, began func(payload)) (*crew, error) {
	c := &crew{store: s, tally: newTally()}
	var err error
	c.lane, err = lane.New(s.driver, lane.Config{
		Environment: environment,
		Logger:      b.logger("lane"),
		Hooks: lane.Hooks{Finished: func(f lane.Finish) {
			if f.Outcome == lane.OutcomeSucceeded {
				c.end()
			}
		}},
	})
	if err != nil {
		return nil, err
	}
	c.task = lane.Define(c.lane, "mail", func(_ context.Context, _ *lane.Attempt, p payload) (struct{}, error) {
		if began != nil {
			began(p)
		}
		return struct{}{}, nil
	}, lane.TaskOptions{})
	return c, nil
}

// work starts a worker; stop ends it.
func (c *crew) work(ctx context.Context, config lane.WorkerConfig) (stop func() error) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- c.lane.Work(ctx, config) }()
	return func() error {
		cancel()
		return <-ended
	}
}

// feed triggers n runs, 1,000 a call.
func (c *crew) feed(ctx context.Context, n int) error { return c.feedBy(ctx, n, many) }

// feedBy triggers n runs, size a call.
func (c *crew) feedBy(ctx context.Context, n, size int) error {
	for n > 0 {
		items := make([]lane.Item[payload], min(n, size))
		for i := range items {
			items[i].Payload = somebody
		}
		if _, err := c.task.TriggerMany(ctx, items); err != nil {
			return err
		}
		n -= len(items)
	}
	return nil
}

// inStatus is how many runs are in one status.
func (s *store) inStatus(ctx context.Context, status string) (int64, error) {
	return s.db.Scalar(ctx, `SELECT count(*) FROM runlane.runlane_runs WHERE status = $1`, status)
}
