package run

import (
	"encoding/json"
	"time"

	"github.com/google/uuid"
)

// Priorities order runnable runs of a queue: PriorityFirst is claimed before
// PriorityLast.
const (
	PriorityFirst   = 1
	PriorityDefault = 2
	PriorityLast    = 4
)

// Run is the whole current state of one durable run. Times are UTC with
// microsecond precision. Raw JSON is shared, not copied: treat it as read-only.
type Run struct {
	Environment string
	ID          string // UUIDv7 text by default; any text of 1 to 255 bytes
	Task        string
	Queue       string
	Priority    int             // PriorityFirst to PriorityLast
	Payload     json.RawMessage // nil: no payload; "null": the JSON value null
	Status      Status
	Sequence    int64 // the sequence of the last event, at least 1

	MaxAttempts int // how many attempts may fail before the run has failed; 0: no limit. Releases do not count
	Attempts    int // leases that were ever granted
	Failures    int // attempts that failed or whose lease expired, and a failure without an attempt
	Retries     int // times the run was scheduled again after a failure or an expired lease
	Releases    int // times a worker gave the run back without a failure

	Due      time.Time // when the run may be claimed; zero unless the status is runnable
	Created  time.Time
	Updated  time.Time // the time of the last event; heartbeats leave it alone
	Finished time.Time // the time of the terminal event; zero before

	Lease *Lease // not nil exactly when the status is leased

	Source         Source
	IdempotencyKey string        // "" is none
	IdempotencyTTL time.Duration // 0: the owner is kept while the run is active
	SingletonKey   string        // "" is none
	ConcurrencyKey string        // "" is none
	WaitingFor     string        // the run that a waiting run waits for; "" otherwise
	Timeout        time.Duration // how long one attempt may take; 0: no limit
	LatestStart    time.Time     // a run that no worker has begun by then fails instead; zero: no limit

	Result  json.RawMessage // of a succeeded run; nil: no result
	Failure *Failure        // the last failure, of a failed or retrying run

	Trace    map[string]string // a trace carrier, as the OpenTelemetry propagators write it
	Metadata map[string]string
}

// Lease is a worker's right to work on a run until Expires. Token is the fence:
// whoever writes for a leased run proves that the run still carries it.
type Lease struct {
	Token   uuid.UUID
	Worker  string
	Attempt int // 1 for the first lease of a run
	Expires time.Time
	// Duration is how long the lease was granted for, and is renewed for; positive,
	// in whole microseconds. Whoever looks for expired leases may find one up to one
	// Duration late.
	Duration time.Duration
	// Slots are the capacity slots that the lease holds: of its queue and of its
	// concurrency key; 0 is none.
	QueueSlot int
	KeySlot   int
}

// Source says what made a run.
type Source struct {
	Type     SourceType
	RunID    string // the run that was rerun or retried; "" otherwise
	Schedule string // the schedule of SourceSchedule; "" otherwise
}

// SourceType is a closed set: who or what made a run.
type SourceType string

// The sources of a run.
const (
	SourceTrigger     SourceType = "trigger"
	SourceSchedule    SourceType = "schedule"
	SourceRerun       SourceType = "rerun"
	SourceManualRetry SourceType = "manual_retry"
)

// Valid reports whether t is one of the source types.
func (t SourceType) Valid() bool {
	switch t {
	case SourceTrigger, SourceSchedule, SourceRerun, SourceManualRetry:
		return true
	}
	return false
}

// Failure says why an attempt or a run failed.
type Failure struct {
	Code      string // short and stable, such as "error", "panic", "lease_expired"
	Message   string
	Retryable bool
	Detail    string // a stack, say; "" is none
}
