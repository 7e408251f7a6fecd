package entext

import (
	"os"
	"runtime/debug"
)

// loadingEnv tells the schema package that it is loaded by this package.
const loadingEnv = "RUNLANE_ENT_LOADING"

// allowLoading marks the processes that ent starts from here on. ent loads a
// schema package by running a program that imports it, so the mark travels in the
// environment.
func allowLoading() { _ = os.Setenv(loadingEnv, "1") }

// RequireOwnLoader ends the process with one sentence if it is ent's loader and
// was not started through this package. Schemas without an id field make ent's own
// `ent generate` panic; the schema package calls this to say what to do instead.
func RequireOwnLoader() {
	info, ok := debug.ReadBuildInfo()
	// The loader is a file that is built on its own; tests and programs have a path.
	if !ok || info.Path != "command-line-arguments" || os.Getenv(loadingEnv) != "" {
		return
	}
	_, _ = os.Stderr.WriteString("these schemas have composite keys, which `ent generate` does not know: run `go generate ./ent` instead\n")
	os.Exit(1)
}
