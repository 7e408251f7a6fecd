package show

import (
	"encoding/json"
	"strconv"
	"time"

	"github.com/seed4391e180/runlane/run"
	"github.com/seed4391e180/runlane/storage"
)

// Summary is a listed run for programs. Times are RFC 3339 in UTC with microseconds;
// what a run does not have is left out.
type Summary struct {
	Environment    string         `json:"environment"`
	ID             string         `json:"id"`
	Task           string         `json:"task"`
	Queue          string         `json:"queue"`
	Status         run.Status     `json:"status"`
	Priority       int            `json:"priority"`
	Created        *string        `json:"created"`
	Updated        *string        `json:"updated"`
	Due            *string        `json:"due,omitempty"`
	LeaseExpires   *string        `json:"lease_expires,omitempty"`
	IdempotencyKey string         `json:"idempotency_key,omitempty"`
	SingletonKey   string         `json:"singleton_key,omitempty"`
	ConcurrencyKey string         `json:"concurrency_key,omitempty"`
	SourceType     run.SourceType `json:"source_type"`
	SourceRun      string         `json:"source_run,omitempty"`
	Schedule       string         `json:"schedule,omitempty"`
}

// Run is a whole run for programs.
type Run struct {
	Summary
	Sequence       int64             `json:"sequence"`
	MaxAttempts    int               `json:"max_attempts"` // 0: no limit
	Attempts       int               `json:"attempts"`
	Failures       int               `json:"failures"`
	Retries        int               `json:"retries"`
	Releases       int               `json:"releases"`
	Finished       *string           `json:"finished,omitempty"`
	Lease          *Lease            `json:"lease,omitempty"`
	IdempotencyTTL string            `json:"idempotency_ttl,omitempty"`
	WaitingFor     string            `json:"waiting_for,omitempty"`
	Timeout        string            `json:"timeout,omitempty"`
	LatestStart    *string           `json:"latest_start,omitempty"`
	Payload        json.RawMessage   `json:"payload,omitempty"`
	Result         json.RawMessage   `json:"result,omitempty"`
	Failure        *Failure          `json:"failure,omitempty"`
	Trace          map[string]string `json:"trace,omitempty"`
	Metadata       map[string]string `json:"metadata,omitempty"`
}

// Lease is a lease for programs. Its token is no one's to know but the worker's.
type Lease struct {
	Worker   string  `json:"worker"`
	Attempt  int     `json:"attempt"`
	Expires  *string `json:"expires"`
	Duration string  `json:"duration"`
	// The slots that it holds, of the queue and of the concurrency key; 0: none.
	QueueSlot int `json:"queue_slot,omitempty"`
	KeySlot   int `json:"key_slot,omitempty"`
}

// Failure is a failure for programs.
type Failure struct {
	Code      string `json:"code"`
	Message   string `json:"message"`
	Retryable bool   `json:"retryable"`
	Detail    string `json:"detail,omitempty"`
}

func summaryOf(s storage.RunSummary) Summary {
	return Summary{
		Environment: s.Environment, ID: s.ID, Task: s.Task, Queue: s.Queue, Status: s.Status, Priority: s.Priority,
		Created: exact(s.Created), Updated: exact(s.Updated), Due: exact(s.Due), LeaseExpires: exact(s.LeaseExpires),
		IdempotencyKey: s.IdempotencyKey, SingletonKey: s.SingletonKey, ConcurrencyKey: s.ConcurrencyKey,
		SourceType: s.SourceType, SourceRun: s.SourceRun, Schedule: s.Schedule,
	}
}

// ItemOf is a *Run of an item that was read in full, else a Summary.
func ItemOf(item storage.RunItem) any {
	if item.Run != nil {
		return RunOf(item.Run)
	}
	return summaryOf(item.RunSummary)
}

// RunOf shows a whole run.
func RunOf(r *run.Run) *Run {
	shown := &Run{
		Summary: summaryOf(storage.RunSummary{
			Environment: r.Environment, ID: r.ID, Task: r.Task, Queue: r.Queue, Status: r.Status, Priority: r.Priority,
			Created: r.Created, Updated: r.Updated, Due: r.Due,
			IdempotencyKey: r.IdempotencyKey, SingletonKey: r.SingletonKey, ConcurrencyKey: r.ConcurrencyKey,
			SourceType: r.Source.Type, SourceRun: r.Source.RunID, Schedule: r.Source.Schedule,
		}),
		Sequence: r.Sequence, MaxAttempts: r.MaxAttempts, Attempts: r.Attempts, Failures: r.Failures, Retries: r.Retries, Releases: r.Releases,
		Finished: exact(r.Finished), IdempotencyTTL: span(r.IdempotencyTTL), WaitingFor: r.WaitingFor,
		Timeout: span(r.Timeout), LatestStart: exact(r.LatestStart),
		Payload: valid(r.Payload), Result: valid(r.Result), Failure: failureOf(r.Failure), Trace: r.Trace, Metadata: r.Metadata,
	}
	if l := r.Lease; l != nil {
		shown.Lease, shown.LeaseExpires = leaseOf(l), exact(l.Expires)
	}
	return shown
}

func leaseOf(l *run.Lease) *Lease {
	return &Lease{
		Worker: l.Worker, Attempt: l.Attempt, Expires: exact(l.Expires), Duration: span(l.Duration),
		QueueSlot: l.QueueSlot, KeySlot: l.KeySlot,
	}
}

func failureOf(f *run.Failure) *Failure {
	if f == nil {
		return nil
	}
	return &Failure{Code: f.Code, Message: f.Message, Retryable: f.Retryable, Detail: f.Detail}
}

func span(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return d.String()
}

// RunTable is the table of listed runs.
func RunTable() *Table {
	return &Table{Columns: []Column{
		{Title: "ID", Least: 12}, {Title: "TASK", Least: 8}, {Title: "QUEUE", Least: 6, Spare: 3}, {Title: "STATUS", Color: StatusColor},
		{Title: "CREATED", Least: 10, Spare: 1}, {Title: "UPDATED", Least: 10, Spare: 2}, {Title: "DUE", Least: 10, Spare: 4},
	}}
}

// RunRow is a row of RunTable.
func RunRow(s storage.RunSummary, c Clock) []string {
	return []string{s.ID, s.Task, s.Queue, string(s.Status), c.Time(s.Created), c.Time(s.Updated), c.Time(s.Due)}
}

// RunDetails are a whole run for people: a name and a value each.
func RunDetails(r *run.Run, c Clock) [][]string {
	rows := [][]string{
		{"id", r.ID}, {"environment", r.Environment}, {"task", r.Task}, {"queue", r.Queue}, {"status", string(r.Status)},
		{"priority", strconv.Itoa(r.Priority)}, {"sequence", strconv.FormatInt(r.Sequence, 10)},
		{"created", c.Time(r.Created)}, {"updated", c.Time(r.Updated)}, {"due", c.Time(r.Due)}, {"finished", c.Time(r.Finished)},
		{"attempts", attempts(r)}, {"failures", number(r.Failures)}, {"retries", number(r.Retries)}, {"releases", number(r.Releases)},
		{"source", string(r.Source.Type)}, {"source run", r.Source.RunID}, {"schedule", r.Source.Schedule},
		{"idempotency key", r.IdempotencyKey}, {"idempotency ttl", span(r.IdempotencyTTL)},
		{"singleton key", r.SingletonKey}, {"concurrency key", r.ConcurrencyKey}, {"waiting for", r.WaitingFor},
		{"timeout", span(r.Timeout)}, {"latest start", c.Time(r.LatestStart)},
	}
	if l := r.Lease; l != nil {
		rows = append(rows, []string{"lease", l.Worker + ", until " + c.Time(l.Expires)})
	}
	if f := r.Failure; f != nil {
		rows = append(rows, []string{"failure", f.Code + ": " + f.Message}, []string{"detail", f.Detail})
	}
	rows = append(rows, []string{"payload", string(r.Payload)}, []string{"result", string(r.Result)}, []string{"trace", pairs(r.Trace)}, []string{"metadata", pairs(r.Metadata)})
	kept := rows[:0]
	for _, row := range rows {
		if row[1] != "" {
			kept = append(kept, row)
		}
	}
	return kept
}

func attempts(r *run.Run) string {
	if r.MaxAttempts == 0 {
		return strconv.Itoa(r.Attempts)
	}
	return strconv.Itoa(r.Attempts) + " of at most " + strconv.Itoa(r.MaxAttempts)
}

func number(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}

// pairs is a map as JSON, which sorts it.
func pairs(m map[string]string) string {
	if len(m) == 0 {
		return ""
	}
	text, err := json.Marshal(m)
	if err != nil {
		panic(err) // texts have no reason to fail
	}
	return string(text)
}

// StatusColor is the colour of a status.
func StatusColor(status string) string {
	switch run.Status(status) {
	case run.StatusSucceeded:
		return "32"
	case run.StatusFailed:
		return "31"
	case run.StatusRunning:
		return "36"
	case run.StatusRetrying, run.StatusReleased, run.StatusCancellationRequested:
		return "33"
	case run.StatusCancelled:
		return "90"
	}
	return ""
}
