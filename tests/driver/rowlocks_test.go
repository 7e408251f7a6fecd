package driver_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/codec"
	"github.com/seed4391e180/runlane/storage/postgres"
)

// free reports whether a row could be locked that strongly.
func (l *lab) free(key storage.Key, strength string) bool {
	l.Helper()
	id := "record_id"
	if key.Collection == storage.Runs {
		id = "run_id"
	}
	tag, err := l.side.Exec(l.Context(), "SELECT FROM runlane."+postgres.TableName(key.Collection)+" WHERE "+id+" = $1 FOR "+strength+" SKIP LOCKED", key.ID)
	require.NoError(l, err)
	return tag.RowsAffected() == 1
}

// TestRowLocks finds how strongly rows are locked, by trying to lock them as well.
func TestRowLocks(t *testing.T) {
	l := newLab(t, patient)
	_, runRecords := newRun(t, "run", `{"n":1}`)
	l.transact(creates(append(runRecords, plain(slot("a")), plain(slot("b")),
		plain(item(storage.Runs, "1"), dueIn("q", "1")), plain(item(storage.Runs, "2"), dueIn("q", "2")), plain(item(storage.Runs, "3"), dueIn("q", "3")))...))
	t.Run("Now locks what was read for no key update", func(t *testing.T) {
		l := l.in(t)
		l.transact(func(ctx context.Context, tx storage.Tx) error {
			_, _, err := tx.Get(ctx, slot("a"))
			require.NoError(t, err)
			_, _, err = tx.Get(ctx, slot("b"), storage.ReadOnly)
			require.NoError(t, err)
			require.True(t, l.free(slot("a"), "UPDATE"), "before Now nothing is locked")
			_, err = tx.Now(ctx)
			require.NoError(t, err)
			require.True(t, l.free(slot("a"), "KEY SHARE"), "not FOR UPDATE")
			require.False(t, l.free(slot("a"), "SHARE"))
			require.False(t, l.free(slot("a"), "NO KEY UPDATE"))
			require.True(t, l.free(slot("b"), "UPDATE"), "what is only read has its advisory lock alone")
			return nil
		})
	})
	t.Run("an exclusive page locks its rows for update and no row behind", func(t *testing.T) {
		l := l.in(t)
		l.transact(func(ctx context.Context, tx storage.Tx) error {
			page, err := tx.Query(ctx, storage.Query{Index: storage.RunsByDue, Partition: tuple("prod", "q"), Limit: 2, Lock: storage.Exclusive})
			require.NoError(t, err)
			require.Len(t, page.Records, 2)
			for _, rec := range page.Records {
				require.False(t, l.free(rec.Key, "KEY SHARE"))
			}
			require.True(t, l.free(item(storage.Runs, "3"), "UPDATE"), "a row ahead of the page is locked")
			return nil
		})
	})
	t.Run("a locked row is passed over and not locked", func(t *testing.T) {
		l := l.in(t)
		release := l.hold("SELECT FROM runlane.runlane_runs WHERE run_id = $1 FOR UPDATE", item(storage.Runs, "1").ID)
		defer release()
		l.transact(func(ctx context.Context, tx storage.Tx) error {
			page, err := tx.Query(ctx, storage.Query{Index: storage.RunsByDue, Partition: tuple("prod", "q"), Limit: 1, Lock: storage.Exclusive})
			require.NoError(t, err)
			require.Len(t, page.Records, 1)
			require.Equal(t, item(storage.Runs, "2"), page.Records[0].Key)
			l.holds(map[string]string{recordText(item(storage.Runs, "2")): exclusive})
			return nil
		})
	})
	t.Run("an event page locks events, not the run whose payload they share", func(t *testing.T) {
		l := l.in(t)
		partition, err := codec.EventsPartition("prod", "run")
		require.NoError(t, err)
		l.transact(func(ctx context.Context, tx storage.Tx) error {
			page, err := tx.Query(ctx, storage.Query{Index: storage.RunEventsBySequence, Partition: partition, Lock: storage.Exclusive})
			require.NoError(t, err)
			require.Len(t, page.Records, 1)
			require.Contains(t, string(page.Records[0].Document), `"payload": {"n": 1}`)
			require.False(t, l.free(page.Records[0].Key, "KEY SHARE"))
			require.True(t, l.free(runRecords[0].Key, "UPDATE"))
			return nil
		})
	})
}

// TestClockAfterTheLocks makes transactions wait for locks and compares their times
// with the moment at which they got them.
func TestClockAfterTheLocks(t *testing.T) {
	l := newLab(t, patient)
	l.transact(creates(plain(slot("a"))))
	clock := "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint"

	t.Run("Now after a row lock", func(t *testing.T) {
		l := l.in(t)
		release := l.hold("SELECT FROM runlane.runlane_record_queue_slots FOR UPDATE")
		var now int64
		wait := l.start(func(ctx context.Context, tx storage.Tx) error {
			_, _, err := tx.Get(ctx, slot("a"))
			if err != nil {
				return err
			}
			at, err := tx.Now(ctx)
			now = at.UnixMicro()
			return err
		})
		l.waits()
		freed := scalar[int64](l, clock)
		release()
		commit, err := wait()
		require.NoError(t, err)
		require.Equal(t, 1, commit.Attempts)
		require.GreaterOrEqual(t, now, freed)
	})
	t.Run("a commit time after an advisory lock", func(t *testing.T) {
		l := l.in(t)
		release := l.hold("SELECT pg_advisory_xact_lock($1)", l.hash(recordText(slot("new"))))
		marked := plain(slot("new"))
		marked.Document = []byte("{\"at\":\"" + storage.CommitTime + "\"}")
		wait := l.start(creates(marked))
		l.waits()
		freed := scalar[int64](l, clock)
		release()
		commit, err := wait()
		require.NoError(t, err)
		require.GreaterOrEqual(t, commit.Time.UnixMicro(), freed)
		require.Equal(t, commit.Time.Format(storage.TimeFormat),
			scalar[string](l, "SELECT record_document ->> 'at' FROM runlane.runlane_record_queue_slots WHERE record_id = $1", slot("new").ID))
	})
}
