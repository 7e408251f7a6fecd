package main

import (
	"github.com/spf13/cobra"

	"github.com/seed4391e180/runlane/cmd/runlane/internal/usage"
)

// newRoot makes the command tree. begun is set when a command has begun, that is
// when its command line has been understood.
func newRoot() (root *cobra.Command, begun *bool) {
	begun = new(bool)
	root = &cobra.Command{
		Use:               "runlane",
		Short:             "Durable runs in PostgreSQL",
		Args:              cobra.NoArgs,
		SilenceErrors:     true, // main prints them
		SilenceUsage:      true,
		CompletionOptions: cobra.CompletionOptions{HiddenDefaultCmd: true},
		PersistentPreRun:  func(*cobra.Command, []string) { *begun = true },
		RunE:              group,
	}
	root.AddCommand(newDemo(), newDemoWorker(), newDoctor(), newMigrate(), newRuns(), newTick(), newVersion())
	return root, begun
}

// group is what a command that only holds others does when it is called alone.
func group(cmd *cobra.Command, _ []string) error {
	return usage.Errorf("%q needs a command; see %q", cmd.CommandPath(), cmd.CommandPath()+" --help")
}
