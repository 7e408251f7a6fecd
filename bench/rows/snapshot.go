package rows

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/seed4391e180/runlane/bench/lab"
	"github.com/seed4391e180/runlane/bench/measure"
	"github.com/seed4391e180/runlane/bench/report"
	"github.com/seed4391e180/runlane/lane"
	"github.com/seed4391e180/runlane/storage/postgres"
)

// snapshotRow: work, and appends to one stream, while another session holds a snapshot
// and so keeps the server from cleaning up, beside the same without it. Each turn has a
// database of its own: what one leaves behind is not to slow the next.
func snapshotRow(ctx context.Context, b *Bench) ([]*report.Row, error) {
	d := pick(b, 5*time.Second, 2*time.Minute)
	work := func(held bool) measure.Side {
		return b.freshly("work", held, func(ctx context.Context, name string) (measure.Sample, error) { return b.steady(ctx, name, d) })
	}
	taken, err := measure.InTurns(ctx, 2, work(true), work(false))
	if err != nil {
		return nil, err
	}
	few := pick(b, 3*time.Second, 30*time.Second)
	stream := func(held bool) measure.Side {
		return b.freshly("append", held, func(ctx context.Context, name string) (measure.Sample, error) { return b.appends(ctx, name, few) })
	}
	appended, err := measure.InTurns(ctx, 2, stream(true), stream(false))
	if err != nil {
		return nil, err
	}
	const peer = "runlane without the snapshot"
	return []*report.Row{
		line(fmt.Sprintf("work while a session holds a snapshot for %v", d), report.PerSecond, report.AtLeast(0.8), "run", match{ours: taken[0], theirs: taken[1], peer: peer}, measure.Sample.Rate),
		line(fmt.Sprintf("append to one stream, 16 writers, while a session holds a snapshot for %v", few), report.Items, report.Aim{}, "item", match{ours: appended[0], theirs: appended[1], peer: peer}, measure.Sample.Rate),
	}, nil
}

// freshly takes a turn in a new database, with or without a snapshot that is held
// meanwhile.
func (b *Bench) freshly(what string, held bool, turn func(ctx context.Context, name string) (measure.Sample, error)) measure.Side {
	name := what + " without a snapshot"
	if held {
		name = what + " under a snapshot"
	}
	return measure.Side{Name: name, Turn: func(ctx context.Context) (sample measure.Sample, err error) {
		const database = "runlane_snapshot"
		db, err := b.runlaneDatabase(ctx, database)
		if err != nil {
			return sample, err
		}
		if held {
			release, err := hold(ctx, db)
			if err != nil {
				return sample, err
			}
			sample, err = turn(ctx, database)
			return sample, errors.Join(err, release(), b.Lab.Drop(ctx, database))
		}
		sample, err = turn(ctx, database)
		return sample, errors.Join(err, b.Lab.Drop(ctx, database))
	}}
}

// hold opens a transaction and takes its snapshot. release fails if it was lost
// meanwhile.
func hold(ctx context.Context, db *lab.Database) (release func() error, err error) {
	conn, err := pgx.Connect(ctx, db.URL)
	if err != nil {
		return nil, err
	}
	var count int64
	read := func() error {
		return conn.QueryRow(ctx, `SELECT count(*) FROM runlane.runlane_runs`).Scan(&count)
	}
	_, err = conn.Exec(ctx, `BEGIN ISOLATION LEVEL REPEATABLE READ`)
	if err = errors.Join(err, read()); err != nil {
		return nil, errors.Join(err, conn.Close(ctx))
	}
	before := count
	return func() error {
		err := read()
		if err == nil && count != before {
			err = fmt.Errorf("the snapshot saw %d runs, then %d", before, count)
		}
		return errors.Join(err, conn.Close(ctx))
	}, nil
}

// backlog is how many runs wait at most while the worker is kept busy.
const backlog = 4000

// steady keeps a worker busy for a time and counts what ended within it. What it cost the
// server is not counted: in the full form the log is too long to be read.
func (b *Bench) steady(ctx context.Context, name string, d time.Duration) (sample measure.Sample, err error) {
	s, err := b.open(ctx, name, postgres.Config{})
	if err != nil {
		return sample, err
	}
	defer s.close(&err)
	c, err := b.newCrew(s, nil)
	if err != nil {
		return sample, err
	}
	stop := c.work(ctx, lane.WorkerConfig{Concurrency: slots})
	defer func() { err = errors.Join(err, stop()) }()
	if _, err := lives(ctx, &c.tally, c.feed, many); err != nil { // warm
		return sample, err
	}
	if err := s.db.Exec(ctx, "CHECKPOINT"); err != nil {
		return sample, err
	}
	before, fed := c.ended.Load(), int64(0)
	start := time.Now()
	for time.Since(start) < d {
		if fed-(c.ended.Load()-before) > backlog-many {
			if err := rest(ctx, time.Millisecond); err != nil {
				return sample, err
			}
			continue
		}
		if err := c.feed(ctx, many); err != nil {
			return sample, err
		}
		fed += many
	}
	return measure.Sample{Units: int(c.ended.Load() - before), Took: time.Since(start)}, nil
}
