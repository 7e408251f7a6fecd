package rows

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seed4391e180/runlane/bench/measure"
	"github.com/seed4391e180/runlane/bench/report"
	"github.com/seed4391e180/runlane/lane"
	"github.com/seed4391e180/runlane/storage/postgres"
)

// slots is how many handlers may run at once, on every side.
const slots = 500

// lifecycleRiverRow: from the first trigger to the last outcome stored, no-op handlers,
// while one producer triggers 1,000 runs a call.
func lifecycleRiverRow(ctx context.Context, b *Bench) ([]*report.Row, error) {
	runs := func(l length) int { return span(l, pick(b, 2000, 10_000), pick(b, 10_000, 60_000)) }
	var settings []entry
	for _, set := range riverWorking(pools) {
		settings = append(settings, entry{"River, " + set.String(), func(ctx context.Context, l length) (measure.Sample, error) {
			return b.riverLife(ctx, set, runs(l))
		}})
	}
	ours := entry{"runlane", func(ctx context.Context, l length) (measure.Sample, error) { return b.life(ctx, runs(l)) }}
	m, err := b.against(ctx, measure.Sample.Rate, ours, settings)
	if err != nil {
		return nil, err
	}
	return []*report.Row{line("trigger, work, succeeded: 500 slots, no-op handlers", report.PerSecond, report.AtLeast(1), "run", m, measure.Sample.Rate)}, nil
}

// life takes n runs through their lives.
func (b *Bench) life(ctx context.Context, n int) (sample measure.Sample, err error) {
	s, err := b.open(ctx, "runlane_life", postgres.Config{})
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
	before, err := s.inStatus(ctx, "succeeded")
	if err != nil {
		return sample, err
	}
	sample, err = s.db.Count(ctx, func(ctx context.Context) (measure.Sample, error) {
		return lives(ctx, &c.tally, c.feed, n)
	}, s.pool)
	if err != nil {
		return sample, err
	}
	after, err := s.inStatus(ctx, "succeeded")
	return sample, errors.Join(err, stored(after-before, n))
}

// stored fails if the database does not hold what was measured.
func stored(found int64, want int) error {
	if found != int64(want) {
		return fmt.Errorf("%d were measured, %d are stored", want, found)
	}
	return nil
}

// lives triggers n and waits for the last of them to end.
func lives(ctx context.Context, t *tally, feed func(ctx context.Context, n int) error, n int) (measure.Sample, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	t.expect(n)
	start := time.Now()
	if err := feed(ctx, n); err != nil {
		return measure.Sample{}, err
	}
	err := t.wait(ctx)
	return measure.Sample{Units: n, Took: time.Since(start)}, err
}

// patience is how long a turn may take before it is an error.
const patience = 5 * time.Minute

func (b *Bench) riverLife(ctx context.Context, set riverSetting, n int) (sample measure.Sample, err error) {
	r, err := b.openRiver(ctx, "river_life", set, slots, nil)
	if err != nil {
		return sample, err
	}
	defer r.close()
	stop, err := r.work(ctx, n+many)
	if err != nil {
		return sample, err
	}
	defer func() { err = errors.Join(err, stop()) }()
	if _, err := lives(ctx, &r.tally, r.feed, many); err != nil { // warm
		return sample, err
	}
	before, err := r.completed(ctx)
	if err != nil {
		return sample, err
	}
	sample, err = r.db.Count(ctx, func(ctx context.Context) (measure.Sample, error) {
		return lives(ctx, &r.tally, r.feed, n)
	}, r.pool)
	if err != nil {
		return sample, err
	}
	after, err := r.completed(ctx)
	return sample, errors.Join(err, stored(after-before, n))
}
