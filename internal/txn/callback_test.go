package txn

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/storage"
)

func TestCallbackErrors(t *testing.T) {
	mine := errors.New("mine")
	t.Run("after one read, by identity and at once", func(t *testing.T) {
		f := newFake()
		_, err := f.engine().Transact(t.Context(), "test", func(ctx context.Context, tx storage.Tx) error {
			tx.Get(ctx, key("a")) //nolint:errcheck // cannot fail here
			return mine
		})
		require.True(t, err == mine, "by identity")
		require.NotContains(t, f.log, "validate")
	})
	t.Run("after two reads, once they were true at one moment", func(t *testing.T) {
		f := newFake()
		f.before["validate"] = func() { f.put(key("a"), "now present") }
		calls := 0
		_, err := f.engine().Transact(t.Context(), "test", func(ctx context.Context, tx storage.Tx) error {
			calls++
			tx.Get(ctx, key("a")) //nolint:errcheck // cannot fail here
			tx.Get(ctx, key("b")) //nolint:errcheck // cannot fail here
			return mine
		})
		require.True(t, err == mine)
		require.Equal(t, 2, calls)
	})
	t.Run("what a method gave, at once, wrapped or not", func(t *testing.T) {
		for _, wrap := range []string{"%w", "mine: %w"} {
			f := newFake()
			f.put(key("a"), "1")
			var given error
			commit, err := f.engine().Transact(t.Context(), "test", func(ctx context.Context, tx storage.Tx) error {
				tx.Get(ctx, key("a")) //nolint:errcheck // cannot fail here
				f.put(key("a"), "2")
				tx.Get(ctx, key("b")) //nolint:errcheck // cannot fail here
				given = fmt.Errorf(wrap, tx.Create(ctx, record("a", "3")))
				return given
			})
			require.True(t, err == given)
			require.ErrorIs(t, err, storage.ErrRecordExists)
			require.Equal(t, 1, commit.Attempts)
			require.NotContains(t, f.log, "validate")
		}
	})
	t.Run("what a method gave is no pass for another error", func(t *testing.T) {
		f := newFake()
		f.put(key("a"), "1")
		calls := 0
		_, err := f.engine().Transact(t.Context(), "test", func(ctx context.Context, tx storage.Tx) error {
			calls++
			tx.Get(ctx, key("a")) //nolint:errcheck // cannot fail here
			if calls == 1 {
				f.put(key("a"), "2")
			}
			tx.Get(ctx, key("b")) //nolint:errcheck // cannot fail here
			require.ErrorIs(t, tx.Create(ctx, record("a", "3")), storage.ErrRecordExists)
			return storage.ErrRecordExists
		})
		require.True(t, err == storage.ErrRecordExists)
		require.Equal(t, 2, calls)
	})
	t.Run("when attempts are used up, the callback's error", func(t *testing.T) {
		f := newFake()
		for range DefaultMaxAttempts {
			f.failures["validate"] = append(f.failures["validate"], &Replay{Reason: storage.ReasonChanged})
		}
		_, err := f.engine().Transact(t.Context(), "test", func(ctx context.Context, tx storage.Tx) error {
			tx.Get(ctx, key("a")) //nolint:errcheck // cannot fail here
			tx.Get(ctx, key("b")) //nolint:errcheck // cannot fail here
			return mine
		})
		require.True(t, err == mine)
	})
	t.Run("a swallowed failure of the session still ends the attempt", func(t *testing.T) {
		f := newFake()
		broken := errors.New("broken")
		f.failures["lookup"] = []error{broken}
		_, err := f.engine().Transact(t.Context(), "test", func(ctx context.Context, tx storage.Tx) error {
			tx.Get(ctx, key("a")) //nolint:errcheck // swallowed on purpose
			return nil
		})
		require.ErrorIs(t, err, broken)
	})
	t.Run("a stale attempt replays whatever the callback returns", func(t *testing.T) {
		f := newFake()
		f.failures["lookup"] = []error{&Replay{Reason: storage.ReasonDeadlock}}
		calls := 0
		_, err := f.engine().Transact(t.Context(), "test", func(ctx context.Context, tx storage.Tx) error {
			calls++
			if _, _, err := tx.Get(ctx, key("a")); err != nil {
				return fmt.Errorf("dressed up: %w", mine)
			}
			return nil
		})
		require.NoError(t, err)
		require.Equal(t, 2, calls)
	})
	t.Run("a callback cannot ask for a replay", func(t *testing.T) {
		f := newFake()
		fake := &Replay{Reason: storage.ReasonChanged}
		calls := 0
		_, err := f.engine().Transact(t.Context(), "test", func(context.Context, storage.Tx) error {
			calls++
			return fmt.Errorf("mine: %w", fake)
		})
		require.ErrorIs(t, err, fake)
		require.Equal(t, 1, calls)
	})
}
