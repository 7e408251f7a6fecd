package lane

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/google/uuid"

	"github.com/seed4391e180/runlane/run"
)

// The codes of the failures that workers report. A handler's own error is
// CodeError. See also run.CodeLeaseExpired.
const (
	CodeError   = "error"
	CodePanic   = "panic"    // the handler panicked or left its goroutine; the detail is the stack
	CodeTimeout = "timeout"  // the attempt took longer than the run allows
	CodeTooLate = "too_late" // no worker began the run before its latest start
	CodePayload = "payload"  // the payload does not decode; permanent
	CodeResult  = "result"   // the result cannot be stored; permanent, since the work is done
)

// What is kept of an error, in bytes.
const (
	maxMessage = 4 << 10
	maxStack   = 8 << 10
)

// codedError is a permanent failure that is not the handler's.
type codedError struct {
	code string
	err  error
}

func (e *codedError) Error() string { return e.err.Error() }
func (e *codedError) Unwrap() error { return e.err }

type kind uint8

const (
	kindSucceeded kind = iota
	kindReleased
	kindWaiting
	kindFailed
)

// outcome is what came of an attempt.
type outcome struct {
	kind      kind
	result    json.RawMessage
	failure   run.Failure
	permanent bool
	delay     time.Duration // until the run is due again, if it is
	source    string        // the run to wait for
	resumeID  uuid.UUID     // of the event that ends the wait at once, if the source has ended
}

// refusal is the code of the failure that an outcome becomes which cannot be stored.
func (o *outcome) refusal() string {
	if o.kind == kindSucceeded {
		return CodeResult
	}
	return CodeError
}

// work runs the handler of a claimed run and hands over what comes of it. It does
// so however the handler ends: by returning, by a panic, or by leaving the
// goroutine with runtime.Goexit, after which only deferred calls run.
func (w *worker) work(c *claim) {
	var out outcome
	returned := false
	defer func() {
		if thrown := recover(); !returned {
			out = w.panicked(c, thrown)
		}
		w.handOver(c, out)
	}()
	result, err := w.invoke(c)
	out = w.judge(c, result, err)
	returned = true
}

// invoke calls the handler, wrapped if that is wanted.
func (w *worker) invoke(c *claim) (result json.RawMessage, err error) {
	if w.lane.wrap == nil {
		return c.def.invoke(c.ctx, c.attempt, c.payload)
	}
	called := false
	err = w.lane.wrap(c.ctx, c.attempt, func(ctx context.Context) (err error) {
		called = true
		result, err = c.def.invoke(ctx, c.attempt, c.payload)
		return err
	})
	if err == nil && !called {
		err = errors.New("lane: Config.Wrap did not call the handler")
	}
	return result, err
}

func (w *worker) handOver(c *claim, out outcome) {
	if c.stopClock != nil {
		c.stopClock()
	}
	w.mu.Lock()
	w.running--
	discard := c.over
	if !discard {
		c.over = true
		w.finishing++
	}
	w.mu.Unlock()
	c.cancel(nil)
	w.nudge()
	if discard {
		w.lane.log.Warn("result discarded: the run is no longer this worker's", "run", c.id, "task", c.def.name)
		return
	}
	w.submit(c, out)
}

func (w *worker) judge(c *claim, result json.RawMessage, err error) outcome {
	if err == nil {
		return outcome{kind: kindSucceeded, result: result}
	}
	release, wait, coded, permanent := (*releaseError)(nil), (*waitError)(nil), (*codedError)(nil), (*permanentError)(nil)
	switch {
	case errors.As(err, &wait):
		return outcome{kind: kindWaiting, source: wait.source, resumeID: w.lane.source.id()}
	case errors.As(err, &release):
		return outcome{kind: kindReleased, delay: release.delay}
	case errors.As(err, &coded):
		return w.failed(c, coded.code, err.Error(), "", true)
	case errors.As(err, &permanent):
		return w.failed(c, CodeError, err.Error(), "", true)
	case errors.Is(context.Cause(c.ctx), ErrShutdown):
		// Whatever it says, it was interrupted.
		return outcome{kind: kindReleased}
	case errors.Is(context.Cause(c.ctx), ErrTimeout):
		return w.failed(c, CodeTimeout, err.Error(), "", false)
	}
	return w.failed(c, CodeError, err.Error(), "", false)
}

func (w *worker) panicked(c *claim, thrown any) outcome {
	message := "the handler left its goroutine"
	if thrown != nil {
		message = fmt.Sprint(thrown)
	}
	return w.failed(c, CodePanic, message, string(debug.Stack()), false)
}

func (w *worker) failed(c *claim, code, message, detail string, permanent bool) outcome {
	return outcome{
		kind: kindFailed,
		failure: run.Failure{
			Code:      code,
			Message:   storable(message, maxMessage),
			Detail:    storable(detail, maxStack),
			Retryable: !permanent,
		},
		permanent: permanent,
		delay:     c.def.backoff.after(c.attempt.Failures+1, w.lane.source.chance()),
	}
}
