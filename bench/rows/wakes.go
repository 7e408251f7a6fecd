package rows

import (
	"context"

	"github.com/seed4391e180/runlane/bench/measure"
	"github.com/seed4391e180/runlane/bench/report"
	"github.com/seed4391e180/runlane/storage/postgres"
)

// wakesRow shows what the wake modes cost beside each other, at the work of
// triggerRow. There is no aim: it says what whoever changes the mode gets.
func wakesRow(ctx context.Context, b *Bench) ([]*report.Row, error) {
	within := b.triggers("wakes in the transaction", postgres.Config{Wakes: postgres.WakeInTransaction})
	coalesced := b.triggers("coalesced", postgres.Config{Wakes: postgres.WakeCoalesced})
	off := b.triggers("off", postgres.Config{Wakes: postgres.WakeOff})
	taken, err := measure.InTurns(ctx, b.rounds(), within.side(whole), coalesced.side(whole), off.side(whole))
	if err != nil {
		return nil, err
	}
	const peer = "runlane, wakes in the transaction"
	return []*report.Row{
		line("Trigger, 64 goroutines, wakes coalesced", report.PerSecond, report.Aim{}, "run", match{ours: taken[1], theirs: taken[0], peer: peer}, measure.Sample.Rate),
		line("Trigger, 64 goroutines, wakes off", report.PerSecond, report.Aim{}, "run", match{ours: taken[2], theirs: taken[0], peer: peer}, measure.Sample.Rate),
	}, nil
}
