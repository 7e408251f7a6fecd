package rows

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/seed4391e180/runlane/bench/lab"
	"github.com/seed4391e180/runlane/bench/measure"
	"github.com/seed4391e180/runlane/run"
	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/codec"
	"github.com/seed4391e180/runlane/storage/postgres"
)

// An operator jumps to a time and turns a few pages from there, newest first.
const (
	pageSize = 50
	leafs    = 5 // pages that are turned before the next jump
)

// places draws the times to jump to, in the later half of the runs, so that there are
// enough before it: the same on both sides, since the runs are.
func places(ctx context.Context, db *lab.Database) (func() time.Time, error) {
	from, err := db.Scalar(ctx, `
		SELECT (extract(epoch FROM created_at) * 1e6)::bigint FROM runlane.runlane_runs
		ORDER BY created_at OFFSET (SELECT count(*) / 2 FROM runlane.runlane_runs) LIMIT 1`)
	if err != nil {
		return nil, err
	}
	until, err := db.Scalar(ctx, `SELECT (extract(epoch FROM max(created_at)) * 1e6)::bigint FROM runlane.runlane_runs`)
	if err != nil {
		return nil, err
	}
	chance := rand.New(rand.NewPCG(3, 4))
	return func() time.Time { return time.UnixMicro(from + chance.Int64N(until-from+1)) }, nil
}

// lists reads pages through the driver.
func (b *Bench) lists(ctx context.Context, name string, pages int) (sample measure.Sample, err error) {
	s, err := b.open(ctx, name, postgres.Config{})
	if err != nil {
		return sample, err
	}
	defer s.close(&err)
	place, err := places(ctx, s.db)
	if err != nil {
		return sample, err
	}
	filter, left := storage.RunFilter{}, 0
	return again(ctx, s.db, s.pool, pages, func(ctx context.Context) error {
		if left == 0 {
			filter = storage.RunFilter{
				Environment: environment, Statuses: []run.Status{run.StatusQueued}, Created: storage.TimeRange{Until: place()},
				Direction: storage.Descending, Limit: pageSize,
			}
			left = leafs
		}
		page, err := s.driver.ListRuns(ctx, filter)
		if err == nil && (len(page.Runs) != pageSize || page.Next == "") {
			err = fmt.Errorf("the page has %d runs, and the next is %q", len(page.Runs), page.Next)
		}
		filter.Cursor = page.Next
		left--
		return err
	})
}

// handPage is what one would write for this page alone: the same columns of the same
// table, one more row than the page has, to know whether another follows.
const handPage = `
SELECT run_id, task, queue, status, priority, created_at, updated_at, due_at, lease_expires_at,
	idempotency_key, singleton_key, concurrency_key, source_type, source_run_id, schedule_id
FROM runlane.runlane_runs
WHERE environment_key = $1 AND status = $2 AND created_at < $3 AND (created_at, run_id) < ($4, $5)
ORDER BY created_at DESC, run_id DESC
LIMIT 51`

// listed is a run as handPage returns it.
type listed struct {
	RunID, Task, Queue, Status                                              string
	Priority                                                                int
	Created, Updated                                                        time.Time
	Due, LeaseExpires                                                       *time.Time
	IdempotencyKey, SingletonKey, ConcurrencyKey, SourceType, Run, Schedule *string
}

func (b *Bench) handLists(ctx context.Context, name string, pages int) (sample measure.Sample, err error) {
	db, err := b.runlaneDatabase(ctx, name)
	if err != nil {
		return sample, err
	}
	pool, err := db.Pool(ctx, b.OwnPool)
	if err != nil {
		return sample, err
	}
	defer pool.Close()
	place, err := places(ctx, db)
	if err != nil {
		return sample, err
	}
	partition, err := codec.Partition(environment)
	if err != nil {
		return sample, err
	}
	var (
		until, at time.Time
		id        string
		left      int
	)
	return again(ctx, db, pool, pages, func(ctx context.Context) error {
		if left == 0 {
			until = place()
			at, id, left = until, "", leafs
		}
		rows, err := pool.Query(ctx, handPage, partition, string(run.StatusQueued), until, at, id)
		if err != nil {
			return err
		}
		page, err := pgx.CollectRows(rows, pgx.RowToStructByPos[listed])
		if err == nil && len(page) != pageSize+1 {
			err = fmt.Errorf("the page has %d runs", len(page))
		}
		if err != nil {
			return err
		}
		at, id = page[pageSize-1].Created, page[pageSize-1].RunID
		left--
		return nil
	})
}
