package operator_test

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"slices"
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

// operatorIndexes are those that no named index of the contract needs.
const operatorIndexes = `SELECT c.relname::text FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
WHERE i.indrelid IN ('runlane.runlane_runs'::regclass, 'runlane.runlane_record_run_events'::regclass) AND NOT i.indisprimary
  AND c.relname !~ '_by_|_waiting_|_native' ORDER BY 1`

// transitions are the parts of a run's life whose log is measured.
var transitions = []string{"create", "claim", "finish"}

// TestWriteCost measures the log that each transition of a run writes, its event
// included, with and without the operator indexes; in the large form without each.
// Whole pages are not in it, since how many there are depends on the checkpoints.
func TestWriteCost(t *testing.T) {
	cluster := pgtest.Private(t, pgtest.Options{Volatile: true, Settings: map[string]string{"full_page_writes": "off", "checkpoint_timeout": "1h", "max_wal_size": "8GB"}})
	lives := 200
	if *runCount >= 1_000_000 {
		lives = 2000
	}
	with, indexes := logOf(t, cluster, lives, nil)
	without, _ := logOf(t, cluster, lives, indexes)
	t.Logf("bytes for %v with all indexes %.0f, without those of operators %.0f", transitions, with, without)
	for i, name := range transitions {
		require.Greater(t, with[i], without[i], "the indexes cost nothing to %s", name)
		require.Less(t, with[i]-without[i], 1000.0, "bytes that the operator indexes add to %s", name)
	}
	if lives < 2000 {
		return
	}
	for _, index := range indexes {
		without, _ := logOf(t, cluster, lives, []string{index})
		t.Logf("| `%s` | %.0f, %.0f, %.0f |", index, with[0]-without[0], with[1]-without[1], with[2]-without[2])
	}
}

// logOf takes runs through their lives in a database without some indexes. It returns
// the bytes of log for each transition, and all operator indexes.
func logOf(t *testing.T, cluster *pgtest.Cluster, lives int, dropped []string) (bytes [3]float64, indexes []string) {
	t.Helper()
	s := &store{T: t, side: pgtest.New(t, pgtest.On(cluster)).Pool(t)}
	var err error
	s.driver, err = postgres.New(s.side, postgres.Config{Wakes: postgres.WakeOff})
	require.NoError(t, err)
	s.exec("ALTER TABLE runlane.runlane_runs SET (autovacuum_enabled = false)")
	s.exec("ALTER TABLE runlane.runlane_record_run_events SET (autovacuum_enabled = false)")
	indexes = column[string](s, operatorIndexes)
	for _, index := range dropped {
		s.exec("DROP INDEX runlane." + index)
	}
	s.live(lives) // the first runs also write what grows the indexes
	before := s.live(lives)
	for i := range bytes {
		bytes[i] = float64(before[i]) / float64(lives)
	}
	require.NoError(t, s.driver.Close())
	return bytes, indexes
}

// live takes runs through their lives, 100 in a transaction, and returns the log of each
// transition.
func (s *store) live(runs int) (bytes [3]int64) {
	s.Helper()
	const batch = 100
	logged := func(i int, step func(ctx context.Context, tx storage.Tx) error) {
		const position = "SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint"
		before := scalar[int64](s, position)
		_, err := s.driver.Transact(s.Context(), "live", step)
		require.NoError(s, err)
		bytes[i] += scalar[int64](s, position) - before
	}
	for range runs / batch {
		ids := make([]string, batch)
		for i := range ids {
			ids[i] = uuid.Must(uuid.NewV7()).String()
		}
		logged(0, func(ctx context.Context, tx storage.Tx) error {
			for _, id := range ids {
				if err := s.step(ctx, tx, id, run.Created{
					Task: "mail", Queue: "default", Priority: 2, Payload: []byte(`{"user":"u_123","template":"welcome"}`), Source: run.Source{Type: run.SourceTrigger},
				}); err != nil {
					return err
				}
			}
			return nil
		})
		token := uuid.Must(uuid.NewV7())
		each := func(data run.EventData) func(ctx context.Context, tx storage.Tx) error {
			return func(ctx context.Context, tx storage.Tx) error {
				keys := make([]storage.Key, len(ids))
				for i, id := range ids {
					keys[i] = must(codec.RunKey(environment, id))
				}
				if _, err := tx.GetMany(ctx, keys); err != nil {
					return err
				}
				for _, id := range ids {
					if err := s.step(ctx, tx, id, data); err != nil {
						return err
					}
				}
				return nil
			}
		}
		logged(1, each(run.Started{Lease: run.Lease{Token: token, Worker: "w", Attempt: 1, Expires: run.AtCommit.Add(time.Minute), Duration: time.Minute}}))
		logged(2, each(run.Succeeded{Token: token, Result: []byte(`{"sent":true}`)}))
	}
	return bytes
}

// step stages the next event of a run, and the run that it makes.
func (s *store) step(ctx context.Context, tx storage.Tx, id string, data run.EventData) error {
	var before *run.Run
	if _, first := data.(run.Created); !first {
		rec, found, err := tx.Get(ctx, must(codec.RunKey(environment, id)))
		if err != nil || !found {
			return fmt.Errorf("%s: %v %w", id, found, err)
		}
		r, _ := codec.DecodeRun(rec)
		before = &r
	}
	e := run.Event{ID: uuid.Must(uuid.NewV7()), Environment: environment, RunID: id, Sequence: 1, At: run.AtCommit, Data: data}
	if before != nil {
		e.Sequence = before.Sequence + 1
	}
	r, err := run.Reduce(before, e.Sequence, e)
	if err != nil {
		return err
	}
	next := must(codec.EncodeRun(r))
	put := tx.Create
	if before != nil {
		put = tx.Replace
	}
	if err := put(ctx, next); err != nil {
		return err
	}
	return tx.Create(ctx, must(codec.EncodeEvent(e)))
}

// TestIndexesAreListed: docs/operator-reads.md has a row for each operator index that
// the schema declares, and for no other.
func TestIndexesAreListed(t *testing.T) {
	s := newStore(t)
	text, err := os.ReadFile("../../docs/operator-reads.md")
	require.NoError(t, err)
	var listed []string
	for _, row := range regexp.MustCompile("(?m)^\\| `(runlane_[a-z_]+)` \\|").FindAllStringSubmatch(string(text), -1) {
		listed = append(listed, row[1])
	}
	slices.Sort(listed)
	require.Equal(t, column[string](s, operatorIndexes), listed)
}
