package lab_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/bench/lab"
	"github.com/seed4391e180/runlane/bench/measure"
)

func open(t *testing.T) *lab.Lab {
	t.Helper()
	l, err := lab.Open(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	return l
}

const tables = `
CREATE TABLE item (id bigint PRIMARY KEY, word text, list jsonb);
CREATE INDEX item_word ON item (word) WHERE word IS NOT NULL;
CREATE INDEX item_list ON item USING gin (list) WHERE list IS NOT NULL`

// TestCount counts work of which one knows what it costs.
func TestCount(t *testing.T) {
	ctx := t.Context()
	l := open(t)
	db, err := l.Database(ctx, "counted", func(ctx context.Context, db *lab.Database) error {
		return db.Exec(ctx, tables+"; ALTER TABLE item SET (autovacuum_enabled = off)")
	})
	require.NoError(t, err)
	pool, err := db.Pool(ctx, 2)
	require.NoError(t, err)
	defer pool.Close()
	insert := func(ctx context.Context, id int, word any) {
		_, err := pool.Exec(ctx, `INSERT INTO item (id, word) VALUES ($1, $2)`, id, word)
		require.NoError(t, err)
	}
	insert(ctx, -1, "warm")

	count := func(units int, work func(ctx context.Context)) measure.Cost {
		s, err := db.Count(ctx, func(ctx context.Context) (measure.Sample, error) {
			work(ctx)
			return measure.Sample{Units: units, Took: time.Second}, nil
		}, pool)
		require.NoError(t, err)
		require.True(t, s.Cost.Counted)
		require.Equal(t, units, s.Cost.Units)
		return s.Cost
	}

	c := count(1000, func(ctx context.Context) {
		for i := range 1000 { // more than one leaf holds, so that pages split
			insert(ctx, i, "word")
		}
	})
	require.Equal(t, []int64{1000, 1000, 1000, 2000}, []int64{c.Commits, c.RoundTrips, c.Rows, c.Entries})
	require.Greater(t, c.WALBytes, int64(1000*100))

	c = count(10, func(ctx context.Context) {
		for i := range 10 {
			insert(ctx, 1000+i, nil) // not in the partial index
		}
	})
	require.Equal(t, []int64{10, 10, 10, 10}, []int64{c.Commits, c.RoundTrips, c.Rows, c.Entries})

	c = count(1, func(ctx context.Context) {
		batch := &pgx.Batch{}
		for i := range 5 {
			batch.Queue(`INSERT INTO item (id, list) VALUES ($1, '["a"]')`, 2000+i)
		}
		require.NoError(t, pool.SendBatch(ctx, batch).Close())
		_, err := pool.Exec(ctx, `DELETE FROM item WHERE id = 2000`)
		require.NoError(t, err)
	})
	require.Equal(t, []int64{2, 6, 10}, []int64{c.Commits, c.Rows, c.Entries}, "five entries in the primary key, five in the GIN index")

	c = count(3, func(ctx context.Context) {
		for range 3 {
			var n int
			require.NoError(t, pool.QueryRow(ctx, `SELECT count(*) FROM item WHERE id = $1`, 1).Scan(&n))
		}
	})
	require.Equal(t, []int64{0, 0, 0}, []int64{c.Commits, c.Rows, c.Entries}, "reads write nothing")
}

func TestCountPassesErrorsOn(t *testing.T) {
	ctx := t.Context()
	l := open(t)
	db, err := l.Database(ctx, "errors", func(context.Context, *lab.Database) error { return nil })
	require.NoError(t, err)
	broken := errors.New("broken")
	_, err = db.Count(ctx, func(context.Context) (measure.Sample, error) { return measure.Sample{}, broken })
	require.ErrorIs(t, err, broken)
	_, err = l.Database(ctx, "unprepared", func(context.Context, *lab.Database) error { return broken })
	require.ErrorIs(t, err, broken)
}

// TestDatabases: one is made once, and anew after it was dropped.
func TestDatabases(t *testing.T) {
	ctx := t.Context()
	l := open(t)
	prepared := 0
	get := func() *lab.Database {
		db, err := l.Database(ctx, "once", func(ctx context.Context, db *lab.Database) error {
			prepared++
			return db.Exec(ctx, "CREATE TABLE item (id bigint)")
		})
		require.NoError(t, err)
		return db
	}
	first := get()
	require.Same(t, first, get())
	require.Equal(t, 1, prepared)
	require.NoError(t, first.Exec(ctx, "INSERT INTO item VALUES (1)"))
	pool, err := first.Pool(ctx, 1)
	require.NoError(t, err)
	defer pool.Close()
	require.NoError(t, pool.Ping(ctx)) // a connection does not keep the database
	require.NoError(t, l.Clear(ctx))
	n, err := get().Scalar(ctx, "SELECT count(*) FROM item")
	require.NoError(t, err)
	require.Zero(t, n)
	require.Equal(t, 2, prepared)
	require.Error(t, l.Drop(ctx, "nobody's"))
}
