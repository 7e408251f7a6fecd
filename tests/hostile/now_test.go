package hostile_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/lane"
	"github.com/seed4391e180/runlane/run"
	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/codec"
	"github.com/seed4391e180/runlane/storage/keys"
)

// TestDueExactlyNow: the bound at the server's clock stands just after the present
// microsecond, whichever end of a range it is.
func TestDueExactlyNow(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 12, 0, 0, 123456000, time.UTC)
	frozenInEveryMode(t, now, func(s *store) {
		partition, err := codec.DuePartition("e", "queue", run.PriorityDefault)
		require.NoError(s, err)
		var keysAt []storage.Key // one microsecond apart, the third one due now
		for i := -2; i <= 2; i++ {
			rec := encodeRun(s.T, after(s.T, nil, created("e", show("r%d", i+2), run.Created{RunAt: now.Add(time.Duration(i) * time.Microsecond)})))
			require.Equal(s, now, s.create(rec).Time)
			keysAt = append(keysAt, rec.Key)
		}
		_, atCommit, _ := newRun(s.T, "e", "r2, by the commit's time", nil)
		s.create(atCommit)
		due := []storage.Key{keysAt[0], keysAt[1], keysAt[2], atCommit.Key}
		later := keysAt[3:]
		for _, lock := range []storage.Lock{storage.Candidates, storage.Exclusive} {
			ask := func(q storage.Query) []storage.Key {
				q.Index, q.Partition, q.Lock = storage.RunsByDue, partition, lock
				page := s.query(q)
				require.Equal(s, now, page.Time)
				return keysOf(page.Records)
			}
			require.Equal(s, due, ask(storage.Query{Until: storage.ServerNow()}))
			require.Equal(s, later, ask(storage.Query{From: storage.ServerNow()}))
			require.Empty(s, ask(storage.Query{From: storage.ServerNow(), Until: storage.ServerNow()}))
			require.Equal(s, []storage.Key{due[3], due[2]}, ask(storage.Query{Until: storage.ServerNow(), Direction: storage.Descending, Limit: 2}))
			exactly, err := keys.EncodeTime(now)
			require.NoError(s, err)
			require.Equal(s, due[2:], ask(storage.Query{From: storage.At(exactly), Until: storage.ServerNow()}))
			require.Equal(s, due[:2], ask(storage.Query{Until: storage.At(exactly)}))
			require.Equal(s, due[3:], ask(storage.Query{Until: storage.ServerNow(), Resume: storage.Resume{Sort: exactly, ID: due[2].ID}}))
		}
		// A lease that expires now is not yet one that somebody else may end, and one
		// microsecond later it is: the query decides by the same bound.
		expiry, err := codec.LeaseExpiryPartition("e")
		require.NoError(s, err)
		for i := range 3 {
			r := after(s.T, nil, created("e", show("leased%d", i), run.Created{}))
			r.Status, r.Attempts, r.Due = run.StatusRunning, 1, time.Time{}
			r.Lease = &run.Lease{Token: created("", "", run.Created{}).ID, Worker: "w", Attempt: 1, Expires: now.Add(time.Duration(i-1) * time.Microsecond), Duration: time.Microsecond}
			s.create(encodeRun(s.T, r))
		}
		page := s.query(storage.Query{Index: storage.RunsByLeaseExpiry, Partition: expiry, Until: storage.ServerNow()})
		require.Len(s, page.Records, 2)
	})
}

// TestClockOfTheDatabase: every time that a driver answers with is its store's, even
// if this process's clock is an hour off.
func TestClockOfTheDatabase(t *testing.T) {
	t.Parallel()
	anHourOff(t, func(s *store, ahead time.Duration) {
		began := time.Now().Add(ahead)
		isNow := func(at time.Time, what string) {
			s.Helper()
			require.WithinRange(s, at, began.Truncate(time.Microsecond), time.Now().Add(ahead), what)
		}
		_, runRec, eventRec := newRun(s.T, "e", "r", []byte("1"))
		commit := s.create(runRec, eventRec)
		isNow(commit.Time, "Commit.Time")
		r := s.getRun("e", "r")
		require.Equal(s, commit.Time, r.Created)
		require.Equal(s, commit.Time, s.listEvents(storage.EventFilter{Environment: "e", RunID: "r"})[0].At)
		partition, err := codec.DuePartition("e", "queue", run.PriorityDefault)
		require.NoError(s, err)
		q := storage.Query{Index: storage.RunsByDue, Partition: partition, Until: storage.ServerNow()}
		s.must(func(ctx context.Context, tx storage.Tx) error {
			page, err := tx.Query(ctx, q)
			require.NoError(s, err)
			isNow(page.Time, "Page.Time")
			require.Len(s, page.Records, 1, "what is due by the store's clock")
			if _, _, err := tx.Get(ctx, runRec.Key); err != nil {
				return err
			}
			now, err := tx.Now(ctx)
			isNow(now, "Now")
			return err
		})
		s.must(func(ctx context.Context, tx storage.Tx) error {
			q.Lock = storage.Exclusive
			page, err := tx.Query(ctx, q)
			require.NoError(s, err)
			isNow(page.Time, "exclusive Page.Time")
			now, err := tx.Now(ctx)
			require.Equal(s, page.Time, now)
			return err
		})
		// Due by this process's clock means nothing.
		q.Lock = storage.Candidates
		s.create(encodeRun(s.T, after(s.T, nil, created("e", "far", run.Created{RunAt: time.Now().Add(ahead + 30*time.Minute)}))))
		s.create(encodeRun(s.T, after(s.T, nil, created("e", "past", run.Created{RunAt: time.Now().Add(ahead - 30*time.Minute)}))))
		page := s.query(q)
		require.Len(s, page.Records, 2)
		q.From, q.Until = q.Until, storage.Bound{}
		page = s.query(q)
		require.Len(s, page.Records, 1)
		require.Equal(s, "far", decodeRun(s.T, page.Records[0]).ID)
	})
}

// TestWorkerWithAWrongClock: a worker whose clock is an hour off claims what is due,
// keeps its leases, retries, and leaves alone what is due later by the store's clock.
func TestWorkerWithAWrongClock(t *testing.T) {
	t.Parallel()
	anHourOff(t, func(s *store, ahead time.Duration) {
		l, err := lane.New(s, lane.Config{Environment: "e"})
		require.NoError(s, err)
		var recovered int
		other, err := lane.New(s, lane.Config{Environment: "e", Hooks: lane.Hooks{Recovered: func(n int) { recovered += n }}})
		require.NoError(s, err)
		const heartbeat = 100 * time.Millisecond
		long := make(chan struct{})
		define := func(name string, h lane.Handler[int, int]) *lane.Task[int, int] {
			return lane.Define(l, name, h, lane.TaskOptions{Backoff: lane.Fixed(30 * time.Millisecond)})
		}
		quick := define("quick", func(_ context.Context, _ *lane.Attempt, n int) (int, error) { return n, nil })
		retried := define("retried", func(_ context.Context, a *lane.Attempt, n int) (int, error) {
			if a.Failures == 0 {
				return 0, context.DeadlineExceeded
			}
			return n, nil
		})
		lasting := define("lasting", func(ctx context.Context, _ *lane.Attempt, n int) (int, error) {
			select {
			case <-long:
				return n, nil
			case <-ctx.Done():
				return 0, context.Cause(ctx)
			}
		})
		defer s.work(l, lane.WorkerConfig{Lease: 10 * time.Second, Heartbeat: heartbeat, PollInterval: 50 * time.Millisecond, RecoverInterval: heartbeat})()

		ctx, cancel := context.WithTimeout(s.Context(), time.Minute)
		defer cancel()
		slow, err := lasting.Trigger(ctx, 1)
		require.NoError(s, err)
		later, err := quick.Trigger(ctx, 2, lane.TriggerOptions{RunAt: time.Now().Add(ahead + 30*time.Minute)})
		require.NoError(s, err)
		await(s.T, "the start of the lasting run", func() bool { return s.getRun("e", slow.RunID).Status == run.StatusRunning })
		first := s.getRun("e", slow.RunID).Lease
		for _, opts := range []lane.TriggerOptions{{}, {Delay: 200 * time.Millisecond}, {RunAt: time.Now().Add(ahead)}, {RunAt: time.Now().Add(ahead - 30*time.Minute)}} {
			got, err := quick.Trigger(ctx, 3, opts)
			require.NoError(s, err)
			_, err = quick.Wait(ctx, got.RunID)
			require.NoError(s, err)
			r := s.getRun("e", got.RunID)
			require.GreaterOrEqual(s, r.Finished.Sub(r.Created), opts.Delay)
			require.Less(s, r.Finished.Sub(r.Created), 15*time.Second)
		}
		again, err := retried.Trigger(ctx, 4)
		require.NoError(s, err)
		_, err = retried.Wait(ctx, again.RunID)
		require.NoError(s, err)

		// The lease is renewed again and again, and nobody ends it.
		await(s.T, "the renewal of the lease", func() bool {
			_, err := other.Recover(s.Context())
			require.NoError(s, err)
			lease := s.getRun("e", slow.RunID).Lease
			require.NotNil(s, lease)
			return lease.Expires.After(first.Expires.Add(2 * heartbeat))
		})
		require.Zero(s, recovered)
		require.Equal(s, first.Token, s.getRun("e", slow.RunID).Lease.Token)
		close(long)
		_, err = lasting.Wait(ctx, slow.RunID)
		require.NoError(s, err)
		require.Equal(s, 1, s.getRun("e", slow.RunID).Attempts)
		require.Equal(s, run.StatusScheduled, s.getRun("e", later.RunID).Status, "it is not due")
	})
}

// TestRecoveryWithAWrongClock: a lease that nobody renews is ended after its time by
// the store's clock, and not before, whatever the clock of the process that looks.
func TestRecoveryWithAWrongClock(t *testing.T) {
	t.Parallel()
	anHourOff(t, func(s *store, ahead time.Duration) {
		l, err := lane.New(s, lane.Config{Environment: "e"})
		require.NoError(s, err)
		held := func(id string, expires time.Time) {
			r := after(s.T, nil, created("e", id, run.Created{}))
			r.Status, r.Attempts, r.Due = run.StatusRunning, 1, time.Time{}
			r.Lease = &run.Lease{Token: created("", "", run.Created{}).ID, Worker: "dead", Attempt: 1, Expires: expires.UTC().Truncate(time.Microsecond), Duration: time.Second}
			s.create(encodeRun(s.T, r))
		}
		now := time.Now().Add(ahead)
		held("over", now.Add(-30*time.Minute))
		held("held", now.Add(30*time.Minute))
		n, err := l.Recover(s.Context())
		require.NoError(s, err)
		require.Equal(s, 1, n)
		require.Equal(s, run.StatusRetrying, s.getRun("e", "over").Status)
		require.Equal(s, run.StatusRunning, s.getRun("e", "held").Status)
	})
}
