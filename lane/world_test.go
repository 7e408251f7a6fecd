package lane

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/seed4391e180/runlane/run"
	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/codec"
	"github.com/seed4391e180/runlane/storage/keys"
	"github.com/seed4391e180/runlane/storage/memory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// inBubble runs a test on a fake clock: hours pass in no time, and nothing waits
// for real. A goroutine that is left behind fails the test.
func inBubble(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		test(t, w)
		w.check()
		if err := w.memory.Close(); err != nil {
			t.Error(err)
		}
	})
}

const testEnv = "test"

// world is a store with a lane on it, whose faults a test can order.
type world struct {
	t      *testing.T
	memory *memory.Driver
	store  *faultyStore
	lane   *Lane

	mu        sync.Mutex
	finishes  []Finish
	claims    map[string]int
	skips     map[Skip]int
	recovered int

	presences []storage.Key
}

func newWorld(t *testing.T) *world { return newWorldOn(t, memory.New(memory.Config{})) }

func newWorldOn(t *testing.T, store *memory.Driver) *world {
	t.Helper()
	w := &world{t: t, memory: store, claims: map[string]int{}, skips: map[Skip]int{}}
	w.store = &faultyStore{Driver: w.memory, counts: map[string]int{}}
	w.lane = w.newLane()
	return w
}

// newLane is a lane of another process on the same store.
func (w *world) newLane() *Lane {
	w.t.Helper()
	l, err := New(w.store, Config{Environment: testEnv, Hooks: Hooks{
		Claimed: func(queue string, runs int) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.claims[queue] += runs
		},
		Finished: func(f Finish) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.finishes = append(w.finishes, f)
		},
		Skipped: func(_ string, why Skip, runs int) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.skips[why] += runs
		},
		Recovered: func(runs int) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.recovered += runs
		},
	}})
	if err != nil {
		w.t.Fatal(err)
	}
	return l
}

func (w *world) outcomes() map[Outcome]int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := map[Outcome]int{}
	for _, f := range w.finishes {
		n[f.Outcome]++
	}
	return n
}

func (w *world) skipped(why Skip) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.skips[why]
}

// start starts a worker; stop ends it and returns what Work returned.
func (w *world) start(l *Lane, cfg WorkerConfig) (stop func() error) {
	ctx, cancel := context.WithCancel(w.t.Context())
	done := make(chan error, 1)
	go func() { done <- l.Work(ctx, cfg) }()
	return func() error {
		cancel()
		return <-done
	}
}

// work starts a worker that must end without an error when the returned function
// is called.
func (w *world) work(cfg WorkerConfig) (stop func()) {
	stopWork := w.start(w.lane, cfg)
	return func() {
		w.t.Helper()
		if err := stopWork(); err != nil {
			w.t.Errorf("Work: %v", err)
		}
	}
}

// run returns a run that must exist.
func (w *world) run(id string) run.Run {
	w.t.Helper()
	r, found, err := w.memory.GetRun(context.Background(), testEnv, id)
	if err != nil || !found {
		w.t.Fatalf("run %q: found %v, error %v", id, found, err)
	}
	return r
}

// ended waits until a run has ended.
func (w *world) ended(id string) run.Run {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 6*time.Hour)
	defer cancel()
	r, err := w.lane.await(ctx, id)
	if err != nil {
		w.t.Fatalf("run %q did not end: %v; it is %+v", id, err, w.run(id))
	}
	return r
}

// reaches waits until a run has a status.
func (w *world) reaches(id string, status run.Status) run.Run {
	w.t.Helper()
	for range 100_000 {
		if r := w.run(id); r.Status == status {
			return r
		}
		time.Sleep(time.Millisecond)
	}
	w.t.Fatalf("run %q does not become %s; it is %+v", id, status, w.run(id))
	panic("unreachable")
}

// runs returns all runs of the environment.
func (w *world) runs() []run.Run {
	w.t.Helper()
	var all []run.Run
	f := storage.RunFilter{Environment: testEnv, Full: true, Limit: 500}
	for {
		page, err := w.memory.ListRuns(context.Background(), f)
		if err != nil {
			w.t.Fatal(err)
		}
		for _, item := range page.Runs {
			all = append(all, *item.Run)
		}
		if f.Cursor = page.Next; f.Cursor == "" {
			return all
		}
	}
}

// history returns the events of a run, in order.
func (w *world) history(id string) []run.Event {
	w.t.Helper()
	return w.events(storage.EventFilter{RunID: id})
}

// histories returns the events of all runs.
func (w *world) histories() map[string][]run.Event {
	w.t.Helper()
	all := map[string][]run.Event{}
	for _, e := range w.events(storage.EventFilter{Sort: storage.SortOccurred}) {
		all[e.RunID] = append(all[e.RunID], e)
	}
	for _, events := range all {
		slices.SortFunc(events, func(a, b run.Event) int { return int(a.Sequence - b.Sequence) })
	}
	return all
}

func (w *world) events(f storage.EventFilter) []run.Event {
	w.t.Helper()
	var all []run.Event
	f.Environment, f.Limit = testEnv, 500
	for {
		page, err := w.memory.ListEvents(context.Background(), f)
		if err != nil {
			w.t.Fatal(err)
		}
		all = append(all, page.Events...)
		if f.Cursor = page.Next; f.Cursor == "" {
			return all
		}
	}
}

// types is the history of a run in short.
func (w *world) types(id string) string {
	w.t.Helper()
	text := ""
	for i, e := range w.history(id) {
		if i > 0 {
			text += " "
		}
		text += string(e.Type()[len("run."):])
	}
	return text
}

// check holds for every test at its end: histories have no gap and at most one
// terminal event, times never run backwards, reducing a history gives the stored
// run, and an owner that is stored names a run that may hold the key.
func (w *world) check() {
	w.t.Helper()
	runs, histories := w.runs(), w.histories()
	for _, r := range runs {
		events := histories[r.ID]
		for i, e := range events {
			if e.Sequence != int64(i+1) {
				w.t.Fatalf("run %q: event %d has sequence %d", r.ID, i, e.Sequence)
			}
			if i > 0 && e.At.Before(events[i-1].At) {
				w.t.Errorf("run %q: event %d is older than the one before", r.ID, i)
			}
			switch e.Data.(type) {
			case run.Succeeded, run.Failed, run.Cancelled:
				if i != len(events)-1 {
					w.t.Errorf("run %q: terminal event %d of %d", r.ID, i+1, len(events))
				}
			}
		}
		made, err := run.Reduce(nil, 1, events...)
		if err != nil {
			w.t.Errorf("run %q: %v", r.ID, err)
			continue
		}
		if r.Lease != nil && made.Lease != nil {
			made.Lease.Expires = r.Lease.Expires // heartbeats are not events
		}
		if !reflect.DeepEqual(made, r) {
			w.t.Errorf("run %q: its history makes\n%+v\nbut stored is\n%+v", r.ID, made, r)
		}
	}
	w.checkOwners(runs)
}

func (w *world) checkOwners(runs []run.Run) {
	for _, r := range runs {
		keys, err := freedBy(&r)
		if err != nil {
			w.t.Fatal(err)
		}
		for _, key := range keys {
			if rec, found := w.get(key); found {
				if o, ok := decodeOwner(rec); !ok || o.runID == r.ID {
					w.t.Errorf("run %q is %s and still holds %s", r.ID, r.Status, key)
				}
			}
		}
	}
}

func (w *world) get(key storage.Key) (storage.Record, bool) {
	w.t.Helper()
	var rec storage.Record
	var found bool
	_, err := w.memory.Transact(context.Background(), "test.get", func(ctx context.Context, tx storage.Tx) (err error) {
		rec, found, err = tx.Get(ctx, key)
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return rec, found
}

// happen makes something happen to a run, as another process would that frees no owners.
func (w *world) happen(id string, data func(r *run.Run) run.EventData) {
	w.t.Helper()
	w.befall(id, data, false)
}

// befall makes something happen to a run, and frees its owners if told to.
func (w *world) befall(id string, data func(r *run.Run) run.EventData, free bool) {
	w.t.Helper()
	key, err := codec.RunKey(testEnv, id)
	if err != nil {
		w.t.Fatal(err)
	}
	eventID := w.lane.source.id()
	_, err = w.memory.Transact(context.Background(), "test.happen", func(ctx context.Context, tx storage.Tx) error {
		rec, _, err := tx.Get(ctx, key)
		if err != nil {
			return err
		}
		r, _ := codec.DecodeRun(rec)
		s, err := w.lane.newStep(&r, eventID, run.AtCommit, data(&r))
		if err != nil {
			return err
		}
		if !free {
			s.freed = nil
		}
		return stageAll(ctx, tx, []step{s})
	})
	if err != nil {
		w.t.Fatal(err)
	}
}

// putOpaque stores n due runs of a queue that this version cannot read.
func (w *world) putOpaque(queue string, priority, n int, due time.Time) {
	w.t.Helper()
	partition, err := codec.DuePartition(testEnv, queue, priority)
	if err != nil {
		w.t.Fatal(err)
	}
	sort, err := keys.EncodeTime(due)
	if err != nil {
		w.t.Fatal(err)
	}
	_, err = w.memory.Transact(context.Background(), "test.opaque", func(ctx context.Context, tx storage.Tx) error {
		for i := range n {
			key, err := codec.RunKey(testEnv, fmt.Sprintf("opaque-%d-%d", due.UnixMicro(), i))
			if err != nil {
				return err
			}
			err = tx.Create(ctx, storage.Record{
				Key:      key,
				Document: []byte(`{"codec":"run","v":99,"value":{"of":"tomorrow"}}`),
				Entries:  []storage.Entry{{Index: storage.RunsByDue, Partition: partition, Sort: sort}},
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		w.t.Fatal(err)
	}
}

func trigger[P, R any](w *world, task *Task[P, R], payload P, opts ...TriggerOptions) Triggered {
	w.t.Helper()
	res, err := task.Trigger(context.Background(), payload, opts...)
	if err != nil {
		w.t.Fatal(err)
	}
	return res
}

func wantRun(t *testing.T, r run.Run, status run.Status, attempts, failures int) {
	t.Helper()
	if r.Status != status || r.Attempts != attempts || r.Failures != failures {
		t.Errorf("run %q is %s after %d attempts, %d of them failed; want %s, %d, %d", r.ID, r.Status, r.Attempts, r.Failures, status, attempts, failures)
	}
}

var errBoom = errors.New("boom")

type number struct{ N int }

func double(_ context.Context, _ *Attempt, p number) (number, error) { return number{2 * p.N}, nil }
