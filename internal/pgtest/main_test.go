package pgtest

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// helperEnv makes the test binary something else than a run of the tests: a
// process for tests about several processes.
const helperEnv = "RUNLANE_PGTEST_HELPER"

const (
	helpSession = "session" // waits for a line, joins the shared session, makes a database
	helpCluster = "cluster" // starts a cluster with the options in optionsEnv
	helpParent  = "parent"  // starts helpSession as its child
)

const optionsEnv = "RUNLANE_PGTEST_OPTIONS"

// report is what a helper prints when it is ready. It ends with its input.
type report struct {
	Folder     string
	URL        string // of its database
	Postmaster int
	Watchdog   int
	Error      string
}

func TestMain(m *testing.M) {
	mode := os.Getenv(helperEnv)
	if mode == "" {
		os.Exit(m.Run())
	}
	if err := help(mode); err != nil {
		_ = json.NewEncoder(os.Stdout).Encode(report{Error: err.Error()})
		os.Exit(1)
	}
}

func help(mode string) error {
	input := bufio.NewReader(os.Stdin)
	var r report
	var err error
	switch mode {
	case helpSession:
		if _, err := input.ReadString('\n'); err != nil {
			return err
		}
		r, err = helperSession()
	case helpCluster:
		r, err = helperCluster()
	case helpParent:
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), helperEnv+"="+helpSession)
		cmd.Stdin, cmd.Stdout = os.Stdin, os.Stdout
		if err := cmd.Run(); err != nil {
			return err
		}
		time.Sleep(time.Hour) // as if another package's tests ran, until it is killed
	}
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(r)
	}
	if err == nil {
		_, err = io.Copy(io.Discard, input)
	}
	return err
}

func helperSession() (report, error) {
	s, err := sharedServer()
	if err != nil {
		return report{}, err
	}
	name, err := s.create(context.Background(), false, DefaultSchema)
	if err != nil {
		return report{}, err
	}
	o, err := sharedOrder()
	if err != nil {
		return report{}, err
	}
	st, _ := o.Dir.readState()
	pid, _ := readPostmasterPID(o.Dir.path(dataDir))
	return report{Folder: string(o.Dir), URL: s.url(name), Postmaster: pid, Watchdog: st.Watchdog}, nil
}

func helperCluster() (report, error) {
	var opts Options
	if err := json.Unmarshal([]byte(os.Getenv(optionsEnv)), &opts); err != nil {
		return report{}, err
	}
	c, err := Start(context.Background(), opts)
	if err != nil {
		return report{}, err
	}
	st, _ := c.dir.readState()
	return report{Folder: string(c.dir), URL: c.URL("postgres"), Postmaster: c.Pid(), Watchdog: st.Watchdog}, nil
}

// helper is a helper process.
type helper struct {
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stdout *bufio.Reader
}

// startHelper starts a helper; adjust may change how it is run.
func startHelper(t *testing.T, mode string, adjust func(*exec.Cmd)) *helper {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), helperEnv+"="+mode)
	cmd.Stderr = os.Stderr
	if adjust != nil {
		adjust(cmd)
	}
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	h := &helper{cmd: cmd, stdin: stdin, stdout: bufio.NewReader(stdout)}
	t.Cleanup(h.kill)
	return h
}

// join lets a helper for a session go on.
func (h *helper) join(t *testing.T) {
	t.Helper()
	_, err := io.WriteString(h.stdin, "\n")
	require.NoError(t, err)
}

func (h *helper) outcome(t *testing.T) report {
	t.Helper()
	line, err := h.stdout.ReadBytes('\n')
	require.NoError(t, err, "the helper ended early")
	var r report
	require.NoError(t, json.Unmarshal(line, &r))
	return r
}

// ready returns the report of a helper that succeeded.
func (h *helper) ready(t *testing.T) report {
	t.Helper()
	r := h.outcome(t)
	require.Empty(t, r.Error)
	return r
}

func (h *helper) kill() {
	_ = h.cmd.Process.Signal(syscall.SIGKILL)
	_ = h.cmd.Wait()
}

func (h *helper) end(t *testing.T) {
	t.Helper()
	require.NoError(t, h.stdin.Close())
	require.NoError(t, h.cmd.Wait())
}

// session starts a helper, lets it join, and returns its report.
func session(t *testing.T, adjust func(*exec.Cmd)) (*helper, report) {
	t.Helper()
	h := startHelper(t, helpSession, adjust)
	h.join(t)
	return h, h.ready(t)
}

// eventually waits for something that other processes bring about.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for !condition() {
		require.True(t, time.Now().Before(deadline), "waited in vain: %s", what)
		time.Sleep(poll)
	}
}

// requireGone waits until neither processes nor folder are left.
func requireGone(t *testing.T, r report) {
	t.Helper()
	eventually(t, fmt.Sprintf("the end of %+v", r), func() bool {
		if runs(r.Postmaster) || runs(r.Watchdog) {
			return false
		}
		left, err := filepath.Glob(r.Folder + "*")
		return err == nil && len(left) == 0
	})
}

func runs(pid int) bool {
	_, _, ok := inspect(pid)
	return pid != 0 && ok
}

// publicDir returns a temporary folder that every account can enter, removed
// when the test ends.
func publicDir(t *testing.T) string {
	t.Helper()
	a, err := serverAccount("postgres", "nobody")
	require.NoError(t, err)
	base, err := chooseBase(a, bases(false)...)
	require.NoError(t, err)
	dir, err := os.MkdirTemp(base, "runlane-test-")
	require.NoError(t, err)
	require.NoError(t, os.Chmod(dir, 0o755))
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	return dir
}

// withEnv returns an adjustment that sets and, with an empty value, unsets
// variables.
func withEnv(vars ...string) func(*exec.Cmd) {
	return func(cmd *exec.Cmd) {
		for _, v := range vars {
			name, value, _ := strings.Cut(v, "=")
			var kept []string
			for _, old := range cmd.Env {
				if !strings.HasPrefix(old, name+"=") {
					kept = append(kept, old)
				}
			}
			cmd.Env = kept
			if value != "" {
				cmd.Env = append(cmd.Env, v)
			}
		}
	}
}
