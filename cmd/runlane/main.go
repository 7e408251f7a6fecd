// Command runlane shows and looks after durable runs in PostgreSQL.
//
//	runlane demo            work a tree of source files with two processes and kill one of them
//	runlane migrate apply   bring a database up to date; also: status, plan, verify, grants
//	runlane runs list       list runs; also: get, events, count, cancel, retry, rerun, prune
//	runlane tick            do what time brings, where no worker runs
//	runlane doctor          examine a database
//	runlane version         say what this program is
//
// Exit codes: 0 all is well, 1 a failure or a difference, 2 a command line that
// makes no sense, 3 no such run. An error is one line on the standard error.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
)

// The exit codes.
const (
	exitOK      = 0
	exitFailure = 1
	exitUsage   = 2
	exitMissing = 3
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), endings()...)
	// The first signal lets a command clean up; a second one ends it at once.
	context.AfterFunc(ctx, stop)
	os.Exit(run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// endings are the signals that end a command. One that the caller ignores, as
// nohup does, stays ignored.
func endings() []os.Signal {
	var signals []os.Signal
	for _, s := range []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP} {
		if !signal.Ignored(s) {
			signals = append(signals, s)
		}
	}
	return signals
}

// run runs one command line and returns the exit code.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	root, begun := newRoot()
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitOK
	}
	if ctx.Err() != nil {
		err = errors.New("interrupted")
	}
	fmt.Fprintln(stderr, "runlane: "+oneLine(err.Error()))
	// What fails before a command has begun is the command line.
	if isUsage(err) || !*begun {
		return exitUsage
	}
	if isMissing(err) {
		return exitMissing
	}
	return exitFailure
}

// oneLine makes one line of a text, such as an error with a log beneath it.
func oneLine(text string) string {
	lines := strings.FieldsFunc(text, func(r rune) bool { return r == '\n' || r == '\r' })
	for i := range lines {
		lines[i] = strings.TrimSpace(lines[i])
	}
	return strings.Join(lines, " | ")
}
