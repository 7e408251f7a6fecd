package pgtest

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seed4391e180/runlane/migrations"
)

func TestNewMakesAMigratedDatabase(t *testing.T) {
	db := New(t)
	require.Equal(t, DefaultSchema, db.Schema)
	require.NoError(t, migrations.Verify(t.Context(), connect(t, db.URL), migrations.Options{}))
	var name string
	require.NoError(t, db.Pool(t).QueryRow(t.Context(), "select current_database()").Scan(&name))
	require.Equal(t, db.Name, name)
}

func TestSchemaOption(t *testing.T) {
	for _, schema := range []string{`a"b`, `a'b`, "Größe 1", strings.Repeat("x", 63)} {
		db := New(t, Schema(schema))
		require.Equal(t, schema, db.Schema)
		require.NoError(t, migrations.Verify(t.Context(), connect(t, db.URL), migrations.Options{Schema: schema}))
	}
}

func TestEmptyOption(t *testing.T) {
	db := New(t, Empty())
	require.Empty(t, db.Schema)
	var n int
	conn := connect(t, db.URL)
	require.NoError(t, conn.QueryRow(t.Context(), "select count(*) from pg_namespace where nspname = $1", DefaultSchema).Scan(&n))
	require.Zero(t, n)
	require.Equal(t, "UTF8", show(t, conn, "server_encoding"))
}

func TestDatabasesAreIsolated(t *testing.T) {
	for i := range 8 {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			pool := New(t).Pool(t)
			_, err := pool.Exec(t.Context(), "create table runlane.mine as select $1::int as n", i)
			require.NoError(t, err)
			var n, rows int
			require.NoError(t, pool.QueryRow(t.Context(), "select max(n), count(*) from runlane.mine").Scan(&n, &rows))
			require.Equal(t, i, n)
			require.Equal(t, 1, rows)
		})
	}
}

func TestDatabaseIsDroppedAtTheEnd(t *testing.T) {
	t.Parallel()
	var name string
	t.Run("a test that leaves a connection open", func(t *testing.T) {
		db := New(t)
		name = db.Name
		_, err := pgx.Connect(t.Context(), db.URL)
		require.NoError(t, err)
	})
	require.NotEmpty(t, name)
	_, err := connect(t, New(t).URL).Exec(t.Context(), "select")
	require.NoError(t, err)
	var n int
	require.NoError(t, connect(t, New(t).URL).QueryRow(t.Context(), "select count(*) from pg_database where datname = $1", name).Scan(&n))
	require.Zero(t, n)
}

func TestOwnClusterOption(t *testing.T) {
	t.Parallel()
	c := Private(t, Options{Volatile: true})
	db := New(t, On(c))
	require.Equal(t, c.URL(db.Name), db.URL)
	require.NoError(t, migrations.Verify(t.Context(), connect(t, db.URL), migrations.Options{}))
	require.NoError(t, c.Halt(t.Context(), Crash))
}

// A suite that looks for leaked goroutines finds none of pgtest's.
func TestNoGoroutineIsLeft(t *testing.T) {
	New(t, Empty()) // starts what lasts
	before := goleak.IgnoreCurrent()
	t.Run("a test", func(t *testing.T) {
		require.NoError(t, New(t).Pool(t).Ping(t.Context()))
		requireConnects(t, Private(t, Options{Volatile: true}).URL("postgres"))
	})
	goleak.VerifyNone(t, before)
}

// recorder is a test whose failures are recorded.
type recorder struct {
	testing.TB
	failures []string
	cleanups []func()
}

func (r *recorder) Cleanup(f func()) { r.cleanups = append(r.cleanups, f) }
func (r *recorder) Errorf(format string, args ...any) {
	r.failures = append(r.failures, fmt.Sprintf(format, args...))
}

func TestPoolThatIsStillInUseFailsTheTest(t *testing.T) {
	t.Parallel()
	r := &recorder{TB: t}
	var pool *pgxpool.Pool = New(t).Pool(r)
	conn, err := pool.Acquire(t.Context())
	require.NoError(t, err)
	for _, f := range r.cleanups {
		f()
	}
	require.Equal(t, []string{"pgtest: the pool still has 1 connections in use"}, r.failures)
	conn.Release()
}

func TestExternalServer(t *testing.T) {
	t.Parallel()
	c := Private(t, Options{Volatile: true})
	conn := connect(t, c.URL("postgres"))
	_, err := conn.Exec(t.Context(), "create role tester login createdb password 'secret'")
	require.NoError(t, err)
	external := strings.Replace(c.URL("postgres"), superuserPart(c), "tester:secret@", 1)

	// No server programs can be found, so the databases can only be there.
	out, err := runTests(t, "^(TestNewMakes|TestSchemaOption|TestEmptyOption|TestDatabases)", withEnv(urlEnv+"="+external, binEnv+"=/nowhere"))
	require.NoError(t, err, out)
	require.Contains(t, out, "--- PASS: TestNewMakesAMigratedDatabase")
	requireNoDatabases(t, conn)

	h, r := session(t, func(cmd *exec.Cmd) { withEnv(urlEnv+"="+external, binEnv+"=/nowhere")(cmd) })
	require.Contains(t, r.URL, "tester:secret@")
	requireConnects(t, r.URL)
	h.kill()
	requireNoDatabases(t, conn)
	requireGone(t, r)
}

func superuserPart(c *Cluster) string {
	rest := strings.TrimPrefix(c.URL("postgres"), "postgres://")
	return rest[:strings.Index(rest, "@")+1]
}

// requireNoDatabases waits until the tests' databases are gone, the template
// too.
func requireNoDatabases(t *testing.T, conn *pgx.Conn) {
	t.Helper()
	eventually(t, "the end of the databases", func() bool {
		var n int
		err := conn.QueryRow(t.Context(), "select count(*) from pg_database where starts_with(datname, 'runlane_')").Scan(&n)
		require.NoError(t, err)
		return n == 0
	})
}

func TestExternalURLMustBeAURL(t *testing.T) {
	for _, text := range []string{"host=localhost dbname=x", "mysql://localhost", "postgres://%zz:secret@localhost"} {
		_, err := sessionOrder(1, text)
		require.ErrorContains(t, err, urlEnv+": ")
		require.NotContains(t, err.Error(), "secret")
	}
}

func BenchmarkNew(b *testing.B) {
	s, err := sharedServer()
	require.NoError(b, err)
	for b.Loop() {
		name, err := s.create(b.Context(), false, DefaultSchema)
		require.NoError(b, err)
		require.NoError(b, s.drop(b.Context(), name))
	}
}
