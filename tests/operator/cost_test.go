package operator_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/internal/cursor"
	"github.com/seed4391e180/runlane/storage"
)

const pageSize = 50

// pageSizes are those of the pages that are read. On a small table the server may scan
// all of it for a large page, and is right.
func pageSizes() []int {
	if *runCount < 1_000_000 {
		return []int{pageSize}
	}
	return []int{pageSize, storage.DefaultLimits().MaxPage}
}

// TestCost executes every read of the tables of docs/operator-reads.md on a store with
// common and rare values: forwards and backwards, from the start and from the middle,
// planned for its values and for any. What is served reads at most 5 rows for each of
// the page and 50, of those that filters removed too, and about as many blocks; what
// scans a range reads no more than the range has.
func TestCost(t *testing.T) {
	s := newStore(t)
	start := time.Now()
	s.large()
	t.Logf("%d runs and %d events after %v", *runCount, *eventCount, time.Since(start).Round(time.Second))
	t.Run("runs", func(t *testing.T) { s.in(t).costOfRuns() })
	t.Run("events", func(t *testing.T) { s.in(t).costOfEvents() })
	t.Run("counts", func(t *testing.T) { s.in(t).costOfCounts() })
	t.Run("environments", func(t *testing.T) { s.in(t).costOfEnvironments() })
	t.Run("depth", func(t *testing.T) { s.in(t).depth() })
	t.Run("out of line", func(t *testing.T) { s.in(t).outOfLine() })
}

// index is the one that each path walks through.
var indexOf = map[storage.Path]string{
	storage.ByCreated: "runlane_runs_created", storage.ByStatus: "runlane_runs_status", storage.ByUpdated: "runlane_runs_updated", storage.ByDue: "runlane_runs_due_at",
	storage.ByHistory: "runlane_run_events_native", storage.ByOccurred: "runlane_run_events_occurred", storage.ByType: "runlane_run_events_type",
}

func (s *store) costOfRuns() {
	for _, size := range pageSizes() {
		worst := 0
		for _, row := range runRows() {
			for sort := range runSorts {
				for _, edit := range row.values {
					f := storage.RunFilter{Environment: "prod", Sort: storage.RunSort(sort), Limit: size}
					edit(&f)
					worst = max(worst, s.costOfRunFilter(row.name, f))
				}
			}
		}
		s.Logf("a served page of %d runs reads at most %d rows", size, worst)
	}
}

// costOfRunFilter reads four pages, within a range if the filter is refused without. It
// returns the most rows that one reads, if they are served.
func (s *store) costOfRunFilter(name string, f storage.RunFilter) (worst int) {
	s.Helper()
	plan, err := storage.PlanRuns(f)
	if err != nil {
		_, refused := s.driver.ListRuns(s.Context(), f)
		require.Equal(s, err, refused)
		*sortRange(&f) = part(0.4, 0.5)
		plan, err = storage.PlanRuns(f)
		require.NoError(s, err)
	}
	for _, f.Direction = range []storage.Direction{storage.Ascending, storage.Descending} {
		for _, f.Cursor = range []string{"", cursor.Runs(f).Encode(cursor.Position{At: moment(0.45).UnixMicro(), ID: "$8"})} {
			worst = max(worst, s.costOfRunPage(name, f, plan))
		}
	}
	if plan.Cost == storage.Scanned {
		return 0
	}
	return worst
}

func (s *store) costOfRunPage(name string, f storage.RunFilter, plan storage.Plan) (rows int) {
	s.Helper()
	s.tap.take()
	_, err := s.driver.ListRuns(s.Context(), f)
	require.NoError(s, err)
	most := 5*f.Limit + 50
	if plan.Cost == storage.Scanned {
		column, r := runSorts[f.Sort]+"_at", *sortRange(&f)
		most = scalar[int](s, "SELECT count(*) FROM runlane.runlane_runs WHERE environment_key = '$prod!' AND "+column+" >= $1 AND "+column+" < $2", r.From, r.Until) + 1
	}
	return s.costs(fmt.Sprintf("%s by %s, direction %d, cursor %q", name, runSorts[f.Sort], f.Direction, f.Cursor), s.tap.take(), plan, most)
}

// costs explains the one statement of a read in both modes and requires that it reads at
// most so many rows, by the index of its path and by keys.
func (s *store) costs(name string, sent []sent, plan storage.Plan, most int) (rows int) {
	s.Helper()
	require.Len(s, sent, 1)
	for _, mode := range planModes {
		c := s.explain(mode, sent[0])
		require.LessOrEqual(s, c.rows, most, "%s, %s: rows that were read by %s", name, mode, c.text)
		require.Empty(s, c.scanned, "%s, %s: scanned as a whole by %s", name, mode, c.text)
		require.True(s, c.indexes[indexOf[plan.Path]] || plan.Cost == storage.Scanned, "%s, %s: %s is not used by %s", name, mode, indexOf[plan.Path], c.text)
		// Each row costs the way down an index, and a block of the table.
		require.LessOrEqual(s, c.blocks, 6*most+100, "%s, %s: blocks that were read by %s", name, mode, c.text)
		rows = max(rows, c.rows)
	}
	return rows
}

func (s *store) costOfEvents() {
	for _, size := range pageSizes() {
		worst := 0
		for _, row := range eventRows() {
			for sort := range eventSorts {
				for _, edit := range row.values {
					f := storage.EventFilter{Environment: "prod", Sort: storage.EventSort(sort), Limit: size}
					edit(&f)
					worst = max(worst, s.costOfEventFilter(row.name, f))
				}
			}
		}
		s.Logf("a served page of %d events reads at most %d rows", size, worst)
	}
}

func (s *store) costOfEventFilter(name string, f storage.EventFilter) (worst int) {
	s.Helper()
	plan, err := storage.PlanEvents(f)
	if err != nil {
		_, refused := s.driver.ListEvents(s.Context(), f)
		require.Equal(s, err, refused)
		return 0
	}
	most := 5*f.Limit + 50
	if plan.Cost == storage.Scanned {
		most = 3*(f.Limit+1) + scalar[int](s, "SELECT count(*) FROM runlane.runlane_record_run_events WHERE environment_key = '$prod!' AND run_id = $1", "$"+f.RunID+"!")
	}
	middle := cursor.Position{At: eventPart(0.45, 1).From.UnixMicro(), ID: "%8"}
	if f.Sort == storage.SortSequence {
		middle.At = int64(*longRun / 2)
	}
	for _, f.Direction = range []storage.Direction{storage.Ascending, storage.Descending} {
		for _, f.Cursor = range []string{"", cursor.Events(f).Encode(middle)} {
			s.tap.take()
			_, err := s.driver.ListEvents(s.Context(), f)
			require.NoError(s, err)
			worst = max(worst, s.costs(fmt.Sprintf("%s by %s, direction %d, cursor %q", name, eventSorts[f.Sort], f.Direction, f.Cursor), s.tap.take(), plan, most))
		}
	}
	if plan.Cost == storage.Scanned {
		return 0
	}
	return worst
}

func (s *store) costOfCounts() {
	limits := []int{500}
	if *runCount >= 1_000_000 {
		limits = append(limits, 0, storage.DefaultLimits().MaxCount)
	}
	for _, limit := range limits {
		for _, row := range runRows() {
			for _, edit := range row.values {
				f := storage.RunFilter{Environment: "prod"}
				edit(&f)
				s.costOfCount(row.name, f, limit)
			}
		}
	}
}

// costOfCount counts, within a range if the filter is refused without.
func (s *store) costOfCount(name string, f storage.RunFilter, limit int) {
	s.Helper()
	plan, err := storage.PlanCounts(f)
	if err != nil {
		_, refused := s.driver.CountRuns(s.Context(), f, limit)
		require.Equal(s, err, refused)
		f.Created = part(0.4, 0.5)
		plan, err = storage.PlanCounts(f)
		require.NoError(s, err)
	}
	s.tap.take()
	counts, err := s.driver.CountRuns(s.Context(), f, limit)
	require.NoError(s, err)
	if limit == 0 {
		limit = storage.DefaultLimits().DefaultCount
	}
	most := len(counts) * (limit + 1)
	if plan.Cost == storage.Scanned {
		most = scalar[int](s, "SELECT count(*) FROM runlane.runlane_runs WHERE environment_key = '$prod!' AND created_at >= $1 AND created_at < $2", f.Created.From, f.Created.Until)
	}
	rounding := len(counts) * (limit/100 + 2) // of the rows that each step reads, on average
	s.costs("count of "+name, s.tap.take(), plan, most+rounding)
}

// costOfEnvironments reads where few runs are, among many others.
func (s *store) costOfEnvironments() {
	for _, environment := range []string{"staging", "tiny-1", "none"} {
		for sort := range runSorts {
			for _, direction := range []storage.Direction{storage.Ascending, storage.Descending} {
				f := storage.RunFilter{Environment: environment, Sort: storage.RunSort(sort), Direction: direction, Limit: pageSize}
				plan, err := storage.PlanRuns(f)
				require.NoError(s, err)
				s.costOfRunPage(environment, f, plan)
			}
		}
	}
}

// farAway is a range that begins and ends far from all times of the store.
var farAway = storage.TimeRange{From: time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC), Until: time.Date(2040, 1, 1, 0, 0, 0, 0, time.UTC)}

// depth compares the first page and one in the depths, page 10,000 if there are as many:
// they take as many rows and about as many blocks, also within a range whose end is far
// away, and as long. No page is short before the end, also where runs have no time to be
// sorted by.
func (s *store) depth() {
	for sort, name := range runSorts {
		all := scalar[int](s, "SELECT count("+name+"_at) FROM runlane.runlane_runs WHERE environment_key = '$prod!'")
		deep := min(10_000*pageSize, all*3/4)
		for direction, order := range []string{"ASC", "DESC"} {
			f := storage.RunFilter{Environment: "prod", Sort: storage.RunSort(sort), Direction: storage.Direction(direction), Limit: pageSize}
			*sortRange(&f) = farAway
			at, id := s.place("runlane_runs", name+"_at", "run_id", order, deep)
			behind := cursor.Runs(f).Encode(cursor.Position{At: at.UnixMicro(), ID: id})
			turn := func(cursor string) {
				f.Cursor = cursor
				_, err := s.driver.ListRuns(s.Context(), f)
				require.NoError(s, err)
			}
			s.asDeep("runs by "+name+" "+order, deep, func() { turn("") }, func() { turn(behind) })
			f.Cursor = behind
			s.noPageIsShort(f, all-deep)
		}
	}
	all := scalar[int](s, "SELECT count(*) FROM runlane.runlane_record_run_events")
	deep := min(10_000*pageSize, all*3/4)
	for direction, order := range []string{"ASC", "DESC"} {
		f := storage.EventFilter{Environment: "prod", Sort: storage.SortOccurred, Direction: storage.Direction(direction), Limit: pageSize, Occurred: farAway}
		at, id := s.place("runlane_record_run_events", "occurred_at", "record_id", order, deep)
		behind := cursor.Events(f).Encode(cursor.Position{At: at.UnixMicro(), ID: id})
		turn := func(cursor string) {
			f.Cursor = cursor
			_, err := s.driver.ListEvents(s.Context(), f)
			require.NoError(s, err)
		}
		s.asDeep("events "+order, deep, func() { turn("") }, func() { turn(behind) })
	}
}

// place is where the row of that number stands in an order.
func (s *store) place(table, column, id, order string, number int) (at time.Time, key string) {
	s.Helper()
	require.NoError(s, s.side.QueryRow(s.Context(), fmt.Sprintf(
		"SELECT %[1]s, %[2]s FROM runlane.%[3]s WHERE environment_key = '$prod!' AND %[1]s IS NOT NULL ORDER BY %[1]s %[4]s, %[2]s %[4]s OFFSET %[5]d LIMIT 1",
		column, id, table, order, number-1)).Scan(&at, &key))
	return at, key
}

// asDeep turns to the first page and to a deep one.
func (s *store) asDeep(name string, deep int, first, behind func()) {
	s.Helper()
	var blocks [2]int
	for i, turn := range []func(){first, behind} {
		s.tap.take()
		turn()
		sent := s.tap.take()
		for _, mode := range planModes {
			blocks[i] = max(blocks[i], s.explain(mode, sent[0]).blocks)
		}
	}
	require.LessOrEqual(s, blocks[1], 2*blocks[0]+50, "%s: blocks of a page behind %d, and of the first", name, deep)
	if deep < 10_000*pageSize {
		return // too few for times to tell anything
	}
	const turns = 300
	var took [2][]time.Duration
	for range turns {
		for i, turn := range []func(){first, behind} {
			start := time.Now()
			turn()
			took[i] = append(took[i], time.Since(start))
		}
	}
	for i := range took {
		slices.Sort(took[i])
	}
	one, other := took[0][turns/2], took[1][turns/2]
	s.Logf("%s: the first page takes %v and %d blocks, page %d %v and %d", name, one, blocks[0], deep/pageSize, other, blocks[1])
	require.LessOrEqual(s, float64(other), 1.5*float64(one), name)
}

// noPageIsShort turns the pages behind a cursor, up to 100, to the end of what is left.
func (s *store) noPageIsShort(f storage.RunFilter, left int) {
	s.Helper()
	require.Positive(s, left)
	for pages := 0; left > 0 && pages < 100; pages++ {
		page, err := s.driver.ListRuns(s.Context(), f)
		require.NoError(s, err)
		require.Len(s, page.Runs, min(left, pageSize), "%d are left", left)
		left -= len(page.Runs)
		require.Equal(s, left > 0, page.Next != "")
		f.Cursor = page.Next
	}
}

// outOfLine lists all runs and finds that nothing was read that is stored out of line;
// in full, it is.
func (s *store) outOfLine() {
	read := func(full bool) (blocks int64) {
		const of = `SELECT coalesce(toast_blks_hit, 0) + coalesce(toast_blks_read, 0) + coalesce(tidx_blks_hit, 0) + coalesce(tidx_blks_read, 0)
FROM pg_statio_user_tables WHERE relid = 'runlane.runlane_runs'::regclass`
		const heap = `SELECT heap_blks_hit + heap_blks_read FROM pg_statio_user_tables WHERE relid = 'runlane.runlane_runs'::regclass`
		before, seen := scalar[int64](s, of), scalar[int64](s, heap)
		f := storage.RunFilter{Environment: "prod", Full: full, Limit: 500}
		for range 10 {
			page, err := s.driver.ListRuns(s.Context(), f)
			require.NoError(s, err)
			f.Cursor = page.Next
		}
		s.pool.Reset() // a session that ends reports what it did
		require.Eventually(s, func() bool { return scalar[int64](s, heap) >= seen+100 }, 20*time.Second, 20*time.Millisecond)
		return scalar[int64](s, of) - before
	}
	require.Zero(s, read(false), "blocks that a list of summaries read of what is stored out of line")
	require.Positive(s, read(true), "blocks that a list in full read of it")
}
