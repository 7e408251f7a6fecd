package pgtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// bouncerEnv names the environment variable with the path of PgBouncer.
const bouncerEnv = "RUNLANE_PGBOUNCER"

var errNoBouncer = errors.New("PgBouncer was not found: run `make deps`, or set " + bouncerEnv + " to the path of the program pgbouncer")

// bouncerFolders are where distributions put PgBouncer when PATH does not have it,
// as it seldom has /usr/sbin.
var bouncerFolders = []string{"/usr/sbin", "/usr/local/sbin", "/usr/local/bin", "/opt/homebrew/bin"}

// findBouncer returns the path of PgBouncer. scripts/deps.sh searches the same
// places in the same order.
func findBouncer() (string, error) {
	if path := os.Getenv(bouncerEnv); path != "" {
		found, err := exec.LookPath(path)
		if err != nil {
			return "", fmt.Errorf("%s=%s: %w", bouncerEnv, path, err)
		}
		return filepath.Abs(found)
	}
	if path, err := exec.LookPath("pgbouncer"); err == nil {
		return filepath.Abs(path)
	}
	for _, dir := range bouncerFolders {
		if path, err := exec.LookPath(filepath.Join(dir, "pgbouncer")); err == nil {
			return path, nil
		}
	}
	return "", errNoBouncer
}

// Bounce returns the database as it is seen through a PgBouncer of the test's own,
// in transaction mode and with that many connections to the server. Statements of
// different transactions take turns on the server's connections even if one
// connection would do. PgBouncer ends with the test.
//
// Whoever connects does so as the role of db.URL, which may differ from the one
// that New gave.
func Bounce(t testing.TB, db *DB, connections int) *DB {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	b, err := startBouncer(ctx, db.URL, connections)
	if err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	t.Cleanup(func() {
		if err := b.stop(); err != nil {
			t.Errorf("pgtest: stopping PgBouncer: %v", err)
		}
	})
	return &DB{Name: db.Name, URL: b.url, Schema: db.Schema}
}

// BouncerVersion returns the version of PgBouncer that Bounce starts.
func BouncerVersion(t testing.TB) (major, minor int) {
	t.Helper()
	program, err := findBouncer()
	if err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	out, err := exec.Command(program, "--version").Output()
	if err == nil {
		_, err = fmt.Sscanf(string(out), "PgBouncer %d.%d", &major, &minor)
	}
	if err != nil {
		t.Fatalf("pgtest: %s --version: %v\n%s", program, err, out)
	}
	return major, minor
}

// bouncer is a running PgBouncer.
type bouncer struct {
	url    string
	dir    string
	cmd    *exec.Cmd
	exited chan struct{} // closed when the process has ended

	guard    *exec.Cmd
	lifeline *os.File // closed by the end of this process, whichever it is
}

// startBouncer starts PgBouncer in front of the server of a database URL and
// returns when it accepts connections.
func startBouncer(ctx context.Context, target string, connections int) (*bouncer, error) {
	program, err := findBouncer()
	if err != nil {
		return nil, err
	}
	a, err := serverAccount("postgres", "nobody") // like PostgreSQL, it refuses to run as root
	if err != nil {
		return nil, err
	}
	base, err := chooseBase(a, bases(false)...)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(base, "runlane-bouncer-")
	if err != nil {
		return nil, err
	}
	for {
		b := &bouncer{dir: dir}
		err := errors.Join(a.give(dir), b.configure(a, target, connections))
		if err == nil {
			err = b.start(ctx, program, a)
		}
		if err == nil {
			return b, nil
		}
		// Somebody may have taken the port between its choice and its use.
		if ctx.Err() != nil || !bytes.Contains(b.log(), []byte("Address already in use")) {
			return nil, errors.Join(err, os.RemoveAll(dir))
		}
	}
}

// configure writes the files that PgBouncer reads, and chooses its port.
func (b *bouncer) configure(a account, target string, connections int) error {
	server, err := pgx.ParseConfig(target)
	if err != nil {
		return err
	}
	u, err := url.Parse(target)
	if err != nil {
		return err
	}
	port := freePort()
	u.Host = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	u.RawQuery = url.Values{"sslmode": {"disable"}}.Encode()
	b.url = u.String()
	settings := fmt.Sprintf(`[databases]
* = host=%s port=%d
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %d
unix_socket_dir =
auth_type = scram-sha-256
auth_file = %s
pool_mode = transaction
default_pool_size = %d
server_round_robin = 1
max_client_conn = 500
log_connections = 0
log_disconnections = 0
`, server.Host, server.Port, port, filepath.Join(b.dir, "users"), connections)
	word := func(s string) string { return `"` + strings.ReplaceAll(s, `"`, `""`) + `"` }
	for name, text := range map[string]string{
		"settings": settings,
		"users":    word(server.User) + " " + word(server.Password) + "\n",
		"log":      "",
	} {
		path := filepath.Join(b.dir, name)
		if err := errors.Join(os.WriteFile(path, []byte(text), 0o600), a.give(path)); err != nil {
			return err
		}
	}
	return nil
}

// guardScript ends PgBouncer when its input ends: the process that started both
// can be killed at any time.
const guardScript = `cat >/dev/null; kill "$1" 2>/dev/null; rm -rf -- "$2"`

func (b *bouncer) start(ctx context.Context, program string, a account) error {
	log, err := os.OpenFile(filepath.Join(b.dir, "log"), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	defer log.Close()
	b.cmd = exec.Command(program, filepath.Join(b.dir, "settings"))
	b.cmd.Dir, b.cmd.Stderr = b.dir, log
	runAs(b.cmd, a)
	if err := b.cmd.Start(); err != nil {
		return err
	}
	b.exited = make(chan struct{})
	go func() {
		_ = b.cmd.Wait() // how it ended is in the log
		close(b.exited)
	}()
	if err := b.protect(a); err != nil {
		return errors.Join(err, b.end())
	}
	if err := b.awaitReady(ctx); err != nil {
		return errors.Join(fmt.Errorf("%w; its log:\n%s", err, bytes.TrimSpace(b.log())), b.end())
	}
	return nil
}

// protect starts the guard.
func (b *bouncer) protect(a account) error {
	input, lifeline, err := os.Pipe()
	if err != nil {
		return err
	}
	defer input.Close()
	b.guard = exec.Command("/bin/sh", "-c", guardScript, "sh", strconv.Itoa(b.cmd.Process.Pid), b.dir)
	b.guard.Stdin = input
	runAs(b.guard, a)
	if err := b.guard.Start(); err != nil {
		b.guard = nil
		return errors.Join(err, lifeline.Close())
	}
	b.lifeline = lifeline
	return nil
}

// awaitReady waits for the line that PgBouncer writes when it listens.
func (b *bouncer) awaitReady(ctx context.Context) error {
	tick := time.NewTicker(poll / 4)
	defer tick.Stop()
	for !bytes.Contains(b.log(), []byte("process up")) {
		select {
		case <-b.exited:
			return errors.New("PgBouncer did not start")
		case <-ctx.Done():
			return fmt.Errorf("PgBouncer is not ready: %w", context.Cause(ctx))
		case <-tick.C:
		}
	}
	return nil
}

func (b *bouncer) log() []byte {
	text, err := os.ReadFile(filepath.Join(b.dir, "log"))
	if err != nil {
		return nil
	}
	return text
}

// end ends the processes. The guard goes first: it knows PgBouncer by its number
// alone, which may be another process's once PgBouncer has ended.
func (b *bouncer) end() error {
	var err error
	if b.guard != nil {
		err = b.guard.Process.Signal(syscall.SIGKILL)
		_ = b.guard.Wait() // it was killed
		err = errors.Join(err, b.lifeline.Close())
	}
	if killed := b.cmd.Process.Signal(syscall.SIGTERM); killed != nil && !errors.Is(killed, os.ErrProcessDone) {
		return errors.Join(err, killed)
	}
	timer := time.NewTimer(stopTimeout)
	defer timer.Stop()
	select {
	case <-b.exited:
		return err
	case <-timer.C:
		return errors.Join(err, fmt.Errorf("the PgBouncer %d does not stop", b.cmd.Process.Pid), b.cmd.Process.Kill())
	}
}

func (b *bouncer) stop() error { return errors.Join(b.end(), os.RemoveAll(b.dir)) }
