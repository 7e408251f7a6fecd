package rows

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/google/uuid"

	"github.com/seed4391e180/runlane/bench/measure"
	"github.com/seed4391e180/runlane/bench/report"
	"github.com/seed4391e180/runlane/lane"
	"github.com/seed4391e180/runlane/storage/postgres"
)

// latencyRow: from the return of the call that stores a run to the start of its
// handler, one run at a time on a system that is idle in between.
func latencyRow(ctx context.Context, b *Bench) ([]*report.Row, error) {
	calls := func(l length) int { return span(l, pick(b, 4, 10), pick(b, 20, 150)) }
	ours := entry{"runlane", func(ctx context.Context, l length) (measure.Sample, error) { return b.latency(ctx, calls(l)) }}
	var inRiver, queued, direct []entry
	for _, set := range riverWorking(pick(b, []int{16}, pools)) {
		inRiver = append(inRiver, entry{"River, " + set.String(), func(ctx context.Context, l length) (measure.Sample, error) {
			return b.riverLatency(ctx, set, calls(l))
		}})
	}
	inDBOS := func(set dbosSetting) entry {
		return entry{"DBOS, " + set.String(), func(ctx context.Context, l length) (measure.Sample, error) {
			return b.dbosLatency(ctx, set, calls(l))
		}}
	}
	for _, set := range dbosQueues(b) {
		queued = append(queued, inDBOS(set))
	}
	for _, set := range dbosDirect() {
		direct = append(direct, inDBOS(set))
	}
	soonest := func(s measure.Sample) float64 { return -measure.Quantile(0.5)(s) }
	sides := []measure.Side{ours.side(whole)}
	var notes []string
	for _, settings := range [][]entry{inRiver, queued, direct} {
		best, tried, err := b.best(ctx, soonest, settings)
		if err != nil {
			return nil, err
		}
		sides, notes = append(sides, best.side(whole)), append(notes, tried)
	}
	taken, err := measure.InTurns(ctx, b.rounds(), sides...)
	if err != nil {
		return nil, err
	}
	var rows []*report.Row
	for i, peer := range sides[1:] {
		aim := report.AtMost(1)
		if i == 2 { // nothing is dispatched: the caller's process starts the handler itself
			aim = report.Aim{}
		}
		for _, q := range []float64{0.5, 0.99} {
			a, z := taken[0].Latencies(), taken[i+1].Latencies()
			rows = append(rows, &report.Row{
				Name: fmt.Sprintf("latency to the handler's start, idle: p%g", q*100), Peer: peer.Name, Unit: report.Micros, Aim: aim,
				Ours: measure.Quantile(q)(a), Them: measure.Quantile(q)(z),
				Notes: []string{fmt.Sprintf("of %d calls each, in %d turns", len(a.Latencies), len(taken[0])), notes[i]},
			})
		}
	}
	return rows, nil
}

// calm is how long nothing happens between two calls: longer than any interval that
// holds back the next fetch, and never the same, so that no poll keeps in step with it.
func calm() time.Duration { return 110*time.Millisecond + rand.N(60*time.Millisecond) }

// starting is a handler that told that it began.
type starting struct {
	payload payload
	at      time.Time
}

// starts is a channel of handlers that began, and what they call.
func starts() (began chan starting, tell func(payload)) {
	began = make(chan starting, 1000)
	return began, func(p payload) { began <- starting{p, time.Now()} }
}

// apart calls store a number of times and takes the time from its return until the
// handler of what was stored tells that it began. Others do not count, such as one that
// was cut short at the end of an earlier turn and is taken up again.
func apart(ctx context.Context, n int, began <-chan starting, store func(ctx context.Context, p payload) error) (measure.Sample, error) {
	const warm = 3
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	s := measure.Sample{Units: n}
	start := time.Now()
	for i := range warm + n {
		if err := rest(ctx, calm()); err != nil {
			return s, err
		}
		mine := payload{User: uuid.NewString(), Template: somebody.Template}
		if err := store(ctx, mine); err != nil {
			return s, err
		}
		returned := time.Now()
		at, err := await(ctx, began, mine)
		if err != nil {
			return s, err
		}
		if i >= warm {
			s.Latencies = append(s.Latencies, at.Sub(returned))
		}
	}
	s.Took = time.Since(start)
	return s, nil
}

func await(ctx context.Context, began <-chan starting, mine payload) (time.Time, error) {
	for {
		select {
		case st := <-began:
			if st.payload == mine {
				return st.at, nil
			}
		case <-ctx.Done():
			return time.Time{}, fmt.Errorf("the handler never starts: %w", ctx.Err())
		}
	}
}

func (b *Bench) latency(ctx context.Context, n int) (sample measure.Sample, err error) {
	s, err := b.open(ctx, "runlane_latency", postgres.Config{})
	if err != nil {
		return sample, err
	}
	defer s.close(&err)
	began, tell := starts()
	c, err := b.newCrew(s, tell)
	if err != nil {
		return sample, err
	}
	stop := c.work(ctx, lane.WorkerConfig{Concurrency: slots})
	defer func() { err = errors.Join(err, stop()) }()
	return apart(ctx, n, began, func(ctx context.Context, p payload) error {
		_, err := c.task.Trigger(ctx, p)
		return err
	})
}

func (b *Bench) riverLatency(ctx context.Context, set riverSetting, n int) (sample measure.Sample, err error) {
	began, tell := starts()
	r, err := b.openRiver(ctx, "river_latency", set, slots, tell)
	if err != nil {
		return sample, err
	}
	defer r.close()
	stop, err := r.work(ctx, n)
	if err != nil {
		return sample, err
	}
	defer func() { err = errors.Join(err, stop()) }()
	return apart(ctx, n, began, func(ctx context.Context, p payload) error {
		_, err := r.client.Insert(ctx, mail{p}, nil)
		return err
	})
}

func (b *Bench) dbosLatency(ctx context.Context, set dbosSetting, n int) (sample measure.Sample, err error) {
	began, tell := starts()
	d, err := b.openDBOS(ctx, "dbos_latency", set, tell)
	if err != nil {
		return sample, err
	}
	defer d.close(&err)
	return apart(ctx, n, began, func(_ context.Context, p payload) error {
		_, err := d.start(p)
		return err
	})
}
