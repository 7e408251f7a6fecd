package main

import (
	"bytes"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"ariga.io/atlas/sql/migrate"
	"entgo.io/ent/dialect/sql/schema"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/ent/entext"
	"github.com/seed4391e180/runlane/internal/pgtest"
	"github.com/seed4391e180/runlane/migrations"
)

// loadOnce builds and runs a program for a path only the first time.
func loadOnce(path string) ([]*schema.Table, error) {
	f, _ := loaded.LoadOrStore(path, sync.OnceValues(func() ([]*schema.Table, error) { return entext.Load(path) }))
	return f.(func() ([]*schema.Table, error))()
}

var loaded sync.Map

// workplace is a migration directory and a server to plan it on.
type workplace struct {
	settings
	server *pgtest.DB
}

func newWorkplace(t *testing.T) workplace {
	t.Helper()
	db := pgtest.New(t, pgtest.Empty())
	dir := t.TempDir()
	objects := filepath.Join(t.TempDir(), "objects.sql")
	require.NoError(t, os.WriteFile(objects, []byte("CREATE SEQUENCE \"thing_numbers\";\nCREATE FUNCTION \"f\"() RETURNS int LANGUAGE sql AS 'SELECT 1';\n"), 0o600))
	return workplace{server: db, settings: settings{server: db.URL, dir: dir, objects: objects, schema: "./testdata/v1", load: loadOnce}}
}

// run runs the command with some settings changed and returns what it prints.
func (w workplace) run(t *testing.T, change func(*settings)) (string, error) {
	t.Helper()
	s, out := w.settings, &bytes.Buffer{}
	s.out = out
	change(&s)
	err := run(t.Context(), s)
	return out.String(), err
}

// files returns the names and texts of the directory.
func (w workplace) files(t *testing.T) (names, texts []string) {
	t.Helper()
	list, err := readDir(w.dir)
	require.NoError(t, err)
	for _, f := range list {
		names, texts = append(names, f.Name()), append(texts, string(f.Bytes()))
	}
	return names, texts
}

func (w workplace) databases(t *testing.T) int {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), w.server.URL)
	require.NoError(t, err)
	defer conn.Close(t.Context())
	var n int
	require.NoError(t, conn.QueryRow(t.Context(), "SELECT count(*) FROM pg_database WHERE datname LIKE 'runlane_plan_%'").Scan(&n))
	return n
}

func check(s *settings) { s.check = true }

func TestPlanFromTheFirstFileToTheNext(t *testing.T) {
	w := newWorkplace(t)
	_, err := w.run(t, func(s *settings) { s.replan = true })
	require.NoError(t, err)
	names, texts := w.files(t)
	require.Regexp(t, `^\d{14}_initial\.sql$`, names[0])
	require.Contains(t, texts[0], "-- Old workers may run")
	require.Contains(t, texts[0], `PRIMARY KEY ("part", "name")`)
	require.Contains(t, texts[0], `CREATE SEQUENCE "thing_numbers"`)
	out, err := w.run(t, check)
	require.NoError(t, err)
	require.Equal(t, "in sync\n", out)

	// Planned anew without a change, the baseline is the same file.
	_, err = w.run(t, func(s *settings) { s.replan = true })
	require.NoError(t, err)
	againNames, againTexts := w.files(t)
	require.Equal(t, []any{names, texts}, []any{againNames, againTexts})

	w.schema = "./testdata/v2"
	out, err = w.run(t, check)
	require.ErrorIs(t, err, errOutOfSync)
	require.Contains(t, out, `ADD COLUMN "size" bigint`)
	require.Contains(t, out, "things_size_positive")
	require.Contains(t, out, "length(name) < 20")
	require.Contains(t, out, `CREATE INDEX CONCURRENTLY "things_size"`)
	unchanged, _ := w.files(t)
	require.Equal(t, names, unchanged, "-check wrote a file")

	custom := filepath.Join(t.TempDir(), "more.sql")
	require.NoError(t, os.WriteFile(custom, []byte("ALTER TABLE \"things\" SET (fillfactor = 70);\n"), 0o600))
	renameBaseline(t, w.dir, "99990101000000_initial.sql")
	_, err = w.run(t, func(s *settings) { s.name, s.custom = "grow", custom })
	require.ErrorContains(t, err, "the clock is behind")
	renameBaseline(t, w.dir, "20200101000000_initial.sql")
	_, err = w.run(t, func(s *settings) { s.name, s.custom, s.oldWorkers = "grow", custom, "may run: the column may be null" })
	require.NoError(t, err)
	_, texts = w.files(t)
	require.Contains(t, texts[1], "-- Old workers may run while this file is applied: the column may be null\n")
	require.Contains(t, texts[1], "fillfactor = 70")
	require.NotContains(t, texts[1], "CONCURRENTLY")
	// The table may be populated by then, so its index has a file of its own.
	names, _ = w.files(t)
	require.Len(t, names, 3)
	require.Regexp(t, `^\d{14}_grow_things_size\.sql$`, names[2])
	require.Regexp(t, "^-- Old workers may run while this file is applied: the column may be null\n-- atlas:txmode none\n\n-- .*\n"+
		`CREATE INDEX CONCURRENTLY "things_size" ON "things" .*;\n$`, texts[2])
	out, err = w.run(t, check)
	require.NoError(t, err)
	require.Equal(t, "in sync\n", out)
	require.Zero(t, w.databases(t), "a scratch database was left")

	conn, err := pgx.Connect(t.Context(), w.server.URL)
	require.NoError(t, err)
	defer conn.Close(t.Context())
	result, err := migrations.Apply(t.Context(), conn, migrations.Options{Dir: os.DirFS(w.dir)})
	require.NoError(t, err)
	require.Len(t, result.Applied, 3)
	require.NoError(t, migrations.Verify(t.Context(), conn, migrations.Options{Dir: os.DirFS(w.dir)}))
}

// renameBaseline gives the directory's only file another name.
func renameBaseline(t *testing.T, path, name string) {
	t.Helper()
	dir, err := migrate.NewLocalDir(path)
	require.NoError(t, err)
	list, err := dir.Files()
	require.NoError(t, err)
	require.NoError(t, os.Rename(filepath.Join(path, list[0].Name()), filepath.Join(path, name)))
	sum, err := dir.Checksum()
	require.NoError(t, err)
	require.NoError(t, migrate.WriteSumFile(dir, sum))
}

func TestPlanOfOnlyHandWrittenSQL(t *testing.T) {
	w := newWorkplace(t)
	_, err := w.run(t, func(s *settings) { s.replan = true })
	require.NoError(t, err)
	renameBaseline(t, w.dir, "20200101000000_initial.sql")
	_, err = w.run(t, func(s *settings) { s.name, s.custom = "again", s.objects })
	require.ErrorContains(t, err, "the planned file does not run")

	custom := filepath.Join(t.TempDir(), "more.sql")
	require.NoError(t, os.WriteFile(custom, []byte("ALTER SEQUENCE \"thing_numbers\" CACHE 10;\n"), 0o600))
	_, err = w.run(t, func(s *settings) { s.name, s.custom = "cache", custom })
	require.NoError(t, err)
	_, texts := w.files(t)
	require.Len(t, texts, 2)
	require.Regexp(t, `^-- Old workers must be stopped .*\n\n.*`, texts[1])
	_, err = w.run(t, check)
	require.NoError(t, err)
}

func TestNothingToPlan(t *testing.T) {
	w := newWorkplace(t)
	_, err := w.run(t, func(s *settings) { s.replan = true })
	require.NoError(t, err)
	names, _ := w.files(t)
	out, err := w.run(t, func(s *settings) { s.name = "nothing" })
	require.NoError(t, err)
	require.Equal(t, "in sync\n", out)
	after, _ := w.files(t)
	require.Equal(t, names, after)
}

func TestRefusedSettings(t *testing.T) {
	w := newWorkplace(t)
	_, err := w.run(t, func(s *settings) { s.replan = true })
	require.NoError(t, err)
	for name, change := range map[string]func(*settings){
		"give the migration a name":         func(*settings) {},
		"lower_snake_case":                  func(s *settings) { s.name = "Add Thing" },
		"on one line":                       func(s *settings) { s.name, s.oldWorkers = "x", "perhaps" },
		"no such file":                      func(s *settings) { s.name, s.custom = "x", "missing.sql" },
		"a migration was edited":            func(s *settings) { s.name = "x"; edit(t, w.dir) },
		"only a directory with nothing but": func(s *settings) { s.replan = true; addFile(t, w.dir) },
	} {
		_, err := w.run(t, change)
		require.ErrorContains(t, err, name)
	}
}

func edit(t *testing.T, dir string) {
	t.Helper()
	list, err := readDir(dir)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, list[0].Name()), append(list[0].Bytes(), '\n'), 0o600))
}

func addFile(t *testing.T, dir string) {
	t.Helper()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "99990101000000_x.sql"), []byte("SELECT 1;\n"), 0o600))
}
