package driver_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/codec"
	"github.com/seed4391e180/runlane/storage/postgres"
)

// traffic is a lab in which commits are made to share a transaction: two of them keep
// the driver busy, in the server, until those that come later all wait.
type traffic struct {
	*lab
	release func()
	jam     []func() (storage.Commit, error)
	waits   []func() (storage.Commit, error)
	before  postgres.Trips
}

// jammed brings the traffic to a standstill.
func jammed(l *lab) *traffic {
	l.Helper()
	a, b := plain(slot("jam a "+l.Name())), plain(slot("jam b "+l.Name()))
	l.transact(creates(a, b))
	tr := &traffic{lab: l}
	tr.release = l.hold("SELECT FROM runlane.runlane_record_queue_slots WHERE record_id IN ($1, $2) FOR UPDATE", a.Key.ID, b.Key.ID)
	for _, rec := range []storage.Record{a, b} {
		tr.jam = append(tr.jam, l.start(replaces(rec)))
	}
	l.blocked(2)
	tr.before = l.d.Stats().Commits
	return tr
}

// blocked waits until n sessions of the driver wait for a row or a table.
func (l *lab) blocked(n int) {
	l.Helper()
	require.NoError(l, l.comes("SELECT count(*) >= $1::int FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'", n))
}

// join adds a transaction that waits for the others.
func (tr *traffic) join(fn callbackFunc) {
	tr.Helper()
	n := len(tr.waits) + 1
	tr.waits = append(tr.waits, tr.start(fn))
	tr.reach(n)
}

// reach waits until n commits wait for their turn.
func (tr *traffic) reach(n int) {
	tr.Helper()
	require.Eventually(tr, func() bool { return tr.d.Stats().Commits.Waiting == n }, 20*time.Second, time.Millisecond)
}

type result struct {
	commit storage.Commit
	err    error
}

// unjam lets those go that kept the driver busy, and waits for their end.
func (tr *traffic) unjam() {
	tr.Helper()
	tr.release()
	for _, wait := range tr.jam {
		_, err := wait()
		require.NoError(tr, err)
	}
	tr.jam = nil
}

// flow lets everything go and returns what became of the transactions that joined.
func (tr *traffic) flow() (results []result) {
	tr.Helper()
	tr.unjam()
	for _, wait := range tr.waits {
		commit, err := wait()
		results = append(results, result{commit, err})
	}
	return results
}

// shared returns how many trips were shared since the standstill, and by how many.
func (tr *traffic) shared() (trips, together int64) {
	now := tr.d.Stats().Commits
	return now.Shared - tr.before.Shared, now.Together - tr.before.Together
}

func (l *lab) requireStored(key storage.Key, want bool) {
	l.Helper()
	l.transact(func(ctx context.Context, tx storage.Tx) error {
		_, found, err := tx.Get(ctx, key)
		require.NoError(l, err)
		require.Equal(l, want, found, key)
		return nil
	})
}

// TestSharedTransaction: fifty callers, one transaction, and to each its own answer.
func TestSharedTransaction(t *testing.T) {
	l := newLab(t, patient)
	old := plain(slot("old"))
	version := l.transact(creates(old)).Versions[old.Key]
	tr := jammed(l)
	xids := "SELECT count(*) FROM (SELECT DISTINCT xmin::text FROM runlane.runlane_runs) x"
	const callers = 50
	for i := range callers {
		_, recs := newRun(t, fmt.Sprint("run ", i), `{"n":1}`)
		recs = append(recs, storage.Record{Key: storage.Key{Collection: storage.QueueSlots, Partition: tuple(fmt.Sprint("env ", i%3)), ID: tuple("same name", fmt.Sprint(i/3))}, Document: []byte(`{}`)})
		tr.join(creates(recs...))
	}
	tr.join(steps(reads(old.Key), func(ctx context.Context, tx storage.Tx) error { return tx.Delete(ctx, old.Key) }))
	results := tr.flow()
	trips, together := tr.shared()
	require.EqualValues(t, 1, trips)
	require.EqualValues(t, callers+1, together)
	require.Equal(t, 1, scalar[int](l, xids))
	seen := map[storage.Version]bool{version: true}
	for i, r := range results {
		require.NoError(t, r.err)
		require.Equal(t, 1, r.commit.Attempts)
		require.Equal(t, results[0].commit.Time, r.commit.Time, "one clock")
		require.False(t, r.commit.Time.IsZero())
		if i < callers {
			require.Len(t, r.commit.Versions, 3)
			require.Equal(t, 1, r.commit.RoundTrips)
		}
		for key, v := range r.commit.Versions {
			require.False(t, seen[v])
			seen[v] = true
			require.Equal(t, v.Int64(), l.versionOf(key))
		}
	}
	l.requireStored(old.Key, false)
	page, err := l.d.ListEvents(t.Context(), storage.EventFilter{Environment: "prod", RunID: "run 7"})
	require.NoError(t, err)
	require.Len(t, page.Events, 1)
	require.Equal(t, 50, scalar[int](l, "SELECT count(*)::int FROM runlane.runlane_record_run_events WHERE payload_from_run"))
}

func (l *lab) versionOf(key storage.Key) int64 {
	l.Helper()
	partition, id := "partition_key", "record_id"
	switch key.Collection {
	case storage.Runs:
		partition, id = "environment_key", "run_id"
	case storage.RunEvents:
		partition = "environment_key"
	}
	return scalar[int64](l, "SELECT record_version FROM runlane."+postgres.TableName(key.Collection)+" WHERE "+partition+" = $1 AND "+id+" = $2", key.Partition, key.ID)
}

// TestNeighbours: whatever is wrong with one commit is nothing to those that travel
// with it.
func TestNeighbours(t *testing.T) {
	l := newLab(t, patient)
	l.exec("ALTER TABLE runlane.runlane_record_queue_slots ADD CONSTRAINT refuses CHECK (record_document ->> 'refuse' IS NULL)")
	singleton := func(id string) []storage.Record {
		r, _ := newRun(t, id, "")
		r.SingletonKey = "one"
		rec, err := codec.EncodeRun(r)
		require.NoError(t, err)
		return []storage.Record{rec}
	}
	changed, gone := plain(slot("changed")), plain(slot("gone"))
	l.transact(creates(append(singleton("holder"), changed, gone)...))
	for _, c := range []struct {
		name     string
		fn       callbackFunc
		between  func() (release func())
		attempts int
		alone    bool // the trip comes to nothing, and each goes alone
		err      error
	}{
		{name: "a lock that somebody holds", fn: creates(plain(slot("busy"))), attempts: 2,
			between: func() func() {
				return l.hold("SELECT pg_advisory_xact_lock(hashtextextended($1, 0))", recordText(slot("busy")))
			}},
		{name: "a record that changed", fn: replaces(changed), attempts: 2,
			between: func() func() {
				l.exec("UPDATE runlane.runlane_record_queue_slots SET record_version = record_version - 1000000 WHERE record_id = $1", changed.Key.ID)
				return nil
			}},
		{name: "a read record that changed", fn: steps(reads(changed.Key), creates(plain(slot("by reading")))), attempts: 2,
			between: func() func() {
				l.exec("UPDATE runlane.runlane_record_queue_slots SET record_version = record_version - 1000000 WHERE record_id = $1", changed.Key.ID)
				return nil
			}},
		{name: "a record that is gone", fn: func(ctx context.Context, tx storage.Tx) error {
			_, found, err := tx.Get(ctx, gone.Key)
			if err != nil || !found {
				return err
			}
			return tx.Delete(ctx, gone.Key)
		}, attempts: 2,
			between: func() func() {
				l.exec("DELETE FROM runlane.runlane_record_queue_slots WHERE record_id = $1", gone.Key.ID)
				return nil
			}},
		{name: "a key that is taken", fn: creates(plain(slot("taken"))), attempts: 2, err: storage.ErrRecordExists,
			between: func() func() {
				l.exec("INSERT INTO runlane.runlane_record_queue_slots (partition_key, record_id, record_version, record_document) VALUES ($1, $2, -1, '{}')", slot("taken").Partition, slot("taken").ID)
				return nil
			}},
		{name: "an absence that has ended", fn: steps(reads(slot("appeared")), creates(plain(slot("by absence")))), attempts: 2,
			between: func() func() {
				l.exec("INSERT INTO runlane.runlane_record_queue_slots (partition_key, record_id, record_version, record_document) VALUES ($1, $2, -1, '{}')", slot("appeared").Partition, slot("appeared").ID)
				return nil
			}},
		{name: "one active run for a key", fn: creates(singleton("second")...), attempts: 2, alone: true, err: storage.ErrDuplicateActive},
		{name: "a document that the database refuses", fn: creates(storage.Record{Key: slot("refused"), Document: []byte(`{"refuse":true}`)}), attempts: 1, alone: true, err: errAny},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := l.in(t)
			tr := jammed(l)
			const neighbours = 50
			key := func(i int) storage.Key { return slot(fmt.Sprint(c.name, " ", i)) }
			for i := range neighbours / 2 {
				tr.join(steps(creates(plain(key(i))), wakes(fmt.Sprint("neighbour ", i))))
			}
			tr.join(steps(c.fn, wakes("bad")))
			for i := neighbours / 2; i < neighbours; i++ {
				tr.join(creates(plain(key(i))))
			}
			var release func()
			if c.between != nil {
				release = c.between()
			}
			if release != nil { // once the trip is over
				go func() {
					_ = l.comes("SELECT count(*) = $1 FROM runlane.runlane_record_queue_slots WHERE record_document = '{\"n\":1}' AND record_id LIKE $2", neighbours, "%"+c.name+"%")
					release()
				}()
			}
			results := tr.flow()
			trips, together := tr.shared()
			require.EqualValues(t, 1, trips)
			require.EqualValues(t, neighbours+1, together)
			alone := 0
			if c.alone {
				alone = neighbours + 1
			}
			require.EqualValues(t, alone, l.d.Stats().Commits.Alone-tr.before.Alone)
			for i, r := range results {
				if i == neighbours/2 {
					require.Equal(t, c.attempts, r.commit.Attempts)
					switch {
					case c.err == nil:
						require.NoError(t, r.err)
					case !errors.Is(c.err, errAny):
						require.ErrorIs(t, r.err, c.err)
					default:
						require.Error(t, r.err)
					}
					continue
				}
				require.NoError(t, r.err)
				require.Equal(t, 1, r.commit.Attempts)
			}
			for i := range neighbours {
				l.requireStored(key(i), true)
			}
		})
	}
}

// errAny is an error that the contract has no name for.
var errAny = errors.New("any error")

// TestWhatMustNotTravelTogether: a commit that writes what another reads or writes
// goes after it, however they come.
func TestWhatMustNotTravelTogether(t *testing.T) {
	l := newLab(t, patient)
	x, y := slot("x"), slot("y")
	number := func(key storage.Key, n int) storage.Record {
		return storage.Record{Key: key, Document: fmt.Appendf(nil, `{"n":%d}`, n)}
	}
	for _, c := range []struct {
		name     string
		fns      []callbackFunc
		together int64 // with each other
		replays  bool  // one of them, at least
	}{
		{"write skew", []callbackFunc{
			steps(reads(x, y), writes(number(x, 2))), steps(reads(x, y), writes(number(y, 2))),
		}, 0, true},
		{"a waiter beside a completion", []callbackFunc{
			steps(reads(x, slot("waiter")), creates(plain(slot("waiter")))), steps(reads(x, slot("waiter")), writes(number(x, 3))),
		}, 0, true},
		{"two plans on one record", []callbackFunc{replaces(number(x, 4)), replaces(number(x, 5))}, 0, true},
		{"two creations of one record", []callbackFunc{creates(plain(slot("new"))), steps(reads(slot("new")), creates(plain(slot("newer"))))}, 0, true},
		{"two that only read it", []callbackFunc{steps(reads(x), creates(plain(slot("one")))), steps(reads(x), creates(plain(slot("two"))))}, 2, false},
		{"a reader does not overtake a writer that waits for another reader", []callbackFunc{
			steps(reads(x), creates(plain(slot("first")))), replaces(number(x, 6)), steps(reads(x), creates(plain(slot("second")))),
		}, 0, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := l.in(t)
			l.exec("DELETE FROM runlane.runlane_record_queue_slots")
			l.transact(creates(number(x, 1), number(y, 1)))
			tr := jammed(l)
			for _, fn := range c.fns {
				tr.join(fn)
			}
			most := 0
			for _, r := range tr.flow() {
				require.NoError(t, r.err)
				most = max(most, r.commit.Attempts)
			}
			require.Equal(t, c.replays, most > 1)
			_, together := tr.shared()
			require.Equal(t, c.together, together)
		})
	}
}

// TestLeavingATrip: a caller that does not wait any more is told so at once, and the
// others travel on.
func TestLeavingATrip(t *testing.T) {
	l := newLab(t, patient)
	held := plain(slot("held"))
	l.transact(creates(held))
	t.Run("before it begins", func(t *testing.T) {
		l := l.in(t)
		tr := jammed(l)
		tr.join(creates(plain(slot("a1"))))
		ctx, cancel := context.WithCancel(t.Context())
		left := make(chan error, 1)
		go func() {
			_, err := l.d.Transact(ctx, "leaves", creates(plain(slot("left"))))
			left <- err
		}()
		tr.reach(2)
		tr.waits = append(tr.waits, l.start(creates(plain(slot("a2")))))
		tr.reach(3)
		cancel()
		require.Equal(t, context.Canceled, <-left)
		tr.reach(2)
		for _, r := range tr.flow() {
			require.NoError(t, r.err)
		}
		l.requireStored(slot("left"), false)
	})
	t.Run("when it is under way", func(t *testing.T) {
		l := l.in(t)
		tr := jammed(l)
		tr.join(creates(plain(slot("b1"))))
		ctx, cancel := context.WithCancel(t.Context())
		left := make(chan error, 1)
		go func() {
			_, err := l.d.Transact(ctx, "leaves", creates(plain(slot("left under way"))))
			left <- err
		}()
		tr.reach(2)
		tr.waits = append(tr.waits, l.start(replaces(held)))
		tr.reach(3)
		release := l.hold("SELECT FROM runlane.runlane_record_queue_slots WHERE record_id = $1 FOR UPDATE", held.Key.ID)
		tr.unjam()
		require.Eventually(t, func() bool { trips, _ := tr.shared(); return trips == 1 }, 20*time.Second, time.Millisecond)
		l.blocked(1)
		cancel()
		err := <-left
		require.ErrorIs(t, err, storage.ErrCommitUnknown)
		require.ErrorIs(t, err, context.Canceled)
		release()
		for _, r := range tr.flow() {
			require.NoError(t, r.err)
			require.Equal(t, 1, r.commit.Attempts)
		}
		l.requireStored(slot("left under way"), true)
	})
	t.Run("all of them", func(t *testing.T) {
		l := l.in(t)
		tr := jammed(l)
		ctx, cancel := context.WithCancel(t.Context())
		left := make(chan error, 2)
		for i, fn := range []callbackFunc{creates(plain(slot("c1"))), replaces(held)} {
			go func() {
				_, err := l.d.Transact(ctx, "leaves", fn)
				left <- err
			}()
			tr.reach(i + 1)
		}
		release := l.hold("SELECT FROM runlane.runlane_record_queue_slots WHERE record_id = $1 FOR UPDATE", held.Key.ID)
		tr.unjam()
		require.Eventually(t, func() bool { trips, _ := tr.shared(); return trips == 1 }, 20*time.Second, time.Millisecond)
		l.blocked(1)
		cancel()
		require.ErrorIs(t, <-left, storage.ErrCommitUnknown)
		require.ErrorIs(t, <-left, storage.ErrCommitUnknown)
		require.Eventually(t, func() bool { return l.pool.Stat().AcquiredConns() == 0 }, 20*time.Second, time.Millisecond, "the trip ends with its last caller")
		release()
		tr.flow()
		l.transact(creates(plain(slot("afterwards"))))
	})
}

// TestLostTrip: when the connection of a shared transaction dies, each caller finds out
// what became of its own commit.
func TestLostTrip(t *testing.T) {
	l := newLab(t, patient)
	held := plain(slot("held"))
	l.transact(creates(held))
	tr := jammed(l)
	for i := range 10 {
		tr.join(creates(plain(slot(fmt.Sprint(i)))))
	}
	tr.waits = append(tr.waits, l.start(replaces(held)))
	tr.reach(11)
	release := l.hold("SELECT FROM runlane.runlane_record_queue_slots WHERE record_id = $1 FOR UPDATE", held.Key.ID)
	tr.unjam()
	require.Eventually(t, func() bool { trips, _ := tr.shared(); return trips == 1 }, 20*time.Second, time.Millisecond)
	l.blocked(1)
	l.exec("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'")
	release()
	for _, r := range tr.flow() {
		require.NoError(t, r.err)
	}
	for i := range 10 {
		l.requireStored(slot(fmt.Sprint(i)), true)
	}
}

// TestLateTrip: a shared transaction that arrives after its deadline does nothing, and
// its commits go again.
func TestLateTrip(t *testing.T) {
	config := patient
	config.CommitTimeout = 200 * time.Millisecond
	l := newLab(t, config)
	tr := jammed(l)
	for i := range 3 {
		_, recs := newRun(t, fmt.Sprint(i), "")
		tr.join(creates(recs...))
	}
	l.tap.take()
	release := l.hold("LOCK TABLE runlane.runlane_runs IN ACCESS EXCLUSIVE MODE")
	tr.unjam()
	require.NoError(t, l.comes("SELECT EXISTS (SELECT FROM pg_locks WHERE relation = 'runlane.runlane_runs'::regclass AND NOT granted)"))
	batch := l.tap.take()
	i := slices.IndexFunc(batch, func(s sent) bool { return strings.Contains(s.sql, "AS refused") })
	require.GreaterOrEqual(t, i, 0)
	require.NoError(t, l.comes("SELECT clock_timestamp() > $1::text::timestamptz", batch[i].args[0]))
	release()
	for _, r := range tr.flow() {
		require.NoError(t, r.err)
	}
	require.EqualValues(t, 3, tr.d.Stats().Commits.Alone-tr.before.Alone)
}

// TestCommittingConnections: however many commit, two connections do.
func TestCommittingConnections(t *testing.T) {
	l := newLab(t, postgres.Config{})
	var callers sync.WaitGroup
	for i := range 200 {
		callers.Go(func() {
			for j := range 5 {
				_, err := l.d.Transact(t.Context(), "create", creates(plain(slot(fmt.Sprint(i, " ", j)))))
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	callers.Wait()
	require.Equal(t, 1000, scalar[int](l, "SELECT count(*)::int FROM runlane.runlane_record_queue_slots"))
	require.LessOrEqual(t, l.pool.Stat().TotalConns(), int32(3), "two, and one that drew the first versions")
	require.Less(t, l.d.Stats().Commits.Shared+l.d.Stats().Commits.Alone, int64(500), "they hardly shared")
}

// TestHintsOfSharedCommits: the hint of a commit that was left out is not sent before
// it has committed, and those of the others are.
func TestHintsOfSharedCommits(t *testing.T) {
	l := newLab(t, patient)
	heard := make(chan string, 100)
	listening := make(chan struct{})
	var once sync.Once
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		ended <- l.d.Listen(ctx, func(topic string) {
			once.Do(func() { close(listening) })
			if topic != "" {
				heard <- topic
			}
		})
	}()
	<-listening
	tr := jammed(l)
	tr.join(steps(creates(plain(slot("a"))), wakes("good")))
	tr.join(steps(creates(plain(slot("b"))), wakes("good"), wakes("better")))
	tr.join(func(ctx context.Context, tx storage.Tx) error {
		return steps(creates(plain(slot("busy"))), wakes("left out"))(ctx, tx)
	})
	release := l.hold("SELECT pg_advisory_xact_lock(hashtextextended($1, 0))", recordText(slot("busy")))
	tr.release()
	topics := map[string]int{<-heard: 1}
	topics[<-heard]++
	require.Equal(t, map[string]int{"good": 1, "better": 1}, topics, "each once, and not that of the busy one")
	require.NoError(t, l.comes(someoneWaits), "the busy one replays")
	release()
	require.Equal(t, "left out", <-heard)
	for _, r := range tr.flow() {
		require.NoError(t, r.err)
	}
	stop()
	require.ErrorIs(t, <-ended, context.Canceled)
}
