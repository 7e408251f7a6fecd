package rows

import (
	"context"
	"time"

	"github.com/seed4391e180/runlane/bench/measure"
	"github.com/seed4391e180/runlane/bench/report"
	"github.com/seed4391e180/runlane/storage/postgres"
)

// callers is how many goroutines trigger at once.
const callers = 64

// triggerRow: one run a call, durable when the call returns.
func triggerRow(ctx context.Context, b *Bench) ([]*report.Row, error) {
	var settings []entry
	for _, set := range riverInserting() {
		settings = append(settings, entry{"River Insert, " + set.String(), func(ctx context.Context, l length) (measure.Sample, error) {
			return b.riverInserts(ctx, set, b.triggerTime(l))
		}})
	}
	m, err := b.against(ctx, measure.Sample.Rate, b.triggers("runlane", postgres.Config{}), settings)
	if err != nil {
		return nil, err
	}
	return []*report.Row{line("Trigger, 64 goroutines, one run a call", report.PerSecond, report.AtLeast(5), "run", m, measure.Sample.Rate)}, nil
}

func (b *Bench) triggerTime(l length) time.Duration {
	return span(l, pick(b, 500*time.Millisecond, 2*time.Second), pick(b, 2*time.Second, 10*time.Second))
}

// triggers is runlane in one configuration.
func (b *Bench) triggers(name string, config postgres.Config) entry {
	return entry{name, func(ctx context.Context, l length) (sample measure.Sample, err error) {
		s, err := b.open(ctx, "runlane_trigger", config)
		if err != nil {
			return sample, err
		}
		defer s.close(&err)
		c, err := b.newCrew(s, nil)
		if err != nil {
			return sample, err
		}
		call := func(ctx context.Context) (int, error) {
			_, err := c.task.Trigger(ctx, somebody)
			return 1, err
		}
		return counted(ctx, s.db, s.pool, callers, b.triggerTime(l), call)
	}}
}

func (b *Bench) riverInserts(ctx context.Context, set riverSetting, d time.Duration) (measure.Sample, error) {
	r, err := b.openRiver(ctx, "river_trigger", set, 0, nil)
	if err != nil {
		return measure.Sample{}, err
	}
	defer r.close()
	call := func(ctx context.Context) (int, error) {
		_, err := r.client.Insert(ctx, mail{somebody}, nil)
		return 1, err
	}
	return counted(ctx, r.db, r.pool, callers, d, call)
}
