package main

import (
	"github.com/spf13/cobra"

	"github.com/seed4391e180/runlane/migrations"
)

// newGrants makes the one migrate command that needs no database.
func newGrants(t *target) *cobra.Command {
	var (
		role     string
		readOnly bool
	)
	cmd := &cobra.Command{
		Use:   "grants --role NAME",
		Short: "Print the GRANTs that the application's role needs; connects to nothing",
		Long: `Print the GRANTs that the application's role needs, for the schema's owner to run:

  runlane migrate grants --role app | psql …

They are all that the role needs and nothing more. Run them again after a migration
that adds a table, a sequence or a function. This command connects to nothing.

With --read-only they are those of a role that looks at runs and their events and
changes nothing.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			list := migrations.Grants
			if readOnly {
				list = migrations.OperatorGrants
			}
			grants, err := list(t.options.Schema, role)
			return t.print(cmd, granted{t.options.Schema, role, grants}, err)
		},
	}
	cmd.Flags().StringVar(&role, "role", "", "role that the application connects as")
	cmd.Flags().BoolVar(&readOnly, "read-only", false, "only what operator reads need")
	return cmd
}
