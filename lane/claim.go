package lane

import (
	"context"
	"encoding/json"
	"errors"
	"runtime"
	"time"

	"github.com/google/uuid"

	"github.com/seed4391e180/runlane/run"
	"github.com/seed4391e180/runlane/storage"
)

// Bounds of one transaction, below those of the store whatever a run needs: a
// claimed run has at most four mutations: the run, its event and two slots.
const (
	maxBatch = 500      // runs
	maxBytes = 12 << 20 // of documents
	maxKeys  = 2400     // that a transaction locks
)

// unknownTaskDelay is how long a run rests after a worker met it that does not
// know its task. Such runs are not failed: while a new version is being deployed,
// old workers meet its tasks.
const unknownTaskDelay = 30 * time.Second

// claim is a run that this worker holds. What is below mu is guarded by worker.mu.
type claim struct {
	id        string
	def       *definition
	token     uuid.UUID
	began     time.Time // local: of the handler
	ctx       context.Context
	cancel    context.CancelCauseFunc
	attempt   *Attempt
	payload   json.RawMessage
	slotted   bool      // the lease holds slots
	stopClock func()    // ends the measuring of a timeout; nil: the run has none
	eventID   uuid.UUID // of the event that will end the attempt

	// mu: worker.mu
	run     run.Run
	record  storage.Record // as it is stored, as far as this worker knows
	renewed time.Time      // local: before the lease was granted or renewed
	sending bool           // a transaction that ends the attempt is under way
	over    bool           // the outcome is decided: by the handler, by the loss of the lease or by giving up
}

// expires is when the lease ends, at the earliest, by this process's clock: the
// database granted it after renewed. Only the duration is compared, so it does not
// matter what either clock says.
func (w *worker) expires(c *claim) time.Time { return c.renewed.Add(w.cfg.Lease) }

// claims claims until look ends or the store cannot be used; its transactions run
// under keep, since one that is cut short may leave runs leased to nobody.
func (w *worker) claims(look, keep context.Context) error {
	failures := 0
	for look.Err() == nil {
		asked, slots := w.ready(time.Now())
		if len(asked) == 0 {
			if w.drains && w.idle(time.Now()) && !w.lookOnceMore() {
				return nil
			}
			w.rest(look)
			continue
		}
		err := w.claimOnce(look, keep, asked, slots)
		if err == nil {
			failures = 0
			continue
		}
		if errors.Is(err, storage.ErrConfiguration) || errors.Is(err, storage.ErrClosed) || w.drains {
			return err
		}
		failures++
		w.lane.log.Warn("claiming failed", "worker", w.cfg.Name, "error", err)
		pause(look, w.retryPause(failures))
	}
	return nil
}

// retryPause is the wait after a number of failures in a row.
func (w *worker) retryPause(failures int) time.Duration {
	return Backoff{Initial: 10 * time.Millisecond, Factor: 2, Max: 2 * time.Second, Jitter: 0.5}.after(failures, w.lane.source.chance())
}

// ready takes the partitions to ask now, in the order in which they are to be
// asked, and the number of runs that there is room for. An outcome that waits to
// be stored takes no room, so that storing and claiming overlap, as long as there
// are not too many of them.
func (w *worker) ready(now time.Time) (asked []*partition, slots int) {
	// Whoever is about to return from a handler may do so first: one claim for all
	// the room there is costs little more than one for a single run.
	runtime.Gosched()
	w.mu.Lock()
	defer w.mu.Unlock()
	slots = w.slots()
	if slots <= 0 {
		return nil, 0
	}
	poll := !now.Before(w.nextPoll)
	if poll {
		w.nextPoll = now.Add(w.lane.jittered(w.cfg.PollInterval))
	}
	w.rotation++
	queues := len(w.cfg.Queues)
	for priority := run.PriorityFirst; priority <= run.PriorityLast; priority++ {
		for i := range queues {
			p := w.part((i+w.rotation)%queues, priority)
			if w.paused[p.queue] {
				p.ask = time.Time{}
				continue
			}
			if poll || !p.ask.IsZero() && !now.Before(p.ask) {
				// A wake that arrives from now on is for the next round.
				p.ask = time.Time{}
				asked = append(asked, p)
			}
		}
	}
	return asked, slots
}

func (w *worker) slots() int {
	return min(w.cfg.Concurrency-w.running, 2*w.cfg.Concurrency-w.running-w.finishing)
}

// part is the partition of a queue, by its place in the configuration, and a priority.
func (w *worker) part(queue, priority int) *partition {
	const priorities = run.PriorityLast - run.PriorityFirst + 1
	return w.parts[queue*priorities+priority-run.PriorityFirst]
}

// idle reports whether there is nothing to do now: no partition to ask, and nobody
// at work who could make some run due.
func (w *worker) idle(now time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.running+w.finishing+w.resuming > 0 {
		return false
	}
	for _, p := range w.parts {
		if !p.ask.IsZero() && !now.Before(p.ask) {
			return false
		}
	}
	return true
}

// lookOnceMore has all partitions asked from the front if anything has happened since
// that was last done; it reports whether it has.
func (w *worker) lookOnceMore() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.active {
		return false
	}
	w.active = false
	w.nextPoll = time.Time{}
	for _, p := range w.parts {
		p.full = time.Time{}
	}
	return true
}

// rest waits until there is something to ask and room for it.
func (w *worker) rest(ctx context.Context) {
	w.mu.Lock()
	next := w.nextPoll
	for _, p := range w.parts {
		if !p.ask.IsZero() && p.ask.Before(next) {
			next = p.ask
		}
	}
	full := w.slots() <= 0
	w.mu.Unlock()

	var alarm <-chan time.Time
	if !full {
		timer := time.NewTimer(time.Until(next))
		defer timer.Stop()
		alarm = timer.C
	}
	select {
	case <-w.poke:
	case <-alarm:
	case <-ctx.Done():
	}
}

// claimOnce claims once and starts the handlers of what it got.
func (w *worker) claimOnce(look, keep context.Context, asked []*partition, slots int) error {
	began := time.Now()
	ctx, cancel := context.WithTimeout(keep, w.cfg.Lease)
	defer cancel()
	w.ids.fill(3 * maxBatch)
	luck := w.lane.source.chance()
	found, commit, err := storage.Transact(ctx, w.lane.store, "run.claim", func(ctx context.Context, tx storage.Tx) (*hunt, error) {
		h := &hunt{worker: w, began: began, luck: luck, slots: slots, room: w.recordCap}
		if err := h.look(ctx, tx, asked); err != nil {
			return nil, err
		}
		return h, h.stage(ctx, tx)
	})
	if err != nil {
		// If the outcome is unknown, runs may be leased to nobody until their leases
		// expire. That is what leases are for.
		w.ids.drop()
		w.askAgain(asked, time.Now())
		if bad := (*refusedRun)(nil); errors.As(err, &bad) {
			w.refused.add(bad.key)
			w.lane.log.Error("run cannot be claimed", "key", bad.key.String(), "error", bad.err)
			return nil
		}
		return err
	}
	w.ids.use(found.drawn)
	w.settleScans(found, asked)
	w.settleLate(found.late)
	for i := range found.picks {
		if pick := &found.picks[i]; pick.run.Lease != nil {
			w.start(look, keep, pick, commit, began)
		}
	}
	return nil
}

// askAgain puts back partitions that were taken from ready.
func (w *worker) askAgain(parts []*partition, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range parts {
		p.askAt(now)
	}
}

// settleScans remembers what a committed claim saw.
func (w *worker) settleScans(h *hunt, asked []*partition) {
	more := asked[len(h.scans):] // those that there was no room left to ask
	w.recordCap = maxBatch
	for i := range h.scans {
		s := &h.scans[i]
		if s.part.advance(s) {
			more = append(more, s.part)
		}
	}
	if h.full {
		w.recordCap = max(1, len(h.picks)) // no use in reading again what is too much for one transaction
	}
	w.askAgain(more, time.Now())
	hooks := &w.lane.hooks
	for i := range h.scans {
		s := &h.scans[i]
		if s.started > 0 && hooks.Claimed != nil {
			hooks.Claimed(s.part.queue, s.started)
		}
		if s.opaque > 0 && hooks.Skipped != nil {
			hooks.Skipped(s.part.queue, SkipOpaque, s.opaque)
		}
		if s.unknown > 0 && hooks.Skipped != nil {
			hooks.Skipped(s.part.queue, SkipUnknownTask, s.unknown)
		}
	}
}

// start begins to work on a claimed run.
func (w *worker) start(look, keep context.Context, pick *pick, commit storage.Commit, began time.Time) {
	record := pick.record
	record.Version = commit.Versions[record.Key]
	record.Entries = nil // Assume takes what a read gives
	c := &claim{
		id:      pick.run.ID,
		def:     pick.def,
		token:   pick.run.Lease.Token,
		began:   time.Now(),
		attempt: newAttempt(&pick.run),
		payload: pick.run.Payload,
		eventID: w.lane.source.id(),
		run:     pick.run,
		record:  record,
		renewed: began,
	}
	c.slotted = pick.queueSlot > 0 || pick.keySlot > 0
	c.ctx, c.cancel = context.WithCancelCause(keep)
	stopping := look.Err() != nil
	w.mu.Lock()
	w.held[c] = struct{}{}
	if stopping {
		c.over = true
		w.finishing++
	} else {
		w.running++
		w.active = true
	}
	w.mu.Unlock()
	if stopping {
		w.submit(c, outcome{kind: kindReleased})
		return
	}
	if limit := pick.run.Timeout; limit > 0 {
		patience := time.AfterFunc(limit+settleTime, func() { w.outwait(c) })
		ctx, stop := context.WithTimeoutCause(c.ctx, limit, ErrTimeout)
		c.ctx, c.stopClock = ctx, func() { patience.Stop(); stop() }
	}
	go w.work(c)
}

// outwait ends an attempt whose handler does not return although its time is over.
func (w *worker) outwait(c *claim) {
	w.mu.Lock()
	over := c.over
	if !over {
		c.over = true
		w.finishing++
	}
	w.mu.Unlock()
	if over {
		return
	}
	w.lane.log.Warn("handler does not return although its time is over", "run", c.id, "task", c.def.name)
	w.submit(c, w.failed(c, CodeTimeout, "the handler did not return in time", "", false))
}
