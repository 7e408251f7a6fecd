package demo

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"
)

// child is a worker process, seen from the demo.
type child struct {
	name   string
	cmd    *exec.Cmd
	input  io.WriteCloser
	log    *logTail
	ready  chan struct{} // closed at the report of that name
	holds  chan struct{} // closed at reportHolding
	exited chan struct{} // closed when the process has ended
	err    error         // how it ended; to be read when exited is closed
	memory int64         // its peak, in bytes, when it was last looked at; 0: not known
}

// endPatience is how long a worker may take to end by itself.
const endPatience = 30 * time.Second

// startChild starts a worker process: this program, with another command.
func startChild(o order) (*child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	if o.Profile != "" {
		if o.Profile, err = filepath.Abs(o.Profile); err != nil {
			return nil, err
		}
	}
	c := &child{
		name: o.Name, cmd: exec.Command(self, "demo-worker", o.Name), log: &logTail{},
		ready: make(chan struct{}), holds: make(chan struct{}), exited: make(chan struct{}),
	}
	c.cmd.Stderr = c.log
	if c.input, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	output, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := c.cmd.Start(); err != nil {
		return nil, err
	}
	go c.follow(output)
	return c, c.send(o)
}

// follow reads reports until the process ends, and then its exit status.
func (c *child) follow(output io.Reader) {
	lines := json.NewDecoder(output)
	for {
		var r report
		if lines.Decode(&r) != nil {
			break
		}
		switch r.Report {
		case reportReady:
			close(c.ready)
		case reportHolding:
			close(c.holds)
		}
	}
	c.err = c.cmd.Wait()
	close(c.exited)
}

// send writes one line to the worker.
func (c *child) send(message any) error {
	line, err := json.Marshal(message)
	if err != nil {
		return err
	}
	if _, err := c.input.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("worker %s does not listen: %w", c.name, err)
	}
	return nil
}

// measure looks at the worker's memory.
func (c *child) measure() { c.memory = peakMemory(c.cmd.Process.Pid) }

// processorTime is what the worker has used, once it has ended.
func (c *child) processorTime() time.Duration {
	return c.cmd.ProcessState.UserTime() + c.cmd.ProcessState.SystemTime()
}

// kill ends the worker with SIGKILL and returns when it is dead. It is an error
// if it ended in another way.
func (c *child) kill() error {
	if err := c.cmd.Process.Kill(); err != nil {
		return fmt.Errorf("killing worker %s: %w", c.name, err)
	}
	<-c.exited
	if !wasKilled(c.cmd.ProcessState) {
		return fmt.Errorf("worker %s was to be killed but ended by itself: %w", c.name, c.ended())
	}
	return nil
}

// stop tells the worker to end and returns when it has. It is an error if it did
// not end well.
func (c *child) stop() error {
	if err := c.send(command{commandStop}); err != nil {
		return err
	}
	timer := time.NewTimer(endPatience)
	defer timer.Stop()
	select {
	case <-c.exited:
	case <-timer.C:
		return fmt.Errorf("worker %s does not end", c.name)
	}
	if c.err != nil {
		return c.ended()
	}
	return nil
}

// abandon ends the worker, if it still runs, without caring how.
func (c *child) abandon() {
	_ = c.cmd.Process.Kill()
	<-c.exited
	_ = c.input.Close()
}

// ended says how the process ended, with its last words.
func (c *child) ended() error {
	text := "with exit code 0"
	if c.err != nil {
		text = c.err.Error()
	}
	if last := c.log.last(); last != "" {
		text += ": " + last
	}
	return errors.New("worker " + c.name + " ended: " + text)
}

// logTail keeps the end of what is written to it.
type logTail struct {
	mu   sync.Mutex
	text []byte
}

const logKept = 8 << 10

func (l *logTail) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, p...)
	if extra := len(l.text) - logKept; extra > 0 {
		l.text = append(l.text[:0], l.text[extra:]...)
	}
	return len(p), nil
}

// last is the last line.
func (l *logTail) last() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	text := bytes.TrimSpace(l.text)
	return string(text[bytes.LastIndexByte(text, '\n')+1:])
}
