package rows

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dbos-inc/dbos-transact-golang/dbos"

	"github.com/seed4391e180/runlane/bench/lab"
	"github.com/seed4391e180/runlane/bench/measure"
	"github.com/seed4391e180/runlane/bench/report"
)

// dbosSetting is what is swept. A poll interval of 0 starts workflows directly, in the
// process that calls them; otherwise they go through a queue.
type dbosSetting struct {
	pool int
	poll time.Duration
}

func (s dbosSetting) String() string {
	if s.poll == 0 {
		return fmt.Sprintf("direct, pool %d", s.pool)
	}
	return fmt.Sprintf("queue, pool %d, poll %v", s.pool, s.poll)
}

// dbosQueues are the settings with a queue; the last interval is the default of DBOS.
// The short form tries the intervals with one size of the pool.
func dbosQueues(b *Bench) (all []dbosSetting) {
	sizes := pick(b, []int{16}, pools)
	for _, poll := range []time.Duration{2 * time.Millisecond, 20 * time.Millisecond, 100 * time.Millisecond, time.Second} {
		for _, pool := range sizes {
			all = append(all, dbosSetting{pool, poll})
		}
	}
	return all
}

func dbosDirect() (all []dbosSetting) {
	for _, pool := range pools {
		all = append(all, dbosSetting{pool: pool})
	}
	return all
}

// dbosSide is a launched application on a pool of its own.
type dbosSide struct {
	db    *lab.Database
	pool  *lab.Pool
	ctx   dbos.Context
	queue dbos.Queue // nil: direct
	began func(payload)
	ran   atomic.Int64
}

func (b *Bench) openDBOS(ctx context.Context, name string, set dbosSetting, began func(payload)) (d *dbosSide, err error) {
	db, err := b.Lab.Database(ctx, name, func(context.Context, *lab.Database) error { return nil }) // it migrates itself
	if err != nil {
		return nil, err
	}
	pool, err := db.Pool(ctx, set.pool)
	if err != nil {
		return nil, err
	}
	d = &dbosSide{db: db, pool: pool, began: began}
	defer func() {
		if err != nil {
			pool.Close()
		}
	}()
	d.ctx, err = dbos.NewContext(ctx, dbos.Config{
		AppName: "bench", SystemDBPool: pool.Pool, ApplicationVersion: "bench", Logger: b.logger("dbos"),
	})
	if err != nil {
		return nil, err
	}
	dbos.RegisterWorkflow(d.ctx, d.mail, dbos.WithWorkflowName("mail"))
	if set.poll > 0 {
		d.queue, err = dbos.RegisterQueue(d.ctx, fmt.Sprintf("mail-%v", set.poll),
			dbos.WithWorkerConcurrency(slots), dbos.WithQueueBasePollingInterval(set.poll))
		if err != nil {
			return nil, err
		}
		dbos.ListenQueues(d.ctx, d.queue.GetName())
	}
	return d, dbos.Launch(d.ctx)
}

// mail is a workflow of one step.
func (d *dbosSide) mail(ctx dbos.Context, p payload) (string, error) {
	if d.began != nil {
		d.began(p)
	}
	defer d.ran.Add(1)
	return dbos.RunAsStep(ctx, func(context.Context) (string, error) { return "", nil }, dbos.WithStepName("send"))
}

func (d *dbosSide) close(err *error) {
	*err = errors.Join(*err, dbos.Shutdown(d.ctx, 30*time.Second))
	d.pool.Close()
}

// start starts one workflow: durably, when it returns.
func (d *dbosSide) start(p payload) (dbos.WorkflowHandle[string], error) {
	if d.queue == nil {
		return dbos.RunWorkflow(d.ctx, d.mail, p)
	}
	return dbos.RunWorkflow(d.ctx, d.mail, p, dbos.WithQueue(d.queue))
}

// lives takes n workflows through their lives. Directly, 500 run at once; to the queue,
// 64 goroutines enqueue them, since there is no call that enqueues many.
func (d *dbosSide) lives(ctx context.Context, n int) (measure.Sample, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	before, err := d.succeeded(ctx)
	if err != nil {
		return measure.Sample{}, err
	}
	ran, goroutines := d.ran.Load(), slots
	if d.queue != nil {
		goroutines = callers
	}
	var (
		wg   sync.WaitGroup
		next atomic.Int64
		errs = make([]error, goroutines)
	)
	start := time.Now()
	for i := range goroutines {
		wg.Go(func() {
			for next.Add(1) <= int64(n) && errs[i] == nil && ctx.Err() == nil {
				handle, err := d.start(somebody)
				if err == nil && d.queue == nil {
					_, err = handle.GetResult() // from this process's memory, once it is stored
				}
				errs[i] = err
			}
		})
	}
	wg.Wait()
	if err := errors.Join(append(errs, ctx.Err())...); err != nil {
		return measure.Sample{}, err
	}
	// What ran through the queue is asked for in the table, once all have begun to end:
	// handles would poll, each for itself.
	for d.ran.Load()-ran < int64(n) {
		if err := rest(ctx, time.Millisecond); err != nil {
			return measure.Sample{}, err
		}
	}
	for {
		now, err := d.succeeded(ctx)
		if err != nil {
			return measure.Sample{}, err
		}
		if now-before >= int64(n) {
			break
		}
		if err := rest(ctx, 2*time.Millisecond); err != nil {
			return measure.Sample{}, err
		}
	}
	s := measure.Sample{Units: n, Took: time.Since(start)}
	now, err := d.succeeded(ctx)
	return s, errors.Join(err, stored(now-before, n))
}

func (d *dbosSide) succeeded(ctx context.Context) (int64, error) {
	return d.db.Scalar(ctx, `SELECT count(*) FROM dbos.workflow_status WHERE status = 'SUCCESS'`)
}

// lifecycleDBOSRow is the same as lifecycleRiverRow with workflows of one step.
func lifecycleDBOSRow(ctx context.Context, b *Bench) ([]*report.Row, error) {
	var settings []entry
	for _, set := range append(dbosDirect(), dbosQueues(b)...) {
		settings = append(settings, entry{"DBOS, " + set.String(), func(ctx context.Context, l length) (measure.Sample, error) {
			return b.dbosLife(ctx, set, span(l, pick(b, 150, 600), pick(b, 600, 4000)))
		}})
	}
	ours := entry{"runlane", func(ctx context.Context, l length) (measure.Sample, error) {
		return b.life(ctx, pick(b, 10_000, 60_000))
	}}
	m, err := b.against(ctx, measure.Sample.Rate, ours, settings)
	if err != nil {
		return nil, err
	}
	return []*report.Row{line("trigger, work, succeeded: 500 slots, no-op handlers", report.PerSecond, report.AtLeast(15), "run", m, measure.Sample.Rate)}, nil
}

func (b *Bench) dbosLife(ctx context.Context, set dbosSetting, n int) (sample measure.Sample, err error) {
	d, err := b.openDBOS(ctx, "dbos_life", set, nil)
	if err != nil {
		return sample, err
	}
	defer d.close(&err)
	if _, err := d.lives(ctx, callers); err != nil { // warm, and the queue is listened to
		return sample, err
	}
	return d.db.Count(ctx, func(ctx context.Context) (measure.Sample, error) { return d.lives(ctx, n) }, d.pool)
}

// rest waits between two looks at something that does not announce itself.
func rest(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
