package storagetest

import (
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/run"
	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/codec"
)

// epoch is when sample runs begin to happen.
var epoch = time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC)

// sampleRun is a legal run with that status.
func sampleRun(id string, status run.Status) run.Run {
	r := run.Run{
		Environment: env, ID: id, Task: "task", Queue: "queue", Priority: run.PriorityDefault,
		Status: status, Sequence: 1, Created: epoch, Updated: epoch,
		Source: run.Source{Type: run.SourceTrigger},
	}
	switch {
	case status.Runnable():
		r.Due = epoch
	case status.Leased():
		r.Attempts = 1
		r.Lease = &run.Lease{Token: numbered(1), Worker: "worker", Attempt: 1, Expires: epoch.Add(time.Minute), Duration: time.Minute}
	case status.Terminal():
		r.Finished = epoch
	case status == run.StatusWaiting:
		r.Attempts, r.WaitingFor = 1, "another"
	}
	switch status {
	case run.StatusRetrying, run.StatusFailed:
		r.Attempts, r.Failures = 1, 1
		r.Failure = &run.Failure{Code: "error", Message: "no"}
		if status == run.StatusRetrying {
			r.Retries = 1
		}
	case run.StatusReleased:
		r.Attempts, r.Releases = 1, 1
	}
	return r
}

// sampleEvent is a legal event of a run.
func sampleEvent(runID string, sequence int64, id uuid.UUID) run.Event {
	return run.Event{
		ID: id, Environment: env, RunID: runID, Sequence: sequence, At: epoch,
		Data: run.CancellationRequested{Reason: "because"},
	}
}

// createdEvent is the first event of a run.
func createdEvent(r run.Run, id uuid.UUID) run.Event {
	return run.Event{
		ID: id, Environment: r.Environment, RunID: r.ID, Sequence: 1, At: r.Created,
		Data: run.Created{
			Task: r.Task, Queue: r.Queue, Priority: r.Priority, Payload: r.Payload, Source: r.Source,
			SingletonKey: r.SingletonKey,
		},
	}
}

// numbered is a UUID with a number in it.
func numbered(n int) uuid.UUID {
	return uuid.MustParse(fmt.Sprintf("01980000-0000-7000-8000-%012d", n))
}

func (f *fixture) runRecord(r run.Run) storage.Record {
	f.Helper()
	rec, err := codec.EncodeRun(r)
	require.NoError(f, err)
	return rec
}

func (f *fixture) eventRecord(e run.Event) storage.Record {
	f.Helper()
	rec, err := codec.EncodeEvent(e)
	require.NoError(f, err)
	return rec
}

func (f *fixture) tombstone(runID string) storage.Record {
	f.Helper()
	return f.tombstoneIn(env, runID)
}

func (f *fixture) tombstoneIn(environment, runID string) storage.Record {
	f.Helper()
	rec, err := codec.EncodeTombstone(environment, runID)
	require.NoError(f, err)
	return rec
}

// getRun is GetRun of the environment env.
func (f *fixture) getRun(id string) (run.Run, bool) {
	f.Helper()
	r, found, err := f.store.GetRun(f.ctx, env, id)
	require.NoError(f, err)
	return r, found
}
