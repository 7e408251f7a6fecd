package show

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/seed4391e180/runlane/run"
	"github.com/seed4391e180/runlane/storage"
)

// Event is an event for programs. Data holds what its type says; tokens are left out.
type Event struct {
	ID          string        `json:"id"`
	Environment string        `json:"environment"`
	Run         string        `json:"run"`
	Sequence    int64         `json:"sequence"`
	Type        run.EventType `json:"type"`
	At          *string       `json:"at"`
	Data        EventData     `json:"data"`
}

// EventData is what the types of events say; each has some of it.
type EventData struct {
	Task           string            `json:"task,omitempty"`
	Queue          string            `json:"queue,omitempty"`
	Priority       int               `json:"priority,omitempty"`
	MaxAttempts    int               `json:"max_attempts,omitempty"`
	RunAt          *string           `json:"run_at,omitempty"`
	Timeout        string            `json:"timeout,omitempty"`
	LatestStart    *string           `json:"latest_start,omitempty"`
	SourceType     run.SourceType    `json:"source_type,omitempty"`
	SourceRun      string            `json:"source_run,omitempty"`
	Schedule       string            `json:"schedule,omitempty"`
	IdempotencyKey string            `json:"idempotency_key,omitempty"`
	IdempotencyTTL string            `json:"idempotency_ttl,omitempty"`
	SingletonKey   string            `json:"singleton_key,omitempty"`
	ConcurrencyKey string            `json:"concurrency_key,omitempty"`
	Trace          map[string]string `json:"trace,omitempty"`
	Metadata       map[string]string `json:"metadata,omitempty"`
	Payload        json.RawMessage   `json:"payload,omitempty"`
	Result         json.RawMessage   `json:"result,omitempty"`
	Lease          *Lease            `json:"lease,omitempty"`
	Failure        *Failure          `json:"failure,omitempty"`
	Due            *string           `json:"due,omitempty"`
	WaitingFor     string            `json:"waiting_for,omitempty"`
	Reason         string            `json:"reason,omitempty"`
}

// EventOf shows an event.
func EventOf(e run.Event) Event {
	return Event{
		ID: e.ID.String(), Environment: e.Environment, Run: e.RunID, Sequence: e.Sequence, Type: e.Type(), At: exact(e.At), Data: dataOf(e.Data),
	}
}

func dataOf(data run.EventData) EventData {
	switch v := data.(type) {
	case run.Created:
		return EventData{
			Task: v.Task, Queue: v.Queue, Priority: v.Priority, MaxAttempts: v.MaxAttempts, RunAt: exact(v.RunAt),
			Timeout: span(v.Timeout), LatestStart: exact(v.LatestStart),
			SourceType: v.Source.Type, SourceRun: v.Source.RunID, Schedule: v.Source.Schedule,
			IdempotencyKey: v.IdempotencyKey, IdempotencyTTL: span(v.IdempotencyTTL), SingletonKey: v.SingletonKey, ConcurrencyKey: v.ConcurrencyKey,
			Trace: v.Trace, Metadata: v.Metadata, Payload: valid(v.Payload),
		}
	case run.Started:
		return EventData{Lease: leaseOf(&v.Lease)}
	case run.Succeeded:
		return EventData{Result: valid(v.Result)}
	case run.Failed:
		return EventData{Failure: failureOf(&v.Failure)}
	case run.RetryScheduled:
		return EventData{Failure: failureOf(&v.Failure), Due: exact(v.Due)}
	case run.Released:
		return EventData{Due: exact(v.Due), Reason: v.Reason}
	case run.Waiting:
		return EventData{WaitingFor: v.For}
	case run.LeaseExpired:
		return EventData{Due: exact(v.Due)}
	case run.CancellationRequested:
		return EventData{Reason: v.Reason}
	case run.Cancelled:
		return EventData{Reason: v.Reason}
	}
	return EventData{}
}

// EventTable is the table of listed events.
func EventTable() *Table {
	return &Table{Columns: []Column{
		{Title: "AT", Least: 10}, {Title: "RUN", Least: 12}, {Title: "SEQ"}, {Title: "TYPE", Least: 12, Color: typeColor}, {Title: "WHAT", Least: 10, Spare: 1},
	}}
}

// EventRow is a row of EventTable.
func EventRow(e run.Event, c Clock) []string {
	return []string{c.Time(e.At), e.RunID, strconv.FormatInt(e.Sequence, 10), string(e.Type()), what(e.Data, c)}
}

func what(data run.EventData, c Clock) string {
	switch v := data.(type) {
	case run.Created:
		return "task " + v.Task + ", queue " + v.Queue
	case run.Started:
		return fmt.Sprintf("attempt %d, worker %s", v.Lease.Attempt, v.Lease.Worker)
	case run.Failed:
		return v.Failure.Code + ": " + v.Failure.Message
	case run.RetryScheduled:
		return v.Failure.Code + ": " + v.Failure.Message + again(v.Due, c)
	case run.Released:
		return v.Reason + again(v.Due, c)
	case run.Waiting:
		return "for " + v.For
	case run.CancellationRequested:
		return v.Reason
	case run.Cancelled:
		return v.Reason
	}
	return ""
}

func again(due time.Time, c Clock) string {
	if due.IsZero() {
		return ""
	}
	return "; due " + c.Time(due)
}

func typeColor(t string) string {
	switch run.EventType(t) {
	case run.TypeSucceeded:
		return "32"
	case run.TypeFailed, run.TypeLeaseExpired:
		return "31"
	case run.TypeRetryScheduled, run.TypeReleased, run.TypeCancellationRequested:
		return "33"
	}
	return ""
}

// Count is how many runs have a status, for programs.
type Count struct {
	Status  run.Status `json:"status"`
	Runs    int        `json:"runs"`
	AtLeast bool       `json:"at_least"` // there are more than Runs
}

// CountTable is the table of counts.
func CountTable() *Table {
	return &Table{Columns: []Column{{Title: "STATUS", Color: StatusColor}, {Title: "RUNS"}}}
}

// CountRow is a row of CountTable.
func CountRow(c storage.StatusCount) []string {
	runs := strconv.Itoa(c.Runs)
	if c.AtLeast {
		runs = "at least " + runs
	}
	return []string{string(c.Status), runs}
}
