package pgtest

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
)

// urlEnv names the environment variable with the URL of a server to test on.
const urlEnv = "RUNLANE_TEST_DATABASE_URL"

// shared is this process's membership in the session of its go test call. It
// lasts until the process ends.
var shared struct {
	once   sync.Once
	server *server
	users  *os.File // an open file, so that the lock is held
	err    error
}

// sharedServer joins the session, and starts it if this is its first process.
func sharedServer() (*server, error) {
	shared.once.Do(func() {
		// Not a test's context: what fails once fails for all tests.
		ctx, cancel := context.WithTimeout(context.Background(), 2*startTimeout)
		defer cancel()
		var st state
		if st, shared.users, shared.err = join(ctx); shared.err == nil {
			shared.server = newServer(st, true)
		}
	})
	return shared.server, shared.err
}

// join returns the state of the session and the file whose lock makes this
// process one of its users.
func join(ctx context.Context) (state, *os.File, error) {
	o, err := sharedOrder()
	if err != nil {
		return state{}, nil, err
	}
	sweep(o.Dir)
	mutex, err := o.Dir.enter(ctx, o.Account)
	if err != nil {
		return state{}, nil, err
	}
	st, users, err := joinLocked(ctx, o, mutex)
	return st, users, errors.Join(err, mutex.Close())
}

func joinLocked(ctx context.Context, o order, mutex *os.File) (state, *os.File, error) {
	watched, err := o.Dir.busy(watchdogName)
	if err != nil {
		return state{}, nil, err
	}
	used, err := o.Dir.busy(usersName)
	if err != nil {
		return state{}, nil, err
	}
	st, complete := o.Dir.readState()
	// A session whose watchdog was killed serves as long as it has users.
	if complete && (watched || used) {
		users, err := o.Dir.use(ctx)
		return st, users, err
	}
	if err := o.Dir.clear(ctx); err != nil {
		return state{}, nil, err
	}
	users, err := o.Dir.use(ctx)
	if err != nil {
		return state{}, nil, err
	}
	c, ready, err := launch(ctx, o, mutex)
	if err != nil {
		return state{}, nil, errors.Join(err, users.Close())
	}
	return ready.State, users, c.hangUp()
}

// sharedOrder says what the session of this process is.
func sharedOrder() (order, error) {
	return sessionOrder(os.Getppid(), os.Getenv(urlEnv))
}

// sessionOrder says what the session is that the children of a process share.
// All test binaries of one go test call come to the same folder.
func sessionOrder(ppid int, url string) (order, error) {
	o := order{Shared: true, Volatile: true}
	var err error
	if url != "" {
		if err := checkURL(url); err != nil {
			return order{}, fmt.Errorf("%s: %w", urlEnv, err)
		}
		o.Account = account{Name: "caller", UID: os.Geteuid(), GID: os.Getegid()}
	} else {
		if o.Bin, err = findBinaries(); err != nil {
			return order{}, err
		}
		if o.Account, err = serverAccount("postgres", "nobody"); err != nil {
			return order{}, err
		}
	}
	base, err := chooseBase(o.Account, bases(o.Volatile)...)
	if err != nil {
		return order{}, err
	}
	parent, program, ok := inspect(ppid)
	if !ok {
		return order{}, fmt.Errorf("the parent process %d cannot be looked at", ppid)
	}
	o.Parent, o.Patient = parent, program == "go"
	host, err := os.Hostname()
	if err != nil {
		return order{}, err
	}
	key := fmt.Sprintf("%x", sha256.Sum256(fmt.Appendf(nil, "%s %v %s %s", host, parent, o.Bin, url)))[:12]
	o.Dir = folder(filepath.Join(base, fmt.Sprintf("%s%d-%s", folderPrefix, os.Geteuid(), key)))
	if url != "" {
		o.State = state{URL: url, External: true, Prefix: "runlane_" + key + "_"}
	}
	return o, nil
}
