package run_test

import (
	"reflect"
	"testing"
	"time"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"github.com/seed4391e180/runlane/run"
)

// A program is a random legal history. Whatever happens to a run, the run stays
// whole, and its history alone makes the same run again.
func TestProgramsKeepTheRunWhole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		clock := start
		if rapid.Bool().Draw(t, "relative") {
			clock = run.AtCommit
		}
		var now *run.Run
		var history []run.Event
		for range rapid.IntRange(1, 40).Draw(t, "length") {
			e, ok := drawEvent(t, now, clock)
			if !ok {
				break
			}
			next, err := run.Reduce(now, e.Sequence, e)
			if err != nil {
				t.Fatalf("%s of %+v: %v", e.Type(), now, err)
			}
			checkWhole(t, next, e)
			checkCounters(t, now, next, e.Type())
			history, now = append(history, e), &next
			clock = clock.Add(time.Duration(rapid.IntRange(0, 5).Draw(t, "pause")) * time.Second)
		}
		again, err := run.Reduce(nil, 1, history...)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(again, *now) {
			t.Fatalf("replaying gives %+v\nnot            %+v", again, *now)
		}
	})
}

func drawEvent(t *rapid.T, now *run.Run, clock time.Time) (run.Event, bool) {
	status, seq := none, int64(1)
	if now != nil {
		status, seq = now.Status, now.Sequence+1
	}
	var types []run.EventType
	for _, typ := range run.EventTypes() {
		if transitions[typ][status] != none {
			types = append(types, typ)
		}
	}
	if len(types) == 0 {
		return run.Event{}, false
	}
	data := dataFor(rapid.SampledFrom(types).Draw(t, "type"), now)
	if d, ok := data.(run.Created); ok && rapid.Bool().Draw(t, "later") {
		d.RunAt = clock.Add(time.Hour)
		data = d
	}
	id := uuid.UUID{0: 1, 14: byte(seq >> 8), 15: byte(seq)}
	return run.Event{ID: id, Environment: "prod", RunID: "r1", Sequence: seq, At: clock, Data: data}, true
}

func checkWhole(t *rapid.T, r run.Run, e run.Event) {
	holds := map[string]bool{
		"a lease exactly if leased":                   (r.Lease != nil) == r.Status.Leased(),
		"a due time exactly if runnable":              !r.Due.IsZero() == r.Status.Runnable(),
		"finished exactly if terminal":                !r.Finished.IsZero() == r.Status.Terminal(),
		"waiting for a run exactly if waiting":        (r.WaitingFor != "") == (r.Status == run.StatusWaiting),
		"a failure exactly if retrying or failed":     (r.Failure != nil) == (r.Status == run.StatusRetrying || r.Status == run.StatusFailed),
		"a result only if succeeded":                  r.Result == nil || r.Status == run.StatusSucceeded,
		"the sequence is the event's":                 r.Sequence == e.Sequence,
		"updated is the event's time":                 r.Updated.Equal(e.At),
		"the lease is that of the last attempt":       r.Lease == nil || r.Lease.Attempt == r.Attempts,
		"every attempt ended once or still runs":      r.Retries+r.Releases <= r.Attempts,
		"every failure but the last led to a retry":   r.Failures == r.Retries || r.Failures == r.Retries+1 && r.Status == run.StatusFailed,
		"a status of the closed set":                  r.Status.Valid(),
		"the identity never changes":                  r.Environment == "prod" && r.ID == "r1",
		"what the run was created with never changes": r.Task == "email" && r.Queue == "mail" && r.Priority == 2,
	}
	for what, ok := range holds {
		if !ok {
			t.Fatalf("after %s it does not hold that %s: %+v", e.Type(), what, r)
		}
	}
}

// checkCounters states which event moves which counter, and that none moves another.
func checkCounters(t *rapid.T, before *run.Run, after run.Run, typ run.EventType) {
	var want [4]int
	if before != nil {
		want = [4]int{before.Attempts, before.Failures, before.Retries, before.Releases}
	}
	switch typ {
	case run.TypeStarted:
		want[0]++
	case run.TypeFailed:
		want[1]++
	case run.TypeRetryScheduled, run.TypeLeaseExpired:
		want[1]++
		want[2]++
	case run.TypeReleased:
		if before.Lease != nil {
			want[3]++
		}
	}
	if got := [4]int{after.Attempts, after.Failures, after.Retries, after.Releases}; got != want {
		t.Fatalf("%s leaves the counters (attempts, failures, retries, releases) at %v, not %v", typ, got, want)
	}
}
