package pgtest

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
)

// account is the user as whom the server runs.
type account struct {
	Name     string
	UID, GID int
	Switch   bool // the caller is root, and the server must run as somebody else
}

// serverAccount returns the caller's own account, or for root the first of the
// named accounts that exists: PostgreSQL refuses to run as root.
func serverAccount(names ...string) (account, error) {
	uid := os.Geteuid()
	if uid != 0 {
		return account{Name: "uid " + strconv.Itoa(uid), UID: uid, GID: os.Getegid()}, nil
	}
	for _, name := range names {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, errUID := strconv.Atoi(u.Uid)
		gid, errGID := strconv.Atoi(u.Gid)
		if errUID == nil && errGID == nil && uid != 0 {
			return account{Name: name, UID: uid, GID: gid, Switch: true}, nil
		}
	}
	return account{}, fmt.Errorf("PostgreSQL does not run as root, and there is none of the accounts %v to run it as", names)
}

// give makes the account the owner of the path.
func (a account) give(path string) error {
	if !a.Switch {
		return nil
	}
	return os.Chown(path, a.UID, a.GID)
}

// canEnter says whether the account may pass through dir and everything above
// it. Access lists beyond the permission bits are not looked at.
func (a account) canEnter(dir string) bool {
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return false
	}
	for {
		info, err := os.Stat(dir)
		if err != nil {
			return false
		}
		enter := os.FileMode(0o001)
		switch uid, gid := owner(info); {
		case uid == a.UID:
			enter = 0o100
		case gid == a.GID:
			enter = 0o010
		}
		if info.Mode()&enter == 0 {
			return false
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return true
		}
		dir = parent
	}
}

// maxSocketPath is the longest path of a Unix socket that every system takes.
const maxSocketPath = 103

// socketPath is the part of a socket's path below a folder in a base.
const socketPath = "/" + folderPrefix + "4294967295-0123456789ab/" + socketDir + "/.s.PGSQL.65535"

// chooseBase returns the folder in which temporary folders of pgtest lie: one
// that the caller can write, the account can enter, and short enough for the
// path of a socket.
func chooseBase(a account, candidates ...string) (string, error) {
	for _, dir := range candidates {
		dir, err := filepath.EvalSymlinks(dir)
		if err != nil || !a.canEnter(dir) || len(dir)+len(socketPath) > maxSocketPath {
			continue
		}
		probe, err := os.CreateTemp(dir, ".runlane-probe-")
		if err != nil {
			continue
		}
		err = errors.Join(probe.Close(), os.Remove(probe.Name()))
		if err == nil {
			return dir, nil
		}
	}
	return "", fmt.Errorf("none of %v is a short, writable folder that the account %q can enter", candidates, a.Name)
}

// bases returns where temporary folders can lie, best first. A TMPDIR that is
// set counts; otherwise data that need not survive goes to memory.
func bases(volatile bool) []string {
	dirs := []string{os.TempDir(), "/tmp", "/var/tmp"}
	if memory, roomy := memoryBase(); volatile && roomy && os.Getenv("TMPDIR") == "" {
		return append([]string{memory}, dirs...)
	}
	return dirs
}
