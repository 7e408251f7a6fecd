package rows

import (
	"context"
	"time"

	"github.com/seed4391e180/runlane/bench/measure"
	"github.com/seed4391e180/runlane/bench/report"
	"github.com/seed4391e180/runlane/storage/postgres"
)

// many is how many runs a call triggers.
const many = 1000

// manyRow: one caller, 1,000 runs a call.
func manyRow(ctx context.Context, b *Bench) ([]*report.Row, error) {
	ours := entry{"runlane", func(ctx context.Context, l length) (sample measure.Sample, err error) {
		s, err := b.open(ctx, "runlane_many", postgres.Config{})
		if err != nil {
			return sample, err
		}
		defer s.close(&err)
		c, err := b.newCrew(s, nil)
		if err != nil {
			return sample, err
		}
		return counted(ctx, s.db, s.pool, 1, b.manyTime(l), func(ctx context.Context) (int, error) {
			return many, c.feed(ctx, many)
		})
	}}
	var inserts, fast []entry
	for _, set := range riverInserting() {
		inserts = append(inserts, b.riverMany("River InsertMany", set, (*riverSide).insertMany))
		fast = append(fast, b.riverMany("River InsertManyFast", set, (*riverSide).insertFast))
	}
	m, err := b.against(ctx, measure.Sample.Rate, ours, inserts)
	if err != nil {
		return nil, err
	}
	f, err := b.against(ctx, measure.Sample.Rate, ours, fast)
	if err != nil {
		return nil, err
	}
	const name = "TriggerMany, 1,000 runs a call, one caller"
	return []*report.Row{
		line(name, report.PerSecond, report.AtLeast(1), "run", m, measure.Sample.Rate),
		line(name, report.PerSecond, report.Aim{}, "run", f, measure.Sample.Rate),
	}, nil
}

func (b *Bench) manyTime(l length) time.Duration {
	return span(l, pick(b, 300*time.Millisecond, 2*time.Second), pick(b, 1500*time.Millisecond, 8*time.Second))
}

func (r *riverSide) insertMany(ctx context.Context) error {
	_, err := r.client.InsertMany(ctx, batch(many))
	return err
}

func (r *riverSide) insertFast(ctx context.Context) error {
	_, err := r.client.InsertManyFast(ctx, batch(many))
	return err
}

func (b *Bench) riverMany(name string, set riverSetting, insert func(*riverSide, context.Context) error) entry {
	return entry{name + ", " + set.String(), func(ctx context.Context, l length) (measure.Sample, error) {
		r, err := b.openRiver(ctx, "river_many", set, 0, nil)
		if err != nil {
			return measure.Sample{}, err
		}
		defer r.close()
		return counted(ctx, r.db, r.pool, 1, b.manyTime(l), func(ctx context.Context) (int, error) { return many, insert(r, ctx) })
	}}
}
