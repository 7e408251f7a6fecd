package storage_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/keys"
	"github.com/seed4391e180/runlane/storage/memory"
)

// slotKey names a capacity slot. Any collection would do for a counter; the
// partition of a key is always the environment.
func slotKey(queue string) storage.Key {
	partition, err := keys.String("prod")
	if err != nil {
		panic(err)
	}
	id, err := keys.New().String(queue).Int(1).Text()
	if err != nil {
		panic(err)
	}
	return storage.Key{Collection: storage.QueueSlots, Partition: partition, ID: id}
}

// A transaction reads, decides and writes. Nothing is locked while the callback
// runs; if the record changes before the commit, the callback runs again.
func Example() {
	ctx := context.Background()
	store := memory.New(memory.Config{})
	defer store.Close()
	key := slotKey("mail")

	// A blind create: no read, one round trip on a real database. The mark becomes the
	// time of the commit.
	commit, err := store.Transact(ctx, "slot.open", func(ctx context.Context, tx storage.Tx) error {
		return tx.Create(ctx, storage.Record{Key: key, Document: []byte(`{"holder":"a","since":"` + storage.CommitTime + `"}`)})
	})
	if err != nil {
		panic(err)
	}
	fmt.Println("attempts:", commit.Attempts)

	// Read, then replace. The version that was read is the fence.
	holder, _, err := storage.Transact(ctx, store, "slot.take", func(ctx context.Context, tx storage.Tx) (string, error) {
		rec, found, err := tx.Get(ctx, key)
		if err != nil || !found {
			return "", fmt.Errorf("slot: found %v, %w", found, err)
		}
		rec.Document = []byte(`{"holder":"b"}`)
		return "b", tx.Replace(ctx, rec)
	})
	fmt.Println(holder, err)

	// A create that collides says so.
	_, err = store.Transact(ctx, "slot.open", func(ctx context.Context, tx storage.Tx) error {
		return tx.Create(ctx, storage.Record{Key: key, Document: []byte(`{}`)})
	})
	fmt.Println(errors.Is(err, storage.ErrRecordExists))
	// Output:
	// attempts: 1
	// b <nil>
	// true
}
