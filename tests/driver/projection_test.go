package driver_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/run"
	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/codec"
	"github.com/seed4391e180/runlane/storage/postgres"
)

// TestDerivedColumnsFailTheWrite: what the database refuses of an operator column
// undoes everything that the transaction wrote.
func TestDerivedColumnsFailTheWrite(t *testing.T) {
	l := newLab(t, postgres.Config{})
	l.exec("ALTER TABLE runlane.runlane_runs ADD CONSTRAINT lab CHECK (task <> 'mail' OR priority <> 2)")
	_, recs := newRun(t, "r", `{"n":1}`)
	_, err := l.d.Transact(t.Context(), "lab", creates(append(recs, plain(slot("a")))...))
	var pg *pgconn.PgError
	require.ErrorAs(t, err, &pg)
	require.Equal(t, "lab", pg.ConstraintName)
	for _, c := range storage.Collections() {
		require.Zero(t, scalar[int](l, "SELECT count(*) FROM runlane."+postgres.TableName(c)), "%v", c)
	}

	// A replacement that fails leaves the columns and the document as they were.
	l.exec("ALTER TABLE runlane.runlane_runs DROP CONSTRAINT lab")
	l.transact(creates(recs...))
	l.exec("ALTER TABLE runlane.runlane_runs ADD CONSTRAINT lab CHECK (priority <> 3)")
	_, err = l.d.Transact(t.Context(), "lab", func(ctx context.Context, tx storage.Tx) error {
		return replaceRun(ctx, tx, recs[0].Key, func(r *run.Run) { r.Priority, r.Payload = 3, []byte(`2`) })
	})
	require.ErrorAs(t, err, &pg)
	require.Equal(t, "2 {\"n\": 1}", scalar[string](l, "SELECT priority || ' ' || record_payload FROM runlane.runlane_runs"))
	require.True(t, scalar[bool](l, "SELECT payload_from_run FROM runlane.runlane_record_run_events"), "the copy of the payload outlived the write that caused it")
}

// TestOperatorReadsAreOneStatement: each page is read in one snapshot.
func TestOperatorReadsAreOneStatement(t *testing.T) {
	l := newLab(t, postgres.Config{})
	_, recs := newRun(t, "r", `{"n":1}`)
	l.transact(creates(recs...))
	l.tap.take()
	once := func(name string, err error) {
		t.Helper()
		require.NoError(t, err)
		sent := l.tap.take()
		require.Len(t, sent, 1, name)
		require.Regexp(t, `^(SELECT|WITH)\s`, sent[0].sql)
	}
	_, found, err := l.d.GetRun(t.Context(), "prod", "r")
	require.True(t, found)
	once("GetRun", err)
	for _, full := range []bool{false, true} {
		_, err = l.d.ListRuns(t.Context(), storage.RunFilter{Environment: "prod", Full: full})
		once("ListRuns", err)
	}
	for _, direction := range []storage.Direction{storage.Ascending, storage.Descending} {
		_, err = l.d.ListEvents(t.Context(), storage.EventFilter{Environment: "prod", RunID: "r", Direction: direction})
		once("ListEvents of a run", err)
		_, err = l.d.ListEvents(t.Context(), storage.EventFilter{Environment: "prod", Sort: storage.SortOccurred, Direction: direction})
		once("ListEvents", err)
		_, err = l.d.ListEvents(t.Context(), storage.EventFilter{Environment: "prod", Types: run.EventTypes(), Sort: storage.SortOccurred, Direction: direction})
		once("ListEvents of types", err)
	}
	_, err = l.d.CountRuns(t.Context(), storage.RunFilter{Environment: "prod"}, 0)
	once("CountRuns", err)
}

// TestOrphansCostTheirMetadata lists a page of events half of which have no visible
// run, and counts in the executed plan which documents were looked up.
func TestOrphansCostTheirMetadata(t *testing.T) {
	const each = 20
	l := newLab(t, postgres.Config{})
	_, recs := newRun(t, "visible", `{"n":1}`)
	for i := range 2*each - 1 {
		event := run.Event{ID: uuid.New(), Environment: "prod", RunID: []string{"orphaned", "visible"}[i%2], Sequence: int64(i + 2), At: run.AtCommit,
			Data: run.Failed{Token: uuid.New(), Failure: run.Failure{Code: "x", Message: strings.Repeat("x", 1000)}}}
		rec, err := codec.EncodeEvent(event)
		require.NoError(t, err)
		recs = append(recs, rec)
	}
	l.transact(creates(recs...))
	for _, direction := range []storage.Direction{storage.Ascending, storage.Descending} {
		l.tap.take()
		page, err := l.d.ListEvents(t.Context(), storage.EventFilter{Environment: "prod", Sort: storage.SortOccurred, Direction: direction})
		require.NoError(t, err)
		require.Len(t, page.Events, each)
		list := l.tap.take()[0]
		var text []byte
		require.NoError(t, l.side.QueryRow(t.Context(), "EXPLAIN (ANALYZE, FORMAT JSON) "+list.sql, list.args...).Scan(&text))
		var tree []struct{ Plan executed }
		require.NoError(t, json.Unmarshal(text, &tree))
		loops := map[string]int{}
		tree[0].Plan.count(loops)
		require.Equal(t, map[string]int{"r": 1, "p": 2 * each, "e": each}, loops, "scans of the page, of its runs and of its events")
	}
}

// executed is one node of a plan that was executed.
type executed struct {
	Relation string `json:"Relation Name"`
	Alias    string
	Loops    int `json:"Actual Loops"`
	Plans    []executed
}

func (n executed) count(loops map[string]int) {
	if n.Relation != "" {
		loops[n.Alias] += n.Loops
	}
	for _, child := range n.Plans {
		child.count(loops)
	}
}

// TestKeysetStaysInItsScope looks at where a page of events begins to scan: at the
// cursor, within the environment and the run.
func TestKeysetStaysInItsScope(t *testing.T) {
	l := newLab(t, postgres.Config{})
	l.skew()
	l.exec("VACUUM ANALYZE")
	for _, c := range []struct {
		filter storage.EventFilter
		index  string
		within []string
	}{
		{storage.EventFilter{Environment: "prod", RunID: "r-1"}, "runlane_run_events_native", []string{"environment_key = ", "run_id = ", "ROW(sequence, record_id) "}},
		{storage.EventFilter{Environment: "prod", Sort: storage.SortOccurred}, "runlane_run_events_occurred", []string{"environment_key = ", "ROW(occurred_at, record_id) "}},
	} {
		for _, direction := range []storage.Direction{storage.Ascending, storage.Descending} {
			c.filter.Direction, c.filter.Limit = direction, 3
			l.tap.take()
			_, err := l.d.ListEvents(t.Context(), c.filter)
			require.NoError(t, err)
			list := l.tap.take()[0]
			var text []byte
			require.NoError(t, l.side.QueryRow(t.Context(), "EXPLAIN (FORMAT JSON) "+list.sql, list.args...).Scan(&text))
			var tree []struct{ Plan node }
			require.NoError(t, json.Unmarshal(text, &tree))
			cond := tree[0].Plan.condOf(c.index)
			for _, part := range c.within {
				require.Contains(t, cond, part, fmt.Sprint(c.filter))
			}
		}
	}
}

func (n node) condOf(index string) string {
	if n.Index == index {
		return n.Cond
	}
	for _, child := range n.Plans {
		if cond := child.condOf(index); cond != "" {
			return cond
		}
	}
	return ""
}
