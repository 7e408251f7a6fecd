package lane

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/seed4391e180/runlane/run"
	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/codec"
)

// records counts what is stored: the runs that can be read or have a tombstone
// among ids, and the events of those.
func (w *world) records(ids ...string) (runs, tombstones, events int) {
	w.t.Helper()
	for _, id := range ids {
		key, err := codec.RunKey(testEnv, id)
		if err != nil {
			w.t.Fatal(err)
		}
		rec, found := w.get(key)
		switch _, kind := codec.DecodeRun(rec); {
		case found && kind == codec.Tombstone:
			tombstones++
		case found:
			runs++
		}
		partition, err := codec.EventsPartition(testEnv, id)
		if err != nil {
			w.t.Fatal(err)
		}
		for q := (storage.Query{Index: storage.RunEventsBySequence, Partition: partition, Limit: 500}); ; {
			page := w.query(q)
			events += len(page.Records)
			if q.Resume = page.Resume; q.Resume.IsZero() {
				break
			}
		}
	}
	return runs, tombstones, events
}

func (w *world) query(q storage.Query) (page storage.Page) {
	w.t.Helper()
	_, err := w.memory.Transact(context.Background(), "test.query", func(ctx context.Context, tx storage.Tx) (err error) {
		page, err = tx.Query(ctx, q)
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return page
}

// busy makes a run with very many events: it is taken and given back n times and
// then succeeds.
func (w *world) busy(task *Task[number, number], n int, opts TriggerOptions) string {
	w.t.Helper()
	id := trigger(w, task, number{}, opts).RunID
	key, err := codec.RunKey(testEnv, id)
	if err != nil {
		w.t.Fatal(err)
	}
	for left := n; left >= 0; left -= 400 { // the last round ends the run
		_, err := w.memory.Transact(context.Background(), "test.busy", func(ctx context.Context, tx storage.Tx) error {
			rec, _, err := tx.Get(ctx, key)
			if err != nil {
				return err
			}
			r, _ := codec.DecodeRun(rec)
			for i := range 400 {
				token := uuid.New()
				data := []run.EventData{
					run.Started{Lease: run.Lease{Token: token, Worker: "w", Attempt: r.Attempts + 1, Expires: run.AtCommit.Add(time.Hour), Duration: time.Hour}},
					run.Released{Token: token, Due: run.AtCommit},
				}
				if i == left {
					data[1] = run.Succeeded{Token: token}
				} else if i > left {
					break
				}
				for _, d := range data {
					e := run.Event{ID: uuid.New(), Environment: testEnv, RunID: id, Sequence: r.Sequence + 1, At: run.AtCommit, Data: d}
					if r, err = run.Reduce(&r, e.Sequence, e); err != nil {
						return err
					}
					log, err := codec.EncodeEvent(e)
					if err != nil {
						return err
					}
					if err := tx.Create(ctx, log); err != nil {
						return err
					}
				}
			}
			if rec, err = codec.EncodeRun(r); err != nil {
				return err
			}
			return tx.Replace(ctx, rec)
		})
		if err != nil {
			w.t.Fatal(err)
		}
	}
	if r := w.run(id); r.Status != run.StatusSucceeded || r.Sequence != int64(2*n+3) {
		w.t.Fatalf("%+v", r)
	}
	return id
}

func (w *world) pruneAll(l *Lane, o PruneOptions) Pruned {
	w.t.Helper()
	var total Pruned
	for {
		p, err := l.Prune(context.Background(), o)
		if err != nil {
			w.t.Fatal(err)
		}
		total.Runs += p.Runs
		total.Events += p.Events
		total.Awaited += p.Awaited
		total.Opaque += p.Opaque
		if o.Resume = p.Resume; o.Resume.IsZero() {
			return total
		}
	}
}

func TestPruneEveryStatus(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		task := Define(w.lane, "task", double, TaskOptions{})
		ids := map[run.Status]string{}
		for _, s := range run.Statuses() {
			ids[s] = w.inStatus(task, s, TriggerOptions{})
		}
		// To the microsecond: what ended exactly at the cut-off stays.
		time.Sleep(time.Hour)
		last := w.run(ids[run.StatusCancelled]).Finished
		if p := w.pruneAll(w.lane, PruneOptions{OlderThan: time.Since(last) + time.Hour}); p != (Pruned{}) {
			t.Errorf("%+v", p)
		}
		if p := w.pruneAll(w.lane, PruneOptions{Before: last, Statuses: []run.Status{run.StatusCancelled}}); p != (Pruned{}) {
			t.Errorf("%+v", p)
		}
		if p := w.pruneAll(w.lane, PruneOptions{Before: last.Add(time.Microsecond), Statuses: []run.Status{run.StatusCancelled}}); p != (Pruned{Runs: 1, Events: 2}) {
			t.Errorf("%+v", p)
		}
		if p := w.pruneAll(w.lane, PruneOptions{OlderThan: time.Minute}); p != (Pruned{Runs: 2, Events: 6}) {
			t.Errorf("%+v", p)
		}
		for s, id := range ids {
			runs, tombstones, events := w.records(id)
			if runs == 0 != s.Terminal() || events == 0 != s.Terminal() || tombstones != 0 {
				t.Errorf("%s: %d, %d, %d", s, runs, tombstones, events)
			}
		}
		// The name is free again.
		trigger(w, task, number{}, TriggerOptions{RunID: ids[run.StatusFailed]})
	})
}

func TestPruneOptions(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		for _, o := range []PruneOptions{
			{}, {OlderThan: -1}, {OlderThan: 1, Before: time.Now()}, {OlderThan: 1, Limit: -1},
			{OlderThan: 1, Statuses: []run.Status{run.StatusRunning}}, {OlderThan: 1, Statuses: []run.Status{""}},
		} {
			if p, err := w.lane.Prune(context.Background(), o); err == nil || p != (Pruned{}) {
				t.Errorf("%+v: %+v, %v", o, p, err)
			}
		}
	})
}

// Keys that still stand for a run are freed with it, those of others are not.
func TestPruneFreesKeys(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		task := Define(w.lane, "task", double, TaskOptions{})
		year := TriggerOptions{IdempotencyKey: "k", IdempotencyTTL: 365 * 24 * time.Hour}
		id := w.inStatus(task, run.StatusSucceeded, year)
		taken := w.inStatus(task, run.StatusFailed, TriggerOptions{IdempotencyKey: "other", SingletonKey: "s"})
		next := trigger(w, task, number{}, TriggerOptions{IdempotencyKey: "other", SingletonKey: "s", Delay: time.Hour})
		// Many events: the key goes with the tombstone.
		long := w.busy(task, 200, TriggerOptions{IdempotencyKey: "long"})
		time.Sleep(time.Minute)
		if p := w.pruneAll(w.lane, PruneOptions{OlderThan: time.Second}); p.Runs != 3 {
			t.Errorf("%+v", p)
		}
		if runs, tombstones, events := w.records(id, taken, long); runs+tombstones+events != 0 {
			t.Errorf("%d, %d, %d are left", runs, tombstones, events)
		}
		page := w.query(storage.Query{Index: storage.IdempotencyOwnersByExpiry, Partition: w.lane.expiries})
		if len(page.Records) != 1 {
			t.Errorf("%d owners", len(page.Records))
		}
		if again := trigger(w, task, number{}, TriggerOptions{SingletonKey: "s"}); again.RunID != next.RunID {
			t.Error("another run's key was freed")
		}
		if again := trigger(w, task, number{}, year); again.Existing {
			t.Error("the key is held")
		}
	})
}

// Runs that nobody may prune do not stand in the way of the others, and come up
// again after the end.
func TestPrunePassesOver(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		task := Define(w.lane, "task", double, TaskOptions{})
		var waiters []string
		for range 45 {
			source := w.inStatus(task, run.StatusSucceeded, TriggerOptions{})
			waiters = append(waiters, w.waitFor(task, source))
		}
		w.putEndedOpaque(45)
		free := w.inStatus(task, run.StatusSucceeded, TriggerOptions{})
		time.Sleep(time.Hour)
		if p := w.pruneAll(w.lane, PruneOptions{OlderThan: time.Minute, Limit: 10}); p != (Pruned{Runs: 1, Events: 3, Awaited: 45, Opaque: 45}) {
			t.Errorf("%+v", p)
		}
		if runs, _, events := w.records(free); runs+events != 0 {
			t.Error("the free run is still there")
		}
		for _, id := range waiters {
			w.befall(id, func(*run.Run) run.EventData { return run.Resumed{} }, true)
		}
		if p := w.pruneAll(w.lane, PruneOptions{OlderThan: time.Minute}); p != (Pruned{Runs: 45, Events: 135, Opaque: 45}) {
			t.Errorf("%+v", p)
		}
		for i := range w.presences {
			if _, found := w.get(w.presences[i]); !found {
				t.Fatal("a presence row has gone")
			}
		}
	})
}

// waitFor makes a run that waits for another, whatever status that has.
func (w *world) waitFor(task *Task[number, number], source string) string {
	w.t.Helper()
	id := trigger(w, task, number{}).RunID
	w.leaseTo(id, "w")
	w.befall(id, func(r *run.Run) run.EventData { return run.Waiting{Token: r.Lease.Token, For: source} }, true)
	key, err := codec.WaitPresenceKey(testEnv, source)
	if err != nil {
		w.t.Fatal(err)
	}
	_, err = w.memory.Transact(context.Background(), "test.presence", func(ctx context.Context, tx storage.Tx) error {
		return tx.Create(ctx, storage.Record{Key: key, Document: []byte(`{}`)})
	})
	if err != nil {
		w.t.Fatal(err)
	}
	w.presences = append(w.presences, key)
	return id
}

// putEndedOpaque stores n ended runs that this version cannot read.
func (w *world) putEndedOpaque(n int) {
	w.t.Helper()
	_, err := w.memory.Transact(context.Background(), "test.opaque", func(ctx context.Context, tx storage.Tx) error {
		for i := range n {
			key, err := codec.RunKey(testEnv, fmt.Sprint("ended-opaque-", i))
			if err != nil {
				return err
			}
			rec := storage.Record{
				Key: key, Document: []byte(`{"codec":"run","v":99,"value":{}}`),
				Entries: []storage.Entry{{Index: storage.RunsByRetention, Partition: key.Partition, Sort: storage.CommitTime}},
			}
			if err := tx.Create(ctx, rec); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		w.t.Fatal(err)
	}
}

// A pruner dies before, or right after, each of its transactions: the next one
// finishes what it left behind, and what is half done is never seen.
func TestPruneDiesAnywhere(t *testing.T) {
	for kill := 0; ; kill++ {
		reached := false
		for _, stored := range []bool{false, true} {
			t.Run(fmt.Sprintf("transaction %d, stored %v", kill, stored), func(t *testing.T) {
				inBubble(t, func(t *testing.T, w *world) {
					task := Define(w.lane, "task", double, TaskOptions{})
					ids := []string{
						w.inStatus(task, run.StatusFailed, TriggerOptions{}),
						w.busy(task, 700, TriggerOptions{IdempotencyKey: "k", IdempotencyTTL: 365 * 24 * time.Hour}),
						w.inStatus(task, run.StatusSucceeded, TriggerOptions{}),
					}
					time.Sleep(time.Hour)
					fault := w.killNth(kill, &reached)
					if stored {
						w.store.set(nil, fault)
					} else {
						w.store.set(fault, nil)
					}
					_, err := w.lane.Prune(context.Background(), PruneOptions{OlderThan: time.Minute, Limit: 500})
					if (err != nil) != reached {
						t.Fatalf("%v, reached: %v", err, reached)
					}
					w.store.set(nil, nil)
					for _, r := range w.runs() { // a run that can be seen has its whole history
						if n := int64(len(w.history(r.ID))); n != r.Sequence {
							t.Errorf("run %q has %d of %d events", r.ID, n, r.Sequence)
						}
					}
					w.pruneAll(w.newLane(), PruneOptions{OlderThan: time.Minute})
					if runs, tombstones, events := w.records(ids...); runs+tombstones+events != 0 {
						t.Errorf("%d runs, %d tombstones, %d events are left", runs, tombstones, events)
					}
					if again := trigger(w, task, number{}, TriggerOptions{IdempotencyKey: "k"}); again.Existing {
						t.Error("the key is held")
					}
				})
			})
		}
		if !reached {
			if kill < 5 {
				t.Errorf("only %d transactions", kill)
			}
			return
		}
	}
}

// killNth fails the nth transaction of a pruner and every one after it.
func (w *world) killNth(n int, reached *bool) func(context.Context, string) error {
	*reached = false
	var mu sync.Mutex
	return func(context.Context, string) error {
		mu.Lock()
		defer mu.Unlock()
		if n--; n >= 0 {
			return nil
		}
		*reached = true
		return storage.ErrUnavailable
	}
}

func TestPrunersMeet(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		task := Define(w.lane, "task", double, TaskOptions{})
		ids := []string{w.busy(task, 900, TriggerOptions{})}
		for range 150 {
			ids = append(ids, w.inStatus(task, run.StatusFailed, TriggerOptions{IdempotencyKey: "k"}))
		}
		time.Sleep(time.Hour)
		var (
			all   sync.WaitGroup
			mu    sync.Mutex
			total Pruned
		)
		for range 4 {
			all.Go(func() {
				p, err := w.newLane().Prune(context.Background(), PruneOptions{OlderThan: time.Minute})
				if err != nil && !errors.Is(err, storage.ErrConflict) {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				total.Runs += p.Runs
				total.Events += p.Events
			})
		}
		all.Wait()
		rest := w.pruneAll(w.lane, PruneOptions{OlderThan: time.Minute})
		if total.Runs+rest.Runs != 151 || total.Events+rest.Events != 1803+450 {
			t.Errorf("%+v and %+v", total, rest)
		}
		if runs, tombstones, events := w.records(ids...); runs+tombstones+events != 0 {
			t.Errorf("%d runs, %d tombstones, %d events are left", runs, tombstones, events)
		}
	})
}

// A registration of a wait, as the design describes it, races with a pruner: a run
// that waits has a source that is there.
func TestPruneRacesWithWait(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		task := Define(w.lane, "task", double, TaskOptions{})
		for range 100 {
			source := w.inStatus(task, run.StatusRunning, TriggerOptions{})
			waiter := trigger(w, task, number{}).RunID
			w.leaseTo(waiter, "w")
			var all sync.WaitGroup
			all.Go(func() { w.register(waiter, source) })
			all.Go(func() {
				w.befall(source, func(r *run.Run) run.EventData {
					return run.Failed{Token: r.Lease.Token, Failure: run.Failure{Code: "x"}}
				}, true)
				if _, err := w.lane.Prune(context.Background(), PruneOptions{Before: time.Now().Add(time.Hour)}); err != nil {
					t.Error(err)
				}
			})
			all.Wait()
			runs, _, _ := w.records(source)
			if waits := w.run(waiter).Status == run.StatusWaiting; waits && runs == 0 {
				t.Fatal("a run waits for one that is gone")
			}
		}
	})
}

// register is the transaction that lets a run wait: the source and its presence row
// are read, and an ended or absent source resumes it at once.
func (w *world) register(waiter, source string) {
	waiterKey, _ := codec.RunKey(testEnv, waiter)
	sourceKey, _ := codec.RunKey(testEnv, source)
	presence, _ := codec.WaitPresenceKey(testEnv, source)
	id := uuid.New()
	_, err := w.memory.Transact(context.Background(), "test.register", func(ctx context.Context, tx storage.Tx) error {
		records, err := tx.GetMany(ctx, []storage.Key{waiterKey, sourceKey, presence})
		if err != nil {
			return err
		}
		r, _ := codec.DecodeRun(records[waiterKey])
		s, kind := codec.DecodeRun(records[sourceKey])
		if kind != codec.Canonical || s.Status.Terminal() {
			return nil
		}
		step, err := w.lane.newStep(&r, id, run.AtCommit, run.Waiting{Token: r.Lease.Token, For: source})
		if err != nil {
			return err
		}
		if _, found := records[presence]; !found {
			if err := tx.Create(ctx, storage.Record{Key: presence, Document: []byte(`{}`)}); err != nil {
				return err
			}
		}
		return step.stage(ctx, tx, nil)
	})
	if err != nil {
		w.t.Error(err)
	}
}
