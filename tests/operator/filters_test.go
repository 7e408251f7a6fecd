package operator_test

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/seed4391e180/runlane/run"
	"github.com/seed4391e180/runlane/storage"
)

// parityRuns are the filters by which both drivers list the runs of a history: each
// alone, and some together.
func parityRuns() []runEdit {
	within := func(from, until time.Duration) storage.TimeRange {
		return storage.TimeRange{From: epoch.Add(from), Until: epoch.Add(until)}
	}
	all := []runEdit{
		func(*storage.RunFilter) {},
		func(f *storage.RunFilter) { f.Statuses = []run.Status{run.StatusQueued} },
		func(f *storage.RunFilter) {
			f.Statuses = []run.Status{run.StatusFailed, run.StatusRunning, run.StatusFailed, run.StatusSucceeded}
		},
		func(f *storage.RunFilter) { f.Tasks = []string{"task1"} },
		func(f *storage.RunFilter) { f.Queues = []string{"queue1", "queue2", "nobody"} },
		func(f *storage.RunFilter) { f.SourceTypes = []run.SourceType{run.SourceRerun, run.SourceSchedule} },
		func(f *storage.RunFilter) { f.SourceRun = "source1" },
		func(f *storage.RunFilter) { f.Schedule = "schedule0" },
		func(f *storage.RunFilter) { f.IdempotencyKey = "idem:1" },
		func(f *storage.RunFilter) { f.SingletonKey = "single of run 007" },
		func(f *storage.RunFilter) { f.ConcurrencyKey = "conc0" },
		func(f *storage.RunFilter) { f.Created = within(10*time.Microsecond, 2*time.Hour) },
		func(f *storage.RunFilter) { f.Created.Until = epoch.Add(time.Hour + 20*time.Microsecond + 1) },
		func(f *storage.RunFilter) { f.Updated = within(time.Hour+999, 3*time.Hour) },
		func(f *storage.RunFilter) { f.Due = within(0, time.Hour) },
		func(f *storage.RunFilter) { f.LeaseExpiry = storage.TimeRange{From: epoch.Add(20 * time.Microsecond)} },
	}
	both := func(a, b int) runEdit {
		return func(f *storage.RunFilter) {
			all[a](f)
			all[b](f)
		}
	}
	alone := len(all)
	for i := 1; i < alone; i++ {
		all = append(all, both(i, i*7%(alone-1)+1))
	}
	return all
}

// parityEvents are the filters by which both drivers list events.
func parityEvents() []eventEdit {
	var all []eventEdit
	for _, id := range []string{"", "run 007", "run 042", "run 111", "nobody"} {
		for _, types := range [][]run.EventType{nil, {run.TypeStarted}, {run.TypeStarted, run.TypeCreated, run.TypeStarted}, {run.TypeWaiting}} {
			for _, r := range []storage.TimeRange{{}, {From: epoch.Add(2 * time.Hour)}, {From: epoch.Add(10 * time.Microsecond), Until: epoch.Add(time.Hour + 999)}} {
				all = append(all, func(f *storage.EventFilter) { f.RunID, f.Types, f.Occurred = id, types, r })
			}
		}
	}
	return all
}

// said is what an answer says, as text.
func said(answer any) string {
	if events, ok := answer.([]run.Event); ok {
		kinds := make([]string, len(events))
		for i, e := range events {
			kinds[i] = fmt.Sprintf("%T %s", e.Data, must(json.Marshal(e)))
		}
		answer = kinds
	}
	if items, ok := answer.([]storage.RunItem); ok && len(items) == 0 {
		return "no runs"
	}
	return string(must(json.Marshal(answer)))
}
