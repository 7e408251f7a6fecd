package hostile_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/internal/cursor"
	"github.com/seed4391e180/runlane/storage"
)

// TestForgedCursors: a cursor is no secret, so anybody can make one that points
// nowhere. It is refused like any other that was not the answer to this question, or
// it continues somewhere; it is never an error of the database.
func TestForgedCursors(t *testing.T) {
	t.Parallel()
	onBoth(t, func(s *store) {
		_, runRec, eventRec := newRun(s.T, "e", "r", nil)
		s.create(runRec, eventRec)
		for _, p := range []cursor.Position{
			{At: math.MinInt64, ID: "$r!"}, {At: math.MaxInt64, ID: "$r!"}, {At: -1, ID: "$r!"}, {At: -62135596800000001, ID: "$r!"},
			{At: -210866803200000001, ID: "$r!"}, {At: 253402300800000000, ID: "$r!"}, {ID: "\x00"}, {ID: "\xff"}, {ID: "\xed\xa0\x80"}, {ID: ""}, {ID: "'; --"},
		} {
			for _, direction := range []storage.Direction{storage.Ascending, storage.Descending} {
				var errs []error
				for _, sort := range []storage.RunSort{storage.SortCreated, storage.SortUpdated, storage.SortDue} {
					f := storage.RunFilter{Environment: "e", Sort: sort, Direction: direction}
					f.Cursor = cursor.Runs(f).Encode(p)
					_, err := s.ListRuns(s.Context(), f)
					errs = append(errs, err)
				}
				for _, f := range []storage.EventFilter{{RunID: "r"}, {Sort: storage.SortOccurred}} {
					f.Environment, f.Direction = "e", direction
					f.Cursor = cursor.Events(f).Encode(p)
					_, err := s.ListEvents(s.Context(), f)
					errs = append(errs, err)
				}
				for _, err := range errs {
					if err != nil {
						require.ErrorIs(s, err, storage.ErrInvalidCursor, "%d %q", p.At, p.ID)
					}
				}
			}
		}
	})
}
