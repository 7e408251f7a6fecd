//go:build !(linux || darwin || freebsd || netbsd || openbsd || dragonfly)

package pgtest

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
)

const (
	lockShared    = 1
	lockExclusive = 2
)

// errUnsupported lets packages that import pgtest be built everywhere, while
// sessions and clusters need file locks and signals of Unix.
var errUnsupported = errors.New("throwaway databases need Linux, macOS or a BSD")

func lock(*os.File, int) error                   { return errUnsupported }
func tryLock(*os.File, int) (bool, error)        { return false, errUnsupported }
func owner(fs.FileInfo) (uid, gid int)           { return -1, -1 }
func detach(*exec.Cmd)                           {}
func runAs(*exec.Cmd, account)                   {}
func inherited(fd uintptr, name string) *os.File { return os.NewFile(fd, name) }
