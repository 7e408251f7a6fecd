package lane_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/seed4391e180/runlane/lane"
	"github.com/seed4391e180/runlane/lane/lanetest"
	"github.com/seed4391e180/runlane/run"
	"github.com/seed4391e180/runlane/storage"
)

// TestModel plays random programs of triggers, work, cancellations, retries, reruns,
// prunings, key resets, pauses and passing time against a model that knows nothing of
// transactions, leases or indexes, and compares every run after every step.
func TestModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		m := &model{t: t, rt: rt, runs: map[string]*modelRun{}, keys: map[string]modelKey{}, singles: map[string]string{}}
		m.store = lanetest.New(t)
		m.lane = m.store.Lane(lane.Config{Retention: lane.KeepForever, Limits: map[string]lane.QueueLimits{lane.DefaultQueue: {Running: 3, PerKey: 1}}})
		m.task = lane.Define(m.lane, "task", playScript, lane.TaskOptions{MaxAttempts: modelAttempts, Backoff: lane.Fixed(modelBackoff)})
		rt.Repeat(map[string]func(*rapid.T){
			"trigger": m.trigger, "work": m.work, "cancel": m.cancel, "retry": m.retry, "rerun": m.rerun,
			"prune": m.prune, "reset": m.reset, "pause": m.pause, "advance": m.advance, "": m.compare,
		})
	})
}

const (
	modelAttempts = 3
	modelBackoff  = 10 * time.Minute
)

// A script is what the attempts of a run do, one after the other, separated by
// spaces: ok, error, permanent, panic, release, later, or wait:RUN. The last goes on
// for ever.
func playScript(_ context.Context, a *lane.Attempt, script string) (int, error) {
	what := scriptAt(script, a.Number)
	switch {
	case what == "ok":
		return a.Number, nil
	case what == "permanent":
		return 0, lane.Permanent(errors.New(what))
	case what == "panic":
		panic(what)
	case what == "release":
		return 0, a.Release(0)
	case what == "later":
		return 0, a.Release(time.Hour)
	case strings.HasPrefix(what, "wait:"):
		return 0, a.WaitFor(strings.TrimPrefix(what, "wait:"))
	}
	return 0, errors.New(what)
}

func scriptAt(script string, attempt int) string {
	steps := strings.Fields(script)
	return steps[min(attempt, len(steps))-1]
}

// modelRun is what the model knows of a run.
type modelRun struct {
	id, script         string
	status             run.Status
	due, finished      time.Time
	attempts, failures int
	waitsFor           string
	key, single        string
	ttl                time.Duration
}

type modelKey struct {
	run     string
	expires time.Time // zero: while the run is active
}

type model struct {
	t       *testing.T
	rt      *rapid.T
	store   *lanetest.Store
	lane    *lane.Lane
	task    *lane.Task[string, int]
	runs    map[string]*modelRun
	keys    map[string]modelKey
	singles map[string]string
	order   []string // of the runs, as they were made
	made    int
	paused  bool
}

func (m *model) check(err error) {
	m.rt.Helper()
	if err != nil {
		m.rt.Fatal(err)
	}
}

// any draws a run that was ever made, or nobody.
func (m *model) any(t *rapid.T) string {
	return rapid.SampledFrom(append([]string{"nobody"}, m.order...)).Draw(t, "run")
}

func (m *model) name() string {
	m.made++
	id := fmt.Sprint("run ", m.made)
	m.order = append(m.order, id)
	return strings.ReplaceAll(id, " ", "")
}

func (m *model) trigger(t *rapid.T) {
	steps := []string{"ok", "ok", "error", "permanent", "panic", "release", "later"}
	if len(m.order) > 0 {
		steps = append(steps, "wait:"+strings.ReplaceAll(m.any(t), " ", ""))
	}
	script := strings.Join(rapid.SliceOfN(rapid.SampledFrom(steps), 1, 4).Draw(t, "script"), " ")
	if strings.HasSuffix(script, "release") || strings.Contains(scriptAt(script, 99), "wait:") {
		script += " ok" // or it would never come to rest
	}
	o := lane.TriggerOptions{
		RunID:          m.name(),
		IdempotencyKey: rapid.SampledFrom([]string{"", "", "k1", "k2"}).Draw(t, "key"),
		SingletonKey:   rapid.SampledFrom([]string{"", "", "s1"}).Draw(t, "singleton"),
		ConcurrencyKey: rapid.SampledFrom([]string{"", "c1", "c2"}).Draw(t, "concurrency"),
		Delay:          rapid.SampledFrom([]time.Duration{0, 0, time.Hour}).Draw(t, "delay"),
		Priority:       rapid.IntRange(1, 4).Draw(t, "priority"),
	}
	if o.IdempotencyKey != "" {
		o.IdempotencyTTL = rapid.SampledFrom([]time.Duration{lane.WhileActive, 90 * time.Minute}).Draw(t, "ttl")
	}
	got, err := m.task.Trigger(m.t.Context(), script, o)
	m.check(err)
	r := &modelRun{id: o.RunID, script: script, due: m.store.Now().Add(o.Delay), key: o.IdempotencyKey, single: o.SingletonKey, ttl: max(o.IdempotencyTTL, 0), status: run.StatusQueued}
	if o.Delay > 0 {
		r.status = run.StatusScheduled
	}
	m.admit(r, got)
}

// admit makes a run, or says that another one does its work.
func (m *model) admit(r *modelRun, got lane.Triggered) {
	m.rt.Helper()
	if holder := m.holder(r); holder != "" {
		if !got.Existing || got.RunID != holder {
			m.rt.Fatalf("%s is %+v, but its keys stand for %s", r.id, got, holder)
		}
		return
	}
	if got.Existing || got.RunID != r.id {
		m.rt.Fatalf("%s is %+v, but its keys are free", r.id, got)
	}
	m.runs[r.id] = r
	if r.key != "" {
		k := modelKey{run: r.id}
		if r.ttl > 0 {
			k.expires = m.store.Now().Add(r.ttl)
		}
		m.keys[r.key] = k
	}
	if r.single != "" {
		m.singles[r.single] = r.id
	}
}

// holder is the run that a key of a new run stands for, the idempotency key first.
func (m *model) holder(r *modelRun) string {
	if k, taken := m.keys[r.key]; taken && r.key != "" {
		owner := m.runs[k.run]
		if owner != nil && owner.status != run.StatusFailed && (owner.status.Active() && k.expires.IsZero() || m.store.Now().Before(k.expires)) {
			return k.run
		}
	}
	if owner := m.runs[m.singles[r.single]]; r.single != "" && owner != nil && owner.status.Active() {
		return owner.id
	}
	return ""
}

// work lets a worker do all that is due. What is done first makes no difference.
func (m *model) work(*rapid.T) {
	m.store.Run(m.lane)
	for again := !m.paused; again; {
		again = false
		for _, id := range m.order {
			if r := m.runs[strings.ReplaceAll(id, " ", "")]; r != nil && r.status.Runnable() && !r.due.After(m.store.Now()) {
				m.attempt(r)
				again = true
			}
		}
	}
}

func (m *model) attempt(r *modelRun) {
	r.attempts++
	now := m.store.Now()
	switch what := scriptAt(r.script, r.attempts); {
	case what == "ok":
		m.end(r, run.StatusSucceeded)
	case what == "permanent":
		r.failures++
		m.end(r, run.StatusFailed)
	case what == "release":
		r.status, r.due = run.StatusReleased, now
	case what == "later":
		r.status, r.due = run.StatusReleased, now.Add(time.Hour)
	case strings.HasPrefix(what, "wait:"):
		m.wait(r, strings.TrimPrefix(what, "wait:"))
	default:
		if r.failures++; r.failures >= modelAttempts {
			m.end(r, run.StatusFailed)
		} else {
			r.status, r.due = run.StatusRetrying, now.Add(modelBackoff)
		}
	}
}

func (m *model) wait(r *modelRun, source string) {
	s := m.runs[source]
	switch {
	case s == nil || s == r:
		r.failures++
		m.end(r, run.StatusFailed)
	case s.status.Terminal():
		r.status, r.due = run.StatusQueued, m.store.Now()
	default:
		r.status, r.waitsFor = run.StatusWaiting, source
	}
}

func (m *model) end(r *modelRun, s run.Status) {
	r.status, r.finished, r.waitsFor = s, m.store.Now(), ""
	for _, w := range m.runs {
		if w.waitsFor == r.id {
			w.status, w.due, w.waitsFor = run.StatusQueued, m.store.Now(), ""
		}
	}
}

func (m *model) cancel(t *rapid.T) {
	id := strings.ReplaceAll(m.any(t), " ", "")
	got, err := m.lane.Cancel(m.t.Context(), id, "")
	r := m.runs[id]
	switch {
	case r == nil:
		if !errors.Is(err, lane.ErrNoRun) {
			t.Fatalf("%+v, %v", got, err)
		}
		return
	case err != nil:
		t.Fatal(err)
	}
	want := lane.CancelTooLate
	if !r.status.Terminal() {
		want = lane.CancelDone
		m.end(r, run.StatusCancelled)
	}
	if got.Outcome != want || got.Status != r.status {
		t.Fatalf("%+v of %+v", got, *r)
	}
}

func (m *model) retry(t *rapid.T) { m.again(t, m.lane.Retry, true) }
func (m *model) rerun(t *rapid.T) { m.again(t, m.lane.Rerun, false) }

func (m *model) again(t *rapid.T, do func(context.Context, string, ...lane.AgainOptions) (lane.Triggered, error), retry bool) {
	id, child := strings.ReplaceAll(m.any(t), " ", ""), m.name()
	got, err := do(m.t.Context(), id, lane.AgainOptions{RunID: child})
	r := m.runs[id]
	if r == nil || !r.status.Terminal() || retry && r.status != run.StatusFailed {
		if err == nil {
			t.Fatalf("%+v is done again", r)
		}
		return
	}
	m.check(err)
	next := &modelRun{id: child, script: r.script, status: run.StatusQueued, due: m.store.Now(), single: r.single}
	if retry {
		next.key, next.ttl = r.key, r.ttl
	}
	m.admit(next, got)
}

func (m *model) prune(t *rapid.T) {
	old := rapid.SampledFrom([]time.Duration{time.Minute, 2 * time.Hour}).Draw(t, "older than")
	_, err := m.lane.Prune(m.t.Context(), lane.PruneOptions{OlderThan: old})
	m.check(err)
	cut := m.store.Now().Add(-old)
	for id, r := range m.runs {
		if r.status.Terminal() && r.finished.Before(cut) {
			delete(m.runs, id)
		}
	}
}

func (m *model) reset(t *rapid.T) {
	key := rapid.SampledFrom([]string{"k1", "k2"}).Draw(t, "key")
	_, err := m.lane.ResetKey(m.t.Context(), "task", key)
	m.check(err)
	delete(m.keys, key)
}

func (m *model) pause(*rapid.T) {
	do := func(ctx context.Context, queue string) error { return m.lane.PauseQueue(ctx, queue, "") }
	if m.paused {
		do = m.lane.ResumeQueue
	}
	m.check(do(m.t.Context(), lane.DefaultQueue))
	m.paused = !m.paused
}

func (m *model) advance(t *rapid.T) {
	m.store.Advance(rapid.SampledFrom([]time.Duration{time.Second, 10 * time.Minute, time.Hour, 2 * time.Hour}).Draw(t, "by"))
	_, err := m.lane.Tick(m.t.Context())
	m.check(err)
}

// compare compares every run, and its history with what it is.
func (m *model) compare(t *rapid.T) {
	page, err := m.store.ListRuns(m.t.Context(), storage.RunFilter{Environment: lanetest.Environment, Full: true, Limit: 500})
	m.check(err)
	var got, want []string
	for _, item := range page.Runs {
		r := item.Run
		got = append(got, fmt.Sprintf("%s is %s, attempts %d, failures %d, due %s, waiting for %q", r.ID, r.Status, r.Attempts, r.Failures, r.Due, r.WaitingFor))
		made, err := run.Reduce(nil, 1, m.store.History(r.ID)...)
		if err != nil || made.Status != r.Status || made.Attempts != r.Attempts {
			t.Fatalf("the history of %s makes %+v, %v", r.ID, made, err)
		}
	}
	for _, r := range m.runs {
		due := r.due
		if !r.status.Runnable() {
			due = time.Time{}
		}
		want = append(want, fmt.Sprintf("%s is %s, attempts %d, failures %d, due %s, waiting for %q", r.id, r.status, r.attempts, r.failures, due, r.waitsFor))
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Fatalf("the store has\n%s\nand the model\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
