package lane

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/seed4391e180/runlane/storage/keys"
)

// Defaults of [TaskOptions].
const (
	DefaultQueue       = "default"
	DefaultMaxAttempts = 25
)

// NoTimeout is for TriggerOptions.Timeout: an attempt may take as long as it likes.
const NoTimeout time.Duration = -1

// Unlimited is for TaskOptions.MaxAttempts: a run may be tried again for ever.
const Unlimited = -1

// TaskOptions describes a task. The zero value, and the zero value of each field,
// is the default.
type TaskOptions struct {
	// Queue is where the runs of the task wait for a worker; "" is DefaultQueue.
	Queue string
	// MaxAttempts is how many attempts may fail before the run has failed; 0 is
	// DefaultMaxAttempts. Attempts that release the run do not count. A run keeps the
	// limit that it was triggered with, so that every process knows it.
	MaxAttempts int
	// Timeout is how long an attempt may take, unless the run says otherwise (see
	// TriggerOptions.Timeout); 0 is no limit. A run keeps what it was triggered with.
	Timeout time.Duration
	// Backoff is the wait between a failure and the next attempt. It belongs to the
	// worker that reports the failure.
	Backoff Backoff
}

// Handler does the work of a run. It may be called more than once for the same
// run (a worker can die just after the work was done), so what it does outside
// should be safe to repeat; [Attempt] has the run's id for that.
//
// Its context ends when the work is to stop; [context.Cause] says why:
// [ErrLeaseLost], [ErrShutdown], [ErrTimeout] or [ErrCancellationRequested].
type Handler[P, R any] func(ctx context.Context, a *Attempt, payload P) (R, error)

// Task is a kind of work: P is what a run of it needs, R what it gives. Both
// travel as JSON.
type Task[P, R any] struct {
	lane *Lane
	def  *definition
}

// Name is the name that the task was defined with.
func (t *Task[P, R]) Name() string { return t.def.name }

// Queue is the queue of the task's runs.
func (t *Task[P, R]) Queue() string { return t.def.queue }

// definition is a task without its types. It never changes.
type definition struct {
	name        string
	queue       string
	maxAttempts int           // 0: no limit
	timeout     time.Duration // 0: no limit
	backoff     Backoff
	invoke      func(ctx context.Context, a *Attempt, payload json.RawMessage) (json.RawMessage, error)
}

// Define adds a task to a lane. A nil handler defines a task that this process
// triggers and does not work.
//
// Define panics if the name or the options are invalid, or if the name is taken:
// tasks are part of a program, like the patterns of [net/http.HandleFunc] and the
// expressions of [regexp.MustCompile], and such a program cannot run as written.
// Names of tasks and queues are 1 to 255 bytes of UTF-8 without NUL and ":".
func Define[P, R any](l *Lane, name string, handler Handler[P, R], opts TaskOptions) *Task[P, R] {
	def, err := newDefinition(name, opts)
	if err == nil {
		if handler != nil {
			def.invoke = invoker(handler)
		}
		err = l.add(def)
	}
	if err != nil {
		panic(fmt.Sprintf("lane: Define(%q): %v", name, err))
	}
	return &Task[P, R]{lane: l, def: def}
}

func newDefinition(name string, opts TaskOptions) (*definition, error) {
	if opts.Queue == "" {
		opts.Queue = DefaultQueue
	}
	if err := keys.CheckName("task", name); err != nil {
		return nil, err
	}
	if err := keys.CheckName("queue", opts.Queue); err != nil {
		return nil, err
	}
	if err := opts.Backoff.check(); err != nil {
		return nil, err
	}
	timeout, err := timeoutOf(opts.Timeout, 0)
	if err != nil {
		return nil, err
	}
	switch {
	case opts.MaxAttempts == 0:
		opts.MaxAttempts = DefaultMaxAttempts
	case opts.MaxAttempts == Unlimited:
		opts.MaxAttempts = 0
	case opts.MaxAttempts < 0:
		return nil, errors.New("MaxAttempts is negative")
	}
	return &definition{name: name, queue: opts.Queue, maxAttempts: opts.MaxAttempts, timeout: timeout, backoff: opts.Backoff}, nil
}

func (l *Lane) add(def *definition) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.tasks[def.name] != nil {
		return errors.New("the task is defined already")
	}
	l.tasks[def.name] = def
	return nil
}

// queues returns the queues of the tasks that have a handler here, each once.
func (l *Lane) queues() []string {
	l.mu.RLock()
	defer l.mu.RUnlock()
	seen := map[string]bool{}
	var queues []string
	for _, def := range l.tasks {
		if def.invoke != nil && !seen[def.queue] {
			seen[def.queue] = true
			queues = append(queues, def.queue)
		}
	}
	return queues
}

// invoker hides the types of a handler.
func invoker[P, R any](handler Handler[P, R]) func(context.Context, *Attempt, json.RawMessage) (json.RawMessage, error) {
	return func(ctx context.Context, a *Attempt, raw json.RawMessage) (json.RawMessage, error) {
		var payload P
		if raw != nil {
			if err := json.Unmarshal(raw, &payload); err != nil {
				return nil, &codedError{CodePayload, err}
			}
		}
		result, err := handler(ctx, a, payload)
		if err != nil {
			return nil, err
		}
		doc, err := marshal(result, MaxResult)
		if err != nil {
			return nil, &codedError{CodeResult, err}
		}
		return doc, nil
	}
}
