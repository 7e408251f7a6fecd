package rows

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"

	"github.com/seed4391e180/runlane/bench/lab"
)

// riverDatabase is a database with River's schema.
func (b *Bench) riverDatabase(ctx context.Context, name string) (*lab.Database, error) {
	return b.Lab.Database(ctx, name, func(ctx context.Context, db *lab.Database) error {
		pool, err := pgxpool.New(ctx, db.URL)
		if err != nil {
			return err
		}
		defer pool.Close()
		migrator, err := rivermigrate.New(riverpgxv5.New(pool), &rivermigrate.Config{Logger: b.logger("river")})
		if err != nil {
			return err
		}
		_, err = migrator.Migrate(ctx, rivermigrate.DirectionUp, nil)
		return err
	})
}

// mail is the job.
type mail struct{ payload }

func (mail) Kind() string { return "mail" }

// riverSetting is what is swept. A cooldown of 0 is River's default, 100 ms, which
// goes with its default poll interval of 1 s.
type riverSetting struct {
	pool           int
	cooldown, poll time.Duration
}

func (s riverSetting) String() string {
	if s.cooldown == 0 {
		return fmt.Sprintf("pool %d", s.pool)
	}
	return fmt.Sprintf("pool %d, fetch cooldown %v, poll %v", s.pool, s.cooldown, s.poll)
}

// riverInserting are the settings of a client that only inserts.
func riverInserting() (all []riverSetting) {
	for _, pool := range pools {
		all = append(all, riverSetting{pool: pool})
	}
	return all
}

// riverWorking are the settings of a client that works. The first pair of intervals is
// the one of River's own benchmark, the last its defaults.
func riverWorking(pools []int) (all []riverSetting) {
	for _, intervals := range [][2]time.Duration{
		{2 * time.Millisecond, 20 * time.Millisecond}, {20 * time.Millisecond, 100 * time.Millisecond}, {100 * time.Millisecond, time.Second},
	} {
		for _, pool := range pools {
			all = append(all, riverSetting{pool, intervals[0], intervals[1]})
		}
	}
	return all
}

// riverSide is a client on a pool of its own.
type riverSide struct {
	db     *lab.Database
	pool   *lab.Pool
	client *river.Client[pgx.Tx]
	tally
}

// openRiver makes a client; slots 0 is one that only inserts.
func (b *Bench) openRiver(ctx context.Context, name string, set riverSetting, slots int, began func(payload)) (*riverSide, error) {
	db, err := b.riverDatabase(ctx, name)
	if err != nil {
		return nil, err
	}
	pool, err := db.Pool(ctx, set.pool)
	if err != nil {
		return nil, err
	}
	r := &riverSide{db: db, pool: pool, tally: newTally()}
	config := &river.Config{Logger: b.logger("river")}
	if slots > 0 {
		workers := river.NewWorkers()
		river.AddWorker(workers, river.WorkFunc(func(_ context.Context, job *river.Job[mail]) error {
			if began != nil {
				began(job.Args.payload)
			}
			return nil
		}))
		config.Workers = workers
		config.Queues = map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: slots}}
		config.FetchCooldown, config.FetchPollInterval = set.cooldown, set.poll
	}
	r.client, err = river.NewClient(riverpgxv5.New(pool.Pool), config)
	if err != nil {
		pool.Close()
		return nil, err
	}
	return r, nil
}

// work starts the client and counts completed jobs, as River's own benchmark does: by
// its subscription, which hears of a job when its completion is stored.
func (r *riverSide) work(ctx context.Context, most int) (stop func() error, err error) {
	events, cancel := r.client.SubscribeConfig(&river.SubscribeConfig{
		ChanSize: most + 1000, Kinds: []river.EventKind{river.EventKindJobCompleted},
	})
	counted := make(chan struct{})
	go func() {
		defer close(counted)
		for range events {
			r.end()
		}
	}()
	if err := r.client.Start(ctx); err != nil {
		cancel()
		return nil, err
	}
	return func() error {
		bounded, release := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
		defer release()
		err := r.client.Stop(bounded)
		cancel()
		<-counted
		return err
	}, nil
}

// batch are the parameters of a call that inserts n jobs.
func batch(n int) []river.InsertManyParams {
	params := make([]river.InsertManyParams, n)
	for i := range params {
		params[i].Args = mail{somebody}
	}
	return params
}

// feed inserts n jobs, 1,000 a call.
func (r *riverSide) feed(ctx context.Context, n int) error {
	for n > 0 {
		size := min(n, 1000)
		if _, err := r.client.InsertMany(ctx, batch(size)); err != nil {
			return err
		}
		n -= size
	}
	return nil
}

func (r *riverSide) close() { r.pool.Close() }

// completed is how many jobs are stored as completed.
func (r *riverSide) completed(ctx context.Context) (int64, error) {
	return r.db.Scalar(ctx, `SELECT count(*) FROM river_job WHERE state = 'completed'`)
}
