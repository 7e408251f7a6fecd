package storagetest

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/run"
	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/codec"
)

var opaque = topic{"OpaqueAndTombstones", []test{
	{name: "OpaqueRecordsAreRecords", run: opaqueRecordsAreRecords},
	{name: "OpaqueRunsAreHidden", run: opaqueRunsAreHidden},
	{name: "TombstonesHideRunAndEvents", run: tombstonesHideRunAndEvents},
	{name: "AReplacementDecidesAnew", run: aReplacementDecidesAnew},
	{name: "EveryReadAgrees", run: everyReadAgrees},
	{name: "CommitTimesAreSeen", run: commitTimesAreSeenByOperators},
}}

// opaqueRuns are documents under the key of the run "x" that are no run.
func (f *fixture) opaqueRuns() map[string]string {
	whole := string(f.runRecord(sampleRun("x", run.StatusQueued)).Document)
	other := string(f.runRecord(sampleRun("y", run.StatusQueued)).Document)
	edit := func(from, to string) string {
		require.Contains(f, whole, from)
		return strings.Replace(whole, from, to, 1)
	}
	return map[string]string{
		"no envelope":         `{"n":1}`,
		"not even an object":  `1`,
		"a later version":     edit(`"v":1`, `"v":2`),
		"another codec":       edit(`"codec":"run"`, `"codec":"event"`),
		"another identity":    other,
		"an unknown member":   edit(`"value":{`, `"value":{"unknown":1,`),
		"an unknown status":   edit(`"queued"`, `"paused"`),
		"a wrong type":        edit(`"value":{`, `"value":[],"x":{`),
		"an unknown envelope": edit(`"v":1`, `"v":1,"w":1`),
	}
}

// opaqueRecordsAreRecords: they are read, replaced, deleted and found in indexes
// like all others.
func opaqueRecordsAreRecords(f *fixture) {
	key := f.runRecord(sampleRun("x", run.StatusQueued)).Key
	for name, document := range f.opaqueRuns() {
		rec := storage.Record{Key: key, Document: json.RawMessage(document), Entries: []storage.Entry{entry(storage.RunsByDue, encode("1"))}}
		f.put(rec)
		f.keepsAll([]storage.Record{rec})
		for _, lock := range []storage.Lock{storage.Candidates, storage.Exclusive} {
			page := f.page(storage.Query{Index: storage.RunsByDue, Partition: partitionOf(), Lock: lock})
			require.Len(f, page, 1, name)
			sameJSON(f, document, page[0].Document)
		}
		f.transact(func(c *call) { c.remove(key) })
	}
}

func opaqueRunsAreHidden(f *fixture) {
	visible := sampleRun("visible", run.StatusQueued)
	f.put(f.runRecord(visible))
	key := f.runRecord(sampleRun("x", run.StatusQueued)).Key
	f.put(f.eventRecord(sampleEvent("x", 1, numbered(1))))
	for name, document := range f.opaqueRuns() {
		f.put(storage.Record{Key: key, Document: json.RawMessage(document)})
		f.showsRuns(name, "visible")
		f.showsEvents(name, "x")
	}
}

// showsRuns requires that operators see exactly these runs.
func (f *fixture) showsRuns(when string, want ...string) {
	f.Helper()
	got := []string{}
	for _, item := range f.listRuns(storage.RunFilter{Environment: env}) {
		got = append(got, item.ID)
	}
	assert.ElementsMatch(f, want, got, "ListRuns: %s", when)
	for _, id := range want {
		_, found := f.getRun(id)
		assert.True(f, found, "GetRun of %s: %s", id, when)
	}
	for _, id := range []string{"x", "y", "visible"} {
		if _, found := f.getRun(id); found {
			assert.Contains(f, want, id, "GetRun: %s", when)
		}
	}
}

// showsEvents requires that operators see exactly these events of a run, by number.
func (f *fixture) showsEvents(when, runID string, want ...int) {
	f.Helper()
	ids := []string{}
	for _, n := range want {
		ids = append(ids, numbered(n).String())
	}
	for _, filter := range []storage.EventFilter{
		{Environment: env, RunID: runID},
		{Environment: env, RunID: runID, Direction: storage.Descending},
		{Environment: env, RunID: runID, Sort: storage.SortOccurred},
		{Environment: env, Sort: storage.SortOccurred},
	} {
		got := []string{}
		for _, e := range f.listEvents(filter) {
			got = append(got, e.ID.String())
		}
		assert.ElementsMatch(f, ids, got, "ListEvents %+v: %s", filter, when)
	}
}

func tombstonesHideRunAndEvents(f *fixture) {
	r := sampleRun("x", run.StatusSucceeded)
	r.Payload = json.RawMessage(`{"p":1}`)
	created, second := f.eventRecord(createdEvent(r, numbered(1))), f.eventRecord(sampleEvent("x", 2, numbered(2)))
	f.putAll([]storage.Record{f.runRecord(r), created, second})
	f.showsRuns("written", "x")
	f.showsEvents("written", "x", 1, 2)

	f.put(f.tombstone("x"))
	f.showsRuns("tombstone")
	f.showsEvents("tombstone", "x")
	f.keepsAll([]storage.Record{f.tombstone("x"), created, second})
	assert.Empty(f, f.page(storage.Query{Index: storage.RunsByRetention, Partition: partitionOf()}), "a tombstone has no entries")

	f.transact(func(c *call) { c.remove(f.tombstone("x").Key) })
	f.showsRuns("deleted")
	f.showsEvents("deleted", "x")
	f.keepsAll([]storage.Record{created, second})

	f.transact(func(c *call) { c.remove(created.Key) })
	f.put(f.runRecord(r))
	f.showsRuns("created again", "x")
	f.showsEvents("created again", "x", 2)
}

// aReplacementDecidesAnew: what is seen of a record depends on its last document only.
func aReplacementDecidesAnew(f *fixture) {
	full := sampleRun("x", run.StatusQueued)
	full.IdempotencyKey, full.SingletonKey, full.ConcurrencyKey = "i", "s", "c"
	full.Source = run.Source{Type: run.SourceRerun, RunID: "source"}
	bare := sampleRun("x", run.StatusSucceeded)
	key := f.runRecord(full).Key
	documents := []storage.Record{
		f.runRecord(full), f.runRecord(bare), {Key: key, Document: []byte(`{"n":1}`)}, f.tombstone("x"), f.runRecord(full), f.tombstone("x"), f.runRecord(bare),
	}
	for i, rec := range documents {
		f.put(rec)
		want, kind := codec.DecodeRun(rec)
		got, found := f.getRun("x")
		require.Equal(f, kind == codec.Canonical, found, "document %d", i)
		if !found {
			f.showsRuns(fmt.Sprint("document ", i))
			continue
		}
		assert.Equal(f, want, got)
		summary, ok := codec.RunColumns(rec)
		require.True(f, ok)
		items := f.listRuns(storage.RunFilter{Environment: env})
		require.Len(f, items, 1)
		assert.Equal(f, summary, items[0].RunSummary, "document %d: fields of an earlier one remain", i)
	}
}

// everyReadAgrees: for documents at the edge, whatever a driver makes of them,
// every way to look gives one answer. Keys that occur twice are resolved to the
// last one and marks become times before anybody reads the document again, so what
// is stored may be a run although what was written did not look like one.
func everyReadAgrees(f *fixture) {
	whole := string(f.runRecord(sampleRun("x", run.StatusQueued)).Document)
	for name, document := range map[string]string{
		"a version twice, the last known":   strings.Replace(whole, `"v":1`, `"v":2,"v":1`, 1),
		"a version twice, the last unknown": strings.Replace(whole, `"v":1`, `"v":1,"v":2`, 1),
		"a member twice":                    strings.Replace(whole, `"task":`, `"task":1,"task":`, 1),
		"a mark in the payload":             strings.Replace(whole, `"value":{`, "\"value\":{\"payload\":\"\x01\",", 1),
		"numbers in another spelling":       strings.Replace(whole, `"sequence":1`, `"sequence":10e-1`, 1),
		"escapes in a name":                 strings.Replace(whole, `"task":`, `"\u0074ask":`, 1),
	} {
		f.put(storage.Record{Key: f.runRecord(sampleRun("x", run.StatusQueued)).Key, Document: json.RawMessage(document)})
		_, kind := codec.DecodeRun(*f.read(f.runRecord(sampleRun("x", run.StatusQueued)).Key))
		_, found := f.getRun("x")
		listed := len(f.listRuns(storage.RunFilter{Environment: env}))
		assert.Equal(f, kind == codec.Canonical, found, "%s: GetRun", name)
		assert.Equal(f, kind == codec.Canonical, listed == 1, "%s: ListRuns", name)
	}
}

// commitTimesAreSeenByOperators: a run and its event created without knowing the time.
func commitTimesAreSeenByOperators(f *fixture) {
	r := sampleRun("x", run.StatusScheduled)
	r.Created, r.Updated, r.Due = run.AtCommit, run.AtCommit, run.AtCommit.Add(patience)
	e := createdEvent(r, numbered(1))
	commit := f.transact(func(c *call) {
		c.create(f.runRecord(r))
		c.create(f.eventRecord(e))
	})
	r.Created, r.Updated, r.Due = commit.Time, commit.Time, commit.Time.Add(patience)
	e.At = commit.Time
	got, found := f.getRun("x")
	require.True(f, found)
	assert.Equal(f, r, got)
	items := f.listRuns(storage.RunFilter{Environment: env, Sort: storage.SortDue, Due: storage.TimeRange{From: r.Due, Until: r.Due.Add(1000)}})
	require.Len(f, items, 1)
	assert.Equal(f, r.Due, items[0].Due)
	assert.Equal(f, r.Created, items[0].Created)
	assert.Equal(f, []run.Event{e}, f.listEvents(storage.EventFilter{Environment: env, RunID: "x"}))
	assert.Len(f, f.page(storage.Query{
		Index: storage.RunsByDue, Partition: f.runRecord(r).Entries[0].Partition, From: storage.At(encodeTime(r.Due)),
	}), 1)
}
