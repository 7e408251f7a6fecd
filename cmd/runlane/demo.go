package main

import (
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/seed4391e180/runlane/cmd/runlane/internal/demo"
)

func newDemo() *cobra.Command {
	var o demo.Options
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Work a tree of source files with two processes and kill one of them",
		Long: `Work a tree of source files with two processes and kill one of them.

The demo starts a private PostgreSQL with its default durability, makes one
durable run for each Go source file of a tree, and lets two worker processes
compute the SHA-256, size and number of lines of each. In the middle it kills one
worker with SIGKILL. The other one recovers the leases of the dead one and
finishes the work. Then the demo compares what the database holds with a walk of
the tree of its own. Any difference is exit code 1.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.Out = cmd.OutOrStdout()
			o.Terminal = isTerminal(o.Out)
			return demo.Run(cmd.Context(), o)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.Dir, "dir", "", "tree whose *.go files to work on; empty: the sources of the installed Go")
	flags.BoolVar(&o.Keep, "keep", false, "leave the server running and say how to look around")
	flags.StringVar(&o.Profile, "cpuprofile", "", "folder for processor profiles of the demo and its workers")
	if err := flags.MarkHidden("cpuprofile"); err != nil {
		panic(err) // the flag is two lines above
	}
	return cmd
}

// newDemoWorker is a worker process of the demo. It takes its orders from its
// standard input and ends with it.
func newDemoWorker() *cobra.Command {
	return &cobra.Command{
		Use:    "demo-worker NAME",
		Short:  "Be a worker process of the demo",
		Hidden: true,
		Args:   cobra.ExactArgs(1), // the name only shows in lists of processes
		RunE: func(cmd *cobra.Command, _ []string) error {
			return demo.Worker(cmd.Context(), cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
}

// isTerminal says whether a line that is written again and again is of use.
func isTerminal(out any) bool {
	file, ok := out.(*os.File)
	if !ok || os.Getenv("TERM") == "dumb" {
		return false
	}
	return term.IsTerminal(int(file.Fd()))
}
