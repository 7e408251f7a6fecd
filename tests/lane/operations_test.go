package lane_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/internal/pgtest"
	"github.com/seed4391e180/runlane/lane"
	"github.com/seed4391e180/runlane/run"
	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/codec"
	"github.com/seed4391e180/runlane/storage/postgres"
)

// desk is a lane without workers, on which a test makes runs of every kind.
type desk struct {
	*testing.T
	lane *lane.Lane
	task *lane.Task[string, string]
	pool *pgxpool.Pool
	tap  *faults
}

// faults lets a test end transactions of a label, before or after they are stored.
type faults struct {
	storage.Driver
	before, after atomic.Pointer[func(label string) error]
}

func (f *faults) Transact(ctx context.Context, label string, fn func(ctx context.Context, tx storage.Tx) error) (storage.Commit, error) {
	if before := f.before.Load(); before != nil {
		if err := (*before)(label); err != nil {
			return storage.Commit{}, err
		}
	}
	commit, err := f.Driver.Transact(ctx, label, fn)
	if after := f.after.Load(); after != nil && err == nil {
		err = (*after)(label)
	}
	return commit, err
}

func newDesk(t *testing.T) *desk {
	t.Helper()
	pool := pgtest.New(t).Pool(t)
	store, err := postgres.New(pool, postgres.Config{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	tap := &faults{Driver: store}
	l, err := lane.New(tap, lane.Config{Environment: "test"})
	require.NoError(t, err)
	echo := func(_ context.Context, _ *lane.Attempt, s string) (string, error) { return s, nil }
	return &desk{T: t, lane: l, task: lane.Define(l, "echo", echo, lane.TaskOptions{MaxAttempts: 3}), pool: pool, tap: tap}
}

// in is the desk within a subtest.
func (d *desk) in(t *testing.T) *desk {
	within := *d
	within.T = t
	return &within
}

// events are what leads from a new run to a status.
func events(s run.Status) []run.EventData {
	token := uuid.New()
	started := run.Started{Lease: run.Lease{Token: token, Worker: "w", Attempt: 1, Expires: run.AtCommit.Add(time.Hour), Duration: time.Hour}}
	later := run.AtCommit.Add(time.Hour)
	return map[run.Status][]run.EventData{
		run.StatusRunning:               {started},
		run.StatusReleased:              {started, run.Released{Token: token, Due: later}},
		run.StatusRetrying:              {started, run.RetryScheduled{Token: token, Due: later}},
		run.StatusWaiting:               {started, run.Waiting{Token: token, For: "another"}},
		run.StatusCancellationRequested: {started, run.CancellationRequested{}},
		run.StatusSucceeded:             {started, run.Succeeded{Token: token, Result: json.RawMessage(`"done"`)}},
		run.StatusFailed:                {started, run.Failed{Token: token, Failure: run.Failure{Code: "error", Message: "boom"}}},
		run.StatusCancelled:             {run.Cancelled{}},
	}[s]
}

func (d *desk) inStatus(s run.Status, payload string, opts lane.TriggerOptions) string {
	d.Helper()
	if s == run.StatusScheduled {
		opts.Delay = time.Hour
	}
	res, err := d.task.Trigger(d.Context(), payload, opts)
	require.NoError(d, err)
	d.happen(res.RunID, events(s)...)
	return res.RunID
}

// happen makes events happen to a run, as a worker would, and frees no key.
func (d *desk) happen(id string, data ...run.EventData) {
	d.Helper()
	if len(data) == 0 {
		return
	}
	key, err := codec.RunKey("test", id)
	require.NoError(d, err)
	_, err = d.tap.Driver.Transact(d.Context(), "test.happen", func(ctx context.Context, tx storage.Tx) error {
		rec, _, err := tx.Get(ctx, key)
		if err != nil {
			return err
		}
		r, _ := codec.DecodeRun(rec)
		for _, what := range data {
			e := run.Event{ID: uuid.New(), Environment: "test", RunID: id, Sequence: r.Sequence + 1, At: run.AtCommit, Data: what}
			if r, err = run.Reduce(&r, e.Sequence, e); err != nil {
				return err
			}
			log, err := codec.EncodeEvent(e)
			if err != nil {
				return err
			}
			if err := tx.Create(ctx, log); err != nil {
				return err
			}
		}
		if rec, err = codec.EncodeRun(r); err != nil {
			return err
		}
		return tx.Replace(ctx, rec)
	})
	require.NoError(d, err)
}

func (d *desk) get(id string) run.Run {
	d.Helper()
	r, err := d.lane.Get(d.Context(), id)
	require.NoError(d, err)
	return r
}

func (d *desk) count(sql string, args ...any) (n int) {
	d.Helper()
	require.NoError(d, d.pool.QueryRow(d.Context(), sql, args...).Scan(&n))
	return n
}

// rows is how many runs and events are stored, those included that are hidden.
func (d *desk) rows() [2]int {
	d.Helper()
	return [2]int{d.count("SELECT count(*) FROM runlane.runlane_runs"), d.count("SELECT count(*) FROM runlane.runlane_record_run_events")}
}

// TestOperationsOnEveryStatus: what Cancel, Retry and Rerun make of runs.
func TestOperationsOnEveryStatus(t *testing.T) {
	d := newDesk(t)
	for _, s := range run.Statuses() {
		t.Run(string(s), func(t *testing.T) {
			d := d.in(t)
			id := d.inStatus(s, "p", lane.TriggerOptions{})
			var refused *lane.StatusError
			if _, err := d.lane.Retry(t.Context(), id); s == run.StatusFailed {
				require.NoError(t, err)
			} else {
				require.ErrorAs(t, err, &refused)
				require.Equal(t, lane.StatusError{RunID: id, Status: s, Action: "retry"}, *refused)
			}
			if again, err := d.lane.Rerun(t.Context(), id); s.Terminal() {
				require.NoError(t, err)
				require.Equal(t, run.Source{Type: run.SourceRerun, RunID: id}, d.get(again.RunID).Source)
			} else {
				require.ErrorAs(t, err, &refused)
			}
			want := lane.Cancellation{RunID: id, Outcome: lane.CancelDone, Status: run.StatusCancelled}
			switch {
			case s.Terminal():
				want.Outcome, want.Status = lane.CancelTooLate, s
			case s.Leased():
				want.Outcome, want.Status = lane.CancelRequested, run.StatusCancellationRequested
			}
			for range 2 {
				got, err := d.lane.Cancel(t.Context(), id, "enough")
				require.NoError(t, err)
				require.Equal(t, want, got)
				require.Equal(t, want.Status, d.get(id).Status)
				if want.Outcome == lane.CancelDone {
					want.Outcome = lane.CancelTooLate
				}
			}
		})
	}
}

// A handler hears of a cancellation long before its heartbeat.
func TestCancelWakesTheWorker(t *testing.T) {
	d := newDesk(t)
	entered, heard := make(chan string, 1), make(chan error, 1)
	task := lane.Define(d.lane, "sleeps", func(ctx context.Context, a *lane.Attempt, _ int) (int, error) {
		entered <- a.RunID
		<-ctx.Done()
		heard <- context.Cause(ctx)
		return 0, ctx.Err()
	}, lane.TaskOptions{Queue: "sleeps"})
	working, stop := context.WithCancel(t.Context())
	var worker sync.WaitGroup
	worker.Go(func() {
		assert.NoError(t, d.lane.Work(working, lane.WorkerConfig{Queues: []string{"sleeps"}, Lease: time.Hour, RecoverInterval: time.Hour}))
	})
	defer worker.Wait()
	defer stop()
	res, err := task.Trigger(t.Context(), 1)
	require.NoError(t, err)
	<-entered
	got, err := d.lane.Cancel(t.Context(), res.RunID, "enough")
	require.NoError(t, err)
	require.Equal(t, lane.CancelRequested, got.Outcome)
	require.ErrorIs(t, <-heard, lane.ErrCancellationRequested) // the heartbeat would come in 20 minutes
	_, err = task.Wait(t.Context(), res.RunID)
	var failed *lane.RunError
	require.ErrorAs(t, err, &failed)
	require.Equal(t, run.StatusCancelled, failed.Status)
}

// Twenty retries of one run with one id make one child, whose payload is stored once.
func TestManyRetriesOfOneRun(t *testing.T) {
	d := newDesk(t)
	payload := strings.Repeat("x", 100_000)
	origin := d.inStatus(run.StatusFailed, payload, lane.TriggerOptions{IdempotencyKey: "k", SingletonKey: "s"})
	var all sync.WaitGroup
	var made atomic.Int32
	for range 20 {
		all.Go(func() {
			res, err := d.lane.Retry(t.Context(), origin, lane.AgainOptions{RunID: "child"})
			if !assert.NoError(t, err) || !assert.Equal(t, "child", res.RunID) {
				return
			}
			if !res.Existing {
				made.Add(1)
			}
		})
	}
	all.Wait()
	require.EqualValues(t, 1, made.Load())
	child := d.get("child")
	require.Equal(t, d.get(origin).Payload, child.Payload)
	require.Equal(t, 1, d.count(`SELECT count(*) FROM runlane.runlane_record_run_events WHERE run_id LIKE '%child%' AND payload_from_run`))

	// The origin goes, the child keeps what it has.
	_, err := d.lane.Prune(t.Context(), lane.PruneOptions{Before: child.Created.Add(time.Hour)})
	require.NoError(t, err)
	require.Equal(t, [2]int{1, 1}, d.rows())
	require.Equal(t, child, d.get("child"))
	again, err := d.lane.Retry(t.Context(), origin, lane.AgainOptions{RunID: "child"})
	require.NoError(t, err)
	require.Equal(t, lane.Triggered{RunID: "child", Existing: true, Created: child.Created}, again)
}

// Retries race with triggers of the same key: one run, which both get.
func TestRetryAgainstTrigger(t *testing.T) {
	d := newDesk(t)
	for n := range 20 {
		opts := lane.TriggerOptions{IdempotencyKey: fmt.Sprint(n), SingletonKey: fmt.Sprint(n)}
		origin := d.inStatus(run.StatusFailed, "p", opts)
		var both sync.WaitGroup
		var retried, triggered lane.Triggered
		both.Go(func() {
			var err error
			retried, err = d.lane.Retry(t.Context(), origin)
			assert.NoError(t, err)
		})
		both.Go(func() {
			var err error
			triggered, err = d.task.Trigger(t.Context(), "p", opts)
			assert.NoError(t, err)
		})
		both.Wait()
		require.Equal(t, retried.RunID, triggered.RunID)
		require.NotEqual(t, retried.Existing, triggered.Existing)
	}
}

// A cancellation meets the end of the run.
func TestCancelAgainstFinish(t *testing.T) {
	d := newDesk(t)
	for range 20 {
		id := d.inStatus(run.StatusRunning, "p", lane.TriggerOptions{})
		token := d.get(id).Lease.Token
		var both sync.WaitGroup
		var got lane.Cancellation
		both.Go(func() {
			var err error
			got, err = d.lane.Cancel(t.Context(), id, "")
			assert.NoError(t, err)
		})
		both.Go(func() { d.happen(id, run.Succeeded{Token: token}) })
		both.Wait()
		r := d.get(id)
		require.Equal(t, run.StatusSucceeded, r.Status)
		if got.Outcome == lane.CancelTooLate {
			require.EqualValues(t, 3, r.Sequence)
		} else {
			require.Equal(t, lane.CancelRequested, got.Outcome)
			require.EqualValues(t, 4, r.Sequence)
		}
	}
}

func TestBulkOperations(t *testing.T) {
	d := newDesk(t)
	for range 40 {
		for _, s := range []run.Status{run.StatusQueued, run.StatusRunning, run.StatusFailed} {
			d.inStatus(s, "p", lane.TriggerOptions{})
		}
	}
	retried, err := d.lane.RetryMany(t.Context(), lane.BulkOptions{Filter: storage.RunFilter{Statuses: []run.Status{run.StatusFailed}}, Limit: 30})
	require.NoError(t, err)
	require.Equal(t, 30, retried.Made)
	retried, err = d.lane.RetryMany(t.Context(), lane.BulkOptions{Filter: storage.RunFilter{Statuses: []run.Status{run.StatusFailed}}})
	require.NoError(t, err)
	require.Equal(t, [3]int{10, 30, 0}, [3]int{retried.Made, retried.Existing, retried.Failed})
	cancelled, err := d.lane.CancelMany(t.Context(), lane.BulkOptions{Reason: "enough"})
	require.NoError(t, err)
	require.True(t, cancelled.Resume.IsZero())
	require.Equal(t, [4]int{80, 40, 40, 0}, [4]int{cancelled.Cancelled, cancelled.Requested, cancelled.Ended, cancelled.Failed})
	id, err := d.lane.ResetKey(t.Context(), "echo", "none")
	require.NoError(t, err)
	require.Empty(t, id)
	kept := d.inStatus(run.StatusQueued, "p", lane.TriggerOptions{IdempotencyKey: "k"})
	id, err = d.lane.ResetKey(t.Context(), "echo", "k")
	require.NoError(t, err)
	require.Equal(t, kept, id)
}
