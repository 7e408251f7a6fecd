package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"github.com/seed4391e180/runlane/cmd/runlane/internal/document"
	"github.com/seed4391e180/runlane/cmd/runlane/internal/usage"
	"github.com/seed4391e180/runlane/migrations"
)

// target is the database that a migrate command is about.
type target struct {
	url     string
	options migrations.Options
	format  document.Format
}

func newMigrate() *cobra.Command {
	t := target{format: document.Text}
	cmd := &cobra.Command{
		Use:   "migrate",
		Short: "Bring a database up to date, or say how it stands",
		Long: `Bring a database up to date, or say how it stands.

The database is the one of --url or, without it, of the environment variables
that all PostgreSQL programs obey: PGHOST, PGPORT, PGUSER, PGPASSWORD, PGDATABASE …

With --output json the standard output is one document, also when something fails:
then it has the member "error", with kind, file and mend. Progress goes to the
standard error.`,
		Args: cobra.NoArgs,
		RunE: group,
	}
	flags := cmd.PersistentFlags()
	flags.StringVar(&t.url, "url", "", "URL of the database; empty: PGHOST, PGUSER and their like")
	flags.StringVar(&t.options.Schema, "schema", migrations.DefaultSchema, "schema that holds runlane's tables")
	flags.DurationVar(&t.options.LockWait, "lock-wait", migrations.DefaultLockWait, "how long to wait for another migration; below zero: not at all")
	flags.Var(&t.format, "output", "what to print")
	cmd.AddCommand(
		t.command("apply", "Apply all pending files, all or none", t.apply),
		t.command("status", "List the files that the database has and those that are pending", t.status),
		t.command("plan", "List the files that apply would apply", t.plan),
		t.command("verify", "Fail unless the database is exactly where this program wants it", t.verify),
		newGrants(&t),
	)
	return cmd
}

// migrateFunc does something with the database and returns the document about it.
// Progress is for people and goes elsewhere than the document.
type migrateFunc func(ctx context.Context, conn *pgx.Conn, progress io.Writer) (migrationReport, error)

// migrationReport is what a command has to say: as JSON it is the value itself.
type migrationReport interface{ text(w io.Writer) }

func (t *target) command(name, short string, do migrateFunc) *cobra.Command {
	return &cobra.Command{
		Use:   name,
		Short: short,
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			r, err := t.with(cmd.Context(), cmd.ErrOrStderr(), do)
			return t.print(cmd, r, err)
		},
	}
}

// print writes the one document of a command, also that of an error, which it returns.
func (t *target) print(cmd *cobra.Command, r migrationReport, err error) error {
	out := cmd.OutOrStdout()
	switch {
	case t.format == document.JSON && err != nil:
		return errors.Join(err, document.Write(out, failureOf(cmd.Context(), err)))
	case t.format == document.JSON:
		return document.Write(out, r)
	case err != nil:
		return err
	}
	var b bytes.Buffer
	r.text(&b)
	_, err = out.Write(b.Bytes())
	return err
}

// with connects to the database, does something with it and hangs up.
func (t *target) with(ctx context.Context, progress io.Writer, do migrateFunc) (r migrationReport, err error) {
	config, err := pgx.ParseConfig(t.url)
	if err != nil {
		return nil, usage.Errorf("the database: %v", err)
	}
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		err = errors.Join(err, conn.Close(ctx))
	}()
	return do(ctx, conn, progress)
}

func (t *target) apply(ctx context.Context, conn *pgx.Conn, progress io.Writer) (migrationReport, error) {
	o := t.options
	o.Progress = func(e migrations.Event) {
		switch {
		case e.Stage == migrations.Waiting:
			fmt.Fprintln(progress, "waiting for another migration")
		case e.Stage == migrations.Applying && e.Statement == 1:
			fmt.Fprintf(progress, "applying %s, %d statements\n", e.File.Name, e.File.Statements)
		}
	}
	result, err := migrations.Apply(ctx, conn, o)
	if err != nil {
		return nil, err
	}
	return applied{result.Schema, result.Created, filesOf(result.Applied), result.Version}, nil
}

func (t *target) status(ctx context.Context, conn *pgx.Conn, _ io.Writer) (migrationReport, error) {
	state, err := migrations.Status(ctx, conn, t.options)
	if err != nil {
		return nil, err
	}
	s := standing{Schema: state.Schema, Exists: state.Exists, Applied: []migrationRevision{}, Pending: filesOf(state.Pending)}
	for _, r := range state.Applied {
		s.Applied = append(s.Applied, migrationRevision{migrationFile(r.File), r.AppliedAt.UTC(), float64(r.Took.Microseconds()) / 1000, r.By})
	}
	return s, nil
}

func (t *target) plan(ctx context.Context, conn *pgx.Conn, _ io.Writer) (migrationReport, error) {
	pending, err := migrations.Plan(ctx, conn, t.options)
	if err != nil {
		return nil, err
	}
	return migrationPlan{t.options.Schema, filesOf(pending)}, nil
}

func (t *target) verify(ctx context.Context, conn *pgx.Conn, _ io.Writer) (migrationReport, error) {
	if err := migrations.Verify(ctx, conn, t.options); err != nil {
		return nil, err
	}
	return verified{t.options.Schema, true}, nil
}
