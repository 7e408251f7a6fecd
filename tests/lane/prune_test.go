package lane_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/lane"
	"github.com/seed4391e180/runlane/run"
	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/codec"
)

func (d *desk) busy(n int) string {
	d.Helper()
	id := d.inStatus(run.StatusQueued, strings.Repeat("x", 10_000), lane.TriggerOptions{IdempotencyKey: "busy"})
	var data []run.EventData
	for attempt := 1; attempt <= n; attempt++ {
		token := uuid.New()
		data = append(data,
			run.Started{Lease: run.Lease{Token: token, Worker: "w", Attempt: attempt, Expires: run.AtCommit.Add(time.Hour), Duration: time.Hour}},
			run.Released{Token: token, Due: run.AtCommit})
		if len(data) >= 2000 || attempt == n {
			d.happen(id, data...)
			data = nil
		}
	}
	d.happen(id, run.Cancelled{})
	return id
}

// A run with 30,000 events goes in transactions of 500, and a pruner that dies after
// any of the first few leaves something that the next one finishes.
func TestPruneLongHistory(t *testing.T) {
	d := newDesk(t)
	id := d.busy(15_000)
	require.Equal(t, [2]int{1, 30_002}, d.rows())
	future := lane.PruneOptions{Before: d.get(id).Finished.Add(time.Hour)}
	died := errors.New("died")
	for kill := range 3 {
		for _, hook := range []*atomic.Pointer[func(string) error]{&d.tap.before, &d.tap.after} {
			left := kill
			die := func(string) error {
				if left--; left < 0 {
					return died
				}
				return nil
			}
			hook.Store(&die)
			_, err := d.lane.Prune(t.Context(), future)
			require.ErrorIs(t, err, died)
			hook.Store(nil)
			require.Equal(t, 1, d.rows()[0])
		}
	}
	left := d.rows()[1]
	_, err := d.lane.Get(t.Context(), id)
	require.ErrorIs(t, err, lane.ErrNoRun)
	require.Equal(t, 0, d.count("SELECT count(*) FROM runlane.runlane_record_idempotency_owners"))
	transactions := 0
	counting := func(string) error { transactions++; return nil }
	d.tap.after.Store(&counting)
	p, err := d.lane.Prune(t.Context(), future)
	require.NoError(t, err)
	require.Equal(t, lane.Pruned{Runs: 1, Events: left}, p)
	require.Equal(t, 1+(left-100+499)/500, transactions)
	require.Equal(t, [2]int{0, 0}, d.rows())
}

// Four pruners, and every run goes once, with its events and keys.
func TestPrunersTogether(t *testing.T) {
	d := newDesk(t)
	for n := range 100 {
		d.inStatus([]run.Status{run.StatusSucceeded, run.StatusFailed, run.StatusCancelled}[n%3], "p", lane.TriggerOptions{IdempotencyKey: fmt.Sprint(n)})
	}
	long := d.busy(2_000)
	active := d.inStatus(run.StatusRunning, "p", lane.TriggerOptions{})
	want := d.rows()[1] - 2
	future := lane.PruneOptions{Before: d.get(long).Finished.Add(time.Hour)}
	var all sync.WaitGroup
	var runs, events atomic.Int64
	for range 4 {
		all.Go(func() {
			p, err := d.lane.Prune(t.Context(), future)
			assert.NoError(t, err)
			runs.Add(int64(p.Runs))
			events.Add(int64(p.Events))
		})
	}
	all.Wait()
	p, err := d.lane.Prune(t.Context(), future)
	require.NoError(t, err)
	require.EqualValues(t, 101, runs.Load()+int64(p.Runs))
	require.EqualValues(t, want, events.Load()+int64(p.Events))
	require.Equal(t, [2]int{1, 2}, d.rows())
	require.Equal(t, run.StatusRunning, d.get(active).Status)
	require.Equal(t, 0, d.count("SELECT count(*) FROM runlane.runlane_record_idempotency_owners"))
}

// A run that another waits for stays until that one goes on.
func TestPruneSparesAwaited(t *testing.T) {
	d := newDesk(t)
	source := d.inStatus(run.StatusSucceeded, "p", lane.TriggerOptions{})
	waiter := d.inStatus(run.StatusRunning, "p", lane.TriggerOptions{})
	d.happen(waiter, run.Waiting{Token: d.get(waiter).Lease.Token, For: source})
	presence, err := codec.WaitPresenceKey("test", source)
	require.NoError(t, err)
	_, err = d.tap.Transact(t.Context(), "test.presence", func(ctx context.Context, tx storage.Tx) error {
		return tx.Create(ctx, storage.Record{Key: presence, Document: []byte("{}")})
	})
	require.NoError(t, err)
	future := lane.PruneOptions{Before: d.get(source).Finished.Add(time.Hour)}
	p, err := d.lane.Prune(t.Context(), future)
	require.NoError(t, err)
	require.Equal(t, lane.Pruned{Awaited: 1}, p)
	d.happen(waiter, run.Resumed{})
	p, err = d.lane.Prune(t.Context(), future)
	require.NoError(t, err)
	require.Equal(t, lane.Pruned{Runs: 1, Events: 3}, p)
	require.Equal(t, 1, d.count("SELECT count(*) FROM runlane.runlane_record_run_completion_wait_presence"))
}
