package driver_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/migrations"
	"github.com/seed4391e180/runlane/run"
	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/codec"
	"github.com/seed4391e180/runlane/storage/postgres"
)

// recordText is the text whose hash is the advisory lock of a record.
func recordText(key storage.Key) string {
	return "runlane/record/" + key.Collection.String() + "/" + key.Partition + key.ID + " runlane"
}

// payloadText is the text whose hash is the advisory lock of the payload that a run
// and its Created event share.
func payloadText(runKey storage.Key) string {
	return "runlane/payload/" + runKey.Partition + runKey.ID + "#1 runlane"
}

const (
	shared    = "ShareLock"
	exclusive = "ExclusiveLock"
)

// advisory is the part of pg_locks that is about advisory locks of one 64-bit key in
// the lab's database.
const advisory = `SELECT (l.classid::bigint << 32) | l.objid::bigint AS hash, l.mode, l.granted FROM pg_locks l
JOIN pg_database d ON d.oid = l.database AND d.datname = current_database() WHERE l.locktype = 'advisory' AND l.objsubid = 1`

// someoneWaits says whether somebody waits for an advisory lock.
const someoneWaits = "SELECT EXISTS (SELECT FROM (" + advisory + ") a WHERE NOT granted)"

// holds requires that exactly these advisory locks are held.
func (l *lab) holds(want map[string]string) {
	l.Helper()
	named := map[int64]string{}
	for text := range want {
		named[l.hash(text)] = text
	}
	got := map[string]string{}
	rows, err := l.side.Query(l.Context(), advisory+" AND l.granted")
	require.NoError(l, err)
	defer rows.Close()
	for rows.Next() {
		var (
			hash    int64
			mode    string
			granted bool
		)
		require.NoError(l, rows.Scan(&hash, &mode, &granted))
		text, known := named[hash]
		if !known {
			text = "a lock that nobody expects"
		}
		got[text] = mode
	}
	require.NoError(l, rows.Err())
	require.Equal(l, want, got)
}

func (l *lab) hash(text string) int64 {
	l.Helper()
	return scalar[int64](l, "SELECT hashtextextended($1, 0)", text)
}

// waits waits until the driver waits for a lock.
func (l *lab) waits() {
	l.Helper()
	require.NoError(l, l.comes("SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock')"))
}

// inTheMiddle commits fn while the row of key is locked, and looks when the commit
// statement waits for it.
func (l *lab) inTheMiddle(key storage.Key, fn callbackFunc, look func()) {
	l.Helper()
	id := "record_id"
	if key.Collection == storage.Runs {
		id = "run_id"
	}
	release := l.hold("SELECT FROM runlane."+postgres.TableName(key.Collection)+" WHERE "+id+" = $1 FOR UPDATE", key.ID)
	wait := l.start(fn)
	l.waits()
	look()
	release()
	_, err := wait()
	require.NoError(l, err)
}

// patient is for tests that hold a transaction up and look at it: a slow machine
// must not make it give up meanwhile.
var patient = postgres.Config{LockTimeout: time.Minute, StatementTimeout: 2 * time.Minute, IdleTimeout: time.Minute}

// TestAdvisoryLocks finds which locks of keys are held, and in which mode, in the
// middle of everything that takes some.
func TestAdvisoryLocks(t *testing.T) {
	l := newLab(t, patient)
	l.transact(creates(plain(slot("a")), plain(slot("b")), plain(item(storage.Runs, "1"), dueIn("q", "1")), plain(item(storage.Runs, "2"), dueIn("q", "2"))))
	for _, c := range []struct {
		name string
		run  func(l *lab)
	}{
		{"a commit shares what it read and excludes from what it writes", locksOfACommit},
		{"a blind create locks its key", locksOfABlindCreate},
		{"Now excludes, except from what is only read", locksOfNow},
		{"an exclusive page locks its records and no other", locksOfAPage},
		{"a replay holds what the attempt before touched, before it reads", locksOfAReplay},
	} {
		t.Run(c.name, func(t *testing.T) { c.run(l.in(t)) })
	}
}

func locksOfACommit(l *lab) {
	l.inTheMiddle(slot("a"), steps(reads(slot("a"), slot("b"), slot("absent")), writes(plain(slot("a"))), creates(plain(slot("new")))), func() {
		l.holds(map[string]string{
			recordText(slot("a")): exclusive, recordText(slot("new")): exclusive, recordText(slot("b")): shared, recordText(slot("absent")): shared,
		})
	})
}

func locksOfABlindCreate(l *lab) {
	release := l.hold("INSERT INTO runlane.runlane_record_queue_slots VALUES ($1, $2, 1, '{}')", slot("blind").Partition, slot("blind").ID)
	wait := l.start(creates(plain(slot("blind"))))
	l.waits()
	l.holds(map[string]string{recordText(slot("blind")): exclusive})
	release()
	_, err := wait()
	require.NoError(l, err)
}

func locksOfNow(l *lab) {
	l.transact(func(ctx context.Context, tx storage.Tx) error {
		_, err := tx.GetMany(ctx, []storage.Key{slot("a"), slot("absent")})
		require.NoError(l, err)
		_, err = tx.GetMany(ctx, []storage.Key{slot("b"), slot("no such")}, storage.ReadOnly)
		require.NoError(l, err)
		require.NoError(l, tx.Create(ctx, plain(slot("staged"))))
		l.holds(map[string]string{})
		_, err = tx.Now(ctx)
		require.NoError(l, err)
		l.holds(map[string]string{
			recordText(slot("a")): exclusive, recordText(slot("absent")): exclusive, recordText(slot("staged")): exclusive,
			recordText(slot("b")): shared, recordText(slot("no such")): shared,
		})
		return nil
	})
}

func locksOfAPage(l *lab) {
	l.transact(func(ctx context.Context, tx storage.Tx) error {
		page, err := tx.Query(ctx, storage.Query{Index: storage.RunsByDue, Partition: tuple("prod", "q"), Limit: 1, Lock: storage.Exclusive})
		require.NoError(l, err)
		require.Len(l, page.Records, 1)
		l.holds(map[string]string{recordText(item(storage.Runs, "1")): exclusive})
		return nil
	})
}

func locksOfAReplay(l *lab) {
	attempts := 0
	l.transact(func(ctx context.Context, tx storage.Tx) error {
		if attempts++; attempts > 1 {
			l.holds(map[string]string{
				recordText(slot("a")): exclusive, recordText(slot("absent")): exclusive, recordText(slot("again")): exclusive, recordText(slot("b")): shared,
			})
			return nil
		}
		_, err := tx.GetMany(ctx, []storage.Key{slot("a"), slot("absent")})
		require.NoError(l, err)
		_, _, err = tx.Get(ctx, slot("b"), storage.ReadOnly)
		require.NoError(l, err)
		l.exec("UPDATE runlane.runlane_record_queue_slots SET record_version = nextval('runlane.runlane_record_versions')")
		return tx.Create(ctx, plain(slot("again")))
	})
	require.Equal(l, 2, attempts)
}

// TestPrivateLocks finds the locks of what has no key in the transaction: payloads
// that a run shares with its Created event, and the records that an append makes up.
func TestPrivateLocks(t *testing.T) {
	l := newLab(t, patient)
	stream, err := codec.ObservationHeadKey("prod", "s")
	require.NoError(t, err)
	_, recs := newRun(t, "run", `{"n":1}`)
	l.transact(creates(recs...))
	l.transact(appends(stream, "1"))

	t.Run("an exclusive page of events locks the payload they share", func(t *testing.T) {
		l := l.in(t)
		partition, err := codec.EventsPartition("prod", "run")
		require.NoError(t, err)
		l.transact(func(ctx context.Context, tx storage.Tx) error {
			_, err := tx.Query(ctx, storage.Query{Index: storage.RunEventsBySequence, Partition: partition, Lock: storage.Exclusive})
			require.NoError(t, err)
			l.holds(map[string]string{recordText(recs[1].Key): exclusive, payloadText(recs[0].Key): exclusive})
			return nil
		})
	})
	t.Run("a change of a shared payload locks it by a private key", func(t *testing.T) {
		l, key := l.in(t), recs[0].Key
		change := func(edit func(*run.Run)) callbackFunc {
			return func(ctx context.Context, tx storage.Tx) error { return replaceRun(ctx, tx, key, edit) }
		}
		l.inTheMiddle(key, change(func(r *run.Run) { r.Metadata = map[string]string{"a": "b"} }), func() {
			l.holds(map[string]string{recordText(key): exclusive})
		})
		l.inTheMiddle(key, change(func(r *run.Run) { r.Payload = []byte(`2`) }), func() {
			l.holds(map[string]string{recordText(key): exclusive, payloadText(key): exclusive})
		})
	})
	t.Run("an append locks the head and the keys that it makes up", func(t *testing.T) {
		l := l.in(t)
		want := map[string]string{recordText(stream): exclusive}
		for position := int64(2); position <= 3; position++ {
			key, err := codec.ObservationKey("prod", "s", position)
			require.NoError(t, err)
			want[recordText(key)] = exclusive
		}
		l.inTheMiddle(stream, steps(appends(stream, "2"), appends(stream, "3")), func() { l.holds(want) })
	})
}

// TestLockOrder holds up a replay at one of its keys and finds that it has taken
// those with lower hashes, and none with a higher one: all replays take their locks
// in one order, so they cannot wait for each other in a circle.
func TestLockOrder(t *testing.T) {
	l := newLab(t, patient)
	var (
		keys   []storage.Key
		hashes []int64
		texts  = map[int64]string{}
	)
	for _, c := range []storage.Collection{storage.SingletonOwners, storage.QueueSlots, storage.ScheduleCursors} {
		for _, id := range []string{"a", "b", "c"} {
			key := item(c, id)
			hash := l.hash(recordText(key))
			keys, hashes, texts[hash] = append(keys, key), append(hashes, hash), recordText(key)
		}
	}
	require.False(t, slices.IsSorted(hashes), "keys and hashes happen to be in the same order")
	slices.Sort(hashes)
	for _, middle := range []int{0, len(hashes) / 2, len(hashes) - 1} {
		release := l.hold("SELECT pg_advisory_xact_lock($1)", hashes[middle])
		wait := l.start(steps(reads(keys...), wakes("topic")))
		require.NoError(t, l.comes(someoneWaits))
		want := map[string]string{}
		for _, hash := range hashes[:middle+1] {
			want[texts[hash]] = exclusive // the last one of them is ours
		}
		l.holds(want)
		require.Equal(t, []int64{hashes[middle]}, column[int64](l, "SELECT hash FROM ("+advisory+") a WHERE NOT granted"))
		release()
		commit, err := wait()
		require.NoError(t, err)
		require.Equal(t, 2, commit.Attempts, "the first attempt only tries")
	}
}

// TestLocksOfTwoSchemas: two stores in one database have nothing to do with each other.
func TestLocksOfTwoSchemas(t *testing.T) {
	l := newLab(t, postgres.Config{})
	conn, err := l.side.Acquire(t.Context())
	require.NoError(t, err)
	_, err = migrations.Apply(t.Context(), conn.Conn(), migrations.Options{Schema: "other"})
	require.NoError(t, err)
	conn.Release()
	other, err := postgres.New(l.side, postgres.Config{Schema: "other"})
	require.NoError(t, err)
	l.transact(func(ctx context.Context, tx storage.Tx) error {
		require.NoError(t, tx.Create(ctx, plain(slot("a"))))
		_, err := tx.Now(ctx)
		require.NoError(t, err)
		commit, err := other.Transact(context.WithoutCancel(t.Context()), "other", creates(plain(slot("a"))))
		require.NoError(t, err)
		require.Equal(t, 1, commit.Attempts)
		return nil
	})
}

// TestHeldLocksAreGivenBack: what a transaction counted as held counts no longer when
// it is over, however it ends.
func TestHeldLocksAreGivenBack(t *testing.T) {
	l := newLab(t, postgres.Config{MaxHeldLocks: 8, AcquireTimeout: 5 * time.Second})
	undone := func(context.Context, storage.Tx) error { return errUndo }
	for i := range 12 {
		three := creates(plain(slot(fmt.Sprint(i, "a"))), plain(slot(fmt.Sprint(i, "b"))), plain(slot(fmt.Sprint(i, "c"))))
		_, err := l.d.Transact(t.Context(), "undone", steps(three, now, undone))
		require.ErrorIs(t, err, errUndo)
		_, err = l.d.Transact(t.Context(), "done", three)
		require.NoError(t, err, i)
	}
}
