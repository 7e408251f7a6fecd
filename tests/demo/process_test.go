package demo_test

import (
	"bufio"
	"bytes"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// patience is how long a demo may take, on a machine that is busy.
const patience = 3 * time.Minute

// process is a running demo.
type process struct {
	place  place
	cmd    *exec.Cmd
	lines  chan string // its standard output
	seen   strings.Builder
	stderr bytes.Buffer
}

// start starts the program in a process group of its own, as a shell does.
func (p place) start(t *testing.T, as *syscall.Credential, args ...string) *process {
	t.Helper()
	d := &process{place: p, cmd: exec.Command(p.program, args...), lines: make(chan string, 1000)}
	d.cmd.Env = append(os.Environ(), "TMPDIR="+p.tmp)
	d.cmd.Dir = p.dir
	d.cmd.Stderr = &d.stderr
	d.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: as}
	output, err := d.cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, d.cmd.Start())
	go func() {
		defer close(d.lines)
		for scanner := bufio.NewScanner(output); scanner.Scan(); {
			d.lines <- scanner.Text()
		}
		_, _ = io.Copy(io.Discard, output) // a line too long for the scanner shows in the tests
	}()
	t.Cleanup(func() {
		if d.cmd.ProcessState == nil {
			_ = d.cmd.Process.Kill()
			_ = d.cmd.Wait()
		}
	})
	return d
}

// await returns the first line that holds the text.
func (d *process) await(t *testing.T, text string) string {
	t.Helper()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for {
		select {
		case line, open := <-d.lines:
			require.True(t, open, "the demo ended without saying %q:\n%s", text, d.seen.String())
			d.seen.WriteString(line + "\n")
			if strings.Contains(line, text) {
				return line
			}
		case <-timer.C:
			require.Fail(t, "the demo takes too long", "to say %q:\n%s", text, d.seen.String())
		}
	}
}

// end returns the exit code and everything that was said, when the demo has ended.
func (d *process) end(t *testing.T) (code int, stdout, stderr string) {
	t.Helper()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for open := true; open; {
		select {
		case line, more := <-d.lines:
			if open = more; open {
				d.seen.WriteString(line + "\n")
			}
		case <-timer.C:
			require.Fail(t, "the demo does not end", "%s", d.seen.String())
		}
	}
	_ = d.cmd.Wait() // the exit code says it
	return d.cmd.ProcessState.ExitCode(), d.seen.String(), d.stderr.String()
}

// left returns what is left of a demo: files, and processes whose command line
// names the folder, as those of the program and of the server do. The server's
// children have titles of their own, but do not outlive it.
func (p place) left(t *testing.T) (left []string) {
	t.Helper()
	entries, err := os.ReadDir(p.tmp)
	require.NoError(t, err)
	for _, e := range entries {
		left = append(left, e.Name())
	}
	out, err := exec.Command("ps", "-A", "-ww", "-o", "pid=,args=").Output()
	require.NoError(t, err)
	for line := range strings.Lines(string(out)) {
		if strings.Contains(line, p.dir) {
			left = append(left, strings.TrimSpace(line))
		}
	}
	return left
}

// requireNothingSoon waits until nothing is left.
func (p place) requireNothingSoon(t *testing.T) {
	t.Helper()
	require.Eventually(t, func() bool { return len(p.left(t)) == 0 }, time.Minute, 50*time.Millisecond, "something is left")
}
