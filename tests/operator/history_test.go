package operator_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/run"
	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/codec"
)

const environment = "prod"

var (
	epoch   = time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC)
	errUndo = errors.New("undo")
)

// write is what an operation does to one record: a nil document deletes it.
type write struct {
	key storage.Key
	rec *storage.Record
}

// operation is one transaction of a history. Its writes depend on nothing that is read,
// so it does the same wherever it is played.
type operation struct {
	name   string
	writes []write
	undo   bool // the callback fails after its writes
}

// history draws operations on few runs, whose times and names often coincide.
type history struct {
	chance  *rand.Rand
	present map[storage.Key]storage.Record // what is committed
	events  int
	rivals  bool // singleton keys are few, so that active runs get in each other's way
}

func newHistory(seed uint64) *history {
	return &history{chance: rand.New(rand.NewPCG(seed, 1)), present: map[storage.Key]storage.Record{}}
}

func (h *history) pick(n int) int { return h.chance.IntN(n) }

func (h *history) moment() time.Time {
	return epoch.Add(time.Duration(h.pick(40)) * time.Microsecond).Add(time.Duration(h.pick(3)) * time.Hour)
}

func (h *history) runID() string { return fmt.Sprintf("run %03d", h.pick(300)) }

func (h *history) environment() string {
	if h.pick(12) == 0 {
		return "other"
	}
	return environment
}

// draw returns the next operation.
func (h *history) draw() operation {
	op := operation{undo: h.pick(8) == 0}
	for range 1 + h.pick(3) {
		kind, w := h.write()
		op.name += kind + " "
		if !slices.ContainsFunc(op.writes, func(other write) bool {
			return slices.ContainsFunc(w, func(w write) bool { return w.key == other.key })
		}) {
			op.writes = append(op.writes, w...)
		}
	}
	return op
}

// committed notes what an operation did.
func (h *history) committed(op operation) {
	for _, w := range op.writes {
		if w.rec == nil {
			delete(h.present, w.key)
		} else {
			h.present[w.key] = *w.rec
		}
	}
}

func (h *history) write() (kind string, writes []write) {
	env, id := h.environment(), h.runID()
	key := must(codec.RunKey(env, id))
	put := func(recs ...storage.Record) (writes []write) {
		for _, rec := range recs {
			writes = append(writes, write{rec.Key, &rec})
		}
		return writes
	}
	switch n := h.pick(100); {
	case n < 45:
		r := h.run(env, id)
		if h.pick(2) == 0 {
			return "run", put(must(codec.EncodeRun(r)))
		}
		return "run and event", put(must(codec.EncodeRun(r)), h.event(env, id, run.Created{
			Task: r.Task, Queue: r.Queue, Priority: r.Priority, Payload: r.Payload, Source: r.Source, SingletonKey: r.SingletonKey,
		}))
	case n < 75:
		return "event", put(h.event(env, id, h.data()))
	case n < 80:
		return "tombstone", put(must(codec.EncodeTombstone(env, id)))
	case n < 85:
		return "opaque run", put(storage.Record{Key: key, Document: json.RawMessage(`{"codec":"run","v":9,"value":{"payload":1}}`)})
	case n < 88: // a run's document under the key of another
		rec := must(codec.EncodeRun(h.run(env, id)))
		rec.Key = must(codec.RunKey(env, h.runID()+"'"))
		return "run of another key", put(rec)
	case n < 91:
		rec := h.event(env, id, h.data())
		rec.Document = json.RawMessage(`{"codec":"event","v":9}`)
		return "opaque event", put(rec)
	case n < 96:
		return "deleted run", []write{{key: key}}
	default:
		keys := []storage.Key{}
		for k := range h.present {
			if k.Collection == storage.RunEvents {
				keys = append(keys, k)
			}
		}
		if len(keys) == 0 {
			return "nothing", nil
		}
		slices.SortFunc(keys, storage.Key.Compare)
		return "deleted event", []write{{key: keys[h.pick(len(keys))]}}
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// run draws a legal run; each field that may be absent sometimes is.
func (h *history) run(env, id string) run.Run {
	statuses := run.Statuses()
	r := run.Run{
		Environment: env, ID: id, Task: fmt.Sprint("task", h.pick(3)), Queue: fmt.Sprint("queue", h.pick(4)), Priority: 1 + h.pick(4),
		Status: statuses[h.pick(len(statuses))], Sequence: 1, Created: h.moment(), Updated: h.moment(), Source: run.Source{Type: run.SourceTrigger},
	}
	switch {
	case r.Status.Runnable():
		r.Due = h.moment()
	case r.Status.Leased():
		r.Attempts = 1
		r.Lease = &run.Lease{Token: numbered(1), Worker: "worker", Attempt: 1, Expires: h.moment(), Duration: time.Minute}
	case r.Status.Terminal():
		r.Finished = r.Updated
	case r.Status == run.StatusWaiting:
		r.Attempts, r.WaitingFor = 1, "another"
	}
	switch r.Status {
	case run.StatusRetrying, run.StatusFailed:
		r.Attempts, r.Failures, r.Failure = 1, 1, &run.Failure{Code: "error", Message: "no"}
		if r.Status == run.StatusRetrying {
			r.Retries = 1
		}
	case run.StatusReleased:
		r.Attempts, r.Releases = 1, 1
	case run.StatusSucceeded:
		r.Result = json.RawMessage(`{"n":1}`)
	}
	switch h.pick(4) {
	case 1:
		r.Source = run.Source{Type: run.SourceRerun, RunID: fmt.Sprint("source", h.pick(2))}
	case 2:
		r.Source = run.Source{Type: run.SourceSchedule, Schedule: fmt.Sprint("schedule", h.pick(2))}
	}
	if h.pick(3) == 0 {
		r.IdempotencyKey = fmt.Sprint("idem:", h.pick(2))
	}
	if h.pick(3) == 0 {
		r.ConcurrencyKey = fmt.Sprint("conc", h.pick(2))
	}
	if h.pick(4) == 0 {
		r.SingletonKey = "single of " + id // never taken by another run
		if h.rivals {
			r.SingletonKey = fmt.Sprint("single ", h.pick(20))
		}
	}
	if h.pick(2) == 0 {
		r.Payload = json.RawMessage(fmt.Sprintf(`{"of": %d}`, h.pick(3)))
	}
	return r
}

func (h *history) event(env, id string, data run.EventData) storage.Record {
	h.events++
	e := run.Event{ID: numbered(h.events*7919%100_000 + 10), Environment: env, RunID: id, Sequence: int64(1 + h.pick(12)), At: h.moment(), Data: data}
	if _, created := data.(run.Created); created {
		e.Sequence = 1
	}
	return must(codec.EncodeEvent(e))
}

func (h *history) data() run.EventData {
	switch h.pick(4) {
	case 0:
		return run.Started{Lease: run.Lease{Token: numbered(9), Worker: "w", Attempt: 1, Expires: epoch, Duration: time.Minute}}
	case 1:
		return run.Succeeded{Token: numbered(9), Result: json.RawMessage(`{"i":1}`)}
	case 2:
		return run.Failed{Token: numbered(9), Failure: run.Failure{Code: "x", Message: "y"}}
	}
	return run.CancellationRequested{Reason: "because"}
}

func numbered(n int) uuid.UUID {
	return uuid.MustParse(fmt.Sprintf("01980000-0000-7000-8000-%012d", n))
}

// play runs an operation on a driver. It returns the error of the transaction.
func (op operation) play(ctx context.Context, d storage.Transactor) error {
	_, err := d.Transact(ctx, "history", func(ctx context.Context, tx storage.Tx) error {
		for _, w := range op.writes {
			_, found, err := tx.Get(ctx, w.key)
			switch {
			case err != nil:
			case w.rec == nil && found:
				err = tx.Delete(ctx, w.key)
			case w.rec != nil && found:
				err = tx.Replace(ctx, *w.rec)
			case w.rec != nil:
				err = tx.Create(ctx, *w.rec)
			}
			if err != nil {
				return err
			}
		}
		if op.undo {
			return errUndo
		}
		return nil
	})
	return err
}

// played plays an operation that must commit, unless it undoes itself. It reports
// whether it did.
func (h *history) played(t testing.TB, op operation, drivers ...storage.Transactor) bool {
	t.Helper()
	for _, d := range drivers {
		if err := op.play(t.Context(), d); op.undo {
			require.ErrorIs(t, err, errUndo)
		} else {
			require.NoError(t, err, op.name)
		}
	}
	if !op.undo {
		h.committed(op)
	}
	return !op.undo
}
