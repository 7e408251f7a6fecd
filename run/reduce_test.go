package run_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/seed4391e180/runlane/run"
)

var (
	token   = uuid.UUID{15: 7}
	eventID = uuid.UUID{15: 9}
	start   = time.Date(2030, 5, 6, 7, 8, 9, 123456000, time.UTC)
)

func at(minutes int) time.Time { return start.Add(time.Duration(minutes) * time.Minute) }

// sample returns a run with a status, as a history would have left it: its
// second attempt, after one failure and one release.
func sample(s run.Status) run.Run {
	r := run.Run{
		Environment: "prod", ID: "r1", Task: "email", Queue: "mail", Priority: 2,
		Payload: json.RawMessage(`{"n":1}`), Status: s, Sequence: 6,
		Attempts: 2, Failures: 1, Retries: 1, Releases: 1,
		Created: at(0), Updated: at(6),
		Source: run.Source{Type: run.SourceTrigger},
	}
	switch {
	case s.Runnable():
		r.Due = at(7)
	case s.Leased():
		r.Lease = &run.Lease{Token: token, Worker: "w1", Attempt: 2, Expires: at(8)}
	case s.Terminal():
		r.Finished = at(6)
	case s == run.StatusWaiting:
		r.WaitingFor = "r0"
	}
	if s == run.StatusRetrying || s == run.StatusFailed {
		r.Failure = &run.Failure{Code: "error", Message: "before"}
	}
	return r
}

// dataFor returns event data of a type that fits every run which allows the type.
func dataFor(t run.EventType, r *run.Run) run.EventData {
	held, attempts := uuid.Nil, 0
	if r != nil {
		attempts = r.Attempts
		if r.Lease != nil {
			held = r.Lease.Token
		}
	}
	switch t {
	case run.TypeCreated:
		return run.Created{Task: "email", Queue: "mail", Priority: 2, Source: run.Source{Type: run.SourceTrigger}}
	case run.TypeStarted:
		return run.Started{Lease: run.Lease{Token: uuid.UUID{15: 8}, Worker: "w2", Attempt: attempts + 1, Expires: at(20)}}
	case run.TypeSucceeded:
		return run.Succeeded{Token: held, Result: json.RawMessage(`"ok"`)}
	case run.TypeFailed:
		return run.Failed{Token: held, Failure: run.Failure{Code: "error", Message: "now"}}
	case run.TypeRetryScheduled:
		return run.RetryScheduled{Token: held, Due: at(15), Failure: run.Failure{Code: "error", Message: "again", Retryable: true}}
	case run.TypeReleased:
		return run.Released{Token: held, Due: at(15), Reason: "later"}
	case run.TypeWaiting:
		return run.Waiting{Token: held, For: "r9"}
	case run.TypeResumed:
		return run.Resumed{}
	case run.TypeLeaseExpired:
		return run.LeaseExpired{Token: held, Due: at(15)}
	case run.TypeCancellationRequested:
		return run.CancellationRequested{Reason: "enough"}
	case run.TypeCancelled:
		return run.Cancelled{Token: held, Reason: "enough"}
	}
	panic("no data for " + t)
}

func eventFor(t run.EventType, r *run.Run) run.Event {
	seq := int64(1)
	if r != nil {
		seq = r.Sequence + 1
	}
	return run.Event{ID: eventID, Environment: "prod", RunID: "r1", Sequence: seq, At: at(10), Data: dataFor(t, r)}
}

const none = run.Status("")

// The whole of the state machine: what each status makes of each type of event.
// A status that a type does not mention refuses it.
var transitions = map[run.EventType]map[run.Status]run.Status{
	run.TypeCreated: {none: run.StatusQueued},
	run.TypeStarted: {
		run.StatusQueued: run.StatusRunning, run.StatusScheduled: run.StatusRunning,
		run.StatusReleased: run.StatusRunning, run.StatusRetrying: run.StatusRunning,
	},
	run.TypeSucceeded: {run.StatusRunning: run.StatusSucceeded, run.StatusCancellationRequested: run.StatusSucceeded},
	run.TypeFailed: {
		run.StatusQueued: run.StatusFailed, run.StatusScheduled: run.StatusFailed,
		run.StatusReleased: run.StatusFailed, run.StatusRetrying: run.StatusFailed,
		run.StatusRunning: run.StatusFailed, run.StatusCancellationRequested: run.StatusFailed,
		run.StatusWaiting: run.StatusFailed,
	},
	run.TypeRetryScheduled: {run.StatusRunning: run.StatusRetrying},
	run.TypeReleased: {
		run.StatusQueued: run.StatusReleased, run.StatusScheduled: run.StatusReleased,
		run.StatusReleased: run.StatusReleased, run.StatusRetrying: run.StatusReleased,
		run.StatusRunning: run.StatusReleased,
	},
	run.TypeWaiting:               {run.StatusRunning: run.StatusWaiting},
	run.TypeResumed:               {run.StatusWaiting: run.StatusQueued},
	run.TypeLeaseExpired:          {run.StatusRunning: run.StatusRetrying},
	run.TypeCancellationRequested: {run.StatusRunning: run.StatusCancellationRequested},
	run.TypeCancelled: {
		run.StatusQueued: run.StatusCancelled, run.StatusScheduled: run.StatusCancelled,
		run.StatusReleased: run.StatusCancelled, run.StatusRetrying: run.StatusCancelled,
		run.StatusCancellationRequested: run.StatusCancelled, run.StatusWaiting: run.StatusCancelled,
	},
}

// expect states, for each type of event, the fields of a legal result.
func expect(typ run.EventType, before run.Run, to run.Status) run.Run {
	want := before
	want.Status, want.Sequence, want.Updated = to, before.Sequence+1, at(10)
	want.Due, want.WaitingFor, want.Lease, want.Failure = time.Time{}, "", nil, nil
	if to.Terminal() {
		want.Finished = at(10)
	}
	switch typ {
	case run.TypeCreated:
		want = run.Run{
			Environment: "prod", ID: "r1", Task: "email", Queue: "mail", Priority: 2, Status: run.StatusQueued,
			Sequence: 1, Due: at(10), Created: at(10), Updated: at(10), Source: run.Source{Type: run.SourceTrigger},
		}
	case run.TypeStarted:
		want.Attempts = 3
		want.Lease = &run.Lease{Token: uuid.UUID{15: 8}, Worker: "w2", Attempt: 3, Expires: at(20)}
	case run.TypeSucceeded:
		want.Result = json.RawMessage(`"ok"`)
	case run.TypeFailed:
		want.Failures = 2
		want.Failure = &run.Failure{Code: "error", Message: "now"}
	case run.TypeRetryScheduled:
		want.Failures, want.Retries, want.Due = 2, 2, at(15)
		want.Failure = &run.Failure{Code: "error", Message: "again", Retryable: true}
	case run.TypeLeaseExpired:
		want.Failures, want.Retries, want.Due = 2, 2, at(15)
		want.Failure = &run.Failure{Code: "lease_expired", Message: "the worker did not renew its lease", Retryable: true}
	case run.TypeReleased:
		want.Due = at(15)
		if before.Lease != nil {
			want.Releases = 2
		}
	case run.TypeWaiting:
		want.WaitingFor = "r9"
	case run.TypeResumed:
		want.Due = at(10)
	case run.TypeCancellationRequested:
		want.Lease = before.Lease
	}
	return want
}

func TestReduceEveryStatusAndEventType(t *testing.T) {
	if len(transitions) != len(run.EventTypes()) {
		t.Fatalf("the table has %d types of event, the domain %d", len(transitions), len(run.EventTypes()))
	}
	for _, status := range append([]run.Status{none}, run.Statuses()...) {
		for _, typ := range run.EventTypes() {
			t.Run(string(status)+"/"+string(typ), func(t *testing.T) {
				var before *run.Run
				if status != none {
					r := sample(status)
					before = &r
				}
				checkTransition(t, before, typ, transitions[typ][status])
			})
		}
	}
}

func checkTransition(t *testing.T, before *run.Run, typ run.EventType, to run.Status) {
	t.Helper()
	var was run.Run
	if before != nil {
		was = sample(before.Status)
	}
	got, err := run.Reduce(before, was.Sequence+1, eventFor(typ, before))
	if before != nil && !reflect.DeepEqual(*before, was) {
		t.Errorf("Reduce modified the run it was given")
	}
	if to == none {
		wantRefusal(t, err, run.TransitionError{RunID: "r1", Status: was.Status, Type: typ, Reason: run.ReasonStatus})
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	if want := expect(typ, was, to); !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func wantRefusal(t *testing.T, err error, want run.TransitionError) {
	t.Helper()
	var got *run.TransitionError
	if !errors.Is(err, run.ErrIllegalTransition) || !errors.As(err, &got) {
		t.Fatalf("got error %v, want a refusal because %s", err, want.Reason)
	}
	if *got != want {
		t.Errorf("got  %+v\nwant %+v", *got, want)
	}
}

func TestReduceSchedulesARunForLater(t *testing.T) {
	e := eventFor(run.TypeCreated, nil)
	d := e.Data.(run.Created)
	d.RunAt = at(60)
	e.Data = d
	r, err := run.Reduce(nil, 1, e)
	if err != nil {
		t.Fatal(err)
	}
	if r.Status != run.StatusScheduled || !r.Due.Equal(at(60)) || !r.Created.Equal(at(10)) {
		t.Errorf("got %s due %v created %v", r.Status, r.Due, r.Created)
	}
}

func TestReduceKeepsWhatCreatedSays(t *testing.T) {
	e := eventFor(run.TypeCreated, nil)
	e.Data = run.Created{
		Task: "t", Queue: "q", Priority: 4, Payload: json.RawMessage(`[1]`), MaxAttempts: 5,
		Source:         run.Source{Type: run.SourceRerun, RunID: "old"},
		IdempotencyKey: "i", IdempotencyTTL: time.Hour, SingletonKey: "s", ConcurrencyKey: "c",
		Trace: map[string]string{"traceparent": "x"}, Metadata: map[string]string{"a": "b"},
	}
	got, err := run.Reduce(nil, 1, e)
	if err != nil {
		t.Fatal(err)
	}
	want := run.Run{
		Environment: "prod", ID: "r1", Task: "t", Queue: "q", Priority: 4, Payload: json.RawMessage(`[1]`),
		Status: run.StatusQueued, Sequence: 1, MaxAttempts: 5, Due: at(10), Created: at(10), Updated: at(10),
		Source:         run.Source{Type: run.SourceRerun, RunID: "old"},
		IdempotencyKey: "i", IdempotencyTTL: time.Hour, SingletonKey: "s", ConcurrencyKey: "c",
		Trace: map[string]string{"traceparent": "x"}, Metadata: map[string]string{"a": "b"},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestReduceRefusesWhatDoesNotFit(t *testing.T) {
	other := uuid.UUID{15: 99}
	var nilCreated *run.Created
	tests := []struct {
		name   string
		status run.Status
		typ    run.EventType
		change func(e *run.Event)
		reason run.Reason
	}{
		{"no data", run.StatusQueued, "", func(e *run.Event) { e.Data = nil }, run.ReasonData},
		{"a pointer to data", run.StatusQueued, "", func(e *run.Event) { e.Data = &run.Resumed{} }, run.ReasonData},
		{"a nil pointer", run.StatusQueued, "", func(e *run.Event) { e.Data = nilCreated }, run.ReasonData},
		{"a forged type", run.StatusQueued, "", func(e *run.Event) { e.Data = struct{ run.Started }{} }, run.ReasonData},
		{"a gap", run.StatusQueued, run.TypeCancelled, func(e *run.Event) { e.Sequence++ }, run.ReasonSequence},
		{"a repetition", run.StatusQueued, run.TypeCancelled, func(e *run.Event) { e.Sequence-- }, run.ReasonSequence},
		{"created as number 2", none, run.TypeCreated, func(e *run.Event) { e.Sequence = 2 }, run.ReasonSequence},
		{"another run", run.StatusQueued, run.TypeCancelled, func(e *run.Event) { e.RunID = "r2" }, run.ReasonIdentity},
		{"another environment", run.StatusQueued, run.TypeCancelled, func(e *run.Event) { e.Environment = "dev" }, run.ReasonIdentity},
		{"no environment", none, run.TypeCreated, func(e *run.Event) { e.Environment = "" }, run.ReasonIdentity},
		{"no event id", run.StatusQueued, run.TypeCancelled, func(e *run.Event) { e.ID = uuid.Nil }, run.ReasonEventID},
		{"no time", run.StatusQueued, run.TypeCancelled, func(e *run.Event) { e.At = time.Time{} }, run.ReasonTime},
		{"a lease without a token", run.StatusQueued, run.TypeStarted, lease(func(l *run.Lease) { l.Token = uuid.Nil }), run.ReasonLease},
		{"a lease without a worker", run.StatusQueued, run.TypeStarted, lease(func(l *run.Lease) { l.Worker = "" }), run.ReasonLease},
		{"a lease that miscounts", run.StatusQueued, run.TypeStarted, lease(func(l *run.Lease) { l.Attempt++ }), run.ReasonLease},
		{"a lease without an end", run.StatusQueued, run.TypeStarted, lease(func(l *run.Lease) { l.Expires = time.Time{} }), run.ReasonTime},
		{"success of another lease", run.StatusRunning, run.TypeSucceeded, func(e *run.Event) { e.Data = run.Succeeded{Token: other} }, run.ReasonToken},
		{"success without a token", run.StatusRunning, run.TypeSucceeded, func(e *run.Event) { e.Data = run.Succeeded{} }, run.ReasonToken},
		{"failure of another lease", run.StatusRunning, run.TypeFailed, func(e *run.Event) { e.Data = run.Failed{Token: other} }, run.ReasonToken},
		{"failure of a lease nobody holds", run.StatusQueued, run.TypeFailed, func(e *run.Event) { e.Data = run.Failed{Token: other} }, run.ReasonToken},
		{"cancellation of another lease", run.StatusCancellationRequested, run.TypeCancelled, func(e *run.Event) { e.Data = run.Cancelled{} }, run.ReasonToken},
		{"cancellation of a lease nobody holds", run.StatusWaiting, run.TypeCancelled, func(e *run.Event) { e.Data = run.Cancelled{Token: other} }, run.ReasonToken},
		{"retry of another lease", run.StatusRunning, run.TypeRetryScheduled, func(e *run.Event) { e.Data = run.RetryScheduled{Token: other, Due: at(9)} }, run.ReasonToken},
		{"release of another lease", run.StatusRunning, run.TypeReleased, func(e *run.Event) { e.Data = run.Released{Token: other, Due: at(9)} }, run.ReasonToken},
		{"expiry of another lease", run.StatusRunning, run.TypeLeaseExpired, func(e *run.Event) { e.Data = run.LeaseExpired{Token: other, Due: at(9)} }, run.ReasonToken},
		{"wait of another lease", run.StatusRunning, run.TypeWaiting, func(e *run.Event) { e.Data = run.Waiting{Token: other, For: "r9"} }, run.ReasonToken},
		{"a wait for nothing", run.StatusRunning, run.TypeWaiting, func(e *run.Event) { e.Data = run.Waiting{Token: token} }, run.ReasonWait},
		{"a wait for itself", run.StatusRunning, run.TypeWaiting, func(e *run.Event) { e.Data = run.Waiting{Token: token, For: "r1"} }, run.ReasonWait},
		{"a retry without a time", run.StatusRunning, run.TypeRetryScheduled, func(e *run.Event) { e.Data = run.RetryScheduled{Token: token} }, run.ReasonTime},
		{"a release without a time", run.StatusRunning, run.TypeReleased, func(e *run.Event) { e.Data = run.Released{Token: token} }, run.ReasonTime},
		{"an expiry without a time", run.StatusRunning, run.TypeLeaseExpired, func(e *run.Event) { e.Data = run.LeaseExpired{Token: token} }, run.ReasonTime},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var before *run.Run
			expected := int64(1)
			typ := tt.typ
			if tt.status != none {
				r := sample(tt.status)
				before, expected = &r, r.Sequence+1
			}
			if typ == "" {
				typ = run.TypeStarted
			}
			e := eventFor(typ, before)
			tt.change(&e)
			_, err := run.Reduce(before, expected, e)
			wantRefusal(t, err, run.TransitionError{RunID: "r1", Status: tt.status, Type: tt.typ, Reason: tt.reason})
		})
	}
}

func lease(change func(l *run.Lease)) func(e *run.Event) {
	return func(e *run.Event) {
		d := e.Data.(run.Started)
		change(&d.Lease)
		e.Data = d
	}
}

func TestReduceRefusesAWrongExpectation(t *testing.T) {
	r := sample(run.StatusQueued)
	_, err := run.Reduce(&r, 6, eventFor(run.TypeCancelled, &r))
	wantRefusal(t, err, run.TransitionError{RunID: "r1", Status: run.StatusQueued, Reason: run.ReasonSequence})
	_, err = run.Reduce(nil, 2, eventFor(run.TypeCreated, nil))
	wantRefusal(t, err, run.TransitionError{Reason: run.ReasonSequence})
	_, err = run.Reduce(&run.Run{}, 1, eventFor(run.TypeCreated, nil))
	wantRefusal(t, err, run.TransitionError{Reason: run.ReasonSequence})
	_, err = run.Reduce(nil, 1)
	wantRefusal(t, err, run.TransitionError{Reason: run.ReasonNothing})
}

func TestReduceWithoutEventsChangesNothing(t *testing.T) {
	r := sample(run.StatusRunning)
	got, err := run.Reduce(&r, 7)
	if err != nil || !reflect.DeepEqual(got, r) {
		t.Errorf("got %+v, %v", got, err)
	}
}

// A batch counts as a whole: one event that does not fit, and nothing happened.
func TestReduceRefusesTheWholeBatch(t *testing.T) {
	first := eventFor(run.TypeCreated, nil)
	second := eventFor(run.TypeSucceeded, nil)
	second.Sequence = 2
	got, err := run.Reduce(nil, 1, first, second)
	wantRefusal(t, err, run.TransitionError{RunID: "r1", Status: run.StatusQueued, Type: run.TypeSucceeded, Reason: run.ReasonStatus})
	if !reflect.DeepEqual(got, run.Run{}) {
		t.Errorf("a refused batch left %+v", got)
	}
}

// A leased run that lost its lease to damage is refused, not dereferenced.
func TestReduceRefusesADamagedRun(t *testing.T) {
	r := sample(run.StatusRunning)
	r.Lease = nil
	_, err := run.Reduce(&r, 7, eventFor(run.TypeSucceeded, &r))
	wantRefusal(t, err, run.TransitionError{RunID: "r1", Status: run.StatusRunning, Type: run.TypeSucceeded, Reason: run.ReasonToken})
}

func TestRenewMovesTheExpiryAndNothingElse(t *testing.T) {
	for _, status := range []run.Status{run.StatusRunning, run.StatusCancellationRequested} {
		before := sample(status)
		got, err := run.Renew(before, token, at(30))
		if err != nil {
			t.Fatal(err)
		}
		want := sample(status)
		want.Lease.Expires = at(30)
		if !reflect.DeepEqual(got, want) {
			t.Errorf("got  %+v\nwant %+v", got, want)
		}
		if !reflect.DeepEqual(before, sample(status)) {
			t.Errorf("Renew modified the lease it was given")
		}
	}
}

func TestRenewRefusesWhatIsNotHeld(t *testing.T) {
	for _, status := range run.Statuses() {
		if status.Leased() {
			continue
		}
		_, err := run.Renew(sample(status), token, at(30))
		wantRefusal(t, err, run.TransitionError{RunID: "r1", Status: status, Reason: run.ReasonStatus})
	}
	r := sample(run.StatusRunning)
	_, err := run.Renew(r, uuid.UUID{15: 99}, at(30))
	wantRefusal(t, err, run.TransitionError{RunID: "r1", Status: run.StatusRunning, Reason: run.ReasonToken})
	_, err = run.Renew(r, token, time.Time{})
	wantRefusal(t, err, run.TransitionError{RunID: "r1", Status: run.StatusRunning, Reason: run.ReasonTime})
}

func TestTransitionErrorNamesRunStatusEventAndReason(t *testing.T) {
	err := &run.TransitionError{RunID: "r1", Status: run.StatusQueued, Type: run.TypeWaiting, Reason: run.ReasonStatus}
	want := `run: illegal transition of run "r1" (queued) by run.waiting: the status does not allow it`
	if err.Error() != want {
		t.Errorf("got  %s\nwant %s", err, want)
	}
}
