package lane

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/seed4391e180/runlane/run"
	"github.com/seed4391e180/runlane/storage/keys"
)

// Defaults of a [WorkerConfig].
const (
	DefaultConcurrency  = 10
	DefaultLease        = 30 * time.Second
	DefaultPollInterval = time.Second
	DefaultTickInterval = 10 * time.Second
	DefaultGrace        = 10 * time.Second
)

// WorkerConfig sets up a worker. The zero value, and the zero value of each
// field, is the default.
type WorkerConfig struct {
	// Name says in leases who works; "" is the host's name and the process id. It
	// identifies nothing: a worker that starts again under its old name does not own
	// the leases of its former life.
	Name string
	// Queues are the queues to work on; empty: those of all tasks that have a
	// handler when Work is called.
	Queues []string
	// Concurrency is how many handlers run at once. A worker holds up to twice as many
	// leases: runs whose outcome is being stored make room for the next ones.
	Concurrency int
	// Lease is how long a claimed run stays with a worker that is not heard of. A
	// run whose worker dies is found by lease recovery after that time and up to
	// one Lease and a RecoverInterval more.
	Lease time.Duration
	// Heartbeat is how often leases are renewed; 0 is a third of Lease. Less than Lease.
	Heartbeat time.Duration
	// PollInterval, more or less a fifth, is how long due work that no wake announced
	// may wait.
	PollInterval time.Duration
	// RecoverInterval is how often expired leases of all workers are looked for; 0 is
	// half of Lease.
	RecoverInterval time.Duration
	// TickInterval, more or less a half, is how often the worker ticks; see [Lane.Tick].
	// Schedules fire when they are due, by what the worker last heard of the database's
	// clock, which is at most a TickInterval ago.
	TickInterval time.Duration
	// Grace is how long handlers may go on undisturbed after Work was told to stop;
	// negative: not at all.
	Grace time.Duration
}

func (c WorkerConfig) withDefaults(l *Lane) (WorkerConfig, error) {
	if c.Name == "" {
		host, _ := os.Hostname() // a name is a help for people; without one the process id must do
		c.Name = fmt.Sprintf("%s/%d", host, os.Getpid())
	}
	c.Name = storable(c.Name, keys.MaxText)
	orDefault(&c.Concurrency, DefaultConcurrency)
	orDefault(&c.Lease, DefaultLease)
	c.Lease = c.Lease.Truncate(time.Microsecond) // what a store keeps
	orDefault(&c.Heartbeat, c.Lease/3)
	orDefault(&c.PollInterval, DefaultPollInterval)
	orDefault(&c.RecoverInterval, c.Lease/2)
	orDefault(&c.TickInterval, DefaultTickInterval)
	orDefault(&c.Grace, DefaultGrace)
	switch {
	case c.Concurrency < 0:
		return c, errors.New("lane: Concurrency is negative")
	case c.Lease < 0 || c.Heartbeat < 0 || c.PollInterval < 0 || c.RecoverInterval < 0 || c.TickInterval < 0:
		return c, errors.New("lane: Lease, Heartbeat, PollInterval, RecoverInterval or TickInterval is negative")
	case c.Lease > run.MaxAfterCommit || c.Heartbeat >= c.Lease:
		return c, errors.New("lane: Heartbeat is not less than Lease, or Lease is more than 100 years")
	}
	if len(c.Queues) == 0 {
		c.Queues = l.queues()
	}
	if len(c.Queues) == 0 {
		return c, errors.New("lane: there is no queue to work on: no task has a handler")
	}
	c.Queues = slices.Compact(slices.Sorted(slices.Values(c.Queues)))
	return c, nil
}

func orDefault[T comparable](field *T, value T) {
	var none T
	if *field == none {
		*field = value
	}
}

// worker is one call of Work. Work itself claims; beside it run a listener, lease
// recovery, the heartbeat, the finishers, and one goroutine for each handler.
type worker struct {
	lane  *Lane
	cfg   WorkerConfig
	parts []*partition
	poke  chan struct{} // holds a token when the claimer should look again

	ids       idPool        // the claimer's
	recordCap int           // the claimer's: how many records a claim may read, for their size
	byteCap   int           // how many bytes of documents a transaction may write
	refused   refusedRuns   // the claimer's
	rotation  int           // the claimer's: which queue is asked first
	signal    chan struct{} // holds tokens for idle finishers
	cancels   chan *claim   // runs that somebody has asked to cancel

	drains bool            // Work ends when nothing is due
	keep   context.Context // of what looks after the work at hand
	beside sync.WaitGroup  // what runs beside the claimer

	mu        sync.Mutex // guards what follows, the claims in held, and partition.ask
	held      map[*claim]struct{}
	running   int  // handlers that have not returned
	finishing int  // outcomes that are not stored yet
	active    bool // something has happened since all partitions were asked; see Drain
	resuming  int  // runs that have ended and whose waiters are being resumed
	endings   []*ending
	paused    map[string]bool // queues that are not asked
	nextPoll  time.Time
}

// Work claims due runs, runs their handlers and stores what comes of it, until
// ctx ends. Several workers may work on the same queues, in one process or many.
//
// When ctx ends, Work stops claiming, gives handlers the grace period and then
// ends their contexts with [ErrShutdown]; runs whose handlers do not return a
// result are given back without a failure, those of handlers that do not return
// at all included. Then Work returns nil: ending ctx is how it is meant to stop.
// It returns an error if runs could not be given back (they come back when their
// leases expire), if the configuration is invalid, and if the store says
// storage.ErrConfiguration or storage.ErrClosed. Other failures of the store are
// logged and waited out.
//
// A handler that ignores its context outlives Work; what it returns is discarded.
func (l *Lane) Work(ctx context.Context, cfg WorkerConfig) error {
	w, err := newWorker(l, cfg)
	if err != nil {
		return err
	}
	return w.run(ctx)
}

// Drain works on what is due, as Work does, and returns when nothing is: what
// becomes due meanwhile is worked on too, what is due later is not waited for. It
// neither looks for expired leases nor ticks. Errors are those of Work, and those of
// the store, which Drain does not wait out.
func (l *Lane) Drain(ctx context.Context, cfg WorkerConfig) error {
	w, err := newWorker(l, cfg)
	if err != nil {
		return err
	}
	w.drains = true
	return w.run(ctx)
}

func newWorker(l *Lane, cfg WorkerConfig) (*worker, error) {
	cfg, err := cfg.withDefaults(l)
	if err != nil {
		return nil, err
	}
	w := &worker{
		lane:      l,
		cfg:       cfg,
		poke:      make(chan struct{}, 1),
		signal:    make(chan struct{}, finishers),
		cancels:   make(chan *claim, cancelBacklog),
		ids:       idPool{draw: l.source.id},
		recordCap: maxBatch,
		byteCap:   maxBytes,
		held:      map[*claim]struct{}{},
		paused:    map[string]bool{},
	}
	for _, queue := range cfg.Queues {
		if err := keys.CheckName("queue", queue); err != nil {
			return nil, fmt.Errorf("lane: %w", err)
		}
		for priority := run.PriorityFirst; priority <= run.PriorityLast; priority++ {
			part, err := l.newPartition(queue, priority)
			if err != nil {
				return nil, fmt.Errorf("lane: %w", err)
			}
			w.parts = append(w.parts, part)
		}
	}
	return w, nil
}

func (w *worker) run(ctx context.Context) error {
	// Two lifetimes: looking for work ends with ctx; looking after the work at hand
	// goes on until that is done, whatever happens to ctx.
	look, stopLooking := context.WithCancel(ctx)
	keep, stopKeeping := context.WithCancel(context.WithoutCancel(ctx))
	w.keep = keep
	w.beside.Go(func() { w.listen(look) })
	w.lookForPauses(look)
	if !w.drains {
		w.beside.Go(func() { w.pauses(look) })
		w.beside.Go(func() { w.recovery(look) })
		w.beside.Go(func() { w.ticks(look) })
		w.beside.Go(func() { w.schedule(look) })
	}
	w.beside.Go(func() { w.heartbeats(keep) })
	w.beside.Go(func() { w.heedCancels(keep) })
	for range finishers {
		w.beside.Go(func() { w.finish(keep) })
	}
	err := w.claims(look, keep)
	stopLooking()
	left := w.drain()
	stopKeeping()
	w.beside.Wait()
	if left > 0 {
		err = errors.Join(err, fmt.Errorf("lane: %d runs could not be given back in time; they are due again when their leases expire", left))
	}
	return err
}

// How long a shutdown waits beyond the grace period.
const (
	settleTime  = time.Second      // for handlers to notice that their context has ended
	cleanupTime = 10 * time.Second // for the last outcomes to be stored
)

// drain brings the work at hand to an end and returns how many outcomes could not
// be stored. The claimer has stopped, so nothing new begins.
func (w *worker) drain() (left int) {
	idle := func() bool { return w.running == 0 }
	if w.cfg.Grace > 0 {
		w.await(w.cfg.Grace, idle)
	}
	w.mu.Lock()
	for c := range w.held {
		c.cancel(ErrShutdown)
	}
	w.mu.Unlock()
	w.await(settleTime, idle)
	w.abandon()
	w.await(cleanupTime, func() bool { return w.finishing == 0 })
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.finishing
}

// await waits until done, which is called under the mutex, or until the patience
// is over. It takes the pokes that the claimer no longer needs.
func (w *worker) await(patience time.Duration, done func() bool) {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for {
		w.mu.Lock()
		over := done()
		w.mu.Unlock()
		if over {
			return
		}
		select {
		case <-w.poke:
		case <-timer.C:
			return
		}
	}
}

// abandon gives back the runs whose handlers have not returned.
func (w *worker) abandon() {
	w.mu.Lock()
	var stuck []*claim
	for c := range w.held {
		if !c.over {
			c.over = true
			w.finishing++
			stuck = append(stuck, c)
		}
	}
	w.mu.Unlock()
	for _, c := range stuck {
		w.lane.log.Warn("handler does not return; its run is given back", "run", c.id, "task", c.def.name)
		w.submit(c, outcome{kind: kindReleased})
	}
}

// nudge tells the claimer that something has changed.
func (w *worker) nudge() {
	select {
	case w.poke <- struct{}{}:
	default:
	}
}
