package driver_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/internal/pgtest"
	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/postgres"
)

// queuePages is the smallest notification queue that a server can be given, in
// pages of 8 kB.
const queuePages = 64

// tinyQueue starts a server of the test's own whose notification queue is soon
// full.
func tinyQueue(t *testing.T) *pgtest.Cluster {
	t.Helper()
	if major := pgtest.Major(t); major < 17 {
		t.Skipf("the notification queue of PostgreSQL %d holds 8 GB and no setting makes it smaller; max_notify_queue_pages came with 17", major)
	}
	return pgtest.Private(t, pgtest.Options{Volatile: true, Settings: map[string]string{"max_notify_queue_pages": fmt.Sprint(queuePages)}})
}

// FillNotifyQueue fills the notification queue of a server made by tinyQueue, which
// all its databases share, and returns what ends that.
//
// The queue keeps a notification until every session that listens, to whatever
// channel in whatever database, has read past it, and a session reads only between
// its transactions. So one that listens and stays idle in a transaction keeps
// everything that is committed meanwhile. When the queue is full, a transaction that
// notifies fails as it commits, and everything else goes on.
//
// After drain every session has read everything, and yet the queue stays full: only
// commits that notify look for pages that can be given back, and these fail before
// they look. The only other thing that looks is pg_notification_queue_usage().
func FillNotifyQueue(t testing.TB, url string) (drain func()) {
	t.Helper()
	ctx := t.Context()
	connect := func() *pgx.Conn {
		conn, err := pgx.Connect(ctx, url)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, conn.Close(context.WithoutCancel(ctx))) })
		return conn
	}
	exec := func(conn *pgx.Conn, sql string, args ...any) error {
		_, err := conn.Exec(ctx, sql, args...)
		return err
	}
	listener, sender := connect(), connect()
	require.NoError(t, exec(listener, "LISTEN nobody_sends_here"))
	require.NoError(t, exec(listener, "BEGIN"))

	filler := strings.Repeat("x", 7000) // so that a page holds one
	for n := 0; ; n++ {
		// Equal ones would be joined in a transaction, but not across several.
		err := exec(sender, "SELECT pg_notify('filler', $1)", filler)
		if queueIsFull(err) {
			break
		}
		require.NoError(t, err)
		require.LessOrEqual(t, n, 2*queuePages, "the queue takes more than it holds")
	}
	return func() {
		require.NoError(t, exec(listener, "ROLLBACK"))
		require.NoError(t, exec(listener, "UNLISTEN *"))
	}
}

// queueIsFull says whether a statement failed because its notification did not fit.
func queueIsFull(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.Code == "54000"
}

// TestFullNotifyQueue shows what a full queue does to plain SQL: a transaction that
// notifies fails at its commit and leaves nothing, others pass, and once all have
// read, asking how full the queue is mends it.
func TestFullNotifyQueue(t *testing.T) {
	db := pgtest.New(t, pgtest.Empty(), pgtest.On(tinyQueue(t)))
	conn := db.Pool(t)
	_, err := conn.Exec(t.Context(), "CREATE TABLE note (n int)")
	require.NoError(t, err)
	count := func() (n int) {
		require.NoError(t, conn.QueryRow(t.Context(), "SELECT count(*) FROM note").Scan(&n))
		return n
	}
	drain := FillNotifyQueue(t, db.URL)

	usage := func() (part float64) {
		require.NoError(t, conn.QueryRow(t.Context(), "SELECT pg_notification_queue_usage()").Scan(&part))
		return part
	}
	require.Equal(t, 1.0, usage())
	_, err = conn.Exec(t.Context(), "NOTIFY short")
	require.True(t, queueIsFull(err), "%v", err)

	tx, err := conn.Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), "INSERT INTO note VALUES (1)")
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), "NOTIFY short")
	require.NoError(t, err, "the statement itself passes")
	require.True(t, queueIsFull(tx.Commit(t.Context())))
	require.Zero(t, count())
	_, err = conn.Exec(t.Context(), "INSERT INTO note VALUES (1)")
	require.NoError(t, err, "a transaction without a notification passes")
	require.Equal(t, 1, count())

	drain()
	require.Zero(t, usage())
	_, err = conn.Exec(t.Context(), "NOTIFY short")
	require.NoError(t, err)
}

// TestCommitsWhileTheQueueIsFull: hints are hints. A transaction whose wakes do not fit
// commits without them, in a second attempt, and once.
func TestCommitsWhileTheQueueIsFull(t *testing.T) {
	db := pgtest.New(t, pgtest.On(tinyQueue(t)))
	pool := db.Pool(t)
	for name, mode := range map[string]postgres.WakeMode{"in the transaction": postgres.WakeInTransaction, "coalesced": postgres.WakeCoalesced} {
		t.Run(name, func(t *testing.T) {
			d, err := postgres.New(pool, postgres.Config{Wakes: mode})
			require.NoError(t, err)
			drain := FillNotifyQueue(t, db.URL)
			for i, fn := range []callbackFunc{
				creates(plain(slot(name))),
				steps(now, creates(plain(slot(name+", sealed")))),
			} {
				commit, err := d.Transact(t.Context(), "full", steps(fn, func(_ context.Context, tx storage.Tx) error { return tx.Wake("topic") }))
				require.NoError(t, err, i)
				require.Len(t, commit.Versions, 1)
				require.Equal(t, map[postgres.WakeMode]int{postgres.WakeInTransaction: 2, postgres.WakeCoalesced: 1}[mode], commit.Attempts, i)
			}
			drain()
			require.NoError(t, d.Close())
			_, err = pool.Exec(t.Context(), "SELECT pg_notification_queue_usage()") // which gives the queue's pages back
			require.NoError(t, err)
		})
	}
}
