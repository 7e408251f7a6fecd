// Package doctor_test makes databases ill, one fault at a time, and looks whether the
// doctor finds that fault and no other.
package doctor_test

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/internal/doctor"
	"github.com/seed4391e180/runlane/internal/pgtest"
	"github.com/seed4391e180/runlane/migrations"
	"github.com/seed4391e180/runlane/storage/postgres"
)

// defaults is a server with the durable defaults, for tests that leave the server as
// it is. The others start one of their own.
var defaults *pgtest.Cluster

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	var err error
	if defaults, err = pgtest.Start(context.Background(), pgtest.Options{}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = defaults.Stop() }() // a watchdog stops it in any case
	return m.Run()
}

// world is a server: with settings one of the test's own.
type world struct{ cluster *pgtest.Cluster }

func newWorld(t *testing.T, settings map[string]string) world {
	t.Helper()
	if settings == nil {
		return world{defaults}
	}
	return world{pgtest.Private(t, pgtest.Options{Settings: settings})}
}

// patient is a migrated database that a test makes ill.
type patient struct {
	*pgtest.DB
	conn *pgx.Conn // of the owner
}

func (w world) patient(t *testing.T, options ...pgtest.Option) *patient {
	t.Helper()
	db := pgtest.New(t, append(options, pgtest.On(w.cluster))...)
	return &patient{db, connect(t, db.URL)}
}

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}

func sql(t *testing.T, conn *pgx.Conn, sql string) {
	t.Helper()
	_, err := conn.PgConn().Exec(context.Background(), sql).ReadAll()
	require.NoError(t, err, sql)
}

// examine returns the findings by name.
func examine(t *testing.T, url string, o doctor.Options) map[string]doctor.Finding {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), url)
	require.NoError(t, err)
	defer pool.Close()
	list, err := doctor.Examine(t.Context(), pool, o)
	require.NoError(t, err)
	findings := map[string]doctor.Finding{}
	for i, f := range list {
		require.Equal(t, doctor.Names()[i], f.Name)
		require.NotEmpty(t, f.Message, f.Name)
		require.Equal(t, f.Status != doctor.OK, f.Mend != "", "who complains says the mend, who does not is silent: %+v", f)
		findings[f.Name] = f
	}
	return findings
}

// requireOnly requires that the named checks have a status, and that all others are
// content (a server that is too old is tested all the same).
func requireOnly(t *testing.T, findings map[string]doctor.Finding, want map[string]doctor.Status) {
	t.Helper()
	require.Len(t, findings, len(doctor.Names()))
	for name, f := range findings {
		expected := doctor.OK
		if name == "server" && pgtest.Major(t) < postgres.OldestServer {
			expected = doctor.Fail
		}
		if status, named := want[name]; named {
			expected = status
		}
		require.Equal(t, expected, f.Status, "%+v", f)
	}
}

// role makes a role that may log in and, with grants, do what the application needs,
// and returns its URL.
func (p *patient) role(t *testing.T, name string, grants bool) string {
	t.Helper()
	quoted := pgx.Identifier{name}.Sanitize()
	sql(t, p.conn, "CREATE ROLE "+quoted+" LOGIN PASSWORD 'secret'")
	t.Cleanup(func() { sql(t, p.conn, "DROP OWNED BY "+quoted+"; DROP ROLE "+quoted) })
	if grants {
		statements, err := migrations.Grants(p.Schema, name)
		require.NoError(t, err)
		for _, s := range statements {
			sql(t, p.conn, s)
		}
	}
	u, err := url.Parse(p.URL)
	require.NoError(t, err)
	u.User = url.UserPassword(name, "secret")
	return u.String()
}

// in names an object of the patient's schema.
func (p *patient) in(object string) string { return pgx.Identifier{p.Schema, object}.Sanitize() }

// insertRuns adds n rows that no driver reads.
func (p *patient) insertRuns(t *testing.T, n int) {
	t.Helper()
	sql(t, p.conn, fmt.Sprintf(`INSERT INTO %s (environment_key, run_id, record_version, record_document)
SELECT 'e', 'r' || i, i, '{}' FROM generate_series(1, %d) AS i`, p.in("runlane_runs"), n))
}
