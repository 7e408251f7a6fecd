package codec_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/seed4391e180/runlane/run"
	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/codec"
)

var (
	token   = uuid.MustParse("018f4e2a-7c1b-4def-8a90-1234567890ab")
	eventID = uuid.MustParse("0197f3a2-7c1b-7def-8a90-1234567890ab")
	start   = time.Date(2030, 5, 6, 7, 8, 9, 123456000, time.UTC)
)

func at(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }

// sampleRun returns a run with a status in which every field that the status
// allows says something.
func sampleRun(s run.Status) run.Run {
	r := run.Run{
		Environment: "prod", ID: "order:123", Task: "emails.welcome", Queue: "emails", Priority: 3,
		Payload: json.RawMessage(`{"n":9007199254740993,"f":0.1000,"s":"ü\n\u2028"}`),
		Status:  s, Sequence: 9007199254740993, MaxAttempts: 10, Attempts: 5, Failures: 3, Retries: 3, Releases: 1,
		Created: at(0), Updated: at(60),
		Source:         run.Source{Type: run.SourceRerun, RunID: "order:122"},
		IdempotencyKey: "i:1", IdempotencyTTL: 30 * 24 * time.Hour, SingletonKey: "s:1", ConcurrencyKey: "c:1",
		Trace:    map[string]string{"traceparent": "00-4bf9-01", "tracestate": "a=b"},
		Metadata: map[string]string{"": "empty", "by": "ops"},
	}
	switch {
	case s.Runnable():
		r.Due = at(90)
	case s.Leased():
		r.Lease = &run.Lease{Token: token, Worker: "w:1", Attempt: 5, Expires: at(90), Duration: 30 * time.Second}
	case s.Terminal():
		r.Finished = at(60)
	default:
		r.WaitingFor = "order:1"
	}
	switch s {
	case run.StatusSucceeded:
		r.Result = json.RawMessage(`[1e400,-0,null]`)
	case run.StatusFailed, run.StatusRetrying:
		r.Failure = &run.Failure{Code: "panic", Message: "boom: \"x\"", Retryable: true, Detail: "goroutine 1\n\tmain.go:1"}
	}
	return r
}

// smallRun returns a run in which nothing is optional.
func smallRun() run.Run {
	return run.Run{
		Environment: "e", ID: "r", Task: "t", Queue: "q", Priority: 1, Status: run.StatusQueued, Sequence: 1,
		Due: at(0), Created: at(0), Updated: at(0), Source: run.Source{Type: run.SourceTrigger},
	}
}

// optionsRun returns a leased run with the options that sampleRun lacks.
func optionsRun() run.Run {
	r := sampleRun(run.StatusRunning)
	r.Timeout, r.LatestStart = 90*time.Second, at(300)
	r.Lease.QueueSlot, r.Lease.KeySlot = 2, 1
	return r
}

// sampleEvents returns one event of each type, each field saying something, and
// those without.
func sampleEvents() map[string]run.Event {
	failure := run.Failure{Code: "error", Message: "no", Retryable: true, Detail: "why"}
	lease := run.Lease{Token: token, Worker: "w:1", Attempt: 5, Expires: at(90), Duration: 30 * time.Second}
	slotted := lease
	slotted.QueueSlot, slotted.KeySlot = 2, 1
	data := map[string]run.EventData{
		"created": run.Created{
			Task: "emails.welcome", Queue: "emails", Priority: 3, Payload: json.RawMessage(`{"n":1e2}`), RunAt: at(90),
			MaxAttempts: 10, Source: run.Source{Type: run.SourceSchedule, Schedule: "nightly"},
			IdempotencyKey: "i:1", IdempotencyTTL: time.Hour, SingletonKey: "s:1", ConcurrencyKey: "c:1",
			Trace: map[string]string{"traceparent": "00-4bf9-01"}, Metadata: map[string]string{"by": "ops"},
		},
		"created_small": run.Created{Task: "t", Queue: "q", Priority: 1, Source: run.Source{Type: run.SourceTrigger}},
		"created_options": run.Created{
			Task: "t", Queue: "q", Priority: 1, Source: run.Source{Type: run.SourceTrigger},
			Timeout: 90 * time.Second, LatestStart: at(300),
		},
		"started":                run.Started{Lease: lease},
		"started_slots":          run.Started{Lease: slotted},
		"released_put_off":       run.Released{Due: at(90), Reason: "unknown_task"},
		"succeeded":              run.Succeeded{Token: token, Result: json.RawMessage(`null`)},
		"succeeded_small":        run.Succeeded{Token: token},
		"failed":                 run.Failed{Token: token, Failure: failure},
		"failed_small":           run.Failed{},
		"retry_scheduled":        run.RetryScheduled{Token: token, Due: at(90), Failure: failure},
		"released":               run.Released{Token: token, Due: at(90), Reason: "later"},
		"waiting":                run.Waiting{Token: token, For: "order:1"},
		"resumed":                run.Resumed{},
		"lease_expired":          run.LeaseExpired{Token: token, Due: at(90)},
		"cancellation_requested": run.CancellationRequested{Reason: "enough"},
		"cancelled":              run.Cancelled{Token: token, Reason: "enough"},
		"cancelled_small":        run.Cancelled{},
	}
	events := make(map[string]run.Event, len(data))
	for name, d := range data {
		events[name] = run.Event{ID: eventID, Environment: "prod", RunID: "order:123", Sequence: 3, At: at(60), Data: d}
	}
	return events
}

func mustRun(t testing.TB, r run.Run) storage.Record {
	t.Helper()
	rec, err := codec.EncodeRun(r)
	if err != nil {
		t.Fatal(err)
	}
	return rec
}

func mustEvent(t testing.TB, e run.Event) storage.Record {
	t.Helper()
	rec, err := codec.EncodeEvent(e)
	if err != nil {
		t.Fatal(err)
	}
	return rec
}
