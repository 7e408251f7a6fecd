package main

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/seed4391e180/runlane/cmd/runlane/internal/actions"
	"github.com/seed4391e180/runlane/cmd/runlane/internal/runs"
	"github.com/seed4391e180/runlane/cmd/runlane/internal/show"
	"github.com/seed4391e180/runlane/cmd/runlane/internal/usage"
	"github.com/seed4391e180/runlane/lane"
	"github.com/seed4391e180/runlane/migrations"
	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/postgres"
)

func newRuns() *cobra.Command {
	var url, schema string
	cmd := &cobra.Command{
		Use:   "runs",
		Short: "Look at runs and their events; cancel, retry, rerun and prune runs",
		Long: `Look at runs and their events; cancel, retry, rerun and prune runs.

The database is the one of --url or, without it, of the environment variables
that all PostgreSQL programs obey: PGHOST, PGPORT, PGUSER, PGPASSWORD, PGDATABASE …
To look, the role needs USAGE of the schema, and SELECT on the tables runlane_runs and
runlane_record_run_events; to change runs, what the application's role has.

Exit codes: 0 all is well, 1 a failure, 2 a command line that makes no sense or a
filter that is refused, 3 there is no such run.`,
		Args: cobra.NoArgs,
		RunE: group,
	}
	flags := cmd.PersistentFlags()
	flags.StringVar(&url, "url", "", "URL of the database; empty: PGHOST, PGUSER and their like")
	flags.StringVar(&schema, "schema", migrations.DefaultSchema, "schema that holds runlane's tables")
	world := &runs.World{
		Open:  func(ctx context.Context) (storage.Operator, func() error, error) { return openReader(ctx, url, schema) },
		Now:   time.Now,
		After: time.After,
		Local: time.Local,
	}
	world.Screen = func() show.Screen { return screen(cmd.OutOrStdout()) }
	cmd.PersistentPreRun = func(cmd *cobra.Command, args []string) {
		world.Redraw = isTerminal(cmd.OutOrStdout())
		cmd.Root().PersistentPreRun(cmd, args)
	}
	runs.Add(cmd, world)
	actions.Add(cmd, actionWorld(cmd, &url, &schema))
	return cmd
}

func newTick() *cobra.Command {
	var url, schema string
	world := &actions.World{}
	cmd := actions.NewTick(world)
	cmd.Flags().StringVar(&url, "url", "", "URL of the database; empty: PGHOST, PGUSER and their like")
	cmd.Flags().StringVar(&schema, "schema", migrations.DefaultSchema, "schema that holds runlane's tables")
	*world = *actionWorld(cmd, &url, &schema)
	return cmd
}

// actionWorld is what commands need that change runs. They may use what flags of the
// command say once it runs.
func actionWorld(cmd *cobra.Command, url, schema *string) *actions.World {
	world := &actions.World{
		Open: func(ctx context.Context, cfg lane.Config) (*lane.Lane, func() error, error) {
			return openLane(ctx, *url, *schema, cfg)
		},
		Now:    time.Now,
		Screen: func() show.Screen { return screen(cmd.OutOrStdout()) },
	}
	if isTerminal(os.Stdin) {
		world.In = os.Stdin
	}
	return world
}

// openLane opens a lane whose role may do what a worker does.
func openLane(ctx context.Context, url, schema string, cfg lane.Config) (*lane.Lane, func() error, error) {
	store, closed, err := openDriver(ctx, url, schema, 4)
	if err != nil {
		return nil, nil, err
	}
	l, err := lane.New(store, cfg)
	if err != nil {
		return nil, nil, errors.Join(usage.Errorf("%v", err), closed())
	}
	return l, closed, nil
}

// openReader opens a driver for reading. Driver.Check is not asked: it wants the
// rights of a program that works on runs.
func openReader(ctx context.Context, url, schema string) (storage.Operator, func() error, error) {
	return openDriver(ctx, url, schema, 1)
}

func openDriver(ctx context.Context, url, schema string, conns int32) (*postgres.Driver, func() error, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, nil, usage.Errorf("the database: %v", err)
	}
	config.MaxConns, config.MinConns = conns, 0
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, nil, err
	}
	driver, err := postgres.New(pool, postgres.Config{Schema: schema})
	if err != nil {
		pool.Close()
		return nil, nil, usage.Errorf("%v", err)
	}
	return driver, func() error {
		err := driver.Close()
		pool.Close()
		return err
	}, nil
}

// screen says what a table is written for: colours only where somebody sees them.
func screen(out any) show.Screen {
	file, ok := out.(*os.File)
	if !ok || !isTerminal(out) {
		return show.Screen{}
	}
	s := show.Screen{Color: os.Getenv("NO_COLOR") == ""}
	if width, _, err := term.GetSize(int(file.Fd())); err == nil {
		s.Width = width
	}
	return s
}

// isMissing says that a run was asked for that does not exist.
func isMissing(err error) bool { return errors.Is(err, runs.ErrNotFound) }
