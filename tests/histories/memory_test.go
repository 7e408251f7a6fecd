package histories_test

import (
	"context"
	"testing"
	"time"

	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/memory"
	"github.com/seed4391e180/runlane/tests/histories/play"
)

func TestMemory(t *testing.T) {
	o := play.Options{Transactions: 5000, Slots: 3, Runs: 2, Owners: 2, Pairs: 2, Streams: 2, Evidence: true, MaxAttempts: memory.DefaultMaxAttempts}
	histories(t, o, openMemory)
}

// TestMemoryCanceled ends the contexts of some transactions on the way.
func TestMemoryCanceled(t *testing.T) {
	o := play.Options{Transactions: 2500, Slots: 2, Runs: 2, Owners: 2, Pairs: 2, Streams: 1, Cancel: 0.2, MaxAttempts: memory.DefaultMaxAttempts}
	histories(t, o, openMemory)
}

func openMemory(t *testing.T, _ *play.Options) stage {
	var last time.Time
	d := memory.New(memory.Config{Clock: func() time.Time {
		// Its commits can follow each other faster than the microseconds of its times; a
		// time of its own for each tells the checker more.
		if now := time.Now(); now.After(last.Add(time.Microsecond)) {
			last = now
		} else {
			last = last.Add(time.Microsecond)
		}
		return last
	}})
	t.Cleanup(func() { _ = d.Close() })
	return stage{store: d, settle: func(context.Context) storage.Transactor { return d }}
}
