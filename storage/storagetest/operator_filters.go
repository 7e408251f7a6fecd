package storagetest

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/run"
	"github.com/seed4391e180/runlane/storage"
)

// sampleHistory is a set of runs in which every filter selects some and not all,
// many share their times, and some are in another environment.
func sampleHistory() []run.Run {
	var all []run.Run
	statuses := run.Statuses()
	for i := range 60 {
		r := sampleRun(fmt.Sprintf("run-%02d", (i*7)%60), statuses[i%len(statuses)])
		r.Task, r.Queue = fmt.Sprint("task", i%3), fmt.Sprint("queue", i%4)
		r.Priority = 1 + i%4
		r.Created = epoch.Add(time.Duration(i/6) * time.Microsecond)
		r.Updated = epoch.Add(time.Duration(i%5) * time.Hour)
		if !r.Due.IsZero() {
			r.Due = epoch.Add(time.Duration(i%7) * time.Second)
		}
		if !r.Finished.IsZero() {
			r.Finished = r.Updated
		}
		if r.Lease != nil {
			r.Lease.Expires = epoch.Add(time.Duration(i) * time.Minute)
		}
		switch i % 5 {
		case 1:
			r.Source = run.Source{Type: run.SourceRerun, RunID: fmt.Sprint("source", i%2)}
		case 2:
			r.Source = run.Source{Type: run.SourceSchedule, Schedule: fmt.Sprint("schedule", i%2)}
		case 3:
			r.IdempotencyKey, r.ConcurrencyKey = fmt.Sprint("idem:", i%2), fmt.Sprint("conc", i%2)
			r.Metadata = map[string]string{"a": "b"}
		case 4:
			r.SingletonKey = fmt.Sprint("single", i)
			r.Payload = json.RawMessage(fmt.Sprintf(`{"i":%d}`, i))
		}
		if r.Status == run.StatusSucceeded {
			r.Result = json.RawMessage(`null`)
		}
		if i%11 == 10 {
			r.Environment = "other"
		}
		all = append(all, r)
	}
	return all
}

// runChoices are the parts of filters that are tried one by one and in pairs.
func runChoices() []func(f *storage.RunFilter) {
	hours := func(a, b int) storage.TimeRange {
		return storage.TimeRange{From: epoch.Add(time.Duration(a) * time.Hour), Until: epoch.Add(time.Duration(b) * time.Hour)}
	}
	return []func(f *storage.RunFilter){
		func(*storage.RunFilter) {},
		func(f *storage.RunFilter) { f.Statuses = []run.Status{run.StatusQueued} },
		func(f *storage.RunFilter) {
			f.Statuses = []run.Status{run.StatusFailed, run.StatusRunning, run.StatusFailed}
		},
		func(f *storage.RunFilter) { f.Tasks = []string{"task1"} },
		func(f *storage.RunFilter) { f.Queues = []string{"queue1", "queue2", "nobody"} },
		func(f *storage.RunFilter) { f.SourceTypes = []run.SourceType{run.SourceRerun} },
		func(f *storage.RunFilter) { f.SourceRun = "source1" },
		func(f *storage.RunFilter) { f.Schedule = "schedule0" },
		func(f *storage.RunFilter) { f.IdempotencyKey = "idem:1" },
		func(f *storage.RunFilter) { f.SingletonKey = "single4" },
		func(f *storage.RunFilter) { f.ConcurrencyKey = "conc0" },
		func(f *storage.RunFilter) {
			f.Created = storage.TimeRange{From: epoch.Add(time.Microsecond), Until: epoch.Add(4 * time.Microsecond)}
		},
		func(f *storage.RunFilter) { f.Updated = hours(1, 3) },
		func(f *storage.RunFilter) { f.Updated = storage.TimeRange{Until: epoch.Add(time.Hour)} },
		func(f *storage.RunFilter) { f.Due = storage.TimeRange{From: epoch.Add(3 * time.Second)} },
		func(f *storage.RunFilter) { f.LeaseExpiry = storage.TimeRange{Until: epoch.Add(30 * time.Minute)} },
	}
}

// widen gives a filter the range that it needs, which holds every run.
func widen(f *storage.RunFilter) {
	r := [...]*storage.TimeRange{&f.Created, &f.Updated, &f.Due}[f.Sort]
	if r.From.IsZero() {
		r.From = time.Date(1970, 1, 1, 0, 0, 0, 0, time.UTC)
	}
	if r.Until.IsZero() {
		r.Until = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)
	}
}

// runsByEveryFilter compares every pair of filters (every one, in a brief run), in
// every order and page size, with what a look at all runs gives. What needs a range is
// refused without, and served within one.
func runsByEveryFilter(f *fixture) {
	history := sampleHistory()
	for _, r := range history {
		f.put(f.runRecord(r))
	}
	f.put(f.tombstone("run-hidden"))
	f.put(storage.Record{Key: f.runRecord(sampleRun("run-opaque", run.StatusQueued)).Key, Document: []byte(`{"codec":"run","v":9}`)})
	served, refused := 0, 0
	choices := runChoices()
	for i, one := range choices {
		pairs := choices[i:]
		if f.brief {
			pairs = choices[:1] // which selects everything
		}
		for _, two := range pairs {
			for _, sort := range []storage.RunSort{storage.SortCreated, storage.SortUpdated, storage.SortDue} {
				for _, direction := range []storage.Direction{storage.Ascending, storage.Descending} {
					filter := storage.RunFilter{Environment: env, Sort: sort, Direction: direction}
					one(&filter)
					two(&filter)
					if _, err := storage.PlanRuns(filter); err != nil {
						_, refusal := f.store.ListRuns(f.ctx, filter)
						require.Equal(f, err, refusal, "%+v", filter)
						refused++
						widen(&filter)
					}
					want := selectRuns(history, filter)
					for _, limit := range []int{3, 0} {
						filter.Limit = limit
						items, err := f.tryListRuns(filter)
						require.NoError(f, err, "%+v", filter)
						got := make([]string, 0, len(items))
						for _, item := range items {
							got = append(got, item.ID)
						}
						require.Equal(f, want, got, "%+v", filter)
						served++
					}
				}
			}
		}
	}
	assert.Greater(f, served, 2*refused)
	assert.Greater(f, refused, 12)
}

// countsByStatus compares counts with a look at all runs, for every pair of filters
// (every one, in a brief run) and several caps.
func countsByStatus(f *fixture) {
	history := sampleHistory()
	for _, r := range history {
		f.put(f.runRecord(r))
	}
	f.put(f.tombstone("run-hidden"))
	f.put(storage.Record{Key: f.runRecord(sampleRun("run-opaque", run.StatusQueued)).Key, Document: []byte(`{"codec":"run","v":9}`)})
	choices := runChoices()
	for i, one := range choices {
		pairs := choices[i:]
		if f.brief {
			pairs = choices[:1]
		}
		for _, two := range pairs {
			filter := storage.RunFilter{Environment: env, Sort: storage.SortUpdated, Direction: storage.Descending, Limit: 1, Full: true, Cursor: "no part"}
			one(&filter)
			two(&filter)
			if _, err := storage.PlanCounts(filter); err != nil {
				_, refusal := f.store.CountRuns(f.ctx, filter, 0)
				require.Equal(f, err, refusal, "%+v", filter)
				filter.Created.From = time.Date(1970, 1, 1, 0, 0, 0, 0, time.UTC)
			}
			for _, limit := range []int{0, 1, 5, 6} {
				got, err := f.store.CountRuns(f.ctx, filter, limit)
				require.NoError(f, err, "%+v", filter)
				require.Equal(f, countRuns(history, filter, limit), got, "%+v, limit %d", filter, limit)
			}
		}
	}
	for _, limit := range []int{-1, storage.DefaultLimits().MaxCount + 1} {
		_, err := f.store.CountRuns(f.ctx, storage.RunFilter{Environment: env}, limit)
		assert.True(f, isRefused(err, storage.ErrInvalidQuery), "limit %d: %v", limit, err)
	}
	_, err := f.store.CountRuns(f.ctx, storage.RunFilter{}, 0)
	assert.True(f, isRefused(err, storage.ErrInvalidQuery), "no environment: %v", err)
	counts, err := f.store.CountRuns(f.ctx, storage.RunFilter{Environment: "nobody's"}, storage.DefaultLimits().MaxCount)
	require.NoError(f, err)
	require.Equal(f, countRuns(nil, storage.RunFilter{}, 1), counts)
}

// countRuns is what CountRuns must return.
func countRuns(history []run.Run, f storage.RunFilter, limit int) (counts []storage.StatusCount) {
	if limit == 0 {
		limit = storage.DefaultLimits().DefaultCount
	}
	for _, s := range run.Statuses() {
		if f.Statuses != nil && !slices.Contains(f.Statuses, s) {
			continue
		}
		of := f
		of.Sort, of.Statuses = storage.SortCreated, []run.Status{s}
		n := len(selectRuns(history, of))
		counts = append(counts, storage.StatusCount{Status: s, Runs: min(n, limit), AtLeast: n > limit})
	}
	return counts
}

// selectRuns is what ListRuns must return: the ids, in order.
func selectRuns(history []run.Run, f storage.RunFilter) []string {
	in := func(r storage.TimeRange, t time.Time) bool {
		if r.IsZero() {
			return true
		}
		return !t.IsZero() && (r.From.IsZero() || !t.Before(r.From)) && (r.Until.IsZero() || t.Before(r.Until))
	}
	at := func(r run.Run) time.Time {
		return []time.Time{r.Created, r.Updated, r.Due}[f.Sort]
	}
	var chosen []run.Run
	for _, r := range history {
		var lease time.Time
		if r.Lease != nil {
			lease = r.Lease.Expires
		}
		if r.Environment == f.Environment && !at(r).IsZero() &&
			(f.Statuses == nil || slices.Contains(f.Statuses, r.Status)) &&
			(f.Tasks == nil || slices.Contains(f.Tasks, r.Task)) &&
			(f.Queues == nil || slices.Contains(f.Queues, r.Queue)) &&
			(f.SourceTypes == nil || slices.Contains(f.SourceTypes, r.Source.Type)) &&
			(f.SourceRun == "" || f.SourceRun == r.Source.RunID) &&
			(f.Schedule == "" || f.Schedule == r.Source.Schedule) &&
			(f.IdempotencyKey == "" || f.IdempotencyKey == r.IdempotencyKey) &&
			(f.SingletonKey == "" || f.SingletonKey == r.SingletonKey) &&
			(f.ConcurrencyKey == "" || f.ConcurrencyKey == r.ConcurrencyKey) &&
			in(f.Created, r.Created) && in(f.Updated, r.Updated) && in(f.Due, r.Due) && in(f.LeaseExpiry, lease) {
			chosen = append(chosen, r)
		}
	}
	slices.SortFunc(chosen, func(a, b run.Run) int {
		return cmp.Or(at(a).Compare(at(b)), cmp.Compare(a.ID, b.ID))
	})
	if f.Direction == storage.Descending {
		slices.Reverse(chosen)
	}
	out := make([]string, 0, len(chosen))
	for _, r := range chosen {
		out = append(out, r.ID)
	}
	return out
}

// sampleEvents are the events of a few runs; some happen at one time, and the
// runs "absent", "tombstone" and "opaque" hide theirs.
func (f *fixture) sampleEvents() []run.Event {
	f.Helper()
	var all []run.Event
	for i := range 80 {
		id := []string{"a", "b", "absent", "a", "tombstone", "opaque", "a"}[i%7]
		e := sampleEvent(id, int64(i/7*2+i%7+1), numbered((i*37)%80+1))
		e.At = epoch.Add(time.Duration(i/9) * time.Microsecond)
		switch i % 3 {
		case 1:
			e.Data = run.Started{Lease: run.Lease{Token: numbered(9), Worker: "w", Attempt: 1, Expires: epoch, Duration: time.Minute}}
		case 2:
			e.Data = run.Succeeded{Token: numbered(9), Result: json.RawMessage(`{"i":1}`)}
		}
		all = append(all, e)
		f.put(f.eventRecord(e))
	}
	f.put(f.runRecord(sampleRun("a", run.StatusQueued)))
	f.put(f.runRecord(sampleRun("b", run.StatusFailed)))
	f.put(f.tombstone("tombstone"))
	f.put(storage.Record{Key: f.runRecord(sampleRun("opaque", run.StatusQueued)).Key, Document: []byte(`{"codec":"run","v":9}`)})
	// An event that is no event, under a key that is one's.
	opaque := f.eventRecord(sampleEvent("a", 1000, numbered(1000)))
	opaque.Document = []byte(`{"codec":"event","v":9}`)
	f.put(opaque)
	return all
}

func eventsByEveryFilter(f *fixture) {
	history := f.sampleEvents()
	limits := []int{1, 4, 0}
	if f.brief {
		limits = limits[1:2]
	}
	for _, runID := range []string{"", "a", "b", "absent", "tombstone", "opaque", "nobody"} {
		for _, types := range [][]run.EventType{nil, {run.TypeStarted}, {run.TypeStarted, run.TypeSucceeded}, {run.TypeWaiting}} {
			for _, span := range []storage.TimeRange{{}, {From: epoch.Add(2 * time.Microsecond)}, {From: epoch.Add(time.Microsecond), Until: epoch.Add(5 * time.Microsecond)}} {
				if f.brief && types != nil && !span.IsZero() {
					continue
				}
				for _, sort := range []storage.EventSort{storage.SortSequence, storage.SortOccurred} {
					for _, direction := range []storage.Direction{storage.Ascending, storage.Descending} {
						filter := storage.EventFilter{Environment: env, RunID: runID, Types: types, Occurred: span, Sort: sort, Direction: direction}
						if runID == "" && sort == storage.SortSequence {
							continue
						}
						want := selectEvents(history, filter)
						for _, limit := range limits {
							filter.Limit = limit
							events, err := f.tryListEvents(filter)
							if errors.Is(err, storage.ErrUnsupportedFilter) && (types != nil || !span.IsZero()) {
								continue
							}
							require.NoError(f, err, "%+v", filter)
							got := make([]uuid.UUID, 0, len(events))
							for _, e := range events {
								got = append(got, e.ID)
							}
							require.Equal(f, want, got, "%+v", filter)
						}
					}
				}
			}
		}
	}
	for _, e := range f.listEvents(storage.EventFilter{Environment: env, RunID: "a"}) {
		at := slices.IndexFunc(history, func(h run.Event) bool { return h.ID == e.ID })
		sameJSON(f, string(f.eventRecord(history[at]).Document), f.eventRecord(e).Document)
	}
}

// selectEvents is what ListEvents must return: the ids, in order.
func selectEvents(history []run.Event, f storage.EventFilter) []uuid.UUID {
	var chosen []run.Event
	for _, e := range history {
		if (e.RunID == "a" || e.RunID == "b") && (f.RunID == "" || f.RunID == e.RunID) &&
			(f.Types == nil || slices.Contains(f.Types, e.Type())) &&
			(f.Occurred.From.IsZero() || !e.At.Before(f.Occurred.From)) &&
			(f.Occurred.Until.IsZero() || e.At.Before(f.Occurred.Until)) {
			chosen = append(chosen, e)
		}
	}
	slices.SortFunc(chosen, func(a, b run.Event) int {
		first := a.At.Compare(b.At)
		if f.Sort == storage.SortSequence {
			first = cmp.Compare(a.Sequence, b.Sequence)
		}
		return cmp.Or(first, cmp.Compare(a.ID.String(), b.ID.String()))
	})
	if f.Direction == storage.Descending {
		slices.Reverse(chosen)
	}
	out := make([]uuid.UUID, 0, len(chosen))
	for _, e := range chosen {
		out = append(out, e.ID)
	}
	return out
}

// hiddenEventsMoveTheCursor puts many events of hidden runs before the visible ones.
func hiddenEventsMoveTheCursor(f *fixture) {
	const hidden = 40
	var records []storage.Record
	for i := range hidden {
		e := sampleEvent([]string{"absent", "tombstone"}[i%2], int64(i+1), numbered(i+1))
		e.At = epoch.Add(time.Duration(i) * time.Microsecond)
		records = append(records, f.eventRecord(e))
	}
	last := sampleEvent("visible", 1, numbered(hidden+1))
	last.At = epoch.Add(time.Hour)
	records = append(records, f.eventRecord(last), f.tombstone("tombstone"), f.runRecord(sampleRun("visible", run.StatusQueued)))
	f.putAll(records)

	filter := storage.EventFilter{Environment: env, Sort: storage.SortOccurred, Limit: 3}
	pages, found := 0, 0
	for {
		page, err := f.store.ListEvents(f.ctx, filter)
		require.NoError(f, err)
		pages++
		found += len(page.Events)
		if page.Next == "" {
			break
		}
		require.LessOrEqual(f, pages, hidden, "the cursor does not move past hidden events")
		filter.Cursor = page.Next
	}
	assert.Equal(f, 1, found)
	assert.Greater(f, pages, hidden/3, "hidden events count as scanned: no page looks at more than its limit")
}
