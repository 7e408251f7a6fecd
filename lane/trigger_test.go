package lane

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/seed4391e180/runlane/run"
	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/memory"
)

// spyTx tells what a transaction does.
type spyTx struct {
	storage.Tx
	calls *[]string
}

func (s spyTx) Create(ctx context.Context, rec storage.Record) error {
	*s.calls = append(*s.calls, "create "+rec.Key.Collection.String())
	return s.Tx.Create(ctx, rec)
}

func (s spyTx) GetMany(ctx context.Context, keys []storage.Key, mode ...storage.ReadMode) (map[storage.Key]storage.Record, error) {
	*s.calls = append(*s.calls, fmt.Sprintf("read %d", len(keys)))
	return s.Tx.GetMany(ctx, keys, mode...)
}

func (s spyTx) Get(ctx context.Context, key storage.Key, mode ...storage.ReadMode) (storage.Record, bool, error) {
	*s.calls = append(*s.calls, "read 1")
	return s.Tx.Get(ctx, key, mode...)
}

func (s spyTx) Now(ctx context.Context) (time.Time, error) {
	*s.calls = append(*s.calls, "now")
	return s.Tx.Now(ctx)
}

func (s spyTx) Wake(topic string) error {
	*s.calls = append(*s.calls, "wake")
	return s.Tx.Wake(topic)
}

type spy struct {
	storage.Transactor
	calls []string
}

func (s *spy) Transact(ctx context.Context, label string, fn func(context.Context, storage.Tx) error) (storage.Commit, error) {
	return s.Transactor.Transact(ctx, label, func(ctx context.Context, tx storage.Tx) error {
		s.calls = append(s.calls, label)
		return fn(ctx, spyTx{tx, &s.calls})
	})
}

// The shapes decide how many round trips a trigger takes on a database.
func TestShapesOfTriggers(t *testing.T) {
	cases := []struct {
		name string
		opts []TriggerOptions // the last one is looked at
		want string
	}{
		{"blind", []TriggerOptions{{}}, "run.trigger, create Runs, create RunEvents, wake"},
		{"later", []TriggerOptions{{Delay: time.Hour}}, "run.trigger, create Runs, create RunEvents"},
		{"new key", []TriggerOptions{{IdempotencyKey: "k"}}, "run.trigger, read 1, create Runs, create RunEvents, create IdempotencyOwners, wake"},
		{"known key", []TriggerOptions{{IdempotencyKey: "k"}, {IdempotencyKey: "k"}}, "run.trigger, read 1, read 1, now"},
		{"known key while active", []TriggerOptions{{IdempotencyKey: "k", IdempotencyTTL: WhileActive}, {IdempotencyKey: "k"}}, "run.trigger, read 1, read 1"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				task := Define(w.lane, "double", double, TaskOptions{})
				var seen *spy
				for _, opts := range c.opts {
					seen = &spy{Transactor: w.store}
					if _, err := task.TriggerIn(context.Background(), seen, number{}, opts); err != nil {
						t.Fatal(err)
					}
				}
				if got := strings.Join(seen.calls, ", "); got != c.want {
					t.Errorf("%s, want %s", got, c.want)
				}
			})
		})
	}
}

func TestTriggerStoresWhatItWasTold(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		task := Define(w.lane, "double", double, TaskOptions{Queue: "numbers", MaxAttempts: Unlimited})
		before := time.Now()
		res := trigger(w, task, number{7}, TriggerOptions{
			Priority: run.PriorityFirst, Delay: time.Hour, IdempotencyKey: "order:1", IdempotencyTTL: time.Minute,
			SingletonKey: "s", Metadata: map[string]string{"who": "me"},
		})
		r := w.run(res.RunID)
		if id, err := uuid.Parse(res.RunID); err != nil || id.Version() != 7 {
			t.Errorf("run id %q", res.RunID)
		}
		if !r.Created.Equal(res.Created) || r.Created.Before(before) || r.Due.Sub(r.Created) != time.Hour || r.Status != run.StatusScheduled {
			t.Errorf("%s, created %v (result %v), due %v", r.Status, r.Created, res.Created, r.Due)
		}
		if r.Task != "double" || r.Queue != "numbers" || r.Priority != 1 || string(r.Payload) != `{"N":7}` || r.MaxAttempts != 0 ||
			r.IdempotencyKey != "order:1" || r.IdempotencyTTL != time.Minute || r.SingletonKey != "s" || r.Metadata["who"] != "me" ||
			r.Source.Type != run.SourceTrigger {
			t.Errorf("%+v", r)
		}
		at := time.Date(2031, 2, 3, 4, 5, 6, 999, time.FixedZone("x", 1800))
		r = w.run(trigger(w, task, number{}, TriggerOptions{RunAt: at}).RunID)
		if !r.Due.Equal(at.Truncate(time.Microsecond)) || r.Priority != run.PriorityDefault {
			t.Errorf("due %v, priority %d", r.Due, r.Priority)
		}
	})
}

func TestTriggerRefuses(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		task := Define(w.lane, "any", func(context.Context, *Attempt, any) (any, error) { return nil, nil }, TaskOptions{})
		long := strings.Repeat("x", 256)
		cases := []struct {
			name    string
			payload any
			opts    []TriggerOptions
			want    error
		}{
			{"two options", 1, []TriggerOptions{{}, {}}, nil},
			{"RunAt and Delay", 1, []TriggerOptions{{RunAt: time.Now(), Delay: 1}}, nil},
			{"negative delay", 1, []TriggerOptions{{Delay: -1}}, nil},
			{"endless delay", 1, []TriggerOptions{{Delay: run.MaxAfterCommit + 1}}, nil},
			{"relative RunAt", 1, []TriggerOptions{{RunAt: run.AtCommit}}, nil},
			{"RunAt before 1970", 1, []TriggerOptions{{RunAt: time.Date(1969, 12, 31, 0, 0, 0, 0, time.UTC)}}, storage.ErrInvalidDocument},
			{"RunAt in the year 10000", 1, []TriggerOptions{{RunAt: time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)}}, storage.ErrInvalidDocument},
			{"priority", 1, []TriggerOptions{{Priority: 5}}, storage.ErrInvalidDocument},
			{"TTL without key", 1, []TriggerOptions{{IdempotencyTTL: 1}}, nil},
			{"negative TTL", 1, []TriggerOptions{{IdempotencyKey: "k", IdempotencyTTL: -2}}, nil},
			{"TTL too short", 1, []TriggerOptions{{IdempotencyKey: "k", IdempotencyTTL: 1}}, nil},
			{"long id", 1, []TriggerOptions{{RunID: long}}, storage.ErrTooLarge},
			{"long idempotency key", 1, []TriggerOptions{{IdempotencyKey: long}}, storage.ErrTooLarge},
			{"long singleton key", 1, []TriggerOptions{{SingletonKey: long}}, storage.ErrTooLarge},
			{"NUL in a key", 1, []TriggerOptions{{IdempotencyKey: "a\x00"}}, storage.ErrInvalidKey},
			{"NUL in metadata", 1, []TriggerOptions{{Metadata: map[string]string{"k": "\x00"}}}, storage.ErrInvalidDocument},
			{"bad UTF-8 in metadata", 1, []TriggerOptions{{Metadata: map[string]string{"\xff": ""}}}, storage.ErrInvalidDocument},
			{"much metadata", 1, []TriggerOptions{{Metadata: map[string]string{"k": strings.Repeat("x", MaxMetadata)}}}, storage.ErrTooLarge},
			{"NUL in the payload", "\x00", nil, storage.ErrInvalidDocument},
			{"NUL in an object key", map[string]int{"\x00": 1}, nil, storage.ErrInvalidDocument},
			{"bad UTF-8 in the payload", []any{map[string]any{"k": "\xff"}}, nil, storage.ErrInvalidDocument},
			{"bad UTF-8 in a key of the payload", map[string]int{"\xff": 1}, nil, storage.ErrInvalidDocument},
			{"lone surrogate", json.RawMessage(`"\ud800"`), nil, storage.ErrInvalidDocument},
			{"number out of range", json.RawMessage(`1e999999`), nil, storage.ErrInvalidDocument},
			{"large payload", strings.Repeat("x", MaxPayload), nil, storage.ErrTooLarge},
			{"not JSON", func() {}, nil, nil},
		}
		for _, c := range cases {
			_, err := task.Trigger(context.Background(), c.payload, c.opts...)
			if err == nil || c.want != nil && !errors.Is(err, c.want) {
				t.Errorf("%s: %v", c.name, err)
			}
			if c.want != nil {
				if input := (*storage.InputError)(nil); !errors.As(err, &input) {
					t.Errorf("%s: %v is no InputError", c.name, err)
				}
			}
		}
		if runs := w.runs(); len(runs) != 0 {
			t.Errorf("%d runs were stored", len(runs))
		}
		// A genuine U+FFFD, and an escape that the caller wrote, are fine.
		trigger(w, task, any("\uFFFD"))
		trigger(w, task, any(json.RawMessage(`"\ufffd"`)))
		trigger(w, task, any(json.RawMessage(`9007199254740993`)))
	})
}

func TestRunIDThatIsTaken(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		task := Define(w.lane, "double", double, TaskOptions{})
		trigger(w, task, number{1}, TriggerOptions{RunID: "mine"})
		for _, opts := range []TriggerOptions{{RunID: "mine"}, {RunID: "mine", IdempotencyKey: "k"}} {
			_, err := task.Trigger(context.Background(), number{2}, opts)
			exists := (*RunExistsError)(nil)
			if !errors.As(err, &exists) || exists.RunID != "mine" || !errors.Is(err, storage.ErrRecordExists) {
				t.Errorf("%v", err)
			}
		}
		_, err := task.TriggerMany(context.Background(), []Item[number]{{Options: TriggerOptions{RunID: "a"}}, {Options: TriggerOptions{RunID: "a"}}})
		if !errors.Is(err, storage.ErrRecordExists) {
			t.Errorf("twice in a batch: %v", err)
		}
		if runs := w.runs(); len(runs) != 1 {
			t.Errorf("%d runs", len(runs))
		}
	})
}

func TestTriggerWithUnknownOutcomeNamesTheRun(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		task := Define(w.lane, "double", double, TaskOptions{})
		w.store.set(nil, func(context.Context, string) error { return &storage.CommitUnknownError{Label: "run.trigger"} })
		res, err := task.Trigger(context.Background(), number{1})
		if !errors.Is(err, storage.ErrCommitUnknown) || res.RunID == "" {
			t.Fatalf("%+v, %v", res, err)
		}
		w.store.set(nil, nil)
		if _, err := task.Trigger(context.Background(), number{1}, TriggerOptions{RunID: res.RunID}); !errors.Is(err, storage.ErrRecordExists) {
			t.Errorf("triggering again: %v", err)
		}
		if err := errors.Join(nil, func() error { _, err := task.Wait(canceled(), res.RunID); return err }()); !errors.Is(err, context.Canceled) {
			t.Errorf("Wait: %v", err)
		}
	})
}

func canceled() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

func TestTriggerMany(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		task := Define(w.lane, "double", double, TaskOptions{})
		items := make([]Item[number], 3000)
		for i := range items {
			items[i].Payload.N = i
		}
		results, err := task.TriggerMany(context.Background(), items)
		if err != nil || len(results) != len(items) {
			t.Fatalf("%d results, %v", len(results), err)
		}
		if n := w.store.count("run.trigger"); n != 6 {
			t.Errorf("%d transactions", n)
		}
		for i, res := range results {
			if r := w.run(res.RunID); string(r.Payload) != fmt.Sprintf(`{"N":%d}`, i) || !r.Created.Equal(res.Created) {
				t.Fatalf("item %d: %+v", i, r)
			}
		}
		if results, err := task.TriggerMany(context.Background(), nil); err != nil || len(results) != 0 {
			t.Errorf("nothing: %v, %v", results, err)
		}
	})
}

func TestTriggerManyReportsWhatIsStored(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		task := Define(w.lane, "double", double, TaskOptions{})
		items := make([]Item[number], 1300)
		for i := range items {
			items[i].Payload.N = i
		}
		w.store.set(func(context.Context, string) error {
			if w.store.count("run.trigger") == 2 {
				return storage.ErrUnavailable
			}
			return nil
		}, nil)
		results, err := task.TriggerMany(context.Background(), items)
		stored := 0
		for i, res := range results {
			if res == (Triggered{}) {
				continue
			}
			stored++
			if r := w.run(res.RunID); string(r.Payload) != fmt.Sprintf(`{"N":%d}`, i) {
				t.Fatalf("item %d: %+v", i, r)
			}
		}
		if !errors.Is(err, storage.ErrUnavailable) || len(results) != len(items) || stored == 0 || stored == len(items) || len(w.runs()) != stored {
			t.Errorf("%d results, %d of them stored, %d runs, %v", len(results), stored, len(w.runs()), err)
		}
		items[1299].Options.Priority = 9
		if results, err := task.TriggerMany(context.Background(), items); err == nil || len(results) != 0 {
			t.Errorf("an invalid item: %d results, %v", len(results), err)
		}
	})
}

// TestTriggerManyKeepsTheOrderOfKeys: the first item with a key makes the run, though
// its transaction is beside others and far from that of the last.
func TestTriggerManyKeepsTheOrderOfKeys(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		task := Define(w.lane, "double", double, TaskOptions{})
		items := make([]Item[number], 3000)
		for i := range items {
			items[i].Payload.N = i
			if i%2 == 1 {
				items[i].Options.IdempotencyKey = fmt.Sprint("key ", i%1000)
			}
		}
		results, err := task.TriggerMany(context.Background(), items)
		if err != nil {
			t.Fatal(err)
		}
		for i, res := range results {
			first := i
			if i%2 == 1 {
				first = i % 1000
			}
			if res.Existing != (first != i) || res.RunID != results[first].RunID {
				t.Fatalf("item %d: %+v, the first is %+v", i, res, results[first])
			}
			if r := w.run(res.RunID); string(r.Payload) != fmt.Sprintf(`{"N":%d}`, first) {
				t.Fatalf("item %d: %+v", i, r)
			}
		}
	})
}

func TestFitting(t *testing.T) {
	many := func(n, size, owners int) []*draft {
		d := &draft{owners: make([]storage.Record, owners)}
		d.run.Document = make([]byte, size/2)
		d.event.Document = make([]byte, size/2)
		return slices.Repeat([]*draft{d}, n)
	}
	for _, c := range []struct {
		drafts []*draft
		want   int
	}{
		{many(400, 1000, 0), 400},
		{many(5000, 1000, 0), maxDrafts},
		{many(5000, 1000, 2), maxDraftKeys / 6},
		{many(100, 1<<20, 0), 12},
		{many(2, 1<<30, 0), 1},
		{nil, 0},
	} {
		if got := fitting(c.drafts); got != c.want {
			t.Errorf("%d of %d, want %d", got, len(c.drafts), c.want)
		}
	}
}

func TestTriggerInAnotherTransactor(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		task := Define(w.lane, "double", double, TaskOptions{})
		other := memory.New(memory.Config{})
		res, err := task.TriggerIn(context.Background(), other, number{1}, TriggerOptions{IdempotencyKey: "k"})
		if err != nil {
			t.Fatal(err)
		}
		if _, found, err := other.GetRun(context.Background(), testEnv, res.RunID); !found || err != nil {
			t.Errorf("found %v, %v", found, err)
		}
		if len(w.runs()) != 0 {
			t.Error("the run is in the lane's store")
		}
		if err := other.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestWaitErrors(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		task := Define(w.lane, "double", double, TaskOptions{})
		text := Define[string, string](w.lane, "text", nil, TaskOptions{})
		if _, err := task.Wait(context.Background(), "nobody"); !errors.Is(err, ErrNoRun) {
			t.Errorf("absent: %v", err)
		}
		if _, err := task.Wait(context.Background(), ""); !errors.Is(err, storage.ErrInvalidKey) {
			t.Errorf("no id: %v", err)
		}
		res := trigger(w, task, number{4})
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if _, err := task.Wait(ctx, res.RunID); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("nobody works: %v", err)
		}
		w.happen(res.RunID, func(*run.Run) run.EventData { return run.Cancelled{} })
		failed := (*RunError)(nil)
		if _, err := task.Wait(context.Background(), res.RunID); !errors.As(err, &failed) || failed.Status != run.StatusCancelled {
			t.Errorf("cancelled: %v", err)
		}
		if _, err := text.Wait(context.Background(), res.RunID); !errors.Is(err, ErrNoRun) {
			t.Errorf("of another task: %v", err)
		}
		w.store.set(failing("run.read", 3, storage.ErrUnavailable), nil)
		if _, err := task.Wait(context.Background(), res.RunID); !errors.As(err, &failed) {
			t.Errorf("after an outage: %v", err)
		}
	})
}

// timeless loses the answers of commits, as a connection that dies does: what is
// stored is stored, but its time is not told.
type timeless struct{ storage.Transactor }

func (l timeless) Transact(ctx context.Context, label string, fn func(context.Context, storage.Tx) error) (storage.Commit, error) {
	commit, err := l.Transactor.Transact(ctx, label, fn)
	commit.Time = time.Time{}
	return commit, err
}

func TestTriggerReadsTheTimeThatItWasNotTold(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		ctx := context.Background()
		task := Define(w.lane, "double", double, TaskOptions{})
		got, err := task.TriggerIn(ctx, timeless{w.store}, number{1})
		if err != nil {
			t.Fatal(err)
		}
		stored, found, err := w.store.GetRun(ctx, testEnv, got.RunID)
		if err != nil || !found || !got.Created.Equal(stored.Created) || got.Created.IsZero() {
			t.Fatalf("triggered at %v, stored %v (found %v, %v)", got.Created, stored.Created, found, err)
		}
	})
}
