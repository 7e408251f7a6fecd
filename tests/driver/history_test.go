package driver_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/run"
	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/codec"
	"github.com/seed4391e180/runlane/storage/keys"
	"github.com/seed4391e180/runlane/storage/postgres"
)

// history is a run's history of canonical events, found by their typed columns, and
// of opaque ones, found by the generic pair, as the index orders them.
type history struct {
	*lab
	partition string
	order     []storage.Resume
}

// canonical is an event with a sequence of its own.
func canonical(t *testing.T, runID string, sequence int64) storage.Record {
	t.Helper()
	rec, err := codec.EncodeEvent(run.Event{ID: uuid.New(), Environment: "prod", RunID: runID, Sequence: sequence, At: run.AtCommit,
		Data: run.CancellationRequested{Reason: "why"}})
	require.NoError(t, err)
	return rec
}

// opaqueEvent is a record that nobody can read, at a place in a run's history.
func opaqueEvent(t *testing.T, runID, sort string) storage.Record {
	t.Helper()
	rec := canonical(t, runID, 1)
	rec.Document = []byte(`{"codec":"event","v":99}`)
	rec.Entries[0].Sort = sort
	return rec
}

func newHistory(t *testing.T, recs ...storage.Record) *history {
	h := &history{lab: newLab(t, postgres.Config{})}
	var err error
	h.partition, err = codec.EventsPartition("prod", "r")
	require.NoError(t, err)
	for _, rec := range recs {
		h.order = append(h.order, storage.Resume{Sort: rec.Entries[0].Sort, ID: rec.Key.ID})
	}
	slices.SortFunc(h.order, func(a, b storage.Resume) int {
		return cmp.Or(strings.Compare(a.Sort, b.Sort), strings.Compare(a.ID, b.ID))
	})
	h.transact(creates(append(recs, canonical(t, "another", 5), opaqueEvent(t, "another", keys.EncodeInt(6)))...))
	return h
}

// mixed is a history in which both paths alternate, meet at one sequence, and go on
// beyond it.
func mixed(t *testing.T) *history {
	var recs []storage.Record
	for sequence := int64(1); sequence <= 12; sequence++ {
		switch sequence % 4 {
		case 0:
			recs = append(recs, opaqueEvent(t, "r", keys.EncodeInt(sequence)))
		case 1: // two records at one place
			recs = append(recs, canonical(t, "r", sequence), opaqueEvent(t, "r", keys.EncodeInt(sequence)), canonical(t, "r", sequence))
		default:
			recs = append(recs, canonical(t, "r", sequence))
		}
	}
	return newHistory(t, append(recs, opaqueEvent(t, "r", keys.EncodeInt(-3)), opaqueEvent(t, "r", "!"), opaqueEvent(t, "r", tuple("word")))...)
}

func (h *history) page(q storage.Query) (found []storage.Resume, page storage.Page) {
	h.Helper()
	q.Index, q.Partition = storage.RunEventsBySequence, h.partition
	h.transact(func(ctx context.Context, tx storage.Tx) (err error) {
		page, err = tx.Query(ctx, q)
		return err
	})
	for _, rec := range page.Records {
		at := slices.IndexFunc(h.order, func(r storage.Resume) bool { return r.ID == rec.Key.ID })
		require.GreaterOrEqual(h, at, 0, "another run's event")
		found = append(found, h.order[at])
	}
	return found, page
}

func (h *history) walk(q storage.Query) (all []storage.Resume) {
	h.Helper()
	for range 1000 {
		found, page := h.page(q)
		require.LessOrEqual(h, len(found), q.Limit)
		all = append(all, found...)
		if page.Resume.IsZero() {
			return all
		}
		q.Resume = page.Resume
	}
	require.Fail(h, "the pages never end")
	return nil
}

// TestMixedHistory reads histories whose events are stored in two ways as if they
// were stored in one.
func TestMixedHistory(t *testing.T) {
	both := []storage.Lock{storage.Candidates, storage.Exclusive}
	t.Run("pages of every size and range have one order", func(t *testing.T) {
		h := mixed(t)
		bounds := []string{"", "!", keys.EncodeInt(-3), keys.EncodeInt(1), keys.EncodeInt(5), keys.EncodeInt(5) + "!", keys.EncodeInt(9), tuple("word")}
		for _, lock := range both {
			for _, direction := range []storage.Direction{storage.Ascending, storage.Descending} {
				for _, limit := range []int{1, 2, 3, 50} {
					for i, from := range bounds {
						until := bounds[len(bounds)-1-i]
						q := storage.Query{Direction: direction, Lock: lock, Limit: limit}
						if from != "" {
							q.From = storage.At(from)
						}
						if until != "" {
							q.Until = storage.At(until)
						}
						want := []storage.Resume{}
						for _, r := range h.order {
							if r.Sort >= from && (until == "" || r.Sort < until) {
								want = append(want, r)
							}
						}
						if direction == storage.Descending {
							slices.Reverse(want)
						}
						require.Equal(t, want, append([]storage.Resume{}, h.walk(q)...), "%+v", q)
					}
				}
			}
		}
	})
	t.Run("an exclusive page locks its winners alone", func(t *testing.T) {
		h := mixed(t)
		h.transact(func(ctx context.Context, tx storage.Tx) error {
			page, err := tx.Query(ctx, storage.Query{Index: storage.RunEventsBySequence, Partition: h.partition, Limit: 4, Lock: storage.Exclusive})
			require.NoError(t, err)
			require.Len(t, page.Records, 4)
			free := column[string](h.lab, "SELECT record_id FROM runlane.runlane_record_run_events ORDER BY record_id FOR UPDATE SKIP LOCKED")
			locked := 0
			for i, r := range h.order {
				if !slices.Contains(free, r.ID) {
					locked++
					require.Less(t, i, 4, "a row behind the page is locked")
				}
			}
			require.Equal(t, 4, locked)
			return nil
		})
	})
	t.Run("a locked row shortens the page and hides nothing", func(t *testing.T) {
		h := mixed(t)
		for _, i := range []int{1, 2} { // one of each path
			release := h.hold("SELECT FROM runlane.runlane_record_run_events WHERE record_id = $1 FOR UPDATE", h.order[i].ID)
			found, page := h.page(storage.Query{Limit: 4, Lock: storage.Exclusive})
			require.Equal(t, slices.Delete(slices.Clone(h.order[:4]), i, i+1), found)
			require.Equal(t, h.order[3], page.Resume)
			release()
		}
	})
	t.Run("a history of one kind is read by its own path", func(t *testing.T) {
		const n = 20
		for name, c := range map[string]struct {
			make            func(sequence int64) storage.Record
			native, generic int
		}{
			"canonical": {func(s int64) storage.Record { return canonical(t, "r", s) }, n, 0},
			"opaque":    {func(s int64) storage.Record { return opaqueEvent(t, "r", keys.EncodeInt(s)) }, 0, n},
		} {
			var recs []storage.Record
			for s := range int64(n) {
				recs = append(recs, c.make(s+1))
			}
			h := newHistory(t, recs...)
			h.skew()
			h.exec("VACUUM ANALYZE")
			for _, lock := range both {
				h.tap.take()
				found, _ := h.page(storage.Query{Limit: 50, Lock: lock})
				require.Len(t, found, n)
				all := h.tap.take()
				at := slices.IndexFunc(all, func(s sent) bool { return strings.Contains(s.sql, "both_paths") })
				var text []byte
				require.NoError(t, h.side.QueryRow(t.Context(), "EXPLAIN (ANALYZE, FORMAT JSON) "+all[at].sql, all[at].args...).Scan(&text))
				var tree []struct{ Plan scanned }
				require.NoError(t, json.Unmarshal(text, &tree))
				rows := map[string]int{}
				tree[0].Plan.count(rows)
				require.Equal(t, []int{c.native, c.generic}, []int{rows["runlane_run_events_native"], rows["runlane_run_events_by_sequence"]},
					fmt.Sprint(name, lock))
			}
		}
	})
}

// scanned is one node of a plan that was executed: what an index gave.
type scanned struct {
	Index string  `json:"Index Name"`
	Rows  float64 `json:"Actual Rows"`
	Plans []scanned
}

func (n scanned) count(rows map[string]int) {
	if n.Index != "" {
		rows[n.Index] += int(n.Rows)
	}
	for _, child := range n.Plans {
		child.count(rows)
	}
}
