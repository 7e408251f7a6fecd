package rows

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/seed4391e180/runlane/bench/lab"
	"github.com/seed4391e180/runlane/bench/measure"
	"github.com/seed4391e180/runlane/bench/report"
	"github.com/seed4391e180/runlane/run"
	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/codec"
	"github.com/seed4391e180/runlane/storage/postgres"
)

// transactionRow: one transaction after the other, each of which reads two runs,
// replaces one of them with its next state and creates the event that says so. By hand
// it is the same documents in tables without any index but the primary key.
func transactionRow(ctx context.Context, b *Bench) ([]*report.Row, error) {
	times := func(l length) int { return span(l, pick(b, 100, 500), pick(b, 500, 3000)) }
	ours := entry{"runlane", func(ctx context.Context, l length) (measure.Sample, error) { return b.transacts(ctx, times(l)) }}
	hand := entry{"SQL by hand, minimal tables", func(ctx context.Context, l length) (measure.Sample, error) { return b.handTransacts(ctx, times(l)) }}
	m, err := b.against(ctx, measure.Sample.Micros, ours, []entry{hand})
	if err != nil {
		return nil, err
	}
	trips := func(s measure.Sample) float64 { return s.Cost.Each().RoundTrips }
	const name = "one transaction: 2 reads, 1 replace, 1 create"
	counted := line(name+": round trips", report.Trips, report.AtMost(1), "transaction", m, trips)
	counted.Spent = report.Spent{}
	return []*report.Row{line(name, report.Micros, report.AtMost(1.3), "transaction", m, measure.Sample.Micros), counted}, nil
}

// states walks a run through its life: leased, scheduled again, leased, …
type states struct {
	run   run.Run
	event run.Event
	now   time.Time
}

// newStates is a run that has been created.
func newStates(id string) (*states, error) {
	s := &states{now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	return s, s.step(run.Run{}, id, run.Created{
		Task: "mail", Queue: "transaction", Priority: run.PriorityDefault, Payload: []byte(`{"user":"u_123","template":"welcome"}`),
		Source: run.Source{Type: run.SourceTrigger},
	})
}

func (s *states) step(before run.Run, id string, data run.EventData) (err error) {
	s.now = s.now.Add(time.Millisecond)
	s.event = run.Event{ID: uuid.New(), Environment: environment, RunID: id, Sequence: before.Sequence + 1, At: s.now, Data: data}
	old := &before
	if before.Sequence == 0 {
		old = nil
	}
	s.run, err = run.Reduce(old, s.event.Sequence, s.event)
	return err
}

// next is the state that follows.
func (s *states) next() error {
	if lease := s.run.Lease; lease != nil {
		return s.step(s.run, s.run.ID, run.RetryScheduled{Token: lease.Token, Due: s.now, Failure: run.Failure{Code: "error", Message: "again"}})
	}
	return s.step(s.run, s.run.ID, run.Started{Lease: run.Lease{
		Token: uuid.New(), Worker: "bench", Attempt: s.run.Attempts + 1, Expires: s.now.Add(time.Minute), Duration: time.Minute,
	}})
}

// records are the run and the event, as they are stored.
func (s *states) records() (r, e storage.Record, err error) {
	if r, err = codec.EncodeRun(s.run); err != nil {
		return r, e, err
	}
	e, err = codec.EncodeEvent(s.event)
	return r, e, err
}

func (b *Bench) transacts(ctx context.Context, times int) (sample measure.Sample, err error) {
	s, err := b.open(ctx, "runlane_transaction", postgres.Config{})
	if err != nil {
		return sample, err
	}
	defer s.close(&err)
	one, err := newStates(uuid.NewString())
	if err != nil {
		return sample, err
	}
	other, err := newStates(uuid.NewString())
	if err != nil {
		return sample, err
	}
	keys := make([]storage.Key, 2)
	for i, st := range []*states{one, other} {
		r, e, err := st.records()
		if err != nil {
			return sample, err
		}
		keys[i] = r.Key
		if _, err := s.driver.Transact(ctx, "bench.create", func(ctx context.Context, tx storage.Tx) error {
			if err := tx.Create(ctx, r); err != nil {
				return err
			}
			return tx.Create(ctx, e)
		}); err != nil {
			return sample, err
		}
	}
	return again(ctx, s.db, s.pool, times, func(ctx context.Context) error {
		if err := one.next(); err != nil {
			return err
		}
		r, e, err := one.records()
		if err != nil {
			return err
		}
		_, err = s.driver.Transact(ctx, "bench.step", func(ctx context.Context, tx storage.Tx) error {
			found, err := tx.GetMany(ctx, keys)
			if err == nil && len(found) != len(keys) {
				err = errors.New("a run is missing")
			}
			if err != nil {
				return err
			}
			if err := tx.Replace(ctx, r); err != nil {
				return err
			}
			return tx.Create(ctx, e)
		})
		return err
	})
}

// again does something a number of times, warm, and counts what that cost.
func again(ctx context.Context, db *lab.Database, pool *lab.Pool, times int, do func(ctx context.Context) error) (measure.Sample, error) {
	if _, err := repeat(ctx, 20, do); err != nil {
		return measure.Sample{}, err
	}
	return db.Count(ctx, func(ctx context.Context) (measure.Sample, error) { return repeat(ctx, times, do) }, pool)
}

const handTables = `
CREATE TABLE record (id text PRIMARY KEY, version bigint NOT NULL, document jsonb NOT NULL);
CREATE TABLE event (id uuid PRIMARY KEY, document jsonb NOT NULL)`

const (
	handInsert = `INSERT INTO record (id, version, document) VALUES ($1, 1, $2)`
	handRead   = `SELECT version, document FROM record WHERE id = $1`
	handWrite  = `
WITH changed AS (UPDATE record SET version = version + 1, document = $3 WHERE id = $1 AND version = $2 RETURNING 1)
INSERT INTO event (id, document) SELECT $4, $5 FROM changed`
)

// handTransacts does it in as many round trips: both reads in one, both writes in one
// statement that does nothing if the run has changed in between.
func (b *Bench) handTransacts(ctx context.Context, times int) (sample measure.Sample, err error) {
	db, err := b.Lab.Database(ctx, "hand_transaction", func(ctx context.Context, db *lab.Database) error { return db.Exec(ctx, handTables) })
	if err != nil {
		return sample, err
	}
	pool, err := db.Pool(ctx, 0)
	if err != nil {
		return sample, err
	}
	defer pool.Close()
	one, err := newStates(uuid.NewString())
	if err != nil {
		return sample, err
	}
	r, _, err := one.records()
	if err != nil {
		return sample, err
	}
	ids := []string{uuid.NewString(), uuid.NewString()}
	for _, id := range ids {
		if _, err := pool.Exec(ctx, handInsert, id, r.Document); err != nil {
			return sample, err
		}
	}
	return again(ctx, db, pool, times, func(ctx context.Context) error {
		if err := one.next(); err != nil {
			return err
		}
		r, e, err := one.records()
		if err != nil {
			return err
		}
		return handStep(ctx, pool, ids, r.Document, one.event.ID, e.Document)
	})
}

func handStep(ctx context.Context, pool *lab.Pool, ids []string, document []byte, eventID uuid.UUID, event []byte) error {
	batch := &pgx.Batch{}
	var versions [2]int64
	for i, id := range ids {
		batch.Queue(handRead, id).QueryRow(func(row pgx.Row) error {
			var read []byte
			return row.Scan(&versions[i], &read)
		})
	}
	if err := pool.SendBatch(ctx, batch).Close(); err != nil {
		return err
	}
	tag, err := pool.Exec(ctx, handWrite, ids[0], versions[0], document, eventID, event)
	if err == nil && tag.RowsAffected() != 1 {
		err = errors.New("the record has changed")
	}
	return err
}
