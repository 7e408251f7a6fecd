//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package pgtest

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"syscall"
)

const (
	lockShared    = syscall.LOCK_SH
	lockExclusive = syscall.LOCK_EX
)

// lock waits until it holds the lock on f. The lock belongs to the open file:
// it ends when every copy of the descriptor is closed, at the latest with the
// process.
func lock(f *os.File, how int) error {
	for {
		err := syscall.Flock(int(f.Fd()), how)
		if !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}

// tryLock says whether it took the lock on f; it does not wait.
func tryLock(f *os.File, how int) (bool, error) {
	err := lock(f, how|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return false, nil
	}
	return err == nil, err
}

// owner returns the user and group that own a file.
func owner(info fs.FileInfo) (uid, gid int) {
	st := info.Sys().(*syscall.Stat_t)
	return int(st.Uid), int(st.Gid)
}

// detach lets cmd outlive the terminal and the process group of its parent.
func detach(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
}

// runAs makes cmd run as the account, in a session of its own.
func runAs(cmd *exec.Cmd, a account) {
	detach(cmd)
	if a.Switch {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(a.UID), Gid: uint32(a.GID)}
	}
}

// inherited wraps a descriptor that the parent passed on, and keeps it from
// being passed further.
func inherited(fd uintptr, name string) *os.File {
	syscall.CloseOnExec(int(fd))
	return os.NewFile(fd, name)
}
