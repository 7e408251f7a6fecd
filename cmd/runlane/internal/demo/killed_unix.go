//go:build unix

package demo

import (
	"os"
	"syscall"
)

// wasKilled reports whether a process ended by SIGKILL.
func wasKilled(state *os.ProcessState) bool {
	status, ok := state.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGKILL
}
