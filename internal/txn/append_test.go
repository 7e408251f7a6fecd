package txn

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/codec"
)

func head(stream string) storage.Key {
	key, err := codec.ObservationHeadKey("e", stream)
	if err != nil {
		panic(err)
	}
	return key
}

func items(texts ...string) []json.RawMessage {
	var all []json.RawMessage
	for _, text := range texts {
		all = append(all, json.RawMessage(text))
	}
	return all
}

func TestAppendsAreCombinedForEachStream(t *testing.T) {
	f := newFake()
	f.streams[head("b")] = []string{"0"}
	commit := transact(t, f, func(ctx context.Context, tx storage.Tx) error {
		mine := items("2", "3")
		return errors.Join(
			tx.Append(ctx, head("b"), items("1")...),
			tx.Append(ctx, head("a"), mine...),
			tx.Append(ctx, head("c")),
			tx.Append(ctx, head("b"), mine...),
			tx.Append(ctx, head("a"), items("4")...),
		)
	})
	require.Equal(t, []Append{
		{Head: head("b"), Environment: "e", Stream: "b", Items: items("1", "2", "3")},
		{Head: head("a"), Environment: "e", Stream: "a", Items: items("2", "3", "4")},
	}, f.plans[0].Appends)
	require.Equal(t, []storage.Appended{{Head: head("b"), First: 2, Last: 4}, {Head: head("a"), First: 1, Last: 3}}, commit.Appended)
	require.Equal(t, f.now, commit.Time)
	require.Empty(t, commit.Versions)
	require.Equal(t, []string{"begin", "commit"}, f.log, "a head that is only appended to is not locked with the rest")
}

// TestTheItemsAreTheCallersArray: the caller may use its array for the next call.
func TestTheItemsAreTheCallersArray(t *testing.T) {
	f := newFake()
	transact(t, f, func(ctx context.Context, tx storage.Tx) error {
		mine := make([]json.RawMessage, 1, 10)
		for _, text := range []string{"1", "2", "3"} {
			mine[0] = json.RawMessage(text)
			require.NoError(t, tx.Append(ctx, head("s"), mine...))
		}
		mine[0] = json.RawMessage("4")
		return nil
	})
	require.Equal(t, []string{"1", "2", "3"}, f.streams[head("s")])
}

// TestHowHeadsAreLocked: one that is read as well is a key that is written.
func TestHowHeadsAreLocked(t *testing.T) {
	id := head("s").ID
	get := func(ctx context.Context, tx storage.Tx, mode ...storage.ReadMode) error {
		_, _, err := tx.Get(ctx, head("s"), mode...)
		return err
	}
	add := func(ctx context.Context, tx storage.Tx) error { return tx.Append(ctx, head("s"), items("1")...) }
	for name, test := range map[string]struct {
		fn  callback
		log []string
	}{
		"read": {func(ctx context.Context, tx storage.Tx) error { return errors.Join(get(ctx, tx), add(ctx, tx)) },
			[]string{"begin", "lookup " + id, "commit " + id + ":x"}},
		"read afterwards": {func(ctx context.Context, tx storage.Tx) error { return errors.Join(add(ctx, tx), get(ctx, tx)) },
			[]string{"begin", "lookup " + id, "commit " + id + ":x"}},
		"sealed": {func(ctx context.Context, tx storage.Tx) error {
			err := get(ctx, tx)
			_, nerr := tx.Now(ctx)
			return errors.Join(err, nerr, add(ctx, tx))
		}, []string{"begin", "lookup " + id, "seal " + id + ":x", "commit"}},
		"appended to before Now": {func(ctx context.Context, tx storage.Tx) error {
			err := add(ctx, tx)
			_, nerr := tx.Now(ctx)
			return errors.Join(err, nerr)
		}, []string{"begin", "seal", "commit"}},
		"created": {func(ctx context.Context, tx storage.Tx) error {
			return errors.Join(tx.Create(ctx, storage.Record{Key: head("s"), Document: []byte("1")}), add(ctx, tx))
		}, []string{"begin", "commit " + id + ":x"}},
		"another is only read": {func(ctx context.Context, tx storage.Tx) error {
			_, _, err := tx.Get(ctx, key("a"))
			return errors.Join(err, get(ctx, tx), add(ctx, tx))
		}, []string{"begin", "lookup a", "lookup " + id, "commit a:s " + id + ":x"}},
		// The promise came too late: an append is a write.
		"read as read-only afterwards": {func(ctx context.Context, tx storage.Tx) error {
			return errors.Join(add(ctx, tx), get(ctx, tx, storage.ReadOnly))
		}, []string{"begin", "lookup " + id, "commit " + id + ":x"}},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake()
			transact(t, f, test.fn)
			require.Equal(t, test.log, f.log)
			require.Equal(t, []string{"1"}, f.streams[head("s")])
		})
	}
}

// TestAReplayAppendsOnce also shows that it waits for the keys that were read or
// written, not for heads: those come last in every attempt.
func TestAReplayAppendsOnce(t *testing.T) {
	f := newFake()
	f.failures["commit"] = []error{&Replay{Reason: storage.ReasonExists, Key: key("a")}}
	commit := transact(t, f, func(ctx context.Context, tx storage.Tx) error {
		if _, _, err := tx.Get(ctx, head("read")); err != nil {
			return err
		}
		return errors.Join(
			tx.Append(ctx, head("s"), items("1", "2")...),
			tx.Append(ctx, head("read"), items("3")...),
			tx.Create(ctx, record("a", "1")),
		)
	})
	require.Equal(t, 2, commit.Attempts)
	require.Equal(t, []string{"1", "2"}, f.streams[head("s")])
	require.Equal(t, []string{"3"}, f.streams[head("read")])
	require.Len(t, f.admitted, 1)
	require.Equal(t, []Lock{{Key: key("a")}, {Key: head("read")}}, f.admitted[0].Locks)
	require.Empty(t, f.admitted[0].Appends)
	require.Equal(t, []storage.Appended{{Head: head("s"), First: 1, Last: 2}, {Head: head("read"), First: 1, Last: 1}}, commit.Appended)
}

// TestVersionsOfHeads: appending writes the head once more, so the version of the
// staged record is not that of the head.
func TestVersionsOfHeads(t *testing.T) {
	f := newFake()
	commit := transact(t, f, func(ctx context.Context, tx storage.Tx) error {
		return errors.Join(
			tx.Create(ctx, storage.Record{Key: head("s"), Document: []byte("1")}),
			tx.Create(ctx, storage.Record{Key: head("other"), Document: []byte("1")}),
			tx.Append(ctx, head("s"), items("1")...),
		)
	})
	require.Len(t, commit.Versions, 1)
	require.Contains(t, commit.Versions, head("other"))
}

func TestAppendRefusals(t *testing.T) {
	record, err := codec.ObservationKey("e", "s", 1)
	require.NoError(t, err)
	f := newFake()
	transact(t, f, func(ctx context.Context, tx storage.Tx) error {
		_, _, err := tx.Get(ctx, head("only"), storage.ReadOnly)
		require.NoError(t, err)
		require.ErrorIs(t, tx.Append(ctx, head("only"), items("1")...), storage.ErrReadOnlyKey)
		require.ErrorIs(t, tx.Append(ctx, record, items("1")...), storage.ErrInvalidKey)
		require.ErrorIs(t, tx.Append(ctx, key("a"), items("1")...), storage.ErrInvalidKey)
		require.ErrorIs(t, tx.Append(ctx, storage.Key{Collection: storage.ObservationHeads, Partition: "$e!", ID: "s"}, items("1")...), storage.ErrInvalidKey)
		require.ErrorIs(t, tx.Append(ctx, head("s"), items("1", "{")...), storage.ErrInvalidDocument)
		require.ErrorIs(t, tx.Append(ctx, head("s"), items("\"\x01\"")...), storage.ErrInvalidDocument)
		return nil
	})
	require.Empty(t, f.plans, "what was refused was committed")
}

func TestAppendLimits(t *testing.T) {
	limits := storage.DefaultLimits()
	limits.MaxItems, limits.MaxTransaction, limits.MaxKeys = 3, 10, 6
	e := Engine{Store: newFake(), Limits: limits}.WithDefaults()
	_, err := e.Transact(t.Context(), "test", func(ctx context.Context, tx storage.Tx) error {
		require.ErrorIs(t, tx.Append(ctx, head("a"), items("1", "2", "3", "4")...), storage.ErrTooMany)
		require.NoError(t, tx.Append(ctx, head("a"), items("1", "2")...))
		require.ErrorIs(t, tx.Append(ctx, head("b"), items("1", "2")...), storage.ErrTooMany, "the streams together")
		require.ErrorIs(t, tx.Append(ctx, head("a"), items("123456789")...), storage.ErrTooLarge)
		require.NoError(t, tx.Append(ctx, head("b"), items("12345678")...))
		require.ErrorIs(t, tx.Create(ctx, record("a", "1")), storage.ErrTooLarge, "documents and items together")
		_, _, err := tx.Get(ctx, key("x"))
		return err
	})
	require.NoError(t, err, "two heads, three items and a key that was read")
	_, err = e.Transact(t.Context(), "test", func(ctx context.Context, tx storage.Tx) error {
		require.NoError(t, tx.Append(ctx, head("a"), items("1", "2", "3")...))
		for n := range 3 {
			if _, _, err := tx.Get(ctx, key(fmt.Sprint(n))); err != nil {
				return err
			}
		}
		return nil
	})
	require.ErrorIs(t, err, storage.ErrTooMany, "a head, three items and three keys that were read")
}

func TestAppendWithinATransactionThatIsJoined(t *testing.T) {
	outer := newFake().engine()
	f := newFake()
	joined := Engine{Store: f, Joined: true, Scope: outer}.WithDefaults()
	_, err := joined.Transact(t.Context(), "test", func(ctx context.Context, tx storage.Tx) error {
		err := tx.Append(ctx, head("s"), items("1")...)
		var refused *storage.InputError
		require.ErrorAs(t, err, &refused)
		require.Equal(t, storage.ErrAppendJoined, refused.Kind)
		require.Equal(t, head("s"), refused.Key)

		for name, e := range map[string]*Engine{"itself": joined, "the engine it belongs to": outer} {
			_, err := e.Transact(ctx, "inner", func(context.Context, storage.Tx) error { return nil })
			require.ErrorIs(t, err, storage.ErrNestedTransaction, name)
		}
		return tx.Create(ctx, record("a", "1"))
	})
	require.NoError(t, err, "a refused Append leaves the transaction as it was")
	require.Equal(t, "1", f.wrote("a"))
	require.Empty(t, f.plans[0].Appends)
}
