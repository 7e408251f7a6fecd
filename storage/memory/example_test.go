package memory_test

import (
	"context"
	"fmt"

	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/codec"
	"github.com/seed4391e180/runlane/storage/memory"
)

// A counter that any number of goroutines may increment.
func Example() {
	store := memory.New(memory.Config{})
	defer store.Close()
	ctx := context.Background()

	key, err := codec.ScheduleCursorKey("test", "counter")
	if err != nil {
		panic(err)
	}
	increment := func(ctx context.Context, tx storage.Tx) (string, error) {
		_, found, err := tx.Get(ctx, key)
		if err != nil {
			return "", err
		}
		if !found {
			return "first", tx.Create(ctx, storage.Record{Key: key, Document: []byte(`{"n":1}`)})
		}
		return "again", tx.Replace(ctx, storage.Record{Key: key, Document: []byte(`{"n":2}`)})
	}
	for range 2 {
		what, commit, err := storage.Transact(ctx, store, "counter.increment", increment)
		if err != nil {
			panic(err)
		}
		fmt.Println(what, len(commit.Versions), commit.Attempts)
	}
	// Output:
	// first 1 1
	// again 1 1
}
