package storagetest

import (
	"errors"
	"fmt"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/run"
	"github.com/seed4391e180/runlane/storage"
)

var operator = topic{"OperatorReads", []test{
	{name: "GetRunReturnsAllOfIt", run: getRunReturnsAllOfIt},
	{name: "RunsByEveryFilter", run: runsByEveryFilter},
	{name: "RunsInFull", run: runsInFull},
	{name: "CountsByStatus", run: countsByStatus},
	{name: "EventsByEveryFilter", run: eventsByEveryFilter},
	{name: "HiddenEventsMoveTheCursor", run: hiddenEventsMoveTheCursor},
	{name: "CursorsOutliveTheirRow", run: cursorsOutliveTheirRow},
	{name: "CursorsAreBound", run: cursorsAreBound},
	{name: "DamagedCursorsAreRefused", run: damagedCursorsAreRefused},
	{name: "BadFiltersAreRefused", run: badFiltersAreRefused},
	{name: "FilterTimesHaveNanoseconds", run: filterTimesHaveNanoseconds},
}}

// listRuns reads all pages.
func (f *fixture) listRuns(filter storage.RunFilter) []storage.RunItem {
	f.Helper()
	all, err := f.tryListRuns(filter)
	require.NoError(f, err)
	return all
}

func (f *fixture) tryListRuns(filter storage.RunFilter) ([]storage.RunItem, error) {
	limit := filter.Limit
	if limit == 0 {
		limit = storage.DefaultLimits().DefaultPage
	}
	var all []storage.RunItem
	for range 100_000 {
		page, err := f.store.ListRuns(f.ctx, filter)
		if err != nil {
			return nil, err
		}
		if len(page.Runs) > limit {
			return nil, fmt.Errorf("a page has %d runs", len(page.Runs))
		}
		all = append(all, page.Runs...)
		if page.Next == "" {
			return all, nil
		}
		filter.Cursor = page.Next
	}
	return nil, errors.New("the pages never end")
}

// listEvents reads all pages.
func (f *fixture) listEvents(filter storage.EventFilter) []run.Event {
	f.Helper()
	all, err := f.tryListEvents(filter)
	require.NoError(f, err)
	return all
}

func (f *fixture) tryListEvents(filter storage.EventFilter) ([]run.Event, error) {
	var all []run.Event
	for range 100_000 {
		page, err := f.store.ListEvents(f.ctx, filter)
		if err != nil {
			return nil, err
		}
		all = append(all, page.Events...)
		if page.Next == "" {
			return all, nil
		}
		filter.Cursor = page.Next
	}
	return nil, errors.New("the pages never end")
}

func getRunReturnsAllOfIt(f *fixture) {
	for _, r := range sampleHistory() {
		f.put(f.runRecord(r))
		got, found, err := f.store.GetRun(f.ctx, r.Environment, r.ID)
		require.NoError(f, err)
		require.True(f, found, r.ID)
		sameRun(f, r, got)
	}
	_, found := f.getRun("nobody")
	assert.False(f, found)
	_, found, err := f.store.GetRun(f.ctx, "elsewhere", "run-00")
	require.NoError(f, err)
	assert.False(f, found)
}

// sameRun compares runs; raw JSON counts by its value.
func sameRun(f *fixture, want, got run.Run) {
	f.Helper()
	for _, raw := range []struct{ want, got *[]byte }{
		{(*[]byte)(&want.Payload), (*[]byte)(&got.Payload)},
		{(*[]byte)(&want.Result), (*[]byte)(&got.Result)},
	} {
		require.Equal(f, *raw.want == nil, *raw.got == nil, "%s: no JSON is not the JSON null", want.ID)
		if *raw.want != nil {
			sameJSON(f, string(*raw.want), *raw.got)
		}
		*raw.want, *raw.got = nil, nil
	}
	assert.Equal(f, want, got)
}

func runsInFull(f *fixture) {
	history := sampleHistory()
	byID := map[string]run.Run{}
	for _, r := range history {
		f.put(f.runRecord(r))
		if r.Environment == env {
			byID[r.ID] = r
		}
	}
	for _, full := range []bool{false, true} {
		items := f.listRuns(storage.RunFilter{Environment: env, Full: full, Limit: 7})
		require.Len(f, items, len(byID))
		for _, item := range items {
			if assert.Equal(f, full, item.Run != nil) && full {
				sameRun(f, byID[item.ID], *item.Run)
			}
		}
	}
}

// cursorsOutliveTheirRow: the row that a cursor points at may be deleted, replaced or
// hidden between the pages.
func cursorsOutliveTheirRow(f *fixture) {
	const n = 12
	things := map[string]func(c *call, id string){
		"deleted": func(c *call, id string) { c.remove(f.runRecord(sampleRun(id, run.StatusQueued)).Key) },
		"hidden":  func(c *call, id string) { c.put(f.tombstone(id)) },
	}
	for name, thing := range things {
		for _, direction := range []storage.Direction{storage.Ascending, storage.Descending} {
			for i := range n {
				f.put(f.runRecord(sampleRun(fmt.Sprintf("%02d", i), run.StatusQueued)))
			}
			filter := storage.RunFilter{Environment: env, Direction: direction, Limit: 5}
			page, err := f.store.ListRuns(f.ctx, filter)
			require.NoError(f, err)
			require.Len(f, page.Runs, 5)
			f.transact(func(c *call) { thing(c, page.Runs[4].ID) })
			filter.Cursor = page.Next
			rest := f.listRuns(filter)
			require.Len(f, rest, n-5, "%s, direction %d", name, direction)
			for _, item := range rest {
				for _, before := range page.Runs {
					assert.NotEqual(f, before.ID, item.ID)
				}
			}
		}
	}
}

func cursorsAreBound(f *fixture) {
	for i := range 3 {
		f.put(f.runRecord(sampleRun(fmt.Sprint(i), run.StatusQueued)))
		f.put(f.eventRecord(sampleEvent("0", int64(i+1), numbered(i+1))))
	}
	base := storage.RunFilter{Environment: env, Limit: 1}
	page, err := f.store.ListRuns(f.ctx, base)
	require.NoError(f, err)
	require.NotEmpty(f, page.Next)
	for name, edit := range map[string]func(r *storage.RunFilter){
		"environment": func(r *storage.RunFilter) { r.Environment = "other" },
		"statuses":    func(r *storage.RunFilter) { r.Statuses = []run.Status{run.StatusQueued} },
		"sort":        func(r *storage.RunFilter) { r.Sort = storage.SortUpdated },
		"direction":   func(r *storage.RunFilter) { r.Direction = storage.Descending },
		"created":     func(r *storage.RunFilter) { r.Created.From = epoch },
	} {
		filter := base
		edit(&filter)
		filter.Cursor = page.Next
		_, err := f.store.ListRuns(f.ctx, filter)
		assert.True(f, isRefused(err, storage.ErrInvalidCursor), "%s: %v", name, err)
	}
	for _, edit := range []func(r *storage.RunFilter){
		func(r *storage.RunFilter) { r.Limit = 500 },
		func(r *storage.RunFilter) { r.Full = true },
	} {
		filter := base
		edit(&filter)
		filter.Cursor = page.Next
		next, err := f.store.ListRuns(f.ctx, filter)
		require.NoError(f, err)
		assert.NotEmpty(f, next.Runs)
	}
	events := storage.EventFilter{Environment: env, RunID: "0", Limit: 1}
	eventPage, err := f.store.ListEvents(f.ctx, events)
	require.NoError(f, err)
	require.NotEmpty(f, eventPage.Next)
	events.Cursor = page.Next
	_, err = f.store.ListEvents(f.ctx, events)
	assert.True(f, isRefused(err, storage.ErrInvalidCursor), "a cursor of runs: %v", err)
	events.Cursor, events.RunID = eventPage.Next, "1"
	_, err = f.store.ListEvents(f.ctx, events)
	assert.True(f, isRefused(err, storage.ErrInvalidCursor), "another run: %v", err)
}

func damagedCursorsAreRefused(f *fixture) {
	for i := range 3 {
		f.put(f.runRecord(sampleRun(fmt.Sprint(i), run.StatusQueued)))
	}
	filter := storage.RunFilter{Environment: env, Limit: 1}
	page, err := f.store.ListRuns(f.ctx, filter)
	require.NoError(f, err)
	cursors := []string{"x", " ", "\x00", "first", page.Next + "A", page.Next[1:], page.Next + "\n"}
	for i := range page.Next {
		damaged := []byte(page.Next)
		damaged[i] ^= 1
		cursors = append(cursors, string(damaged))
	}
	for _, cursor := range cursors {
		filter.Cursor = cursor
		_, err := f.store.ListRuns(f.ctx, filter)
		assert.True(f, isRefused(err, storage.ErrInvalidCursor), "%q: %v", cursor, err)
		_, err = f.store.ListEvents(f.ctx, storage.EventFilter{Environment: env, RunID: "0", Cursor: cursor})
		assert.True(f, isRefused(err, storage.ErrInvalidCursor), "%q: %v", cursor, err)
	}
}

func badFiltersAreRefused(f *fixture) {
	limits := storage.DefaultLimits()
	many := make([]string, limits.MaxFilterChoices+1)
	for i := range many {
		many[i] = fmt.Sprint(i)
	}
	for name, filter := range map[string]storage.RunFilter{
		"no environment":   {},
		"a negative limit": {Environment: env, Limit: -1},
		"a limit too high": {Environment: env, Limit: limits.MaxPage + 1},
		"too many tasks":   {Environment: env, Tasks: many},
		"a sort":           {Environment: env, Sort: 9},
		"a direction":      {Environment: env, Direction: 9},
	} {
		_, err := f.store.ListRuns(f.ctx, filter)
		assert.True(f, isRefused(err, storage.ErrInvalidQuery), "%s: %v", name, err)
	}
	for name, filter := range map[string]storage.EventFilter{
		"no environment":   {RunID: "x"},
		"a negative limit": {Environment: env, RunID: "x", Limit: -1},
		"a limit too high": {Environment: env, RunID: "x", Limit: limits.MaxPage + 1},
		"a sort":           {Environment: env, RunID: "x", Sort: 9},
		"a direction":      {Environment: env, RunID: "x", Direction: 9},
	} {
		_, err := f.store.ListEvents(f.ctx, filter)
		assert.True(f, isRefused(err, storage.ErrInvalidQuery), "%s: %v", name, err)
	}
	_, err := f.store.ListEvents(f.ctx, storage.EventFilter{Environment: env, Sort: storage.SortSequence})
	var refused *storage.InputError
	require.ErrorAs(f, err, &refused, "a sort by sequence without a run")
	assert.Equal(f, storage.ErrUnsupportedFilter, refused.Kind)

	_, err = f.store.ListRuns(f.ctx, storage.RunFilter{Environment: env, Limit: limits.MaxPage})
	assert.NoError(f, err)
	// What no run can have is no error.
	assert.Empty(f, f.listRuns(storage.RunFilter{Environment: env, Tasks: []string{"nobody"}, Created: storage.TimeRange{From: epoch}}))
}

// filterTimesHaveNanoseconds: what is stored has microseconds, what is asked may
// have more. Both ends compare as the numbers they are.
func filterTimesHaveNanoseconds(f *fixture) {
	r := sampleRun("x", run.StatusQueued)
	f.put(f.runRecord(r))
	f.put(f.eventRecord(createdEvent(r, numbered(1))))
	for _, c := range []struct {
		from, until time.Duration
		found       bool
	}{
		{0, 1000, true}, {1, 2000, false}, {999, 2000, false}, {-1, 1, true}, {-999, 0, false}, {-1, 999, true}, {0, 1, true}, {0, 0, false}, {-1000, 1000, true}, {1000, 2000, false},
	} {
		span := storage.TimeRange{From: epoch.Add(c.from), Until: epoch.Add(c.until)}
		items, err := f.tryListRuns(storage.RunFilter{Environment: env, Created: span})
		require.NoError(f, err)
		assert.Equal(f, c.found, len(items) == 1, "runs from %d ns until %d ns", c.from, c.until)
		events, err := f.tryListEvents(storage.EventFilter{Environment: env, RunID: "x", Occurred: span})
		require.NoError(f, err)
		assert.Equal(f, c.found, len(events) == 1, "events from %d ns until %d ns", c.from, c.until)
	}
}
