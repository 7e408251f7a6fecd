package pgtest

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
)

// Options describe a cluster of one's own. The zero value is a durable
// cluster in a temporary folder that ends with the calling process.
type Options struct {
	// Dir is the folder of the cluster; it is made if it does not exist, and
	// must be empty otherwise, or hold a cluster that was kept there, which is
	// started again with its settings, its password and, if it is still free,
	// its port. When the caller is root, the account "postgres" (or "nobody")
	// must be able to enter it. Empty means a temporary folder.
	Dir string
	// Settings are lines of postgresql.conf by name; they come last. They
	// are used when the cluster is made.
	Settings map[string]string
	// Volatile does not wait for the disk: the data does not survive a crash
	// of the machine. It does survive a crash of PostgreSQL.
	Volatile bool
	// Keep leaves the server running when the calling process ends without
	// calling Stop, and leaves the folder in any case.
	Keep bool
}

// Mode is a way in which a server ends.
type Mode int

const (
	// Fast rolls back what is open, disconnects everybody and shuts down.
	Fast Mode = iota
	// Immediate ends without a shutdown; the next start recovers from the log.
	Immediate
	// Crash kills the server's main process with SIGKILL.
	Crash
)

// Cluster is a PostgreSQL server of one's own. Its methods may be called
// concurrently.
type Cluster struct {
	control *control
	server  *server
	dir     folder
	users   *os.File

	mu  sync.Mutex
	pid int

	stopOnce sync.Once
	stopErr  error
}

// Start makes a cluster, or starts one that was kept in Options.Dir, and
// returns when it accepts connections. Its superuser is "runlane".
func Start(ctx context.Context, opts Options) (*Cluster, error) {
	o, err := privateOrder(opts)
	if err != nil {
		return nil, err
	}
	mutex, err := o.Dir.enter(ctx, o.Account)
	if err != nil {
		return nil, err
	}
	c, err := startLocked(ctx, o, mutex)
	return c, errors.Join(err, mutex.Close())
}

func startLocked(ctx context.Context, o order, mutex *os.File) (*Cluster, error) {
	if watched, err := o.Dir.busy(watchdogName); watched || err != nil {
		return nil, errors.Join(fmt.Errorf("the cluster in %s is in use", o.Dir), err)
	}
	if st, complete := o.Dir.readState(); complete && st.Keep {
		o.State.Port, o.State.Password = st.Port, st.Password
	} else if err := o.Dir.clear(ctx); err != nil {
		return nil, err
	}
	users, err := o.Dir.use(ctx)
	if err != nil {
		return nil, err
	}
	control, ready, err := launch(ctx, o, mutex)
	if err != nil {
		return nil, errors.Join(err, users.Close())
	}
	return &Cluster{control: control, server: newServer(ready.State, false), dir: o.Dir, users: users, pid: ready.PID}, nil
}

func privateOrder(opts Options) (order, error) {
	for _, name := range []string{"port", "unix_socket_directories", "data_directory"} {
		if _, set := opts.Settings[name]; set {
			return order{}, fmt.Errorf("the setting %q is not free: the cluster chooses it", name)
		}
	}
	o := order{Settings: opts.Settings, Volatile: opts.Volatile, State: state{Keep: opts.Keep}}
	var err error
	if o.Bin, err = findBinaries(); err != nil {
		return order{}, err
	}
	if o.Account, err = serverAccount("postgres", "nobody"); err != nil {
		return order{}, err
	}
	if opts.Dir != "" {
		o.Dir, err = ownFolder(opts.Dir, o.Account)
		return o, err
	}
	base, err := chooseBase(o.Account, bases(o.Volatile)...)
	if err != nil {
		return order{}, err
	}
	name := fmt.Sprintf("%s%d-%s", folderPrefix, os.Geteuid(), randomName()[:12])
	o.Dir = folder(filepath.Join(base, name))
	sweep(o.Dir)
	return o, nil
}

// ownFolder checks a folder that the caller named: nothing but a cluster's
// own files is ever deleted.
func ownFolder(dir string, a account) (folder, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	parent := filepath.Dir(dir)
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return "", err
	}
	if parent, err = filepath.EvalSymlinks(parent); err != nil {
		return "", err
	}
	f := folder(filepath.Join(parent, filepath.Base(dir)))
	if !a.canEnter(parent) {
		return "", fmt.Errorf("the account %q, as which the server runs, cannot enter %s: choose another folder", a.Name, parent)
	}
	entries, err := os.ReadDir(string(f))
	if errors.Is(err, os.ErrNotExist) {
		return f, nil
	}
	if err != nil {
		return "", err
	}
	if len(entries) == 0 {
		return f, os.Remove(string(f)) // made anew, with the right mode
	}
	if _, err := os.Stat(f.path(lockName)); err != nil {
		return "", fmt.Errorf("%s is neither empty nor the folder of a cluster", f)
	}
	return f, nil
}

// URL returns the URL of a database of the cluster, over loopback TCP and with
// the superuser's password.
func (c *Cluster) URL(dbname string) string { return c.server.url(dbname) }

// SocketURL returns the URL of a database over the cluster's Unix socket, which
// asks for no password; "" if the path of Options.Dir is too long for one.
func (c *Cluster) SocketURL(dbname string) string {
	socket := c.dir.path(socketDir)
	if len(socket)+len("/.s.PGSQL.65535") > maxSocketPath {
		return ""
	}
	return (&url.URL{
		Scheme: "postgres", User: url.User(superuser), Path: "/" + dbname,
		RawQuery: url.Values{"host": {socket}, "port": {fmt.Sprint(c.server.port)}}.Encode(),
	}).String()
}

// Log returns the path of the server's log.
func (c *Cluster) Log() string { return c.dir.path(serverLog) }

// Pid returns the id of the server's main process, 0 while it is halted.
func (c *Cluster) Pid() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.pid
}

// CreateDatabase makes an empty database.
func (c *Cluster) CreateDatabase(ctx context.Context, name string) error {
	return c.server.exec(ctx, "create database "+pgx.Identifier{name}.Sanitize()+" template template0 encoding 'UTF8'")
}

// Halt ends the server; the cluster stays and Resume starts it again.
func (c *Cluster) Halt(ctx context.Context, mode Mode) error {
	return c.request(ctx, request{Op: opHalt, Mode: mode})
}

// Resume starts the server again after Halt, or after it was killed, on the
// port it had.
func (c *Cluster) Resume(ctx context.Context) error {
	return c.request(ctx, request{Op: opResume})
}

// Restart ends the server in the given way and starts it again on its port.
func (c *Cluster) Restart(ctx context.Context, mode Mode) error {
	if err := c.Halt(ctx, mode); err != nil {
		return err
	}
	return c.Resume(ctx)
}

// Stop ends the server and removes the cluster's folder, unless Options.Keep.
// Further calls return what the first did.
func (c *Cluster) Stop() error {
	c.stopOnce.Do(func() {
		ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
		defer cancel()
		err := c.request(ctx, request{Op: opStop})
		c.stopErr = errors.Join(err, c.control.await(), c.users.Close())
	})
	return c.stopErr
}

func (c *Cluster) request(ctx context.Context, r request) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	answer, err := c.control.do(ctx, r)
	if err == nil {
		c.pid = answer.PID
	}
	return err
}

// Private starts a cluster for one test and stops it when the test ends.
func Private(t testing.TB, opts Options) *Cluster {
	t.Helper()
	c, err := Start(t.Context(), opts)
	if err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Errorf("pgtest: stopping the cluster: %v", err)
		}
	})
	return c
}
