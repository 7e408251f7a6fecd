package operator_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/run"
	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/codec"
	"github.com/seed4391e180/runlane/storage/keys"
)

// TestProjection plays a history in which the database refuses some writes, by a check
// or by the index of active runs, and others are undone. After each operation the
// records are those of the operations that committed, and their operator columns say
// what the codec says of the document: all of it, and nothing more.
func TestProjection(t *testing.T) {
	s := newStore(t)
	s.exec("ALTER TABLE runlane.runlane_runs ADD CONSTRAINT refused CHECK (task <> 'task2' OR priority <> 3)")
	s.exec("ALTER TABLE runlane.runlane_record_run_events ADD CONSTRAINT refused_events CHECK (event_type <> 'run.failed' OR sequence <> 7)")
	h := newHistory(9)
	h.rivals = true
	outcomes := map[string]int{}
	for i := range 1500 {
		op := h.draw()
		err := op.play(t.Context(), s.driver)
		var refused *pgconn.PgError
		switch {
		case err == nil:
			h.committed(op)
			outcomes["committed"]++
		case errors.Is(err, storage.ErrDuplicateActive):
			outcomes["refused by the index"]++
		case errors.As(err, &refused) && refused.Code == "23514":
			outcomes["refused by "+refused.ConstraintName]++
		case op.undo:
			require.ErrorIs(t, err, errUndo)
			outcomes["undone"]++
		default:
			require.NoError(t, err, op.name)
		}
		for _, w := range op.writes {
			s.projects(w.key, h.present)
		}
		if i%100 == 99 {
			s.projectsEverything(h.present)
		}
	}
	s.projectsEverything(h.present)
	t.Log(outcomes)
	for _, outcome := range []string{"committed", "undone", "refused by the index", "refused by refused", "refused by refused_events"} {
		require.Greater(t, outcomes[outcome], 10, outcome)
	}
}

// projectsEverything compares all rows with the records that are present.
func (s *store) projectsEverything(present map[storage.Key]storage.Record) {
	s.Helper()
	require.Equal(s, len(present), scalar[int](s, "SELECT (SELECT count(*) FROM runlane.runlane_runs) + (SELECT count(*) FROM runlane.runlane_record_run_events)"))
	for key := range present {
		s.projects(key, present)
	}
}

// projects compares a record, as a raw read returns it, with the one that was written,
// and its operator columns with what the codec says of what was read.
func (s *store) projects(key storage.Key, present map[storage.Key]storage.Record) {
	s.Helper()
	var rec storage.Record
	var found bool
	_, err := s.driver.Transact(s.Context(), "look", func(ctx context.Context, tx storage.Tx) (err error) {
		rec, found, err = tx.Get(ctx, key)
		return err
	})
	require.NoError(s, err)
	want, wanted := present[key]
	require.Equal(s, wanted, found, "%s is present", key)
	if !found {
		return
	}
	require.JSONEq(s, string(want.Document), string(rec.Document), "%s", key)
	if key.Collection == storage.Runs {
		columns, _ := codec.RunColumns(rec)
		require.Equal(s, columns, s.runColumns(key), "%s: %s", key, rec.Document)
		return
	}
	columns, canonical := codec.EventColumns(rec)
	says := "null"
	if canonical {
		runKey, err := codec.RunKey(columns.Environment, columns.RunID)
		require.NoError(s, err)
		says = fmt.Sprintf("%s %d %s %d", runKey.ID, columns.Sequence, columns.Type, columns.At.UnixMicro())
	}
	require.Equal(s, says, scalar[string](s, `SELECT CASE WHEN num_nonnulls(run_id, sequence, event_type, occurred_at) = 0 THEN 'null'
ELSE concat_ws(' ', run_id, sequence, event_type, (extract(epoch FROM occurred_at) * 1000000)::bigint) END
FROM runlane.runlane_record_run_events WHERE environment_key = $1 AND record_id = $2`, key.Partition, key.ID), "%s: %s", key, rec.Document)
}

// runColumns reads the operator columns of a run; a row without any is the zero value.
func (s *store) runColumns(key storage.Key) (c storage.RunColumns) {
	s.Helper()
	rows, err := s.side.Query(s.Context(), `SELECT task, queue, status, priority, created_at, updated_at, due_at, lease_expires_at,
  idempotency_key, singleton_key, concurrency_key, source_type, source_run_id, schedule_id
FROM runlane.runlane_runs WHERE environment_key = $1 AND run_id = $2`, key.Partition, key.ID)
	require.NoError(s, err)
	row, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[struct {
		Task, Queue, Status                                                           *string
		Priority                                                                      *int
		Created, Updated, Due, LeaseExpires                                           *time.Time
		IdempotencyKey, SingletonKey, ConcurrencyKey, SourceType, SourceRun, Schedule *string
	}])
	require.NoError(s, err)
	if row.Status != nil {
		c.Environment, c.ID = must(keys.DecodeString(key.Partition)), must(keys.DecodeString(key.ID))
	}
	text := func(p *string) string {
		if p == nil {
			return ""
		}
		return *p
	}
	at := func(p *time.Time) time.Time {
		if p == nil {
			return time.Time{}
		}
		return p.UTC()
	}
	if row.Priority != nil {
		c.Priority = *row.Priority
	}
	c.Task, c.Queue, c.Status = text(row.Task), text(row.Queue), run.Status(text(row.Status))
	c.Created, c.Updated, c.Due, c.LeaseExpires = at(row.Created), at(row.Updated), at(row.Due), at(row.LeaseExpires)
	c.IdempotencyKey, c.SingletonKey, c.ConcurrencyKey = text(row.IdempotencyKey), text(row.SingletonKey), text(row.ConcurrencyKey)
	c.SourceType, c.SourceRun, c.Schedule = run.SourceType(text(row.SourceType)), text(row.SourceRun), text(row.Schedule)
	return c
}
