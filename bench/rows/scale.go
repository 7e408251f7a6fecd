package rows

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/seed4391e180/runlane/bench/measure"
	"github.com/seed4391e180/runlane/bench/report"
	"github.com/seed4391e180/runlane/run"
	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/codec"
	"github.com/seed4391e180/runlane/storage/postgres"
)

// scaleRow: an operator's pages beside SQL by hand, over many runs; and what a claim
// and a page cost there, beside a database with few. All runs are due in one queue.
func scaleRow(ctx context.Context, b *Bench) ([]*report.Row, error) {
	few, all := pick(b, 1000, 10_000), pick(b, 50_000, 1_000_000)
	for name, n := range map[string]int{"runlane_few": few, "runlane_all": all} {
		if err := b.fill(ctx, name, n); err != nil {
			return nil, fmt.Errorf("storing %d runs: %w", n, err)
		}
	}
	batches := func(l length) int { return span(l, 2, pick(b, 3, 20)) }
	pages := func(l length) int { return span(l, 20, pick(b, 300, 2000)) }
	claims := func(name string) entry {
		return entry{"runlane, " + name, func(ctx context.Context, l length) (measure.Sample, error) { return b.claims(ctx, name, batches(l)) }}
	}
	lists := func(name string) entry {
		return entry{"runlane, " + name, func(ctx context.Context, l length) (measure.Sample, error) { return b.lists(ctx, name, pages(l)) }}
	}
	hand := entry{"keyset SQL by hand", func(ctx context.Context, l length) (measure.Sample, error) {
		return b.handLists(ctx, "runlane_all", pages(l))
	}}
	page, err := b.against(ctx, measure.Sample.Micros, lists("runlane_all"), []entry{hand})
	if err != nil {
		return nil, err
	}
	list, err := b.against(ctx, measure.Sample.Micros, lists("runlane_all"), []entry{lists("runlane_few")})
	if err != nil {
		return nil, err
	}
	claim, err := b.against(ctx, measure.Sample.Micros, claims("runlane_all"), []entry{claims("runlane_few")})
	if err != nil {
		return nil, err
	}
	list.peer = fmt.Sprintf("runlane with %d runs", few)
	claim.peer = list.peer
	return []*report.Row{
		line(fmt.Sprintf("operator page of 50, %d runs", all), report.Micros, report.AtMost(1.3), "page", page, measure.Sample.Micros),
		line(fmt.Sprintf("operator page of 50, %d runs, beside few", all), report.Micros, report.AtMost(1.5), "page", list, measure.Sample.Micros),
		line(fmt.Sprintf("claim of %d out of %d due runs, per run", claimSize, all), report.Micros, report.AtMost(1.5), "run", claim, measure.Sample.Micros),
	}, nil
}

// fill stores n runs, and lets the server clean up and look at them.
func (b *Bench) fill(ctx context.Context, name string, n int) (err error) {
	s, err := b.open(ctx, name, postgres.Config{Wakes: postgres.WakeOff})
	if err != nil {
		return err
	}
	defer s.close(&err)
	c, err := b.newCrew(s, nil)
	if err != nil {
		return err
	}
	// Runs of one call have one time; a page is to begin anywhere.
	if err := c.feedBy(ctx, n, min(n/100, many)); err != nil {
		return err
	}
	return s.db.Exec(ctx, "VACUUM ANALYZE")
}

// claimSize is how many runs a claim takes.
const claimSize = 100

// claims leases runs, claimSize in a transaction: what a worker's claim does, without
// its handlers.
func (b *Bench) claims(ctx context.Context, name string, batches int) (sample measure.Sample, err error) {
	s, err := b.open(ctx, name, postgres.Config{})
	if err != nil {
		return sample, err
	}
	defer s.close(&err)
	partition, err := codec.DuePartition(environment, "default", run.PriorityDefault)
	if err != nil {
		return sample, err
	}
	claim := func(ctx context.Context) error {
		ids := make([]uuid.UUID, 2*claimSize)
		for i := range ids {
			ids[i] = uuid.New()
		}
		_, err := s.driver.Transact(ctx, "bench.claim", func(ctx context.Context, tx storage.Tx) error {
			page, err := tx.Query(ctx, storage.Query{
				Index: storage.RunsByDue, Partition: partition, Until: storage.ServerNow(), Limit: claimSize, Lock: storage.Exclusive,
			})
			if err != nil {
				return err
			}
			if len(page.Records) != claimSize {
				return fmt.Errorf("%d runs are due, not %d", len(page.Records), claimSize)
			}
			for i, rec := range page.Records {
				if err := lease(ctx, tx, rec, page.Time, ids[2*i], ids[2*i+1]); err != nil {
					return err
				}
			}
			return nil
		})
		return err
	}
	if err := claim(ctx); err != nil { // warm
		return sample, err
	}
	return s.db.Count(ctx, func(ctx context.Context) (measure.Sample, error) {
		s, err := repeat(ctx, batches, claim)
		s.Units *= claimSize
		return s, err
	}, s.pool)
}

// lease stages the next state of a due run, and its event.
func lease(ctx context.Context, tx storage.Tx, rec storage.Record, now time.Time, token, eventID uuid.UUID) error {
	r, kind := codec.DecodeRun(rec)
	if kind != codec.Canonical {
		return fmt.Errorf("%v is %v", rec.Key, kind)
	}
	event := run.Event{ID: eventID, Environment: r.Environment, RunID: r.ID, Sequence: r.Sequence + 1, At: now, Data: run.Started{Lease: run.Lease{
		Token: token, Worker: "bench", Attempt: r.Attempts + 1, Expires: now.Add(time.Hour), Duration: time.Hour,
	}}}
	next, err := run.Reduce(&r, event.Sequence, event)
	if err != nil {
		return err
	}
	written, err := codec.EncodeRun(next)
	if err != nil {
		return err
	}
	created, err := codec.EncodeEvent(event)
	if err != nil {
		return err
	}
	return errors.Join(tx.Replace(ctx, written), tx.Create(ctx, created))
}
