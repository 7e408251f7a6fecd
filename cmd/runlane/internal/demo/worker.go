package demo

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"os"
	"runtime/debug"
	"sync"

	"github.com/seed4391e180/runlane/lane"
	"github.com/seed4391e180/runlane/storage/postgres"
)

// The demo and a worker exchange lines of JSON: first an order, then commands one
// way and reports the other.
type (
	// order makes a process a worker. It comes on the standard input, since a command
	// line, with the password of the database in it, is for everybody to see.
	order struct {
		Name      string
		URL       string
		Root      string
		Slots     int
		Allowance int    // handlers that may pass before the others wait
		Crowd     int    // how many must wait for reportHolding; 0: it is not sent
		Profile   string // folder for a processor profile; "": none
	}
	command struct{ Command string }
	report  struct{ Report string }
)

const (
	commandOpen = "open" // no handler waits any more
	commandStop = "stop" // stop working and end

	reportReady   = "ready"   // the worker has its order and reached the database
	reportHolding = "holding" // as many handlers wait as were asked for, and all that passed have ended
)

// Worker is the life of a worker process. It works until it is told to stop, and
// ends the process at once when in ends: then the demo is gone.
func Worker(ctx context.Context, in io.Reader, out, log io.Writer) (err error) {
	lines := json.NewDecoder(in)
	var o order
	if err := lines.Decode(&o); err != nil {
		return errors.New("a worker of the demo is started by the demo")
	}
	reports := &reporter{out: json.NewEncoder(out)}
	stopProfile, err := startProfile(o.Profile, "worker-"+o.Name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stopProfile()) }()
	g := newGate(o.Allowance, o.Crowd, func() {
		// Whoever is held here is about to be killed and writes no profile then.
		reports.fail(stopProfile())
		reports.send(reportHolding)
	})
	pool, err := openPool(ctx, o.URL, applicationName(o.Name), 5)
	if err != nil {
		return err
	}
	defer pool.Close()
	if err := pool.Ping(ctx); err != nil {
		return err
	}
	// The heap is a few megabytes: collecting it less often costs little memory and
	// saves a tenth of the processor time.
	debug.SetGCPercent(400)
	logger := slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelWarn}))
	driver, err := postgres.New(pool, postgres.Config{Logger: logger})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, driver.Close()) }()
	l, err := lane.New(driver, lane.Config{
		Environment: environment, Logger: logger,
		Hooks: lane.Hooks{Finished: func(lane.Finish) { g.stored() }},
	})
	if err != nil {
		return err
	}
	defineTask(l, handler(o.Root, g))

	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go obey(lines, g, stop)
	reports.send(reportReady)
	err = l.Work(ctx, lane.WorkerConfig{Name: o.Name, Concurrency: o.Slots, Lease: lease, RecoverInterval: recoverInterval})
	return errors.Join(err, reports.err())
}

// obey carries out commands. The end of the input is the end of the demo, so
// nobody is left who could want anything of this process.
func obey(lines *json.Decoder, g *gate, stop context.CancelFunc) {
	for {
		var c command
		if lines.Decode(&c) != nil {
			os.Exit(1)
		}
		switch c.Command {
		case commandOpen:
			g.unlock()
		case commandStop:
			stop()
		}
	}
}

func applicationName(worker string) string { return "runlane demo " + worker }

// reporter sends reports, from any goroutine, and keeps the first failure.
type reporter struct {
	mu     sync.Mutex
	out    *json.Encoder
	failed error
}

func (r *reporter) send(what string) {
	r.mu.Lock()
	err := r.out.Encode(report{what})
	r.mu.Unlock()
	r.fail(err)
}

func (r *reporter) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failed == nil {
		r.failed = err
	}
}

func (r *reporter) err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failed
}
