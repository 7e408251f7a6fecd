package memory

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/storage"
)

// exhaust makes every attempt of a transaction collide.
func exhaust(t *testing.T, d *Driver, ctx context.Context) error {
	t.Helper()
	_, err := d.Transact(context.Background(), "set up", func(ctx context.Context, tx storage.Tx) error {
		for n := range 20 {
			if err := tx.Create(ctx, record(slot(fmt.Sprint(n)))); err != nil {
				return err
			}
		}
		return nil
	})
	require.NoError(t, err)
	n := 0
	_, err = d.Transact(ctx, "test", func(ctx context.Context, tx storage.Tx) error {
		n++
		return tx.Create(ctx, record(slot(fmt.Sprint(n))))
	})
	return err
}

func TestBackoffGrowsToItsCapAndJitterShortensIt(t *testing.T) {
	for random, want := range map[float64][]time.Duration{
		0:   {1, 2, 4, 8, 16, 25, 25},
		0.5: {0, 1, 3, 6, 12, 18, 18},
	} {
		var slept []time.Duration
		d := New(Config{
			Rand:  func() float64 { return random },
			Sleep: func(_ context.Context, d time.Duration) error { slept = append(slept, d); return nil },
		})
		require.ErrorIs(t, exhaust(t, d, context.Background()), storage.ErrConflict)
		for i := range slept {
			assert.LessOrEqual(t, slept[i], 25*time.Millisecond)
			slept[i] = slept[i].Truncate(time.Millisecond) / time.Millisecond
		}
		assert.Equal(t, want, slept, "random %v", random)
	}
}

func TestMaxAttempts(t *testing.T) {
	for limit, want := range map[int]int{0: DefaultMaxAttempts, -1: DefaultMaxAttempts, 1: 1, 3: 3} {
		err := exhaust(t, New(Config{MaxAttempts: limit}), context.Background())
		var conflict *storage.ConflictError
		require.ErrorAs(t, err, &conflict)
		assert.Equal(t, want, conflict.Attempts)
	}
}

func TestASleepThatFailsEndsTheTransaction(t *testing.T) {
	mine := errors.New("mine")
	d := New(Config{Sleep: func(context.Context, time.Duration) error { return mine }})
	assert.Equal(t, mine, exhaust(t, d, context.Background()))
	assert.Empty(t, d.locks)
}

func TestSleepEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	assert.ErrorIs(t, sleep(ctx, time.Hour), context.Canceled)
	assert.NoError(t, sleep(context.Background(), time.Nanosecond))
}

func TestTheClockNeverRunsBackwards(t *testing.T) {
	base := time.Date(2026, 1, 1, 12, 0, 0, 0, time.FixedZone("half", 19800))
	ticks := []time.Duration{5 * time.Second, 5*time.Second + 999, time.Second, -time.Hour, 6 * time.Second, 0}
	next := 0
	d := New(Config{Clock: func() time.Time { next++; return base.Add(ticks[next-1]) }})
	var told []time.Time
	for range ticks {
		commit, err := d.Transact(context.Background(), "test", func(ctx context.Context, tx storage.Tx) error {
			return tx.Create(ctx, record(slot(fmt.Sprint(next))))
		})
		require.NoError(t, err)
		told = append(told, commit.Time)
	}
	at := func(s int) time.Time { return base.Add(time.Duration(s) * time.Second).UTC() }
	assert.Equal(t, []time.Time{at(5), at(5), at(5), at(5), at(6), at(6)}, told)
}

func TestDocumentsAreSpeltLikeJsonb(t *testing.T) {
	d := New(Config{})
	doc := func(tx storage.Tx, ctx context.Context) string {
		rec, _, err := tx.Get(ctx, slot("x"))
		require.NoError(t, err)
		return string(rec.Document)
	}
	const want = `{"a":3,"n":100,"bb":"ä","later":0.1000}`
	_, err := d.Transact(context.Background(), "write", func(ctx context.Context, tx storage.Tx) error {
		rec := storage.Record{Key: slot("x"), Document: []byte(` {"later":0.1000, "bb":"\u00e4", "n":1e2, "a":2, "a":3} `)}
		require.NoError(t, tx.Create(ctx, rec))
		assert.Equal(t, want, doc(tx, ctx), "what is staged")
		return nil
	})
	require.NoError(t, err)
	_, err = d.Transact(context.Background(), "read", func(ctx context.Context, tx storage.Tx) error {
		assert.Equal(t, want, doc(tx, ctx))
		return nil
	})
	require.NoError(t, err)
}

// TestEntriesAreCopied: the caller may use its slice for the next record.
func TestEntriesAreCopied(t *testing.T) {
	d := New(Config{})
	key := storage.Key{Collection: storage.Runs, Partition: "$env!", ID: "$x!"}
	entries := []storage.Entry{{Index: storage.RunsByDue, Partition: "$env!", Sort: storage.CommitTime}}
	_, err := d.Transact(context.Background(), "write", func(ctx context.Context, tx storage.Tx) error {
		err := tx.Create(ctx, storage.Record{Key: key, Document: []byte(`1`), Entries: entries})
		entries[0].Partition = "$env!$other!"
		return err
	})
	require.NoError(t, err)
	assert.Equal(t, storage.CommitTime, entries[0].Sort, "the caller's slice was written to")
	assert.Equal(t, "$env!", d.state.get(key).entries[0].Partition)
}

// TestAQueryLooksAtItsSpanOnly: a page costs as much as it has records, whatever
// else is stored.
func TestAQueryLooksAtItsSpanOnly(t *testing.T) {
	s := newState()
	for _, partition := range []string{"$a!", "$b!", "$c!"} {
		for i := range 1000 {
			id := fmt.Sprintf("$%04d!", i)
			entry := storage.Entry{Index: storage.RunsByDue, Partition: partition, Sort: id}
			s.insert(storage.Key{Collection: storage.Runs, Partition: partition, ID: id}, &stored{entries: []storage.Entry{entry}})
		}
	}
	for _, direction := range []storage.Direction{storage.Ascending, storage.Descending} {
		for _, c := range []struct {
			span span
			want int
		}{
			{span{partition: "$b!"}, 1000},
			{span{partition: "$b!", from: "$0990!"}, 10},
			{span{partition: "$b!", from: "$0990!", until: "$0995!"}, 5},
			{span{partition: "$nothing!"}, 0},
		} {
			visited := 0
			s.walk(storage.RunsByDue, direction, c.span, func(indexItem) bool { visited++; return true })
			assert.Equal(t, c.want, visited, "%+v, direction %d", c.span, direction)
		}
		visited := 0
		s.walk(storage.RunsByDue, direction, span{partition: "$b!"}, func(indexItem) bool { visited++; return visited < 7 })
		assert.Equal(t, 7, visited)
	}
}

// TestMutationsAreCountedApartFromKeys: the two limits are equal by default, so only
// here one can be told from the other.
func TestMutationsAreCountedApartFromKeys(t *testing.T) {
	d := New(Config{})
	d.limits.MaxMutations = 2
	commit, err := d.Transact(context.Background(), "test", func(ctx context.Context, tx storage.Tx) error {
		_, err := tx.GetMany(ctx, []storage.Key{slot("a"), slot("b"), slot("c"), slot("d")})
		require.NoError(t, err)
		require.NoError(t, tx.Create(ctx, record(slot("a"))))
		require.NoError(t, tx.Create(ctx, record(slot("b"))))
		require.ErrorIs(t, tx.Create(ctx, record(slot("c"))), storage.ErrTooMany)
		require.NoError(t, tx.Delete(ctx, slot("a")))
		require.NoError(t, tx.Create(ctx, record(slot("c"))), "a write that was taken back still counts")
		return nil
	})
	require.NoError(t, err)
	assert.Len(t, commit.Versions, 2)
}

// TestServerNowIncludesNow stops the clock, so that something is due exactly now.
func TestServerNowIncludesNow(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	d := New(Config{Clock: func() time.Time { return now }})
	_, err := d.Transact(context.Background(), "set up", func(ctx context.Context, tx storage.Tx) error {
		for id, sort := range map[string]string{"$due!": storage.CommitTime, "$later!": sortTime(now.Add(time.Microsecond))} {
			key := storage.Key{Collection: storage.Runs, Partition: "$env!", ID: id}
			rec := storage.Record{Key: key, Document: []byte(`1`), Entries: []storage.Entry{{Index: storage.RunsByDue, Partition: "$env!", Sort: sort}}}
			if err := tx.Create(ctx, rec); err != nil {
				return err
			}
		}
		return nil
	})
	require.NoError(t, err)
	_, err = d.Transact(context.Background(), "test", func(ctx context.Context, tx storage.Tx) error {
		for _, direction := range []storage.Direction{storage.Ascending, storage.Descending} {
			due, err := tx.Query(ctx, storage.Query{Index: storage.RunsByDue, Partition: "$env!", Until: storage.ServerNow(), Direction: direction})
			require.NoError(t, err)
			require.Len(t, due.Records, 1)
			assert.Equal(t, "$due!", due.Records[0].Key.ID)
			later, err := tx.Query(ctx, storage.Query{Index: storage.RunsByDue, Partition: "$env!", From: storage.ServerNow(), Direction: direction})
			require.NoError(t, err)
			require.Len(t, later.Records, 1)
			assert.Equal(t, "$later!", later.Records[0].Key.ID)
		}
		return nil
	})
	require.NoError(t, err)
}
