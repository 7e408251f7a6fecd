package pgtest

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"time"
)

// control is the owner's end of the pipes to a watchdog.
type control struct {
	cmd      *exec.Cmd
	log      string
	requests *os.File

	mu      sync.Mutex // one exchange at a time
	replies *os.File
	lines   *bufio.Reader
	broken  error // an exchange that was given up leaves a reply in the pipe
}

// launch starts a watchdog and returns when its session is ready. The watchdog
// inherits mutex, the lock of its folder; the caller closes its own copy.
func launch(ctx context.Context, o order, mutex *os.File) (*control, reply, error) {
	c, err := spawn(o, mutex)
	if err != nil {
		return nil, reply{}, fmt.Errorf("starting the watchdog: %w", err)
	}
	ready, err := c.receive(ctx)
	if err != nil {
		return nil, reply{}, errors.Join(err, c.hangUp())
	}
	return c, ready, nil
}

func spawn(o order, mutex *os.File) (*control, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	log, err := os.OpenFile(o.Dir.path(watchdogLog), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }()
	theirRequests, requests, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer func() { _ = theirRequests.Close() }()
	replies, theirReplies, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, requests.Close())
	}
	defer func() { _ = theirReplies.Close() }()

	cmd := exec.Command(self)
	cmd.Args = []string{"runlane-pg-watchdog", string(o.Dir)} // what ps shows
	cmd.Env = append(os.Environ(), orderEnv+"="+string(text))
	cmd.Dir = string(o.Dir)
	// None of the caller's own descriptors: go test waits until nobody holds
	// a test's output any more.
	cmd.Stdin, cmd.Stderr = theirRequests, log
	cmd.ExtraFiles = []*os.File{theirReplies, mutex}
	detach(cmd)
	if err := cmd.Start(); err != nil {
		return nil, errors.Join(err, requests.Close(), replies.Close())
	}
	return &control{
		cmd: cmd, log: o.Dir.path(watchdogLog), requests: requests,
		replies: replies, lines: bufio.NewReader(replies),
	}, nil
}

// do sends a request and returns its reply.
func (c *control) do(ctx context.Context, r request) (reply, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.broken != nil {
		return reply{}, c.broken
	}
	line, err := json.Marshal(r)
	if err != nil {
		return reply{}, err
	}
	if _, err := c.requests.Write(append(line, '\n')); err != nil {
		return reply{}, fmt.Errorf("the cluster has no watchdog any more: %w", err)
	}
	return c.receive(ctx)
}

func (c *control) receive(ctx context.Context) (reply, error) {
	stop := context.AfterFunc(ctx, func() { _ = c.replies.SetReadDeadline(time.Now()) })
	line, err := c.lines.ReadBytes('\n')
	stop()
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		c.broken = fmt.Errorf("no answer from the watchdog: %w\n%s", err, tail(c.log))
		return reply{}, c.broken
	}
	var r reply
	if err := json.Unmarshal(line, &r); err != nil {
		return reply{}, err
	}
	if r.Error != "" {
		return r, errors.New(r.Error)
	}
	return r, nil
}

// hangUp closes the pipes and leaves the watchdog alone. One that has only
// this owner takes that as the end of the session.
func (c *control) hangUp() error {
	return errors.Join(c.requests.Close(), c.replies.Close(), c.cmd.Process.Release())
}

// await closes the pipes and waits for the end of the watchdog.
func (c *control) await() error {
	err := errors.Join(c.requests.Close(), c.replies.Close())
	ended := make(chan error, 1)
	go func() { ended <- c.cmd.Wait() }()
	timer := time.NewTimer(startTimeout)
	defer timer.Stop()
	select {
	case waitErr := <-ended:
		if waitErr != nil {
			err = errors.Join(err, fmt.Errorf("the watchdog failed: %w", waitErr))
		}
	case <-timer.C:
		err = errors.Join(err, errors.New("the watchdog does not end"))
	}
	return err
}

// randomName returns 16 hexadecimal digits that nobody can guess.
func randomName() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}
