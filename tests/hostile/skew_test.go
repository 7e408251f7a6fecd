package hostile_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/internal/pgtest"
	"github.com/seed4391e180/runlane/storage/memory"
)

// skewed is a database whose clock a test sets: a function that stands before the
// server's own in the search path of the driver's sessions. So this process's clock
// is wrong by as much as the test likes.
type skewed struct {
	db *pgtest.DB
	sq *pgxpool.Pool
}

func newSkewed(t *testing.T) *skewed {
	t.Helper()
	db := pgtest.New(t)
	k := &skewed{db, db.Pool(t)}
	_, err := k.sq.Exec(t.Context(), `
		CREATE SCHEMA skew;
		CREATE TABLE skew.clock (frozen timestamptz, ahead interval NOT NULL);
		INSERT INTO skew.clock VALUES (NULL, '0');
		CREATE FUNCTION skew.clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE
			AS 'SELECT coalesce(c.frozen, pg_catalog.clock_timestamp() + c.ahead) FROM skew.clock c'`)
	require.NoError(t, err)
	return k
}

// freeze stops the clock at a moment.
func (k *skewed) freeze(t *testing.T, at time.Time) {
	t.Helper()
	_, err := k.sq.Exec(t.Context(), "UPDATE skew.clock SET frozen = $1", at)
	require.NoError(t, err)
}

// ahead lets the clock run, by so much ahead of this process's.
func (k *skewed) ahead(t *testing.T, d time.Duration) {
	t.Helper()
	_, err := k.sq.Exec(t.Context(), "UPDATE skew.clock SET frozen = NULL, ahead = $1", d)
	require.NoError(t, err)
}

// open opens a driver that lives by the clock; change may be nil.
func (k *skewed) open(t *testing.T, change func(*pgxpool.Config)) *store {
	t.Helper()
	return &store{t, openOn(t, k.db, func(c *pgxpool.Config) {
		c.ConnConfig.RuntimeParams["search_path"] = "skew, pg_catalog"
		if change != nil {
			change(c)
		}
	}), k.db, k.sq}
}

// frozenInEveryMode runs a test on stores whose clock stands still, on both drivers.
func frozenInEveryMode(t *testing.T, at time.Time, test func(s *store)) {
	t.Helper()
	t.Run("memory", func(t *testing.T) {
		test(newMemory(t, memory.Config{Clock: func() time.Time { return at }}))
	})
	k := newSkewed(t)
	k.freeze(t, at)
	for _, m := range modes {
		t.Run(m.name, func(t *testing.T) {
			s := k.open(t, withMode(m.mode))
			test(s)
			s.clear()
		})
	}
}

// anHourOff runs a test on stores whose clock is an hour ahead of this process's, and
// an hour behind.
func anHourOff(t *testing.T, test func(s *store, ahead time.Duration)) {
	t.Helper()
	for _, ahead := range []time.Duration{time.Hour, -time.Hour} {
		t.Run(show("memory %v", ahead), func(t *testing.T) {
			test(newMemory(t, memory.Config{Clock: func() time.Time { return time.Now().Add(ahead) }}), ahead)
		})
		t.Run(show("postgres %v", ahead), func(t *testing.T) {
			k := newSkewed(t)
			k.ahead(t, ahead)
			test(k.open(t, nil), ahead)
		})
	}
}
