package codec_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/seed4391e180/runlane/run"
	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/codec"
)

func TestEncodeRunRefuses(t *testing.T) {
	long := strings.Repeat("x", 256)
	deep := strings.Repeat("[", 511) + strings.Repeat("]", 511)
	tests := []struct {
		field  string
		status run.Status
		change func(r *run.Run)
		kind   error
	}{
		{"environment", run.StatusQueued, func(r *run.Run) { r.Environment = "" }, storage.ErrInvalidKey},
		{"environment", run.StatusQueued, func(r *run.Run) { r.Environment = "a:b" }, storage.ErrInvalidKey},
		{"environment", run.StatusQueued, func(r *run.Run) { r.Environment = long }, storage.ErrTooLarge},
		{"id", run.StatusQueued, func(r *run.Run) { r.ID = "" }, storage.ErrInvalidKey},
		{"id", run.StatusQueued, func(r *run.Run) { r.ID = long }, storage.ErrTooLarge},
		{"id", run.StatusQueued, func(r *run.Run) { r.ID = "a\x00" }, storage.ErrInvalidKey},
		{"id", run.StatusQueued, func(r *run.Run) { r.ID = "a\xff" }, storage.ErrInvalidKey},
		{"task", run.StatusQueued, func(r *run.Run) { r.Task = "a:b" }, storage.ErrInvalidKey},
		{"queue", run.StatusQueued, func(r *run.Run) { r.Queue = "" }, storage.ErrInvalidKey},
		{"priority", run.StatusQueued, func(r *run.Run) { r.Priority = 0 }, storage.ErrInvalidDocument},
		{"priority", run.StatusQueued, func(r *run.Run) { r.Priority = 5 }, storage.ErrInvalidDocument},
		{"status", run.StatusQueued, func(r *run.Run) { r.Status = "paused" }, storage.ErrInvalidDocument},
		{"status", run.StatusQueued, func(r *run.Run) { r.Status = "" }, storage.ErrInvalidDocument},
		{"sequence", run.StatusQueued, func(r *run.Run) { r.Sequence = 0 }, storage.ErrInvalidDocument},
		{"max_attempts", run.StatusQueued, func(r *run.Run) { r.MaxAttempts = -1 }, storage.ErrInvalidDocument},
		{"attempts", run.StatusQueued, func(r *run.Run) { r.Attempts = -1 }, storage.ErrInvalidDocument},
		{"failures", run.StatusQueued, func(r *run.Run) { r.Failures = -1 }, storage.ErrInvalidDocument},
		{"retries", run.StatusQueued, func(r *run.Run) { r.Retries = -1 }, storage.ErrInvalidDocument},
		{"retries", run.StatusQueued, func(r *run.Run) { r.Retries = 4 }, storage.ErrInvalidDocument},
		{"releases", run.StatusQueued, func(r *run.Run) { r.Releases = -1 }, storage.ErrInvalidDocument},
		{"releases", run.StatusQueued, func(r *run.Run) { r.Releases = 3 }, storage.ErrInvalidDocument},
		{"due_at", run.StatusQueued, func(r *run.Run) { r.Due = time.Time{} }, storage.ErrInvalidDocument},
		{"due_at", run.StatusRunning, func(r *run.Run) { r.Due = start }, storage.ErrInvalidDocument},
		{"created_at", run.StatusQueued, func(r *run.Run) { r.Created = time.Time{} }, storage.ErrInvalidDocument},
		{"updated_at", run.StatusQueued, func(r *run.Run) { r.Updated = time.Time{} }, storage.ErrInvalidDocument},
		{"finished_at", run.StatusFailed, func(r *run.Run) { r.Finished = time.Time{} }, storage.ErrInvalidDocument},
		{"finished_at", run.StatusFailed, func(r *run.Run) { r.Finished = time.Unix(-1, 0) }, storage.ErrInvalidDocument},
		{"finished_at", run.StatusQueued, func(r *run.Run) { r.Finished = start }, storage.ErrInvalidDocument},
		{"lease_token", run.StatusRunning, func(r *run.Run) { r.Lease = nil }, storage.ErrInvalidDocument},
		{"lease_token", run.StatusQueued, func(r *run.Run) { r.Lease = &run.Lease{} }, storage.ErrInvalidDocument},
		{"lease_token", run.StatusRunning, func(r *run.Run) { r.Lease.Token = uuid.Nil }, storage.ErrInvalidDocument},
		{"lease_worker", run.StatusRunning, func(r *run.Run) { r.Lease.Worker = "" }, storage.ErrInvalidKey},
		{"lease_attempt", run.StatusRunning, func(r *run.Run) { r.Lease.Attempt = 4 }, storage.ErrInvalidDocument},
		{"lease_attempt", run.StatusRunning, func(r *run.Run) {
			r.Lease.Attempt, r.Attempts, r.Failures, r.Retries, r.Releases = 0, 0, 0, 0, 0
		}, storage.ErrInvalidDocument},
		{"lease_expires_at", run.StatusRunning, func(r *run.Run) { r.Lease.Expires = time.Time{} }, storage.ErrInvalidDocument},
		{"lease_duration_ns", run.StatusRunning, func(r *run.Run) { r.Lease.Duration = 0 }, storage.ErrInvalidDocument},
		{"lease_duration_ns", run.StatusRunning, func(r *run.Run) { r.Lease.Duration++ }, storage.ErrInvalidDocument},
		{"lease_queue_slot", run.StatusRunning, func(r *run.Run) { r.Lease.QueueSlot = -1 }, storage.ErrInvalidDocument},
		{"lease_key_slot", run.StatusRunning, func(r *run.Run) { r.Lease.KeySlot = -1 }, storage.ErrInvalidDocument},
		{"timeout_ns", run.StatusQueued, func(r *run.Run) { r.Timeout = -1 }, storage.ErrInvalidDocument},
		{"latest_start_at", run.StatusQueued, func(r *run.Run) { r.LatestStart = time.Unix(-1, 0) }, storage.ErrInvalidDocument},
		{"source_type", run.StatusQueued, func(r *run.Run) { r.Source.Type = "cron" }, storage.ErrInvalidDocument},
		{"source_run_id", run.StatusQueued, func(r *run.Run) { r.Source.Type = run.SourceTrigger }, storage.ErrInvalidDocument},
		{"source_run_id", run.StatusQueued, func(r *run.Run) { r.Source.RunID = "" }, storage.ErrInvalidDocument},
		{"source_run_id", run.StatusQueued, func(r *run.Run) { r.Source.RunID = "\x00" }, storage.ErrInvalidKey},
		{"schedule_id", run.StatusQueued, func(r *run.Run) { r.Source.Schedule = "s" }, storage.ErrInvalidDocument},
		{"schedule_id", run.StatusQueued, func(r *run.Run) { r.Source = run.Source{Type: run.SourceSchedule} }, storage.ErrInvalidDocument},
		{"schedule_id", run.StatusQueued, func(r *run.Run) { r.Source = run.Source{Type: run.SourceSchedule, Schedule: long} }, storage.ErrTooLarge},
		{"idempotency_key", run.StatusQueued, func(r *run.Run) { r.IdempotencyKey = "\x00" }, storage.ErrInvalidKey},
		{"idempotency_ttl_ns", run.StatusQueued, func(r *run.Run) { r.IdempotencyTTL = -1 }, storage.ErrInvalidDocument},
		{"singleton_key", run.StatusQueued, func(r *run.Run) { r.SingletonKey = long }, storage.ErrTooLarge},
		{"concurrency_key", run.StatusQueued, func(r *run.Run) { r.ConcurrencyKey = "\xed\xa0\x80" }, storage.ErrInvalidKey},
		{"waiting_for", run.StatusWaiting, func(r *run.Run) { r.WaitingFor = "" }, storage.ErrInvalidDocument},
		{"waiting_for", run.StatusWaiting, func(r *run.Run) { r.WaitingFor = r.ID }, storage.ErrInvalidDocument},
		{"waiting_for", run.StatusWaiting, func(r *run.Run) { r.WaitingFor = "\x00" }, storage.ErrInvalidKey},
		{"waiting_for", run.StatusQueued, func(r *run.Run) { r.WaitingFor = "other" }, storage.ErrInvalidDocument},
		{"result", run.StatusFailed, func(r *run.Run) { r.Result = json.RawMessage(`1`) }, storage.ErrInvalidDocument},
		{"failure_code", run.StatusFailed, func(r *run.Run) { r.Failure = nil }, storage.ErrInvalidDocument},
		{"failure_code", run.StatusSucceeded, func(r *run.Run) { r.Failure = &run.Failure{} }, storage.ErrInvalidDocument},
		{"failure_code", run.StatusFailed, func(r *run.Run) { r.Failure.Code = "\x00" }, storage.ErrInvalidDocument},
		{"failure_message", run.StatusFailed, func(r *run.Run) { r.Failure.Message = "a\x00b" }, storage.ErrInvalidDocument},
		{"failure_detail", run.StatusRetrying, func(r *run.Run) { r.Failure.Detail = "\xc3" }, storage.ErrInvalidDocument},
		{"trace", run.StatusQueued, func(r *run.Run) { r.Trace = map[string]string{"\xff": ""} }, storage.ErrInvalidDocument},
		{`metadata["a.b"]`, run.StatusQueued, func(r *run.Run) { r.Metadata = map[string]string{"a.b": "\x00"} }, storage.ErrInvalidDocument},

		{"payload", run.StatusQueued, func(r *run.Run) { r.Payload = json.RawMessage{} }, storage.ErrInvalidDocument},
		{"payload", run.StatusQueued, func(r *run.Run) { r.Payload = json.RawMessage("\"\x01\"") }, storage.ErrInvalidDocument},
		{"payload", run.StatusQueued, func(r *run.Run) { r.Payload = json.RawMessage(`{},"injected":1`) }, storage.ErrInvalidDocument},
		{"payload.a[1]", run.StatusQueued, func(r *run.Run) { r.Payload = json.RawMessage(`{"a":[1,"\u0000"]}`) }, storage.ErrInvalidDocument},
		{"payload[1].b", run.StatusQueued, func(r *run.Run) { r.Payload = json.RawMessage(`[1,{"b":"\ud800"}]`) }, storage.ErrInvalidDocument},
		{"result.n", run.StatusSucceeded, func(r *run.Run) { r.Result = json.RawMessage(`{"n":1e131072}`) }, storage.ErrInvalidDocument},
	}
	for _, tt := range tests {
		t.Run(tt.field, func(t *testing.T) {
			r := sampleRun(tt.status)
			tt.change(&r)
			rec, err := codec.EncodeRun(r)
			wantInputError(t, err, tt.kind, tt.field)
			if rec.Document != nil {
				t.Errorf("a refused run has the document %s", rec.Document)
			}
		})
	}
	r := smallRun()
	r.Payload = json.RawMessage(deep)
	_, err := codec.EncodeRun(r)
	if refused := (*storage.InputError)(nil); !errors.As(err, &refused) || !strings.HasPrefix(refused.Field, "payload[0]") {
		t.Errorf("a payload that is nested too deep gives %v", err)
	}
	r.Payload = json.RawMessage(deep[1 : len(deep)-1])
	if err := storage.DefaultLimits().CheckRecord(mustRun(t, r)); err != nil {
		t.Errorf("a payload at the depth that encoders allow is refused: %v", err)
	}
}

func TestEncodeEventRefuses(t *testing.T) {
	set := func(d run.EventData) func(e *run.Event) { return func(e *run.Event) { e.Data = d } }
	created := func(change func(c *run.Created)) func(e *run.Event) {
		return func(e *run.Event) {
			c := sampleEvents()["created"].Data.(run.Created)
			change(&c)
			e.Data = c
		}
	}
	badFailure := run.Failure{Message: "\x00"}
	tests := []struct {
		field  string
		change func(e *run.Event)
		kind   error
	}{
		{"environment", func(e *run.Event) { e.Environment = "" }, storage.ErrInvalidKey},
		{"run_id", func(e *run.Event) { e.RunID = "" }, storage.ErrInvalidKey},
		{"sequence", func(e *run.Event) { e.Sequence = 0 }, storage.ErrInvalidDocument},
		{"id", func(e *run.Event) { e.ID = uuid.Nil }, storage.ErrInvalidDocument},
		{"at", func(e *run.Event) { e.At = time.Time{} }, storage.ErrInvalidDocument},
		{"type", set(nil), storage.ErrInvalidDocument},
		{"type", set(&run.Resumed{}), storage.ErrInvalidDocument},
		{"task", created(func(c *run.Created) { c.Task = "" }), storage.ErrInvalidKey},
		{"queue", created(func(c *run.Created) { c.Queue = "a:b" }), storage.ErrInvalidKey},
		{"priority", created(func(c *run.Created) { c.Priority = 9 }), storage.ErrInvalidDocument},
		{"max_attempts", created(func(c *run.Created) { c.MaxAttempts = -1 }), storage.ErrInvalidDocument},
		{"run_at", created(func(c *run.Created) { c.RunAt = time.Unix(-1, 0) }), storage.ErrInvalidDocument},
		{"source_type", created(func(c *run.Created) { c.Source = run.Source{} }), storage.ErrInvalidDocument},
		{"timeout_ns", created(func(c *run.Created) { c.Timeout = -1 }), storage.ErrInvalidDocument},
		{"latest_start_at", created(func(c *run.Created) { c.LatestStart = time.Unix(-1, 0) }), storage.ErrInvalidDocument},
		{"singleton_key", created(func(c *run.Created) { c.SingletonKey = "\x00" }), storage.ErrInvalidKey},
		{"payload", created(func(c *run.Created) { c.Payload = json.RawMessage(`{`) }), storage.ErrInvalidDocument},
		{"lease_token", set(run.Started{}), storage.ErrInvalidDocument},
		{"token", set(run.Succeeded{}), storage.ErrInvalidDocument},
		{"result", set(run.Succeeded{Token: token, Result: json.RawMessage(`nul`)}), storage.ErrInvalidDocument},
		{"failure_message", set(run.Failed{Failure: badFailure}), storage.ErrInvalidDocument},
		{"token", set(run.RetryScheduled{Due: start}), storage.ErrInvalidDocument},
		{"due_at", set(run.RetryScheduled{Token: token}), storage.ErrInvalidDocument},
		{"failure_message", set(run.RetryScheduled{Token: token, Due: start, Failure: badFailure}), storage.ErrInvalidDocument},
		{"due_at", set(run.Released{Token: token}), storage.ErrInvalidDocument},
		{"reason", set(run.Released{Token: token, Due: start, Reason: "\x00"}), storage.ErrInvalidDocument},
		{"token", set(run.Waiting{For: "r"}), storage.ErrInvalidDocument},
		{"waiting_for", set(run.Waiting{Token: token}), storage.ErrInvalidKey},
		{"waiting_for", set(run.Waiting{Token: token, For: "order:123"}), storage.ErrInvalidDocument},
		{"token", set(run.LeaseExpired{Due: start}), storage.ErrInvalidDocument},
		{"reason", set(run.CancellationRequested{Reason: "\xff"}), storage.ErrInvalidDocument},
		{"reason", set(run.Cancelled{Reason: "\xff"}), storage.ErrInvalidDocument},
		{"due_at", func(e *run.Event) {
			e.At, e.Data = run.AtCommit.Add(1e9), run.LeaseExpired{Token: token, Due: run.AtCommit.Add(2e9)}
		}, storage.ErrInvalidDocument},
	}
	for _, tt := range tests {
		t.Run(tt.field, func(t *testing.T) {
			e := sampleEvents()["resumed"]
			tt.change(&e)
			rec, err := codec.EncodeEvent(e)
			wantInputError(t, err, tt.kind, tt.field)
			if rec.Document != nil {
				t.Errorf("a refused event has the document %s", rec.Document)
			}
		})
	}
}

// Whatever a worker says can be recorded once it is cleaned.
func TestCleanText(t *testing.T) {
	for dirty, want := range map[string]string{
		"":                    "",
		"plain \u2028 ü":      "plain \u2028 ü",
		"a\x00b":              "a\uFFFDb",
		"a\xff":               "a\uFFFD",
		"\xed\xa0\x80 lone":   "\uFFFD lone",
		"cut \xe2\x82":        "cut \uFFFD",
		"\x00\x00":            "\uFFFD\uFFFD",
		"control \x01 \x1b[m": "control \x01 \x1b[m",
	} {
		got := codec.CleanText(dirty)
		if got != want {
			t.Errorf("%q becomes %q, not %q", dirty, got, want)
		}
		r := sampleRun(run.StatusFailed)
		r.Failure.Message = got
		if decoded, kind := codec.DecodeRun(mustRun(t, r)); kind != codec.Canonical || decoded.Failure.Message != got {
			t.Errorf("%q is recorded as %+v", got, decoded.Failure)
		}
	}
}
