package lane_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seed4391e180/runlane/lane"
	"github.com/seed4391e180/runlane/storage/memory"
)

type Welcome struct{ UserID string }

type Receipt struct{ MessageID string }

// A run is stored, worked on, and waited for.
func Example() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	store := memory.New(memory.Config{})
	defer store.Close()

	l, err := lane.New(store, lane.Config{Environment: "prod"})
	if err != nil {
		fmt.Println(err)
		return
	}
	welcome := lane.Define(l, "emails.welcome", func(_ context.Context, a *lane.Attempt, p Welcome) (Receipt, error) {
		if a.Number == 1 {
			return Receipt{}, errors.New("the mail server is busy")
		}
		return Receipt{MessageID: fmt.Sprintf("welcome %s, attempt %d", p.UserID, a.Number)}, nil
	}, lane.TaskOptions{Queue: "emails", Backoff: lane.Fixed(10 * time.Millisecond)})

	worker := make(chan error)
	go func() { worker <- l.Work(ctx, lane.WorkerConfig{Queues: []string{"emails"}}) }()

	res, err := welcome.Trigger(ctx, Welcome{UserID: "u_123"}, lane.TriggerOptions{IdempotencyKey: "u_123"})
	if err != nil {
		fmt.Println(err)
		return
	}
	receipt, err := welcome.Wait(ctx, res.RunID)
	fmt.Println(receipt.MessageID, err)

	again, err := welcome.Trigger(ctx, Welcome{UserID: "u_123"}, lane.TriggerOptions{IdempotencyKey: "u_123"})
	fmt.Println(again.RunID == res.RunID, again.Existing, err)

	stop()
	fmt.Println(<-worker)
	// Output:
	// welcome u_123, attempt 2 <nil>
	// true true <nil>
	// <nil>
}

// A handler gives a run back until something outside is ready.
func ExampleAttempt_Release() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	store := memory.New(memory.Config{})
	defer store.Close()
	l, err := lane.New(store, lane.Config{Environment: "prod"})
	if err != nil {
		fmt.Println(err)
		return
	}
	paid := false
	ship := lane.Define(l, "orders.ship", func(_ context.Context, a *lane.Attempt, order string) (string, error) {
		if !paid {
			paid = true
			return "", a.Release(5 * time.Millisecond)
		}
		return fmt.Sprintf("%s shipped, %d failures", order, a.Failures), nil
	}, lane.TaskOptions{MaxAttempts: 1})
	worker := make(chan error)
	go func() { worker <- l.Work(ctx, lane.WorkerConfig{}) }()

	res, err := ship.Trigger(ctx, "order 7")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(ship.Wait(ctx, res.RunID))
	stop()
	fmt.Println(<-worker)
	// Output:
	// order 7 shipped, 0 failures <nil>
	// <nil>
}
