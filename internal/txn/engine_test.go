package txn

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/storage"
)

type callback = func(context.Context, storage.Tx) error

func transact(t *testing.T, f *fakeStore, fn callback) storage.Commit {
	t.Helper()
	commit, err := f.engine().Transact(t.Context(), "test", fn)
	require.NoError(t, err)
	return commit
}

func TestWhatACallbackAsksFor(t *testing.T) {
	tests := []struct {
		name string
		fn   callback
		log  []string
	}{
		{"nothing", func(context.Context, storage.Tx) error { return nil }, []string{"begin"}},
		{"blind create", func(ctx context.Context, tx storage.Tx) error { return tx.Create(ctx, record("new", "1")) },
			[]string{"begin", "commit new:x"}},
		{"one read", func(ctx context.Context, tx storage.Tx) error {
			_, _, err := tx.Get(ctx, key("a"))
			return err
		}, []string{"begin", "lookup a"}},
		{"the same key twice is read once", func(ctx context.Context, tx storage.Tx) error {
			_, err := tx.GetMany(ctx, []storage.Key{key("a"), key("b"), key("a")})
			if err == nil {
				_, err = tx.GetMany(ctx, []storage.Key{key("b"), key("a")})
			}
			return err
		}, []string{"begin", "lookup a b"}},
		{"two reads are validated", func(ctx context.Context, tx storage.Tx) error {
			tx.Get(ctx, key("a"))    //nolint:errcheck // cannot fail here
			tx.Get(ctx, key("none")) //nolint:errcheck // cannot fail here
			return nil
		}, []string{"begin", "lookup a", "lookup none", "validate"}},
		{"read keys are locked shared, written ones exclusively", func(ctx context.Context, tx storage.Tx) error {
			if _, err := tx.GetMany(ctx, []storage.Key{key("a"), key("b")}); err != nil {
				return err
			}
			return tx.Replace(ctx, record("a", "2"))
		}, []string{"begin", "lookup a b", "commit a:x b:s"}},
		{"Now locks exclusively except what is only read", func(ctx context.Context, tx storage.Tx) error {
			if _, _, err := tx.Get(ctx, key("a")); err != nil {
				return err
			}
			if _, _, err := tx.Get(ctx, key("b"), storage.ReadOnly); err != nil {
				return err
			}
			if _, err := tx.Now(ctx); err != nil {
				return err
			}
			return tx.Replace(ctx, record("a", "2"))
		}, []string{"begin", "lookup a", "lookup b", "seal a:x b:s", "commit"}},
		{"an assumed record costs no read", func(ctx context.Context, tx storage.Tx) error {
			rec := record("a", "1")
			rec.Version = storage.MakeVersion(1)
			if _, _, err := tx.Assume(ctx, rec); err != nil {
				return err
			}
			return tx.Replace(ctx, record("a", "2"))
		}, []string{"begin", "commit a:x"}},
		{"an assumed absence that turns out false is read again", func(ctx context.Context, tx storage.Tx) error {
			_, found, err := tx.AssumeAbsent(ctx, key("a"))
			if err != nil || found {
				return err
			}
			return tx.Create(ctx, record("a", "2"))
		}, []string{"begin", "commit a:x", "begin a:x", "lookup a"}},
		{"Peek is no dependency", func(ctx context.Context, tx storage.Tx) error {
			if _, err := tx.Peek(ctx, []storage.Key{key("a")}); err != nil {
				return err
			}
			return tx.Create(ctx, record("new", "1"))
		}, []string{"begin", "lookup a", "commit new:x"}},
		{"created and deleted again: only the absence is checked", func(ctx context.Context, tx storage.Tx) error {
			if err := tx.Create(ctx, record("new", "1")); err != nil {
				return err
			}
			if err := tx.Delete(ctx, key("new")); err != nil {
				return err
			}
			return tx.Create(ctx, record("other", "1"))
		}, []string{"begin", "commit new:x other:x"}},
		{"created and deleted again and nothing else: the absence is checked all the same", func(ctx context.Context, tx storage.Tx) error {
			return errors.Join(tx.Create(ctx, record("new", "1")), tx.Delete(ctx, key("new")))
		}, []string{"begin", "validate"}},
		{"a hint alone is committed", func(_ context.Context, tx storage.Tx) error { return errors.Join(tx.Wake("q"), tx.Wake("q")) },
			[]string{"begin", "commit"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			f := newFake()
			f.put(key("a"), "1")
			f.put(key("b"), "1")
			_, err := f.engine().Transact(t.Context(), "test", test.fn)
			require.NoError(t, err)
			require.Equal(t, test.log, f.log)
			require.Equal(t, countBegins(f.log), f.ended, "every session is ended once")
		})
	}
}

func countBegins(log []string) (n int) {
	for _, line := range log {
		if len(line) >= 5 && line[:5] == "begin" {
			n++
		}
	}
	return n
}

func TestStaleReadReplays(t *testing.T) {
	f := newFake()
	f.put(key("a"), "1")
	f.before["commit"] = func() { f.put(key("a"), "5") }
	commit := transact(t, f, func(ctx context.Context, tx storage.Tx) error {
		rec, _, err := tx.Get(ctx, key("a"))
		if err != nil {
			return err
		}
		return tx.Replace(ctx, record("a", string(rec.Document)+"1"))
	})
	require.Equal(t, "51", f.wrote("a"))
	require.Equal(t, 2, commit.Attempts)
	require.Equal(t, 2, commit.RoundTrips)
	require.Equal(t, []string{"begin", "lookup a", "commit a:x", "begin a:x", "lookup a", "commit"}, f.log,
		"the replay takes the locks first and does not take them again")
}

func TestBlindCreateThatCollides(t *testing.T) {
	f := newFake()
	f.put(key("a"), "1")
	_, err := f.engine().Transact(t.Context(), "test", func(ctx context.Context, tx storage.Tx) error {
		if err := tx.Create(ctx, record("b", "2")); err != nil {
			return err
		}
		return tx.Create(ctx, record("a", "2"))
	})
	require.ErrorIs(t, err, storage.ErrRecordExists)
	require.Equal(t, "1", f.wrote("a"))
	require.Equal(t, "absent", f.wrote("b"))
	require.Len(t, f.log, 4, "the replay reads all blind keys at once: %q", f.log)
}

func TestReplayForgetsWhatAnExclusiveQueryLocked(t *testing.T) {
	f := newFake()
	f.page = storage.Page{Records: []storage.Record{f.put(key("a"), "1")}, Time: f.now}
	f.failures["commit"] = []error{&Replay{Reason: storage.ReasonLocked}}
	transact(t, f, func(ctx context.Context, tx storage.Tx) error {
		page, err := tx.Query(ctx, storage.Query{Index: storage.RunsByDue, Partition: "$e!", Lock: storage.Exclusive})
		if err != nil {
			return err
		}
		if err := tx.Replace(ctx, record(page.Records[0].Key.ID, "2")); err != nil {
			return err
		}
		return tx.Create(ctx, record("new", "1"))
	})
	require.Equal(t, []string{"begin", "select", "commit new:x", "begin new:x", "select", "lookup new", "commit"}, f.log)
}

// TestAttemptsAreCallbacks: an attempt that is not admitted uses up its turn, but the
// callback did not run.
func TestAttemptsAreCallbacks(t *testing.T) {
	f := newFake()
	busy := &Replay{Reason: storage.ReasonLocked, Key: key("a")}
	f.failures["begin"] = []error{nil, busy, busy}
	f.failures["commit"] = []error{busy}
	runs := 0
	commit := transact(t, f, func(ctx context.Context, tx storage.Tx) error {
		runs++
		return tx.Create(ctx, record("a", "1"))
	})
	require.Equal(t, 2, runs)
	require.Equal(t, runs, commit.Attempts)
	require.Equal(t, []string{"begin", "commit a:x", "begin a:x", "begin a:x", "begin a:x", "lookup a", "commit"}, f.log)
}

func TestNowAfterAnExclusiveQuery(t *testing.T) {
	f := newFake()
	f.page = storage.Page{Records: []storage.Record{f.put(key("a"), "1")}, Time: f.now.Add(time.Hour)}
	query := storage.Query{Index: storage.RunsByDue, Partition: "$e!", Lock: storage.Exclusive}
	transact(t, f, func(ctx context.Context, tx storage.Tx) error {
		_, err := tx.Query(ctx, query)
		require.NoError(t, err)
		now, err := tx.Now(ctx)
		require.NoError(t, err)
		require.Equal(t, f.page.Time, now, "the page's time")
		_, _, err = tx.Get(ctx, key("b"))
		require.ErrorIs(t, err, storage.ErrSealed)
		_, found, err := tx.Get(ctx, key("a"))
		require.NoError(t, err)
		require.True(t, found, "what the query locked may still be read")
		return nil
	})
	f.log = nil
	transact(t, f, func(ctx context.Context, tx storage.Tx) error {
		_, err := tx.Query(ctx, query)
		require.NoError(t, err)
		f.page.Time = f.page.Time.Add(time.Hour)
		_, err = tx.Query(ctx, query)
		require.NoError(t, err)
		now, err := tx.Now(ctx)
		require.NoError(t, err)
		require.Equal(t, f.page.Time, now, "the time of the last page")
		return nil
	})
	require.Equal(t, []string{"begin", "select", "select"}, f.log)
	transact(t, f, func(ctx context.Context, tx storage.Tx) error {
		_, _, err := tx.Get(ctx, key("b"))
		require.NoError(t, err)
		_, err = tx.Query(ctx, query)
		require.NoError(t, err)
		now, err := tx.Now(ctx)
		require.NoError(t, err)
		require.Equal(t, f.now, now, "something else was read, so the read set is sealed")
		return nil
	})
	f.log = nil
	transact(t, f, func(ctx context.Context, tx storage.Tx) error {
		require.NoError(t, tx.Create(ctx, record("new", "1")))
		_, err := tx.Query(ctx, query)
		require.NoError(t, err)
		now, err := tx.Now(ctx)
		require.NoError(t, err)
		require.Equal(t, f.now, now, "what was staged before the page has yet to be locked")
		return nil
	})
	require.Equal(t, []string{"begin", "select", "seal new:x", "commit"}, f.log)
}

func TestRecordMetTwiceAtTwoVersions(t *testing.T) {
	f := newFake()
	f.put(key("a"), "1")
	query := storage.Query{Index: storage.RunsByDue, Partition: "$e!", Lock: storage.Exclusive}
	f.before["select"] = func() { f.page.Records = []storage.Record{f.put(key("a"), "2")} }
	var seen []string
	commit := transact(t, f, func(ctx context.Context, tx storage.Tx) error {
		rec, _, err := tx.Get(ctx, key("a"))
		if err != nil {
			return err
		}
		seen = append(seen, string(rec.Document))
		_, err = tx.Query(ctx, query)
		return err
	})
	require.Equal(t, 2, commit.Attempts)
	require.Equal(t, []string{"1", "2"}, seen)
}

func TestConflict(t *testing.T) {
	f := newFake()
	for range DefaultMaxAttempts {
		f.failures["commit"] = append(f.failures["commit"], &Replay{Reason: storage.ReasonLocked, Key: key("a")})
	}
	var slept []time.Duration
	e := Engine{Store: f, Rand: func() float64 { return 0.5 }, Sleep: func(_ context.Context, d time.Duration) error {
		slept = append(slept, d)
		return nil
	}}.WithDefaults()
	_, err := e.Transact(t.Context(), "run.claim", func(ctx context.Context, tx storage.Tx) error { return tx.Create(ctx, record("a", "1")) })
	var conflict *storage.ConflictError
	require.ErrorAs(t, err, &conflict)
	require.ErrorIs(t, err, storage.ErrConflict)
	require.True(t, storage.Retryable(err))
	require.Equal(t, &storage.ConflictError{Label: "run.claim", Reason: storage.ReasonLocked, Key: key("a"), Attempts: 8}, conflict)
	require.Len(t, slept, 7)
	for i, d := range slept {
		require.LessOrEqual(t, d, BackoffCap)
		if i > 0 {
			require.GreaterOrEqual(t, d, slept[i-1])
		}
	}
	require.Equal(t, BackoffCap*3/4, slept[6], "jittered downward")
}

func TestFinalReplay(t *testing.T) {
	f := newFake()
	final := errors.New("another active run")
	again := &Replay{Reason: storage.ReasonExists, Final: final}
	f.failures["commit"] = []error{again, again}
	calls := 0
	_, err := f.engine().Transact(t.Context(), "test", func(ctx context.Context, tx storage.Tx) error {
		calls++
		return tx.Create(ctx, record("a", "1"))
	})
	require.Equal(t, final, err)
	require.Equal(t, 2, calls)
}

func TestNested(t *testing.T) {
	f := newFake()
	e := f.engine()
	_, err := e.Transact(t.Context(), "outer", func(ctx context.Context, _ storage.Tx) error {
		_, err := e.Transact(ctx, "inner", func(context.Context, storage.Tx) error { return nil })
		require.ErrorIs(t, err, storage.ErrNestedTransaction)
		_, err = newFake().engine().Transact(ctx, "another store", func(context.Context, storage.Tx) error { return nil })
		require.NoError(t, err)
		return nil
	})
	require.NoError(t, err)
}

func TestUseAfterTheCallback(t *testing.T) {
	f := newFake()
	var leaked storage.Tx
	transact(t, f, func(_ context.Context, tx storage.Tx) error {
		leaked = tx
		return nil
	})
	_, _, err := leaked.Get(t.Context(), key("a"))
	require.ErrorIs(t, err, storage.ErrClosed)
	require.ErrorIs(t, leaked.Create(t.Context(), record("a", "1")), storage.ErrClosed)
	require.ErrorIs(t, leaked.Append(t.Context(), head("s"), items("1")...), storage.ErrClosed)
	require.ErrorIs(t, leaked.Wake("q"), storage.ErrClosed)
}

func TestMisuseLeavesTheTransactionUsable(t *testing.T) {
	f := newFake()
	f.put(key("a"), "1")
	f.put(key("b"), "1")
	transact(t, f, func(ctx context.Context, tx storage.Tx) error {
		require.ErrorIs(t, tx.Replace(ctx, record("a", "2")), storage.ErrRecordNotRead)
		_, _, err := tx.Get(ctx, key("a"))
		require.NoError(t, err)
		_, _, err = tx.Get(ctx, key("b"), storage.ReadOnly)
		require.NoError(t, err)
		require.ErrorIs(t, tx.Create(ctx, record("a", "2")), storage.ErrRecordExists)
		require.ErrorIs(t, tx.Replace(ctx, record("b", "2")), storage.ErrReadOnlyKey)
		require.ErrorIs(t, tx.Delete(ctx, key("b")), storage.ErrReadOnlyKey)
		require.ErrorIs(t, tx.Create(ctx, record("", "2")), storage.ErrInvalidKey)
		require.ErrorIs(t, tx.Create(ctx, record("c", "{")), storage.ErrInvalidDocument)
		_, err = tx.Query(ctx, storage.Query{})
		require.ErrorIs(t, err, storage.ErrInvalidQuery)
		require.NoError(t, tx.Delete(ctx, key("a")))
		_, found, err := tx.Get(ctx, key("a"))
		require.NoError(t, err)
		require.False(t, found)
		require.ErrorIs(t, tx.Delete(ctx, key("a")), storage.ErrRecordNotRead)
		return tx.Create(ctx, record("a", "3"))
	})
	require.Equal(t, "3", f.wrote("a"))
	require.Equal(t, Update, f.plans[0].Mutations[0].Op, "deleted and created again is a replacement")
}

func TestLimits(t *testing.T) {
	limits := storage.DefaultLimits()
	limits.MaxMutations, limits.MaxKeys, limits.MaxTransaction, limits.MaxTopics = 2, 3, 8, 1
	e := Engine{Store: newFake(), Limits: limits}.WithDefaults()
	_, err := e.Transact(t.Context(), "test", func(ctx context.Context, tx storage.Tx) error {
		require.NoError(t, tx.Create(ctx, record("a", "123456")))
		require.ErrorIs(t, tx.Create(ctx, record("b", "123")), storage.ErrTooLarge)
		require.NoError(t, tx.Create(ctx, record("b", "12")))
		require.ErrorIs(t, tx.Create(ctx, record("c", "")), storage.ErrInvalidDocument)
		require.ErrorIs(t, tx.Create(ctx, record("c", "1")), storage.ErrTooMany)
		require.NoError(t, tx.Wake("one"))
		require.ErrorIs(t, tx.Wake("two"), storage.ErrTooMany)
		_, err := tx.GetMany(ctx, []storage.Key{key("1"), key("2"), key("3"), key("4")})
		require.ErrorIs(t, err, storage.ErrTooMany)
		_, err = tx.GetMany(ctx, []storage.Key{key("1"), key("2"), key("3")})
		require.NoError(t, err)
		return nil
	})
	require.ErrorIs(t, err, storage.ErrTooMany, "five keys to lock")
}

func TestCancelledWhileBackingOff(t *testing.T) {
	f := newFake()
	f.failures["commit"] = []error{&Replay{Reason: storage.ReasonLocked}}
	ctx, cancel := context.WithCancel(t.Context())
	e := Engine{Store: f, Sleep: func(ctx context.Context, _ time.Duration) error {
		cancel()
		return sleep(ctx, time.Hour)
	}}.WithDefaults()
	_, err := e.Transact(ctx, "test", func(ctx context.Context, tx storage.Tx) error { return tx.Create(ctx, record("a", "1")) })
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, "absent", f.wrote("a"))
}
