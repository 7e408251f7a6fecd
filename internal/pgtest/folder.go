package pgtest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

const (
	folderPrefix = "runlane-pg-"
	goneSuffix   = ".gone"

	lockName     = "lock"     // held while a session starts or ends
	usersName    = "users"    // held, shared, by every process that uses the session
	watchdogName = "watchdog" // held by the watchdog as long as it runs
	stateName    = "state.json"
	dataDir      = "data"
	socketDir    = "s"
	serverLog    = "server.log"
	watchdogLog  = "watchdog.log"

	poll = 20 * time.Millisecond
)

// folder is the place of one session or cluster on the disk.
type folder string

func (f folder) path(name string) string { return filepath.Join(string(f), name) }

// state is what a watchdog tells the users of its session.
type state struct {
	URL      string // the maintenance database
	Prefix   string // of the names of this session's databases
	External bool   // the server is not ours
	Keep     bool   // the cluster outlives its watchdog
	Watchdog int    // its process id
	Port     int
	Password string
}

func (f folder) readState() (st state, ok bool) {
	text, err := os.ReadFile(f.path(stateName))
	if err != nil || json.Unmarshal(text, &st) != nil {
		return state{}, false
	}
	return st, true
}

func (f folder) writeState(st state) error {
	text, err := json.Marshal(st)
	if err != nil {
		return err
	}
	next := f.path(stateName + ".next")
	if err := os.WriteFile(next, text, 0o600); err != nil {
		return err
	}
	return os.Rename(next, f.path(stateName))
}

// enter makes the folder if there is none and takes its lock. A folder can be
// removed by its watchdog at any time before the lock is held.
func (f folder) enter(ctx context.Context, a account) (*os.File, error) {
	for {
		if err := f.make(a); err != nil {
			return nil, err
		}
		mutex, err := f.open(lockName)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if err := waitLock(ctx, mutex, lockExclusive); err != nil {
			return nil, errors.Join(fmt.Errorf("waiting for the lock of %s: %w", f, err), mutex.Close())
		}
		if f.holds(mutex) {
			return mutex, nil
		}
		if err := mutex.Close(); err != nil {
			return nil, err
		}
	}
}

// make creates the folder so that the server's account can pass through it. A
// folder that exists must be a real one of the caller's: its name can be
// guessed, and other users can write where it lies.
func (f folder) make(a account) error {
	mode := fs.FileMode(0o700)
	if a.Switch {
		mode = 0o711
	}
	err := os.Mkdir(string(f), mode)
	if err == nil {
		return os.Chmod(string(f), mode) // whatever the umask is
	}
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	info, err := os.Lstat(string(f))
	if errors.Is(err, fs.ErrNotExist) {
		return nil // it went away meanwhile, which the caller notices
	}
	if err != nil {
		return err
	}
	if uid, _ := owner(info); !info.IsDir() || uid != os.Geteuid() {
		return fmt.Errorf("%s exists and belongs to somebody else", f)
	}
	return nil
}

func (f folder) open(name string) (*os.File, error) {
	return os.OpenFile(f.path(name), os.O_RDWR|os.O_CREATE, 0o600)
}

// holds says whether an open lock file is still the one in the folder.
func (f folder) holds(mutex *os.File) bool {
	mine, err := mutex.Stat()
	if err != nil {
		return false
	}
	now, err := os.Stat(f.path(lockName))
	return err == nil && os.SameFile(mine, now)
}

// busy says whether another process holds the named lock file of the folder.
func (f folder) busy(name string) (bool, error) {
	file, err := f.open(name)
	if err != nil {
		return false, err
	}
	free, err := tryLock(file, lockExclusive)
	return !free, errors.Join(err, file.Close())
}

// use takes the shared lock that keeps the session alive until the file is
// closed. Only a watchdog that is about to end the session can be in the way,
// and it holds the folder's lock then.
func (f folder) use(ctx context.Context) (*os.File, error) {
	users, err := f.open(usersName)
	if err != nil {
		return nil, err
	}
	if err := waitLock(ctx, users, lockShared); err != nil {
		return nil, errors.Join(err, users.Close())
	}
	return users, nil
}

// waitLock takes a lock unless the context ends first.
func waitLock(ctx context.Context, f *os.File, how int) error {
	tick := time.NewTicker(poll)
	defer tick.Stop()
	for {
		if got, err := tryLock(f, how); got || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
}

// remove deletes the folder, whose lock the caller holds. Renaming it first
// means that nobody ever meets a folder that is half deleted.
func (f folder) remove() error {
	gone := string(f) + goneSuffix
	if err := os.RemoveAll(gone); err != nil {
		return err
	}
	if err := os.Rename(string(f), gone); err != nil {
		return err
	}
	return os.RemoveAll(gone)
}

// clear ends what runs on without a watchdog and deletes everything but the
// lock, which the caller holds.
func (f folder) clear(ctx context.Context) error {
	if st, _ := f.readState(); st.External {
		if err := dropAll(ctx, st); err != nil {
			return err
		}
	}
	if err := f.stopStray(syscall.SIGQUIT); err != nil {
		return err
	}
	entries, err := os.ReadDir(string(f))
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.Name() != lockName {
			err = errors.Join(err, os.RemoveAll(f.path(e.Name())))
		}
	}
	return err
}

// stopStray ends a server on the folder's data that is nobody's child.
func (f folder) stopStray(sig os.Signal) error {
	pid, _ := readPostmasterPID(f.path(dataDir))
	// The file can be older than the machine's last start: the process counts
	// only if it was started on this very folder.
	if pid == 0 || !strings.Contains(arguments(pid), f.path(dataDir)) {
		return nil
	}
	proc, err := os.FindProcess(pid)
	if err != nil {
		return err
	}
	if err := proc.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stopping the server %d that was left in %s: %w", pid, f, err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	tick := time.NewTicker(poll)
	defer tick.Stop()
	for strings.Contains(arguments(pid), f.path(dataDir)) {
		select {
		case <-ctx.Done():
			return fmt.Errorf("the server %d that was left in %s does not stop", pid, f)
		case <-tick.C:
		}
	}
	return nil
}

// sweep removes the caller's temporary folders that have neither a watchdog nor
// a user: both were killed, or the machine was. What it cannot remove now, a
// later sweep can.
func sweep(mine folder) {
	name := fmt.Sprintf("%s%d-*", folderPrefix, os.Geteuid())
	for _, base := range append(bases(true), bases(false)...) {
		found, _ := filepath.Glob(filepath.Join(base, name)) // fails only for a bad pattern
		for _, dir := range found {
			switch {
			case dir == string(mine):
			case strings.HasSuffix(dir, goneSuffix):
				_ = os.RemoveAll(dir)
			default:
				folder(dir).removeIfAbandoned()
			}
		}
	}
}

func (f folder) removeIfAbandoned() {
	mutex, err := os.OpenFile(f.path(lockName), os.O_RDWR, 0)
	if err != nil {
		_ = os.Remove(string(f)) // empty, or not removed: killed before it made its lock
		return
	}
	defer func() { _ = mutex.Close() }()
	if got, err := tryLock(mutex, lockExclusive); !got || err != nil || !f.holds(mutex) {
		return
	}
	for _, name := range []string{watchdogName, usersName} {
		if busy, err := f.busy(name); busy || err != nil {
			return
		}
	}
	if st, _ := f.readState(); st.Keep {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	if f.clear(ctx) == nil {
		_ = f.remove()
	}
}

// tail returns the end of a log file, for error messages.
func tail(path string) string {
	const lines = 20
	text, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	all := bytes.Split(bytes.TrimRight(text, "\n"), []byte("\n"))
	return string(bytes.Join(all[max(0, len(all)-lines):], []byte("\n")))
}
