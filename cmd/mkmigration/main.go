// Command mkmigration plans the next file of the migration directory: what
// separates the directory from the declarations in ent/schema.
//
//	go run ./cmd/mkmigration -name add_thing [-append thing.sql] [-old-workers "may run: why"]
//	go run ./cmd/mkmigration -check
//	go run ./cmd/mkmigration -replan
//
// It replays the directory in a scratch database of its own, compares, and
// writes the file and atlas.sum. With -check it writes nothing: it says "in
// sync", or prints the difference and exits 1. With -replan it plans the baseline
// anew; that is for a directory that was never released.
//
// The scratch database is made on the server of -server or, failing that, of
// RUNLANE_TEST_DATABASE_URL; without either, on a private server that is started
// for the purpose.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"

	"entgo.io/ent/dialect/sql/schema"

	"github.com/seed4391e180/runlane/ent/entext"
)

// settings are the command's flags.
type settings struct {
	server, dir, schema, objects string
	name, custom, oldWorkers     string
	check, replan                bool
	out                          io.Writer
	load                         func(path string) ([]*schema.Table, error)
}

// errOutOfSync is -check's answer when the schemas ask for a migration.
var errOutOfSync = errors.New("the migration directory does not match ent/schema: run `make migration name=…`")

func main() { os.Exit(command()) }

// command returns the exit code.
func command() int {
	s := settings{out: os.Stdout, load: entext.Load}
	flag.StringVar(&s.server, "server", os.Getenv("RUNLANE_TEST_DATABASE_URL"), "URL of a server where databases may be created")
	flag.StringVar(&s.dir, "dir", "migrations", "migration directory")
	flag.StringVar(&s.schema, "schema", "./ent/schema", "package with the ent schemas")
	flag.StringVar(&s.objects, "objects", "ent/schema/objects.sql", "SQL of the baseline that ent cannot declare")
	flag.StringVar(&s.name, "name", "", "name of the new migration, in lower_snake_case")
	flag.StringVar(&s.custom, "append", "", "file of SQL to append to the planned statements")
	flag.StringVar(&s.oldWorkers, "old-workers", "", `what the header says of workers of the version before: "may run: why" or "must be stopped: why"`)
	flag.BoolVar(&s.check, "check", false, "write nothing; fail if a migration is missing")
	flag.BoolVar(&s.replan, "replan", false, "plan the baseline anew and put it in the place of the directory's only file")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, s); err != nil {
		fmt.Fprintln(os.Stderr, "mkmigration:", err)
		return 1
	}
	return 0
}
