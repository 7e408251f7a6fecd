package soak_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/postgres"
)

// judge compares what the database holds with what the clients were told.
func (w *world) judge(all []*client) {
	w.Helper()
	where := map[string]string{} // the effects that happened
	w.rows(`SELECT record_id, record_document #>> '{}' FROM runlane.runlane_record_schedule_cursors`, func(id, document string) {
		_, name, _ := strings.Cut(id, "effect/")
		where[strings.TrimSuffix(name, "!")] = document
	})
	counted, appended := map[string]int{}, map[string]int{}
	for _, c := range all {
		for n, known := range c.effects {
			name := fmt.Sprintf("%d/%d", c.number, n)
			document, happened := where[name]
			delete(where, name)
			switch {
			case known == present && !happened:
				w.Errorf("effect %s is lost", name)
			case known == absent && happened:
				w.Errorf("effect %s happened, and its client was told that it had not", name)
			case happened && strings.HasPrefix(document, `{"counter"`):
				counted[document]++
			case happened:
				appended[name]++
			}
		}
	}
	assert.Empty(w, where, "effects that nobody asked for")
	judge, err := postgres.New(w.side, postgres.Config{})
	require.NoError(w, err)
	for i := range counters {
		rec, _, err := storage.Transact(w.Context(), judge, "judge", func(ctx context.Context, tx storage.Tx) (storage.Record, error) {
			rec, found, err := tx.Get(ctx, counterKey(i))
			require.True(w, found || err != nil)
			return rec, err
		})
		require.NoError(w, err)
		assert.Equal(w, counted[fmt.Sprintf(`{"counter": %d}`, i)], numberIn(rec), "counter %d", i)
	}
	require.NoError(w, judge.Close())
	w.judgeStreams(appended)
}

// judgeStreams demands that the streams have no gap and each effect once.
func (w *world) judgeStreams(appended map[string]int) {
	w.Helper()
	var gaps int
	require.NoError(w, w.side.QueryRow(w.Context(), `SELECT count(*) FROM (
  SELECT count(*) AS n, max((record_document #>> '{value,position}')::bigint) AS last
  FROM runlane.runlane_record_observation_records GROUP BY record_document #>> '{value,stream}') s WHERE n <> last`).Scan(&gaps))
	assert.Zero(w, gaps, "streams with a gap")
	w.rows(`SELECT record_document #>> '{value,data}', '' FROM runlane.runlane_record_observation_records`, func(name, _ string) { appended[name]-- })
	for name, n := range appended {
		assert.Zero(w, n, "effect %s has so many items too few", name)
	}
}

func (w *world) rows(sql string, each func(a, b string)) {
	w.Helper()
	rows, err := w.side.Query(w.Context(), sql)
	require.NoError(w, err)
	defer rows.Close()
	for rows.Next() {
		var a, b string
		require.NoError(w, rows.Scan(&a, &b))
		each(a, b)
	}
	require.NoError(w, rows.Err())
}

// nothingHeld demands that no connection, lock or transaction is left, and that no
// connection has more prepared statements than the driver has shapes of statements.
func (w *world) nothingHeld() {
	w.Helper()
	w.eventually("connections in use", func() (n int) { return int(w.pool.Stat().AcquiredConns()) })
	w.eventually("open transactions", func() (n int) {
		assert.NoError(w, w.side.QueryRow(w.Context(), `SELECT count(*) FROM pg_stat_activity WHERE application_name = $1 AND state LIKE 'idle in%'`, soaked).Scan(&n))
		return n
	})
	w.eventually("locks", func() (n int) {
		assert.NoError(w, w.side.QueryRow(w.Context(), `SELECT count(*) FROM pg_locks l JOIN pg_stat_activity a USING (pid) WHERE application_name = $1`, soaked).Scan(&n))
		return n
	})
	const shapes = 40
	var taken []*pgxpool.Conn
	for range w.pool.Stat().IdleConns() {
		conn, err := w.pool.Acquire(w.Context())
		require.NoError(w, err)
		taken = append(taken, conn)
		var n int
		require.NoError(w, conn.QueryRow(w.Context(), "SELECT count(*) FROM pg_prepared_statements").Scan(&n))
		assert.Less(w, n, shapes, "prepared statements of a connection")
	}
	for _, conn := range taken {
		conn.Release()
	}
}

// nothingOpen demands that nothing runs any more once the driver is closed.
func (w *world) nothingOpen(goroutines int) {
	w.Helper()
	w.eventually("backends", func() (n int) {
		assert.NoError(w, w.side.QueryRow(w.Context(), `SELECT count(*) FROM pg_stat_activity WHERE application_name = $1`, soaked).Scan(&n))
		return n
	})
	w.side.Reset()
	w.eventually("goroutines more than before", func() int { return max(0, runtime.NumGoroutine()-goroutines) })
}

func (w *world) eventually(what string, left func() int) {
	w.Helper()
	n := 0
	if !assert.Eventually(w, func() bool { n = left(); return n == 0 }, patience, 50*time.Millisecond) {
		w.Fatalf("%d %s", n, what)
	}
}
