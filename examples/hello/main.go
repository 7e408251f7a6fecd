// Command hello triggers one durable run, works it, and prints its result.
// DATABASE_URL names a migrated database.
package main

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/seed4391e180/runlane/lane"
	"github.com/seed4391e180/runlane/storage/postgres"
)

func main() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	store, err := postgres.Open(ctx, os.Getenv("DATABASE_URL"), postgres.Config{})
	check(err)
	defer store.Close()
	l, err := lane.New(store, lane.Config{Environment: "prod"})
	check(err)
	hello := lane.Define(l, "hello", func(_ context.Context, a *lane.Attempt, name string) (string, error) {
		return "hello, " + name + ", from run " + a.RunID, nil
	}, lane.TaskOptions{})
	triggered, err := hello.Trigger(ctx, "world", lane.TriggerOptions{IdempotencyKey: "first"})
	check(err)
	go func() { _ = l.Work(ctx, lane.WorkerConfig{}) }() // until the store is closed
	greeting, err := hello.Wait(ctx, triggered.RunID)
	check(err)
	fmt.Println(greeting)
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
