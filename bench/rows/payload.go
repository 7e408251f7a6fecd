package rows

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/google/uuid"

	"github.com/seed4391e180/runlane/bench/lab"
	"github.com/seed4391e180/runlane/bench/measure"
	"github.com/seed4391e180/runlane/bench/report"
	"github.com/seed4391e180/runlane/lane"
	"github.com/seed4391e180/runlane/storage/postgres"
)

const (
	payloadSize  = 100_000
	stateChanges = 8 // three attempts that fail and one that succeeds, each begun and ended
)

// payloadRow: runs with a payload of 100 KB that no compression makes smaller, each
// created and changed eight times; and documents with the same payload, inserted and
// updated eight times.
func payloadRow(ctx context.Context, b *Bench) ([]*report.Row, error) {
	n := pick(b, 20, 200)
	ours := entry{"runlane", func(ctx context.Context, _ length) (measure.Sample, error) { return b.heavyRuns(ctx, n) }}
	hand := entry{"one UPDATE of the whole document per change", func(ctx context.Context, _ length) (measure.Sample, error) { return b.heavyDocuments(ctx, n) }}
	wal := func(s measure.Sample) float64 { return s.Cost.Each().WALBytes }
	m, err := b.against(ctx, wal, ours, []entry{hand})
	if err != nil {
		return nil, err
	}
	return []*report.Row{line("payload of 100 KB through 8 state changes: WAL", report.Bytes, report.AtMost(0.2), "run", m, wal)}, nil
}

// noise is text that PostgreSQL cannot compress.
func noise(chance *rand.Rand) string {
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
	text := make([]byte, payloadSize)
	for i := range text {
		text[i] = letters[chance.IntN(len(letters))]
	}
	return string(text)
}

var errAgain = errors.New("again")

func (b *Bench) heavyRuns(ctx context.Context, n int) (sample measure.Sample, err error) {
	s, err := b.open(ctx, "runlane_payload", postgres.Config{})
	if err != nil {
		return sample, err
	}
	defer s.close(&err)
	c, err := b.newCrew(s, nil)
	if err != nil {
		return sample, err
	}
	heavy := lane.Define(c.lane, "heavy", func(_ context.Context, a *lane.Attempt, _ string) (bool, error) {
		if a.Number < stateChanges/2 {
			return false, errAgain
		}
		return true, nil
	}, lane.TaskOptions{Backoff: lane.Fixed(time.Millisecond)})
	stop := c.work(ctx, lane.WorkerConfig{Concurrency: slots, PollInterval: 20 * time.Millisecond})
	defer func() { err = errors.Join(err, stop()) }()
	chance := rand.New(rand.NewPCG(1, 2))
	feed := func(ctx context.Context, n int) error {
		for range n {
			if _, err := heavy.Trigger(ctx, noise(chance)); err != nil {
				return err
			}
		}
		return nil
	}
	if _, err := lives(ctx, &c.tally, feed, 2); err != nil { // warm
		return sample, err
	}
	sample, err = s.db.Count(ctx, func(ctx context.Context) (measure.Sample, error) { return lives(ctx, &c.tally, feed, n) }, s.pool)
	if err != nil {
		return sample, err
	}
	odd, err := s.db.Scalar(ctx, `SELECT count(*) FROM (SELECT FROM runlane.runlane_record_run_events GROUP BY run_id HAVING count(*) <> $1) AS runs`, stateChanges+1)
	if err == nil && odd != 0 {
		err = fmt.Errorf("%d runs have not gone through %d state changes", odd, stateChanges)
	}
	return sample, err
}

func (b *Bench) heavyDocuments(ctx context.Context, n int) (sample measure.Sample, err error) {
	db, err := b.Lab.Database(ctx, "hand_payload", func(ctx context.Context, db *lab.Database) error {
		return db.Exec(ctx, `CREATE TABLE document (id text PRIMARY KEY, document jsonb NOT NULL)`)
	})
	if err != nil {
		return sample, err
	}
	pool, err := db.Pool(ctx, 0)
	if err != nil {
		return sample, err
	}
	defer pool.Close()
	chance := rand.New(rand.NewPCG(1, 2))
	one := func(ctx context.Context) error {
		document := map[string]any{"id": uuid.NewString(), "task": "heavy", "payload": noise(chance)}
		for change := range stateChanges + 1 {
			document["state"] = change
			text, err := json.Marshal(document)
			if err != nil {
				return err
			}
			if change == 0 {
				_, err = pool.Exec(ctx, `INSERT INTO document (id, document) VALUES ($1, $2)`, document["id"], text)
			} else {
				_, err = pool.Exec(ctx, `UPDATE document SET document = $2 WHERE id = $1`, document["id"], text)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
	if err := one(ctx); err != nil { // warm
		return sample, err
	}
	return db.Count(ctx, func(ctx context.Context) (measure.Sample, error) { return repeat(ctx, n, one) }, pool)
}
