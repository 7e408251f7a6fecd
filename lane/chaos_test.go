package lane

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/seed4391e180/runlane/storage"
)

// Three workers, a store that fails in every way it can, and handlers that do the
// same: every run ends exactly once, with a history that explains it.
func TestEverythingFails(t *testing.T) {
	for seed := range uint64(6) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				c := &chaos{w: w, rng: rand.New(rand.NewPCG(seed, 1))}
				c.task = Define(w.lane, "chaos", c.handle, TaskOptions{MaxAttempts: 6, Backoff: Exponential(100*time.Millisecond, 5*time.Second)})
				c.run()
			})
		})
	}
}

type chaos struct {
	w    *world
	task *Task[number, int]

	mu  sync.Mutex
	rng *rand.Rand
}

func (c *chaos) chance(n int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.rng.IntN(n)
}

func (c *chaos) handle(ctx context.Context, a *Attempt, p number) (int, error) {
	time.Sleep(time.Duration(c.chance(5000)) * time.Millisecond)
	switch c.chance(12) {
	case 0:
		panic("chaos")
	case 1:
		return 0, a.Release(time.Duration(c.chance(5000)) * time.Millisecond)
	case 2:
		return 0, Permanent(errBoom)
	case 3:
		time.Sleep(time.Duration(c.chance(20)) * time.Second)
	case 4, 5:
		return 0, errBoom
	}
	return p.N, ctx.Err()
}

func (c *chaos) fault(_ context.Context, label string) error {
	switch c.chance(40) {
	case 0:
		return storage.ErrUnavailable
	case 1:
		return &storage.ConflictError{Label: label}
	case 2:
		return &storage.CommitUnknownError{Label: label}
	case 3:
		time.Sleep(time.Duration(c.chance(8)) * time.Second)
	}
	return nil
}

func (c *chaos) run() {
	w := c.w
	cfg := WorkerConfig{Concurrency: 8, Lease: 9 * time.Second, Grace: time.Second, Name: "same"}
	var stops []func() error
	for range 3 {
		stops = append(stops, w.start(w.lane, cfg))
	}
	w.store.set(c.fault, c.fault)
	triggered := map[string]bool{}
	for i := range 200 {
		if id, ok := c.trigger(i); ok {
			triggered[id] = true
		}
		if i%50 == 25 { // a deploy; it may fail to give back what it holds
			_ = stops[0]()
			stops = append(stops[1:], w.start(w.lane, cfg))
		}
	}
	time.Sleep(5 * time.Minute)
	w.store.set(nil, nil)
	for _, r := range w.runs() {
		w.ended(r.ID)
		delete(triggered, r.ID)
	}
	if len(triggered) > 0 {
		w.t.Errorf("runs that were triggered do not exist: %v", triggered)
	}
	for _, stop := range stops {
		if err := stop(); err != nil {
			w.t.Error(err)
		}
	}
}

// trigger triggers until it knows the outcome, and returns the run that is promised.
func (c *chaos) trigger(i int) (id string, ok bool) {
	opts := TriggerOptions{RunID: fmt.Sprint("run-", i), Priority: 1 + c.chance(4)}
	switch c.chance(4) {
	case 0:
		opts.IdempotencyKey = fmt.Sprint("key-", c.chance(10))
		opts.IdempotencyTTL = []time.Duration{0, WhileActive, time.Minute}[c.chance(3)]
	case 1:
		opts.SingletonKey = fmt.Sprint("key-", c.chance(10))
	}
	for {
		res, err := c.task.Trigger(context.Background(), number{i}, opts)
		switch {
		case err == nil:
			return res.RunID, true
		case errors.Is(err, storage.ErrCommitUnknown) || storage.Retryable(err):
		case errors.Is(err, storage.ErrRecordExists):
			return opts.RunID, true
		default:
			c.w.t.Fatal(err)
		}
	}
}
