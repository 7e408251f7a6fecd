package operator_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/run"
	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/codec"
)

// TestOneSnapshot lists the events of a run while its payload, which the first of them
// shares, is replaced, and while the run is hidden and shown again: a page has all of
// them or none, and the first event always has the payload that it was written with.
func TestOneSnapshot(t *testing.T) {
	const events, rounds = 20, 60
	s := newStore(t)
	created := run.Event{ID: numbered(1), Environment: environment, RunID: "r", Sequence: 1, At: epoch, Data: run.Created{
		Task: "task", Queue: "queue", Priority: 2, Payload: json.RawMessage(`{"n": 1}`), Source: run.Source{Type: run.SourceTrigger},
	}}
	first := must(run.Reduce(nil, 1, created))
	key := must(codec.RunKey(environment, "r"))
	recs := []storage.Record{must(codec.EncodeRun(first)), must(codec.EncodeEvent(created))}
	for i := 2; i <= events; i++ {
		recs = append(recs, must(codec.EncodeEvent(run.Event{
			ID: numbered(i), Environment: environment, RunID: "r", Sequence: int64(i), At: epoch.Add(time.Duration(i) * time.Microsecond), Data: run.CancellationRequested{Reason: "because"},
		})))
	}
	create := func(ctx context.Context, tx storage.Tx) error { // so that the first event shares the payload
		for _, rec := range recs {
			if err := tx.Create(ctx, rec); err != nil {
				return err
			}
		}
		return nil
	}
	remove := func(ctx context.Context, tx storage.Tx) error {
		for _, rec := range recs {
			if _, _, err := tx.Get(ctx, rec.Key); err != nil {
				return err
			}
			if err := tx.Delete(ctx, rec.Key); err != nil {
				return err
			}
		}
		return nil
	}
	replace := func(rec storage.Record) func(ctx context.Context, tx storage.Tx) error {
		return func(ctx context.Context, tx storage.Tx) error {
			if _, _, err := tx.Get(ctx, key); err != nil {
				return err
			}
			return tx.Replace(ctx, rec)
		}
	}
	other := first
	other.Payload = json.RawMessage(`{"n": 2}`)
	_, err := s.driver.Transact(t.Context(), "create", create)
	require.True(t, scalar[bool](s, "SELECT payload_from_run FROM runlane.runlane_record_run_events WHERE sequence = 1"))
	require.NoError(t, err)

	done := make(chan error, 1)
	go func() {
		done <- func() error {
			for range rounds {
				for _, step := range []func(ctx context.Context, tx storage.Tx) error{
					replace(must(codec.EncodeRun(other))), replace(must(codec.EncodeTombstone(environment, "r"))), remove, create,
				} {
					if _, err := s.driver.Transact(t.Context(), "change", step); err != nil {
						return err
					}
				}
			}
			return nil
		}()
	}()
	seen := map[int]int{}
	for reads := 0; ; reads++ {
		for _, f := range []storage.EventFilter{
			{Environment: environment, RunID: "r"}, {Environment: environment, Sort: storage.SortOccurred},
			{Environment: environment, Sort: storage.SortOccurred, Types: []run.EventType{run.TypeCreated, run.TypeCancellationRequested}},
		} {
			page, err := s.driver.ListEvents(t.Context(), f)
			require.NoError(t, err)
			seen[len(page.Events)]++
			if len(page.Events) > 0 {
				data, ok := page.Events[0].Data.(run.Created)
				require.True(t, ok)
				require.JSONEq(t, `{"n": 1}`, string(data.Payload))
			}
		}
		select {
		case err := <-done:
			require.NoError(t, err)
			t.Logf("%d reads saw %v events", 3*reads+3, seen)
			require.Len(t, seen, 2, "pages have all events or none")
			require.Positive(t, seen[0])
			require.Positive(t, seen[events])
			return
		default:
		}
	}
}
