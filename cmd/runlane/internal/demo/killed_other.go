//go:build !unix

package demo

import "os"

// wasKilled reports whether a process ended badly: there are no signals here.
func wasKilled(state *os.ProcessState) bool { return !state.Success() }
