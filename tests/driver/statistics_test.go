package driver_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/run"
	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/postgres"
)

// TestCostBeforeStatistics: a statement that is prepared while the tables are empty is
// kept while they grow, until the server analyzes them for the first time. It reads as
// few rows of a table that has become large as it did of the small one.
func TestCostBeforeStatistics(t *testing.T) {
	const small, large, updates = 30, 6000, 40
	l := newLab(t, postgres.Config{})
	for _, c := range storage.Collections() {
		l.exec("ALTER TABLE runlane." + postgres.TableName(c) + " SET (autovacuum_enabled = false)")
	}
	var keys []storage.Key
	grow := func(batch int) {
		var all []storage.Record
		for range batch {
			_, recs := newRun(t, fmt.Sprintf("r-%06d", len(keys)), `{"n": 1}`)
			keys, all = append(keys, recs[0].Key), append(all, recs...)
		}
		l.transact(creates(all...))
	}
	touch := func(key storage.Key) {
		l.transact(func(ctx context.Context, tx storage.Tx) error {
			return replaceRun(ctx, tx, key, func(r *run.Run) { r.Priority = 3 })
		})
	}
	for i := range small {
		grow(1)
		touch(keys[i])
	}
	for len(keys) < large {
		grow(500)
	}
	for i := range updates {
		touch(keys[i*large/updates])
	}
	require.Less(t, l.rowsRead(small+updates), int64(small*small+updates*10), "rows of runs that are read to update so many")
}

// rowsRead counts the rows of runs that any statement read, once so many updates are
// in the count.
func (l *lab) rowsRead(updates int64) (rows int64) {
	l.Helper()
	l.pool.Reset() // a session that ends reports what it did
	require.Eventually(l, func() bool {
		var updated int64
		require.NoError(l, l.side.QueryRow(l.Context(), `SELECT n_tup_upd, seq_tup_read + coalesce(idx_tup_fetch, 0)
FROM pg_stat_user_tables WHERE relid = 'runlane.runlane_runs'::regclass`).Scan(&updated, &rows))
		return updated >= updates
	}, 20*time.Second, 20*time.Millisecond)
	return rows
}
