package driver_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/internal/pgtest"
	"github.com/seed4391e180/runlane/run"
	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/codec"
	"github.com/seed4391e180/runlane/storage/postgres"
)

func open(t *testing.T, c postgres.Config) (*postgres.Driver, *pgtest.DB) {
	t.Helper()
	db := pgtest.New(t)
	d, err := postgres.New(db.Pool(t), c)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	return d, db
}

func newRun(t *testing.T, id string, payload string) (run.Run, []storage.Record) {
	t.Helper()
	created := run.Created{Task: "mail", Queue: "default", Priority: 2, Source: run.Source{Type: run.SourceTrigger}}
	if payload != "" {
		created.Payload = []byte(payload)
	}
	event := run.Event{ID: uuid.New(), Environment: "prod", RunID: id, Sequence: 1, At: run.AtCommit, Data: created}
	r, err := run.Reduce(nil, 1, event)
	require.NoError(t, err)
	rec, err := codec.EncodeRun(r)
	require.NoError(t, err)
	ev, err := codec.EncodeEvent(event)
	require.NoError(t, err)
	return r, []storage.Record{rec, ev}
}

func TestSmoke(t *testing.T) {
	ctx := context.Background()
	d, _ := open(t, postgres.Config{})
	_, recs := newRun(t, "r1", `{"n": 9007199254740993}`)
	commit, err := d.Transact(ctx, "create", func(ctx context.Context, tx storage.Tx) error {
		for _, rec := range recs {
			if err := tx.Create(ctx, rec); err != nil {
				return err
			}
		}
		return tx.Wake("q")
	})
	require.NoError(t, err)
	require.Len(t, commit.Versions, 2)
	require.WithinDuration(t, time.Now(), commit.Time, time.Minute)

	r, found, err := d.GetRun(ctx, "prod", "r1")
	require.NoError(t, err)
	require.True(t, found)
	require.Equal(t, commit.Time, r.Created)
	require.JSONEq(t, `{"n": 9007199254740993}`, string(r.Payload))

	page, err := d.ListRuns(ctx, storage.RunFilter{Environment: "prod", Full: true})
	require.NoError(t, err)
	require.Len(t, page.Runs, 1)
	require.Equal(t, r, *page.Runs[0].Run)

	events, err := d.ListEvents(ctx, storage.EventFilter{Environment: "prod", RunID: "r1"})
	require.NoError(t, err)
	require.Len(t, events.Events, 1)
	require.JSONEq(t, `{"n": 9007199254740993}`, string(events.Events[0].Data.(run.Created).Payload))

	due, err := codec.DuePartition("prod", "default", 2)
	require.NoError(t, err)
	_, err = d.Transact(ctx, "claim", func(ctx context.Context, tx storage.Tx) error {
		page, err := tx.Query(ctx, storage.Query{Index: storage.RunsByDue, Partition: due, Until: storage.ServerNow(), Lock: storage.Exclusive})
		require.NoError(t, err)
		require.Len(t, page.Records, 1)
		now, err := tx.Now(ctx)
		require.NoError(t, err)
		r, kind := codec.DecodeRun(page.Records[0])
		require.Equal(t, codec.Canonical, kind)
		event := run.Event{ID: uuid.New(), Environment: "prod", RunID: "r1", Sequence: 2, At: now, Data: run.Started{Lease: run.Lease{Token: uuid.New(), Worker: "w", Attempt: 1, Expires: now.Add(time.Minute), Duration: time.Minute}}}
		r, err = run.Reduce(&r, 2, event)
		require.NoError(t, err)
		rec, err := codec.EncodeRun(r)
		require.NoError(t, err)
		require.NoError(t, tx.Replace(ctx, rec))
		ev, err := codec.EncodeEvent(event)
		require.NoError(t, err)
		return tx.Create(ctx, ev)
	})
	require.NoError(t, err)
	r, _, err = d.GetRun(ctx, "prod", "r1")
	require.NoError(t, err)
	require.Equal(t, run.StatusRunning, r.Status)
	events, err = d.ListEvents(ctx, storage.EventFilter{Environment: "prod", Sort: storage.SortOccurred, Direction: storage.Descending})
	require.NoError(t, err)
	require.Len(t, events.Events, 2)
}
