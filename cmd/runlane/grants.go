package main

import (
	"github.com/spf13/cobra"

	"github.com/seed4391e180/runlane/migrations"
)

// newGrants makes the one migrate command that needs no database.
func newGrants(t *target) *cobra.Command {
	var role string
	cmd := &cobra.Command{
		Use:   "grants --role NAME",
		Short: "Print the GRANTs that the application's role needs; connects to nothing",
		Long: `Print the GRANTs that the application's role needs, for the schema's owner to run:

  runlane migrate grants --role app | psql …

They are all that the role needs and nothing more. Run them again after a migration
that adds a table, a sequence or a function. This command connects to nothing.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			grants, err := migrations.Grants(t.options.Schema, role)
			return t.print(cmd, granted{t.options.Schema, role, grants}, err)
		},
	}
	cmd.Flags().StringVar(&role, "role", "", "role that the application connects as")
	return cmd
}
