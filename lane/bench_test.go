package lane

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/seed4391e180/runlane/storage/memory"
)

// The benchmarks measure what the runtime itself costs: the store is in memory and
// handlers do nothing.

func benchLane(b *testing.B, hooks Hooks) (*Lane, *Task[number, number]) {
	b.Helper()
	store := memory.New(memory.Config{})
	b.Cleanup(func() { store.Close() })
	l, err := New(store, Config{Environment: "bench", Hooks: hooks})
	if err != nil {
		b.Fatal(err)
	}
	return l, Define(l, "double", double, TaskOptions{})
}

func BenchmarkTrigger(b *testing.B) {
	_, task := benchLane(b, Hooks{})
	b.ReportAllocs()
	for b.Loop() {
		if _, err := task.Trigger(context.Background(), number{1}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkTriggerMany(b *testing.B) {
	_, task := benchLane(b, Hooks{})
	items := make([]Item[number], 1000)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := task.TriggerMany(context.Background(), items); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N*len(items))/b.Elapsed().Seconds(), "runs/s")
}

// BenchmarkWork takes b.N runs from claim to succeeded.
func BenchmarkWork(b *testing.B) {
	var done atomic.Int64
	finished := make(chan struct{})
	l, task := benchLane(b, Hooks{Finished: func(f Finish) {
		if f.Outcome == OutcomeSucceeded && done.Add(1) == int64(b.N) {
			close(finished)
		}
	}})
	for left := b.N; left > 0; left -= 1000 {
		if _, err := task.TriggerMany(context.Background(), make([]Item[number], min(left, 1000))); err != nil {
			b.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	b.ReportAllocs()
	b.ResetTimer()
	go func() { ended <- l.Work(ctx, WorkerConfig{Concurrency: 500}) }()
	<-finished
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "runs/s")
	cancel()
	if err := <-ended; err != nil {
		b.Fatal(err)
	}
}
