package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"

	"ariga.io/atlas/sql/migrate"
	"ariga.io/atlas/sql/schema"
	"entgo.io/ent/dialect"
	entschema "entgo.io/ent/dialect/sql/schema"
)

var snakeCase = regexp.MustCompile(`^[a-z][a-z0-9]*(_[a-z0-9]+)*$`)

func run(ctx context.Context, s settings) (err error) {
	p, err := newPlanner(s)
	if err != nil {
		return err
	}
	server, stop, err := openServer(ctx, s.server)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	err = server.withScratch(ctx, func(url string) error { return p.plan(ctx, url) })
	if errors.Is(err, migrate.ErrNoPlan) && p.hasCustom() {
		err = p.planCustom() // hand-written SQL alone is a migration too
	}
	switch {
	case errors.Is(err, migrate.ErrNoPlan):
		_, err = fmt.Fprintln(s.out, "in sync")
		return err
	case err != nil:
		return err
	case s.check:
		return p.report()
	}
	if err := server.withScratch(ctx, func(url string) error { return p.prove(ctx, url) }); err != nil {
		return err
	}
	return p.write()
}

// planner works on a copy of the directory in memory, so that a plan that fails
// half-way, or that nobody wants written, leaves no trace.
type planner struct {
	settings
	dir     *migrate.MemDir
	header  header
	old     []migrate.File
	custom  []byte
	planned []migrate.File
}

func newPlanner(s settings) (*planner, error) {
	p := &planner{settings: s, dir: &migrate.MemDir{}}
	var err error
	if p.old, err = readDir(s.dir); err != nil {
		return nil, err
	}
	custom := s.custom
	switch {
	case s.check:
		p.name = "check"
	case s.replan || len(p.old) == 0:
		if len(p.old) > 1 {
			return nil, fmt.Errorf("%s has %d files: only a directory with nothing but the baseline can be planned anew", s.dir, len(p.old))
		}
		p.name, p.replan = "initial", true
		custom = s.objects
	case !snakeCase.MatchString(s.name):
		return nil, fmt.Errorf("-name %q: give the migration a name in lower_snake_case", s.name)
	}
	if p.header, err = newHeader(s.oldWorkers, p.replan); err != nil {
		return nil, err
	}
	if custom != "" && !s.check {
		if p.custom, err = os.ReadFile(custom); err != nil {
			return nil, err
		}
	}
	if p.replan {
		return p, nil
	}
	return p, p.loadDir()
}

// loadDir copies the directory, atlas.sum included, and proves that they agree.
func (p *planner) loadDir() error {
	if err := p.dir.CopyFiles(p.old); err != nil {
		return err
	}
	sum, err := os.ReadFile(filepath.Join(p.settings.dir, migrate.HashFileName))
	if err != nil {
		return err
	}
	if err := p.dir.WriteFile(migrate.HashFileName, sum); err != nil {
		return err
	}
	if err := migrate.Validate(p.dir); err != nil {
		return fmt.Errorf("%s: a migration was edited after it was planned: %w", p.settings.dir, err)
	}
	return nil
}

func readDir(path string) ([]migrate.File, error) {
	d, err := migrate.NewLocalDir(path)
	if err != nil {
		return nil, err
	}
	return d.Files()
}

// plan replays the directory in the scratch database at url and adds a file with
// what is missing. It returns migrate.ErrNoPlan if nothing is.
func (p *planner) plan(ctx context.Context, url string) error {
	tables, err := p.load(p.schema)
	if err != nil {
		return err
	}
	m, err := entschema.NewMigrateURL(url,
		entschema.WithDialect(dialect.Postgres),
		entschema.WithDir(p.dir),
		entschema.WithFormatter(p.formatter()),
		entschema.WithMigrationMode(entschema.ModeReplay),
		entschema.WithDiffOptions(schema.DiffNormalized()), // a changed CHECK is not seen without it
		entschema.WithDropColumn(true),
		entschema.WithDropIndex(true),
		entschema.WithForeignKeys(false),
		entschema.WithErrNoPlan(true),
		entschema.WithIndent("  "),
	)
	if err != nil {
		return err
	}
	return m.NamedDiff(ctx, p.name, tables...)
}

// prove replays the directory with the planned file, hand-written SQL included, and
// finds nothing left to plan.
func (p *planner) prove(ctx context.Context, url string) error {
	files := p.planned
	if !p.replan {
		files = slices.Concat(p.old, p.planned)
	}
	next := &planner{settings: p.settings, dir: &migrate.MemDir{}}
	if err := next.dir.CopyFiles(files); err != nil {
		return err
	}
	err := next.plan(ctx, url)
	switch {
	case errors.Is(err, migrate.ErrNoPlan):
		p.dir = next.dir
		return nil
	case err != nil:
		return fmt.Errorf("the planned file does not run: %w", err)
	}
	return errors.Join(fmt.Errorf("the planned file does not lead to what %s declares", p.schema), next.report())
}

// report prints what a migration would say, for -check.
func (p *planner) report() error {
	for _, f := range p.planned {
		if _, err := fmt.Fprintf(p.out, "%s\n", f.Bytes()); err != nil {
			return err
		}
	}
	return errOutOfSync
}

// write puts the planned file and the sum of the whole directory in place. A
// replanned baseline keeps its version, hence its name.
func (p *planner) write() error {
	for _, f := range p.planned {
		path := filepath.Join(p.settings.dir, f.Name())
		if _, err := os.Stat(path); !p.replan && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%s is there already", path)
		}
		if err := os.WriteFile(path, f.Bytes(), 0o644); err != nil {
			return err
		}
		if _, err := fmt.Fprintln(p.out, path); err != nil {
			return err
		}
	}
	sum, err := fs.ReadFile(p.dir, migrate.HashFileName)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(p.settings.dir, migrate.HashFileName), sum, 0o644)
}
