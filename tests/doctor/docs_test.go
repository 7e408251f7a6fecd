package doctor_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/internal/doctor"
	"github.com/seed4391e180/runlane/internal/pgtest"
	"github.com/seed4391e180/runlane/migrations"
)

func deployPage(t *testing.T) string {
	t.Helper()
	page, err := os.ReadFile("../../docs/deploy.md")
	require.NoError(t, err)
	return string(page)
}

// The page has a row for each check, in order, with the figures that programs read.
func TestThePageNamesEveryCheck(t *testing.T) {
	rows := regexp.MustCompile(`(?m)^\| (\w+) \|.*\|([^|]*)\|$`).FindAllStringSubmatch(deployPage(t), -1)
	require.Equal(t, "check", rows[0][1])
	var names []string
	figures := map[string]string{}
	for _, row := range rows[1:] {
		names = append(names, row[1])
		figures[row[1]] = row[2]
	}
	require.Equal(t, doctor.Names(), names)

	p := newWorld(t, nil).patient(t)
	p.sql(t, `UPDATE {schema}.atlas_schema_revisions SET hash = 'another'`)
	for name, f := range examine(t, p.URL, doctor.Options{}) {
		for figure := range f.Figures {
			if !strings.Contains(figures[name], "the settings") {
				require.Contains(t, figures[name], figure, "the check %s", name)
			}
		}
	}
}

// The page's word for every kind of refusal.
func TestThePageNamesEveryKind(t *testing.T) {
	_, list, ok := strings.Cut(deployPage(t), "`kind` is one of ")
	require.True(t, ok)
	list, _, _ = strings.Cut(list, ". ")
	for _, err := range []error{migrations.ErrPending, migrations.ErrChanged, migrations.ErrIncomplete, migrations.ErrMissing, migrations.ErrReordered,
		migrations.ErrNewer, migrations.ErrForeign, migrations.ErrLocked, migrations.ErrPermission, migrations.ErrSchemaName, migrations.ErrRoleName, nil} {
		require.Contains(t, list, doctor.Kind(err))
	}
}

// sql runs a statement in which {schema} is the patient's.
func (p *patient) sql(t *testing.T, statement string) {
	t.Helper()
	sql(t, p.conn, replaceSchema(statement, p.Schema))
}

// What the page says of backups: the schema alone, restored elsewhere, is a healthy
// database with the same runs, whose versions go on where they were.
func TestBackup(t *testing.T) {
	major := pgtest.Major(t)
	dump, restore := client(t, "pg_dump", major), client(t, "pg_restore", major)
	p := newWorld(t, nil).patient(t)
	p.insertRuns(t, 3)
	p.sql(t, "SELECT setval('{schema}.runlane_record_versions', 4711)")
	file := filepath.Join(t.TempDir(), "runlane.dump")
	output(t, dump, "--format=custom", "--schema=runlane", "--file="+file, p.URL)
	other := newWorld(t, nil).patient(t, pgtest.Empty())
	output(t, restore, "--exit-on-error", "--single-transaction", "--no-owner", "--dbname="+other.URL, file)

	require.NoError(t, migrations.Verify(t.Context(), other.conn, migrations.Options{}))
	requireOnly(t, examine(t, other.URL, doctor.Options{}), nil)
	var runs, version int64
	require.NoError(t, other.conn.QueryRow(t.Context(), "SELECT (SELECT count(*) FROM runlane.runlane_runs), nextval('runlane.runlane_record_versions')").Scan(&runs, &version))
	require.EqualValues(t, 3, runs)
	require.Greater(t, version, int64(4711))
}

// client finds a client program that is no older than the server.
func client(t *testing.T, name string, major int) string {
	t.Helper()
	paths, err := filepath.Glob("/usr/lib/postgresql/*/bin/" + name)
	require.NoError(t, err)
	if path, err := exec.LookPath(name); err == nil {
		paths = append(paths, path)
	}
	for _, path := range append([]string{filepath.Join(os.Getenv("RUNLANE_PG_BIN"), name)}, paths...) {
		out, err := exec.Command(path, "--version").Output()
		match := regexp.MustCompile(`\) (\d+)`).FindSubmatch(out)
		if err != nil || match == nil {
			continue
		}
		if version, err := strconv.Atoi(string(match[1])); err == nil && version >= major {
			return path
		}
	}
	t.Skipf("there is no %s of PostgreSQL %d or newer; servers can come without their client programs", name, major)
	return ""
}

func output(t *testing.T, program string, args ...string) {
	t.Helper()
	out, err := exec.Command(program, args...).CombinedOutput()
	require.NoError(t, err, "%s", out)
}
