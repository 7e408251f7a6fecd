package pgtest

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// orderEnv carries the order of a watchdog. A process that has it in its
// environment is a watchdog and nothing else.
const orderEnv = "RUNLANE_PG_WATCHDOG"

// grace is how long a session waits for its next user, unless the end of the
// go command tells that there will be none.
const grace = 2 * time.Second

// A test binary has no main function that could be asked to be something
// else, so the watchdog branches off here, before main.
func init() {
	text := os.Getenv(orderEnv)
	if text == "" {
		return
	}
	var o order
	err := json.Unmarshal([]byte(text), &o)
	if err == nil {
		err = watch(o)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err) // into the folder's watchdog.log
		os.Exit(1)
	}
	os.Exit(0)
}

// order says what a watchdog shall do.
type order struct {
	Dir      folder
	Shared   bool    // the session ends without users, not with the starter's pipe
	Parent   process // of a shared session: who started its users
	Patient  bool    // the session lasts as long as Parent
	State    state   // of an external server; otherwise only Keep is set
	Bin      string
	Account  account
	Settings map[string]string
	Volatile bool
}

// request and reply are lines of JSON on the pipes between a cluster's owner
// and its watchdog. The first reply has no request: it tells that all is ready.
type request struct {
	Op   string
	Mode Mode
}

const (
	opHalt   = "halt"   // stop the server
	opResume = "resume" // start it again
	opStop   = "stop"   // stop it and end the session
)

type reply struct {
	State state
	PID   int
	Error string
}

// watchdog supervises one session.
type watchdog struct {
	order
	server  *postmaster // nil if the server is external
	replies *os.File
}

// The descriptors that a watchdog inherits beyond the three standard ones.
const (
	repliesFD = 3
	mutexFD   = 4
)

// watch is the life of a watchdog. It inherits the folder's lock, so that no
// other process sees the session before it is complete.
func watch(o order) (err error) {
	// The starter can be killed at any time; writing to it must not kill us.
	signal.Ignore(syscall.SIGPIPE)
	term := make(chan os.Signal, 1)
	signal.Notify(term, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)

	w := &watchdog{order: o, replies: inherited(repliesFD, "replies")}
	mutex := inherited(mutexFD, lockName)
	self, err := o.Dir.open(watchdogName)
	if err != nil {
		return err
	}
	if got, err := tryLock(self, lockExclusive); err != nil || !got {
		return errors.Join(errors.New("another watchdog is at work"), err)
	}
	keepOpen(self)
	kept := o.State.Port != 0
	if err := w.begin(); err != nil {
		w.answer(reply{Error: err.Error()})
		if kept {
			return err // the data of an earlier session stays
		}
		return errors.Join(err, o.Dir.remove())
	}
	w.answer(reply{State: w.State, PID: w.pid()})
	if err := mutex.Close(); err != nil {
		return err
	}
	return w.supervise(term)
}

// begin makes the session ready and publishes its state.
func (w *watchdog) begin() error {
	if !w.State.External {
		if err := w.startServer(context.Background()); err != nil {
			return err
		}
	}
	w.State.Watchdog = os.Getpid()
	return w.Dir.writeState(w.State)
}

// startServer starts a new cluster, or the one that was kept in the folder.
func (w *watchdog) startServer(ctx context.Context) error {
	w.server = &postmaster{dir: w.Dir, bin: w.Bin, as: w.Account, port: w.State.Port, password: w.State.Password}
	if w.server.port != 0 {
		if err := w.Dir.stopStray(syscall.SIGINT); err != nil {
			return err
		}
	} else {
		w.server.password = randomName()
		ctx, cancel := context.WithTimeout(ctx, startTimeout)
		defer cancel()
		if err := w.server.initialize(ctx, w.Settings, w.Volatile); err != nil {
			return err
		}
	}
	if err := w.server.start(ctx, false); err != nil {
		return err
	}
	w.State.Port, w.State.Password = w.server.port, w.server.password
	w.State.URL = fmt.Sprintf("postgres://%s:%s@127.0.0.1:%d/postgres?sslmode=disable", superuser, w.State.Password, w.State.Port)
	w.State.Prefix = "runlane_"
	return nil
}

// supervise waits for the end of the session and cleans up.
func (w *watchdog) supervise(term <-chan os.Signal) error {
	idle := make(chan error, 1)
	if w.Shared {
		go func() { idle <- w.awaitIdle() }()
	}
	requests := make(chan request)
	go readRequests(requests)
	for {
		var exited chan struct{}
		if w.Shared && w.server != nil {
			exited = w.server.exited
		}
		select {
		case err := <-idle:
			return errors.Join(err, w.end())
		case <-exited:
			// Somebody killed the shared server. The next user gets a new one.
			return w.lockAndEnd()
		case <-term:
			return w.lockAndEnd()
		case r, open := <-requests:
			switch {
			case open && r.Op == opStop:
				err := w.lockAndEnd()
				w.answer(reply{Error: text(err)})
				return err
			case open:
				err := w.obey(r)
				w.answer(reply{State: w.State, PID: w.pid(), Error: text(err)})
			case w.Shared:
				requests = nil // the starter ended, others may use the session
			case w.State.Keep:
				return nil // the owner ended and wants its server to go on
			default:
				return w.lockAndEnd()
			}
		}
	}
}

func readRequests(requests chan<- request) {
	defer close(requests)
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var r request
		if json.Unmarshal(lines.Bytes(), &r) != nil {
			return
		}
		requests <- r
	}
}

func (w *watchdog) obey(r request) error {
	switch {
	case w.server == nil:
		return errors.New("the server is not ours")
	case r.Op == opHalt:
		return w.server.stop(r.Mode)
	case r.Op == opResume && w.server.running():
		return nil
	case r.Op == opResume:
		return w.server.start(context.Background(), true)
	}
	return fmt.Errorf("unknown request %q", r.Op)
}

// answer sends a reply. Nobody may be left to read it.
func (w *watchdog) answer(r reply) {
	if line, err := json.Marshal(r); err == nil {
		_, _ = w.replies.Write(append(line, '\n'))
	}
}

func (w *watchdog) pid() int {
	if w.server == nil || !w.server.running() {
		return 0
	}
	return w.server.pid
}

// awaitIdle returns when the session has no user and waits for none. The
// folder's lock and the users' lock are held then, by files that stay open
// until the watchdog ends, so that nobody can join any more.
func (w *watchdog) awaitIdle() error {
	for {
		users, err := w.Dir.open(usersName)
		if err != nil {
			return err
		}
		if err := lock(users, lockExclusive); err != nil {
			return err
		}
		// Users may join while the session waits for them.
		if err := users.Close(); err != nil {
			return err
		}
		w.awaitNoMore()
		mutex, err := w.Dir.open(lockName)
		if err != nil {
			return err
		}
		if err := lock(mutex, lockExclusive); err != nil {
			return err
		}
		if users, err = w.Dir.open(usersName); err != nil {
			return err
		}
		if alone, err := tryLock(users, lockExclusive); alone || err != nil {
			keepOpen(mutex, users)
			return err
		}
		if err := errors.Join(users.Close(), mutex.Close()); err != nil {
			return err
		}
	}
}

// awaitNoMore returns when no further user is to be expected: the go command
// has ended, or for other parents the grace period has.
func (w *watchdog) awaitNoMore() {
	tick := time.NewTicker(5 * poll)
	defer tick.Stop()
	for since := time.Now(); w.Parent.alive() && (w.Patient || time.Since(since) < grace); {
		<-tick.C
	}
}

// held keeps the files whose locks last until the watchdog ends: an open file
// that nothing refers to is closed by the garbage collector.
var held []*os.File

func keepOpen(files ...*os.File) { held = append(held, files...) }

// lockAndEnd ends the session although it may have users. Whoever holds the
// folder's lock is about to join or to look and does not take long; it can
// also be awaitIdle, which has come to the same end.
func (w *watchdog) lockAndEnd() error {
	if w.State.Keep {
		return w.server.stop(Fast)
	}
	mutex, err := w.Dir.open(lockName)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	_ = waitLock(ctx, mutex, lockExclusive)
	keepOpen(mutex)
	return w.end()
}

// end removes everything the session made.
func (w *watchdog) end() error {
	if w.State.External {
		ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
		defer cancel()
		return errors.Join(dropAll(ctx, w.State), w.Dir.remove())
	}
	return errors.Join(w.server.finish(), w.Dir.remove())
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
