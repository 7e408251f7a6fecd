package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"github.com/seed4391e180/runlane/cmd/runlane/internal/usage"
	"github.com/seed4391e180/runlane/migrations"
)

// target is the database that a migrate command is about.
type target struct {
	url     string
	options migrations.Options
}

func newMigrate() *cobra.Command {
	var t target
	cmd := &cobra.Command{
		Use:   "migrate",
		Short: "Bring a database up to date, or say how it stands",
		Long: `Bring a database up to date, or say how it stands.

The database is the one of --url or, without it, of the environment variables
that all PostgreSQL programs obey: PGHOST, PGPORT, PGUSER, PGPASSWORD, PGDATABASE …`,
		Args: cobra.NoArgs,
		RunE: group,
	}
	flags := cmd.PersistentFlags()
	flags.StringVar(&t.url, "url", "", "URL of the database; empty: PGHOST, PGUSER and their like")
	flags.StringVar(&t.options.Schema, "schema", migrations.DefaultSchema, "schema that holds runlane's tables")
	flags.DurationVar(&t.options.LockWait, "lock-wait", migrations.DefaultLockWait, "how long to wait for another migration; below zero: not at all")
	flags.DurationVar(&t.options.IndexWait, "index-wait", migrations.DefaultIndexWait, "how long an index build may wait for older transactions, each time")
	cmd.AddCommand(
		t.command("apply", "Apply all pending files, all or none", t.apply),
		t.command("status", "List the files that the database has and those that are pending", t.status),
		t.command("plan", "List the files that apply would apply", t.plan),
		t.command("verify", "Fail unless the database is exactly where this program wants it", t.verify),
		newGrants(&t.options),
	)
	return cmd
}

type migrateFunc func(ctx context.Context, conn *pgx.Conn, out io.Writer) error

func (t *target) command(name, short string, do migrateFunc) *cobra.Command {
	return &cobra.Command{
		Use:   name,
		Short: short,
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return t.with(cmd.Context(), cmd.OutOrStdout(), do) },
	}
}

// with connects to the database, does something with it and hangs up.
func (t *target) with(ctx context.Context, out io.Writer, do migrateFunc) (err error) {
	config, err := pgx.ParseConfig(t.url)
	if err != nil {
		return usage.Errorf("the database: %v", err)
	}
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		err = errors.Join(err, conn.Close(ctx))
	}()
	err = do(ctx, conn, out)
	if errors.Is(err, migrations.ErrSchemaName) {
		return usage.Errorf("%v", err)
	}
	return err
}

func (t *target) apply(ctx context.Context, conn *pgx.Conn, out io.Writer) error {
	o := t.options
	o.Progress = func(e migrations.Event) {
		if e.Stage == migrations.Waiting {
			fmt.Fprintln(out, "waiting for another migration")
		}
	}
	result, err := migrations.Apply(ctx, conn, o)
	if err != nil {
		return err
	}
	for _, f := range result.Applied {
		fmt.Fprintf(out, "applied  %s\n", f.Name)
	}
	if len(result.Applied) == 0 {
		_, err = fmt.Fprintf(out, "schema %q is up to date at %s\n", result.Schema, result.Version)
		return err
	}
	_, err = fmt.Fprintf(out, "schema %q is now at %s\n", result.Schema, result.Version)
	return err
}

func (t *target) status(ctx context.Context, conn *pgx.Conn, out io.Writer) error {
	state, err := migrations.Status(ctx, conn, t.options)
	if err != nil {
		return err
	}
	if !state.Exists {
		fmt.Fprintf(out, "schema %q does not exist\n", state.Schema)
	}
	for _, r := range state.Applied {
		fmt.Fprintf(out, "applied  %s  %s by %s\n", r.Name, r.AppliedAt.UTC().Format(time.RFC3339), r.By)
	}
	for _, f := range state.Pending {
		fmt.Fprintf(out, "pending  %s\n", f.Name)
	}
	return nil
}

func (t *target) plan(ctx context.Context, conn *pgx.Conn, out io.Writer) error {
	files, err := migrations.Plan(ctx, conn, t.options)
	if err != nil {
		return err
	}
	for _, f := range files {
		fmt.Fprintf(out, "pending  %s  %d statements\n", f.Name, f.Statements)
	}
	if len(files) == 0 {
		fmt.Fprintln(out, "nothing to apply")
	}
	return nil
}

func (t *target) verify(ctx context.Context, conn *pgx.Conn, out io.Writer) error {
	if err := migrations.Verify(ctx, conn, t.options); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, "schema %q is what this program wants\n", t.options.Schema)
	return err
}
