package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/seed4391e180/runlane/cmd/runlane/internal/document"
	"github.com/seed4391e180/runlane/cmd/runlane/internal/usage"
	"github.com/seed4391e180/runlane/internal/doctor"
	"github.com/seed4391e180/runlane/migrations"
)

// consultation is one call of the doctor.
type consultation struct {
	url     string
	format  document.Format
	options doctor.Options
}

func newDoctor() *cobra.Command {
	c := consultation{format: document.Text}
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Examine a database: server, schema, rights, settings, and what slows runs down",
		Long: `Examine a database: server, schema, rights, settings, and what slows runs down.

Each check reads little and waits for little; nothing is changed. What a check complains of comes
with its mend. A check that the role may not make is "unknown" and names the grant.
docs/deploy.md says what each check is about.

The exit code is 1 if a check fails and 0 otherwise, also with warnings.

The database is the one of --url or, without it, of the environment variables
that all PostgreSQL programs obey: PGHOST, PGPORT, PGUSER, PGPASSWORD, PGDATABASE …`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return c.run(cmd.Context(), cmd.OutOrStdout()) },
	}
	flags := cmd.Flags()
	flags.StringVar(&c.url, "url", "", "URL of the database; empty: PGHOST, PGUSER and their like")
	flags.StringVar(&c.options.Schema, "schema", migrations.DefaultSchema, "schema that holds runlane's tables")
	flags.StringVar(&c.options.Role, "role", "", "role that the application connects as; empty: the one that connects here")
	flags.DurationVar(&c.options.Timeout, "timeout", 5*time.Second, "how long each check may take")
	flags.DurationVar(&c.options.Late, "late", 5*time.Minute, "how late a run may be")
	flags.Var(&c.format, "output", "what to print")
	return cmd
}

func (c *consultation) run(ctx context.Context, out io.Writer) error {
	if c.options.Timeout <= 0 || c.options.Late <= 0 {
		return usage.Errorf("--timeout and --late are longer than nothing")
	}
	// What cannot be the name of a schema or a role is refused as it is by migrate.
	if _, err := migrations.Grants(c.options.Schema, cmp.Or(c.options.Role, "anybody")); err != nil {
		return err
	}
	config, err := pgxpool.ParseConfig(c.url)
	if err != nil {
		return usage.Errorf("the database: %v", err)
	}
	config.MinConns, config.MaxConns = 0, 2
	config.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec // passes every pooler
	// What takes too long is cancelled in the server, too.
	config.ConnConfig.BuildContextWatcherHandler = func(conn *pgconn.PgConn) ctxwatch.Handler {
		return &pgconn.CancelRequestContextWatcherHandler{Conn: conn, DeadlineDelay: time.Second}
	}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return err
	}
	defer pool.Close()
	findings, err := doctor.Examine(ctx, pool, c.options)
	if err != nil {
		return err
	}
	if err := c.print(out, findings); err != nil {
		return err
	}
	if doctor.Worst(findings) == doctor.Fail {
		return errIll
	}
	return nil
}

// errIll ends the command when its findings say the rest.
var errIll = errors.New("the database is not fit; the mends are above")

// diagnosis is the document of the doctor.
type diagnosis struct {
	Schema string           `json:"schema"`
	Status doctor.Status    `json:"status"` // the worst of the checks
	Checks []doctor.Finding `json:"checks"`
}

func (c *consultation) print(out io.Writer, findings []doctor.Finding) error {
	if c.format == document.JSON {
		return document.Write(out, diagnosis{c.options.Schema, doctor.Worst(findings), findings})
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, f := range findings {
		fmt.Fprintf(w, "%s\t%s\t%s\n", f.Status, f.Name, oneLine(f.Message))
		if f.Mend != "" {
			fmt.Fprintf(w, "\t\tmend: %s\n", oneLine(f.Mend))
		}
	}
	return w.Flush()
}
