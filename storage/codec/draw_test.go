package codec_test

import (
	"encoding/json"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"github.com/seed4391e180/runlane/run"
	"github.com/seed4391e180/runlane/storage/codec"
)

var nastyTexts = []string{
	"$1", "$$", "'; --", `a"b`, `%_\`, `\`, `\u0041`, "a\tb\nc", "\x01", "\x02", "\x7f", "\u2028", "ü", "日本語", "\U0001F600",
	"\uFFFD", "\uFEFF", "!", "#", "null", "{}", "</script>", " ", "e\u0301",
}

// drawFree draws any text that a document can hold.
func drawFree(t *rapid.T, label string) string {
	if rapid.Bool().Draw(t, label+" is nasty") {
		return rapid.SampledFrom(nastyTexts).Draw(t, label)
	}
	return codec.CleanText(rapid.String().Draw(t, label))
}

// drawText draws a text of 1 to 80 bytes.
func drawText(t *rapid.T, label string) string {
	s := drawFree(t, label)
	for len(s) > 80 || !utf8.ValidString(s) {
		s = s[:min(len(s)-1, 80)]
	}
	if s == "" {
		return "x"
	}
	return s
}

func drawOptional(t *rapid.T, label string) string {
	if rapid.Bool().Draw(t, label+" is there") {
		return drawText(t, label)
	}
	return ""
}

func drawName(t *rapid.T, label string) string {
	return strings.ReplaceAll(drawText(t, label), ":", ";")
}

func drawMap(t *rapid.T, label string) map[string]string {
	n := rapid.IntRange(0, 3).Draw(t, label)
	var m map[string]string
	for range n {
		if m == nil {
			m = make(map[string]string)
		}
		m[drawFree(t, label+" key")] = drawFree(t, label+" value")
	}
	return m
}

var nastyJSON = []string{
	"9007199254740993", "0.1000", "1e400", "-0", "-0.0", "1e2", "123456789012345678901234567890.5", "1E-300",
	`""`, `"\u00e9\ud83d\ude00\/"`, `"\\"`, `"}"`, `"{\""`, "null", "true", "[]", "{}", `[ ]`, " { \n } ",
	`{"a":1,"a":2}`, `{"payload":{"value":{"payload":1}}}`, `{"":[{},[[]]]}`,
}

// drawJSON draws raw JSON that a document can hold.
func drawJSON(t *rapid.T, label string) json.RawMessage {
	var b strings.Builder
	writeJSON(t, &b, label, 3)
	return json.RawMessage(b.String())
}

func writeJSON(t *rapid.T, b *strings.Builder, label string, depth int) {
	kind := rapid.IntRange(0, 3).Draw(t, label+" kind")
	switch {
	case depth == 0 || kind < 2:
		b.WriteString(rapid.SampledFrom(nastyJSON).Draw(t, label))
	case kind == 2:
		b.WriteByte('[')
		for i := range rapid.IntRange(0, 3).Draw(t, label+" length") {
			if i > 0 {
				b.WriteString(" ,")
			}
			writeJSON(t, b, label, depth-1)
		}
		b.WriteByte(']')
	default:
		b.WriteByte('{')
		for i := range rapid.IntRange(0, 3).Draw(t, label+" length") {
			if i > 0 {
				b.WriteString(", ")
			}
			b.WriteString(rapid.SampledFrom(jsonKeys).Draw(t, label+" key"))
			b.WriteString(rapid.SampledFrom([]string{":", " : ", ":\n"}).Draw(t, label+" colon"))
			writeJSON(t, b, label, depth-1)
		}
		b.WriteByte('}')
	}
}

// jsonKeys are few and spelt in several ways, so that duplicates come up.
var jsonKeys = []string{
	`"value"`, `"v\u0061lue"`, `"payload"`, `"p\u0061yload"`, `"\u0070\u0061\u0079load"`, `"event"`, `"\u0065vent"`,
	`""`, `"a"`, `"\\"`, `"payload "`, `"\""`, `"Payload"`,
}

// drawTime draws a time in microseconds, or one relative to the commit.
func drawTime(t *rapid.T, label string, later time.Duration) time.Time {
	switch rapid.IntRange(0, 4).Draw(t, label+" kind") {
	case 0:
		return run.AtCommit
	case 1:
		return run.AtCommit.Add(later)
	}
	const last = 253402300799_999999
	return time.UnixMicro(rapid.Int64Range(0, last).Draw(t, label)).UTC()
}

func drawLater(t *rapid.T) time.Duration {
	return time.Duration(rapid.Int64Range(0, int64(run.MaxAfterCommit/time.Microsecond)).Draw(t, "later")) * time.Microsecond
}

func drawUUID(t *rapid.T, label string) uuid.UUID {
	id := uuid.UUID(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, label))
	id[15] |= 1
	return id
}

func drawFailure(t *rapid.T) run.Failure {
	return run.Failure{
		Code: drawFree(t, "code"), Message: drawFree(t, "message"),
		Retryable: rapid.Bool().Draw(t, "retryable"), Detail: drawFree(t, "detail"),
	}
}

func drawSource(t *rapid.T) run.Source {
	s := run.Source{Type: rapid.SampledFrom([]run.SourceType{
		run.SourceTrigger, run.SourceSchedule, run.SourceRerun, run.SourceManualRetry,
	}).Draw(t, "source")}
	switch s.Type {
	case run.SourceSchedule:
		s.Schedule = drawText(t, "schedule")
	case run.SourceRerun, run.SourceManualRetry:
		s.RunID = drawText(t, "source run")
	}
	return s
}

func drawLease(t *rapid.T, attempt int, later time.Duration) run.Lease {
	return run.Lease{Token: drawUUID(t, "token"), Worker: drawText(t, "worker"), Attempt: attempt, Expires: drawTime(t, "expires", later), Duration: time.Duration(rapid.Int64Range(1, 1<<40).Draw(t, "duration")) * time.Microsecond,
		QueueSlot: rapid.IntRange(0, 2).Draw(t, "queue slot"), KeySlot: rapid.IntRange(0, 2).Draw(t, "key slot")}
}

// drawRun draws any run that histories lead to.
func drawRun(t *rapid.T) run.Run {
	later := drawLater(t)
	counter := rapid.IntRange(0, 1<<40)
	r := run.Run{
		Environment: drawName(t, "environment"), ID: drawText(t, "id"), Task: drawName(t, "task"), Queue: drawName(t, "queue"),
		Priority: rapid.IntRange(1, 4).Draw(t, "priority"), Status: rapid.SampledFrom(run.Statuses()).Draw(t, "status"),
		Sequence:    rapid.Int64Range(1, 1<<63-1).Draw(t, "sequence"),
		MaxAttempts: counter.Draw(t, "max attempts"), Retries: counter.Draw(t, "retries"), Releases: counter.Draw(t, "releases"),
		Created: drawTime(t, "created", later), Updated: drawTime(t, "updated", later),
		Source: drawSource(t), IdempotencyKey: drawOptional(t, "idempotency key"),
		IdempotencyTTL: time.Duration(rapid.Int64Range(0, 1<<63-1).Draw(t, "ttl")),
		SingletonKey:   drawOptional(t, "singleton key"), ConcurrencyKey: drawOptional(t, "concurrency key"),
		Trace: drawMap(t, "trace"), Metadata: drawMap(t, "metadata"),
		Timeout: time.Duration(rapid.Int64Range(0, 1<<63-1).Draw(t, "timeout")),
	}
	if rapid.Bool().Draw(t, "has a latest start") {
		r.LatestStart = drawTime(t, "latest start", later)
	}
	r.Failures = r.Retries + counter.Draw(t, "more failures")
	r.Attempts = r.Retries + r.Releases + counter.Draw(t, "more attempts")
	if rapid.Bool().Draw(t, "has payload") {
		r.Payload = drawJSON(t, "payload")
	}
	switch {
	case r.Status.Runnable():
		r.Due = drawTime(t, "due", later)
	case r.Status.Leased():
		r.Attempts++
		lease := drawLease(t, r.Attempts, later)
		r.Lease = &lease
	case r.Status.Terminal():
		r.Finished = drawTime(t, "finished", later)
	default:
		if r.WaitingFor = drawText(t, "waiting for"); r.WaitingFor == r.ID {
			r.WaitingFor += "2"
		}
	}
	if r.Status == run.StatusFailed || r.Status == run.StatusRetrying {
		f := drawFailure(t)
		r.Failure = &f
	}
	if r.Status == run.StatusSucceeded && rapid.Bool().Draw(t, "has result") {
		r.Result = drawJSON(t, "result")
	}
	return r
}

// drawEvent draws any event.
func drawEvent(t *rapid.T) run.Event {
	later := drawLater(t)
	e := run.Event{
		ID: drawUUID(t, "event id"), Environment: drawName(t, "environment"), RunID: drawText(t, "run id"),
		Sequence: rapid.Int64Range(1, 1<<63-1).Draw(t, "sequence"), At: drawTime(t, "at", later),
	}
	held := uuid.Nil
	if rapid.Bool().Draw(t, "held") {
		held = drawUUID(t, "held token")
	}
	due, reason, tok := drawTime(t, "due", later), drawFree(t, "reason"), drawUUID(t, "token")
	switch rapid.SampledFrom(run.EventTypes()).Draw(t, "type") {
	case run.TypeCreated:
		e.Data = drawCreated(t, later)
	case run.TypeStarted:
		e.Data = run.Started{Lease: drawLease(t, rapid.IntRange(1, 1<<40).Draw(t, "attempt"), later)}
	case run.TypeSucceeded:
		d := run.Succeeded{Token: tok}
		if rapid.Bool().Draw(t, "has result") {
			d.Result = drawJSON(t, "result")
		}
		e.Data = d
	case run.TypeFailed:
		e.Data = run.Failed{Token: held, Failure: drawFailure(t)}
	case run.TypeRetryScheduled:
		e.Data = run.RetryScheduled{Token: tok, Due: due, Failure: drawFailure(t)}
	case run.TypeReleased:
		e.Data = run.Released{Token: held, Due: due, Reason: reason}
	case run.TypeWaiting:
		e.Data = run.Waiting{Token: tok, For: e.RunID + "2"}
	case run.TypeResumed:
		e.Data = run.Resumed{}
	case run.TypeLeaseExpired:
		e.Data = run.LeaseExpired{Token: tok, Due: due}
	case run.TypeCancellationRequested:
		e.Data = run.CancellationRequested{Reason: reason}
	case run.TypeCancelled:
		e.Data = run.Cancelled{Token: held, Reason: reason}
	}
	return e
}

func drawCreated(t *rapid.T, later time.Duration) run.Created {
	c := run.Created{
		Task: drawName(t, "task"), Queue: drawName(t, "queue"), Priority: rapid.IntRange(1, 4).Draw(t, "priority"),
		MaxAttempts: rapid.IntRange(0, 1<<40).Draw(t, "max attempts"),
		Source:      drawSource(t), IdempotencyKey: drawOptional(t, "idempotency key"),
		IdempotencyTTL: time.Duration(rapid.Int64Range(0, 1<<63-1).Draw(t, "ttl")),
		SingletonKey:   drawOptional(t, "singleton key"), ConcurrencyKey: drawOptional(t, "concurrency key"),
		Trace: drawMap(t, "trace"), Metadata: drawMap(t, "metadata"),
		Timeout: time.Duration(rapid.Int64Range(0, 1<<63-1).Draw(t, "timeout")),
	}
	if rapid.Bool().Draw(t, "has a latest start") {
		c.LatestStart = drawTime(t, "latest start", later)
	}
	if rapid.Bool().Draw(t, "has payload") {
		c.Payload = drawJSON(t, "payload")
	}
	if rapid.Bool().Draw(t, "later") {
		c.RunAt = drawTime(t, "run at", later)
	}
	return c
}
