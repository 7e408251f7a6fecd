package txn

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/storage"
)

// A record that is created and deleted again without being read leaves no write
// behind, but what the transaction took for granted: that it was absent.
func TestAbsenceOfWhatIsCreatedAndDeleted(t *testing.T) {
	f := newFake()
	f.put(key("a"), "1")
	commit, err := f.engine().Transact(t.Context(), "test", func(ctx context.Context, tx storage.Tx) error {
		if err := tx.Create(ctx, record("a", "2")); err != nil {
			return err
		}
		return errors.Join(tx.Delete(ctx, key("a")), tx.Create(ctx, record("other", "1")))
	})
	require.ErrorIs(t, err, storage.ErrRecordExists)
	require.Equal(t, 2, commit.Attempts)
	require.NotContains(t, f.records, key("other"))
}
