package pgtest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	superuser    = "runlane"
	startTimeout = 60 * time.Second
	stopTimeout  = 10 * time.Second
)

// postmaster is a PostgreSQL server that is the child of this process, the
// watchdog.
type postmaster struct {
	dir      folder
	bin      string
	as       account
	port     int
	password string

	pid    int
	exited chan struct{} // closed when the child has ended; nil before the first start
}

// initialize makes the cluster's files.
func (p *postmaster) initialize(ctx context.Context, settings map[string]string, volatile bool) error {
	data, socket, secret := p.dir.path(dataDir), p.dir.path(socketDir), p.dir.path("password")
	for _, dir := range []string{data, socket} {
		if err := errors.Join(os.Mkdir(dir, 0o700), p.as.give(dir)); err != nil {
			return err
		}
	}
	if err := errors.Join(os.WriteFile(secret, []byte(p.password), 0o600), p.as.give(secret)); err != nil {
		return err
	}
	args := []string{"-D", data, "-E", "UTF8", "--locale=C", "-U", superuser, "-A", "scram-sha-256", "--pwfile", secret}
	if volatile {
		args = append(args, "--no-sync")
	}
	cmd := p.command(ctx, "initdb", args...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", filepath.Join(p.bin, "initdb"), err, strings.TrimSpace(string(out)))
	}
	if err := os.Remove(secret); err != nil {
		return err
	}
	// The socket lies in a folder that only its owner can enter.
	hba := "local all,replication all trust\nhost all,replication all 127.0.0.1/32 scram-sha-256\n"
	if err := p.write("pg_hba.conf", hba, os.O_TRUNC); err != nil {
		return err
	}
	return p.write("postgresql.conf", p.configuration(settings, volatile), os.O_APPEND)
}

// write changes a file that initdb made; it keeps its owner.
func (p *postmaster) write(name, text string, flag int) error {
	file, err := os.OpenFile(filepath.Join(p.dir.path(dataDir), name), os.O_WRONLY|flag, 0)
	if err != nil {
		return err
	}
	_, err = file.WriteString(text)
	return errors.Join(err, file.Close())
}

// configuration returns the lines appended to postgresql.conf. Of two lines
// with one name the last counts.
func (p *postmaster) configuration(settings map[string]string, volatile bool) string {
	all := map[string]string{
		"listen_addresses":        "127.0.0.1",
		"unix_socket_directories": "",
		"max_connections":         "200",
		"shared_buffers":          "128MB",
		"timezone":                "UTC",
		"log_timezone":            "UTC",
		"log_line_prefix":         "%m [%p] %d ",
	}
	if socket := p.dir.path(socketDir); len(socket)+len("/.s.PGSQL.65535") <= maxSocketPath {
		all["unix_socket_directories"] = `"` + socket + `"` // a list of quoted names
	}
	if volatile {
		maps.Copy(all, map[string]string{
			"fsync":              "off",
			"synchronous_commit": "off",
			"full_page_writes":   "off",
			"max_wal_size":       "4GB",
			"checkpoint_timeout": "30min",
		})
	}
	maps.Copy(all, settings)
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(all)) {
		fmt.Fprintf(&text, "%s = '%s'\n", name, strings.ReplaceAll(all[name], "'", "''"))
	}
	return text.String()
}

// command prepares a server program: as the right account, in a folder it can
// enter, and without settings of the caller's environment that it would obey.
func (p *postmaster) command(ctx context.Context, program string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, filepath.Join(p.bin, program), args...)
	cmd.Dir = string(p.dir)
	cmd.Env = append(slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "PG") || strings.HasPrefix(v, "LC_") || strings.HasPrefix(v, "LANG") ||
			strings.HasPrefix(v, orderEnv+"=")
	}), "LC_ALL=C", "TZ=UTC")
	runAs(cmd, p.as)
	return cmd
}

// start runs the server and waits until it accepts connections. It takes
// another port if somebody else took the chosen one, unless the port is fixed
// because clients know it.
func (p *postmaster) start(ctx context.Context, fixedPort bool) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	tick := time.NewTicker(poll)
	defer tick.Stop()
	crashed := p.crashed()
	for {
		if !fixedPort && (p.port == 0 || !portFree(p.port)) {
			p.port = freePort()
		}
		err := p.startOnce(ctx)
		// The processes of a crashed server hold its shared memory until they
		// notice that it is gone.
		if err == nil || ctx.Err() != nil || (portFree(p.port) && !crashed) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-tick.C:
		}
	}
}

func (p *postmaster) startOnce(ctx context.Context) error {
	log, err := os.OpenFile(p.dir.path(serverLog), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	// The server outlives ctx, which is only the time it has to start.
	cmd := p.command(context.Background(), "postgres", "-D", p.dir.path(dataDir), "-p", strconv.Itoa(p.port))
	cmd.Stdout, cmd.Stderr = log, log
	err = errors.Join(cmd.Start(), log.Close())
	if err != nil {
		return err
	}
	exited := make(chan struct{})
	go func() {
		_ = cmd.Wait() // how it ended is in the log
		close(exited)
	}()
	p.pid, p.exited = cmd.Process.Pid, exited
	if err := p.awaitReady(ctx); err != nil {
		return errors.Join(fmt.Errorf("%w; the end of the server's log:\n%s", err, tail(p.dir.path(serverLog))), p.stop(Crash))
	}
	return nil
}

// awaitReady waits for the word "ready" in postmaster.pid, as pg_ctl does.
func (p *postmaster) awaitReady(ctx context.Context) error {
	tick := time.NewTicker(poll / 4)
	defer tick.Stop()
	for {
		if pid, status := readPostmasterPID(p.dir.path(dataDir)); pid == p.pid && status == "ready" {
			return nil
		}
		select {
		case <-p.exited:
			return errors.New("PostgreSQL did not start")
		case <-ctx.Done():
			return fmt.Errorf("PostgreSQL is not ready: %w", context.Cause(ctx))
		case <-tick.C:
		}
	}
}

// readPostmasterPID returns the process id and the status that a server keeps
// in its data folder; 0 if there is none.
func readPostmasterPID(data string) (pid int, status string) {
	text, err := os.ReadFile(filepath.Join(data, "postmaster.pid"))
	if err != nil {
		return 0, ""
	}
	const statusLine = 7
	lines := strings.Split(string(text), "\n")
	pid, err = strconv.Atoi(lines[0])
	if err != nil {
		return 0, ""
	}
	if len(lines) > statusLine {
		status = strings.TrimSpace(lines[statusLine])
	}
	return pid, status
}

// stop ends the server in the given way, and harder if that takes too long.
func (p *postmaster) stop(mode Mode) error {
	if mode < Fast || mode > Crash {
		return fmt.Errorf("there is no way to stop numbered %d", mode)
	}
	if !p.running() {
		return nil
	}
	proc, err := os.FindProcess(p.pid)
	if err != nil {
		return err
	}
	signals := []os.Signal{syscall.SIGINT, syscall.SIGQUIT, syscall.SIGKILL}
	for _, sig := range signals[mode:] {
		if err := proc.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return err
		}
		timer := time.NewTimer(stopTimeout)
		select {
		case <-p.exited:
			timer.Stop()
			return nil
		case <-timer.C:
		}
	}
	return fmt.Errorf("the server %d does not stop", p.pid)
}

// crashed says whether a server that does not run ended without cleaning up.
func (p *postmaster) crashed() bool {
	_, err := os.Stat(filepath.Join(p.dir.path(dataDir), "postmaster.pid"))
	return err == nil && !p.running()
}

// finish stops the server for good. Shared memory that a crash left behind is
// known only to the server's files, so they are used once more to free it; a
// test may have broken them.
func (p *postmaster) finish() error {
	err := p.stop(Fast)
	if err != nil || !p.crashed() {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	if p.start(ctx, false) == nil {
		err = p.stop(Fast)
	}
	return err
}

func (p *postmaster) running() bool {
	if p.exited == nil {
		return false
	}
	select {
	case <-p.exited:
		return false
	default:
		return true
	}
}

// freePort returns a loopback port that nobody listens on. It lies below the
// range from which systems take the ports of outgoing connections: there, a
// client that keeps calling a stopped server can be connected to itself, and
// then holds the server's port.
func freePort() int {
	const low, high = 15000, 32000
	port := 0
	for range 1000 {
		port = low + rand.IntN(high-low)
		if portFree(port) {
			break
		}
	}
	return port
}

func portFree(port int) bool {
	l, err := net.Listen("tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return false
	}
	return l.Close() == nil
}
