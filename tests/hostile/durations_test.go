package hostile_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/internal/txn"
	"github.com/seed4391e180/runlane/lane"
	"github.com/seed4391e180/runlane/run"
	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/codec"
	"github.com/seed4391e180/runlane/storage/keys"
)

// long are durations around 2^31 and 2^32 milliseconds and microseconds, and the
// longest that a commit can carry.
var long = []time.Duration{
	(1<<31 - 1) * time.Microsecond, (1 << 31) * time.Microsecond, (1<<32 + 1) * time.Microsecond,
	(1<<31 - 1) * time.Millisecond, (1 << 31) * time.Millisecond, (1<<31+1)*time.Millisecond + time.Microsecond,
	(1<<32 + 1) * time.Millisecond, 36525*24*time.Hour - 25*24*time.Hour - time.Microsecond, run.MaxAfterCommit,
}

// TestLongDelaysFromTheCommit: the distance from the commit is exact in documents,
// columns and sort values.
func TestLongDelaysFromTheCommit(t *testing.T) {
	t.Parallel()
	inEveryMode(t, func(s *store) {
		for i, d := range long {
			id := show("r%d", i)
			e := created("e", id, run.Created{RunAt: run.AtCommit.Add(d), IdempotencyKey: id, IdempotencyTTL: d})
			runRec, eventRec := encodeRun(s.T, after(s.T, nil, e)), encodeEvent(s.T, e)
			owner, err := codec.EncodeIdempotencyOwner(codec.IdempotencyOwner{Environment: "e", Task: "task", Key: id, RunID: id, Expires: run.AtCommit.Add(d)})
			require.NoError(s, err)
			at := s.create(runRec, eventRec, owner).Time
			due := at.Add(d)
			require.Equal(s, due, s.getRun("e", id).Due)
			require.Equal(s, d, s.getRun("e", id).IdempotencyTTL)
			data, ok := s.listEvents(storage.EventFilter{Environment: "e", RunID: id})[0].Data.(run.Created)
			require.True(s, ok)
			require.Equal(s, due, data.RunAt)
			exactly := storage.TimeRange{From: due, Until: due.Add(time.Microsecond)}
			require.Equal(s, []string{id}, idsOf(s.listRuns(storage.RunFilter{Environment: "e", Due: exactly, Sort: storage.SortDue})))
			sort, err := keys.EncodeTime(due)
			require.NoError(s, err)
			partition, err := codec.DuePartition("e", "queue", run.PriorityDefault)
			require.NoError(s, err)
			page := s.query(storage.Query{Index: storage.RunsByDue, Partition: partition, From: storage.At(sort), Limit: 1})
			require.Equal(s, []storage.Key{runRec.Key}, keysOf(page.Records))
			page = s.query(storage.Query{Index: storage.IdempotencyOwnersByExpiry, Partition: owner.Key.Partition, From: storage.At(sort), Limit: 1})
			require.Equal(s, []storage.Key{owner.Key}, keysOf(page.Records))
		}
	})
}

// TestLongDurationsInLane: what the options of a lane say in days and decades is
// what the run has.
func TestLongDurationsInLane(t *testing.T) {
	t.Parallel()
	onBoth(t, func(s *store) {
		l, err := lane.New(s, lane.Config{Environment: "e"})
		require.NoError(s, err)
		task := lane.Define[int, int](l, "task", nil, lane.TaskOptions{})
		for i, d := range long {
			got, err := task.Trigger(s.Context(), i, lane.TriggerOptions{Delay: d, IdempotencyKey: show("k%d", i), IdempotencyTTL: d})
			require.NoError(s, err)
			require.Equal(s, got.Created.Add(d), s.getRun("e", got.RunID).Due)
			again, err := task.Trigger(s.Context(), i, lane.TriggerOptions{IdempotencyKey: show("k%d", i)})
			require.NoError(s, err)
			require.True(s, again.Existing)
		}
		_, err = task.Trigger(s.Context(), 0, lane.TriggerOptions{Delay: run.MaxAfterCommit + time.Microsecond})
		require.Error(s, err)

		// A handler may give its run back for as long, under a lease that is as long.
		taken := map[string]time.Duration{}
		gives := lane.Define(l, "gives back", func(_ context.Context, a *lane.Attempt, i int) (int, error) {
			return 0, a.Release(long[i])
		}, lane.TaskOptions{Queue: "release"})
		for i, d := range long {
			got, err := gives.Trigger(s.Context(), i)
			require.NoError(s, err)
			taken[got.RunID] = d
		}
		defer s.work(l, lane.WorkerConfig{Queues: []string{"release"}, Lease: run.MaxAfterCommit, PollInterval: 20 * time.Millisecond, RecoverInterval: time.Hour})()
		for id, d := range taken {
			await(s.T, "the release of "+id, func() bool { return s.getRun("e", id).Status == run.StatusReleased })
			r := s.getRun("e", id)
			require.Equal(s, r.Updated.Add(d), r.Due)
			started, ok := s.listEvents(storage.EventFilter{Environment: "e", RunID: id, Types: []run.EventType{run.TypeStarted}})[0].Data.(run.Started)
			require.True(s, ok)
			require.Equal(s, run.MaxAfterCommit, started.Lease.Duration)
			require.True(s, started.Lease.Expires.After(r.Updated.Add(99*365*24*time.Hour)))
		}
	})
}

// TestBackoffAtAttempt1000 lets the thousandth attempt of a run fail, and one far
// beyond.
func TestBackoffAtAttempt1000(t *testing.T) {
	t.Parallel()
	onBoth(t, func(s *store) {
		l, err := lane.New(s, lane.Config{Environment: "e"})
		require.NoError(s, err)
		backoffs := map[string]struct {
			backoff     lane.Backoff
			least, most time.Duration
		}{
			"default":       {lane.Backoff{}, 48 * time.Minute, time.Hour},
			"fixed":         {lane.Fixed(time.Minute), time.Minute, time.Minute},
			"without a cap": {lane.Backoff{Initial: time.Second, Factor: 2}, run.MaxAfterCommit, run.MaxAfterCommit},
			"full jitter":   {lane.Backoff{Initial: time.Second, Factor: 1e300, Max: time.Hour, Jitter: 1}, 0, time.Hour},
		}
		for name, b := range backoffs {
			lane.Define(l, name, func(context.Context, *lane.Attempt, int) (int, error) {
				return 0, errors.New("no")
			}, lane.TaskOptions{Backoff: b.backoff, MaxAttempts: lane.Unlimited})
			for _, attempts := range []int{999, 1 << 40} {
				s.create(encodeRun(s.T, tired(s.T, name, attempts)))
			}
		}
		defer s.work(l, lane.WorkerConfig{PollInterval: 20 * time.Millisecond})()
		for name, b := range backoffs {
			for _, attempts := range []int{999, 1 << 40} {
				id := show("%s %d", name, attempts)
				await(s.T, "the failure of "+id, func() bool { return s.getRun("e", id).Failures == attempts+1 })
				r := s.getRun("e", id)
				require.Equal(s, run.StatusRetrying, r.Status)
				require.GreaterOrEqual(s, r.Due.Sub(r.Updated), b.least, id)
				require.LessOrEqual(s, r.Due.Sub(r.Updated), b.most, id)
			}
		}
	})
}

// tired is a run that has failed so often and is due again.
func tired(t *testing.T, task string, attempts int) run.Run {
	t.Helper()
	r := after(t, nil, created("e", show("%s %d", task, attempts), run.Created{Task: task, Queue: lane.DefaultQueue, Payload: []byte("1")}))
	r.Status, r.Attempts, r.Failures, r.Retries = run.StatusRetrying, attempts, attempts, attempts
	r.Failure = &run.Failure{Code: "error", Retryable: true}
	return r
}

// neverThere is a store on which every attempt conflicts.
type neverThere struct{ txn.Store }

func (neverThere) Begin(context.Context, string, *txn.Plan) (txn.Session, error) {
	return nil, &txn.Replay{Reason: storage.ReasonLocked}
}

// TestBackoffOfTransactions: the pause before attempt 1,000 of a transaction is
// neither nothing nor longer than the cap.
func TestBackoffOfTransactions(t *testing.T) {
	t.Parallel()
	var slept []time.Duration
	engine := txn.Engine{
		Store: neverThere{}, MaxAttempts: 1000, Rand: func() float64 { return 0.999 },
		Sleep: func(_ context.Context, d time.Duration) error {
			slept = append(slept, d)
			return nil
		},
	}.WithDefaults()
	_, err := engine.Transact(t.Context(), "test", func(context.Context, storage.Tx) error { return nil })
	require.ErrorIs(t, err, storage.ErrConflict)
	require.Len(t, slept, 999)
	for n, d := range slept[4:] {
		require.Greater(t, d, txn.BackoffCap/3, "before attempt %d", n+6)
		require.LessOrEqual(t, d, txn.BackoffCap)
	}
}
