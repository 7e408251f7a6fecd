package pgtest

import (
	"context"
	"encoding/json"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	t.Cleanup(func() { _ = closeConn(conn) })
	return conn
}

func show(t *testing.T, conn *pgx.Conn, setting string) (value string) {
	t.Helper()
	require.NoError(t, conn.QueryRow(t.Context(), "select current_setting($1)", setting).Scan(&value))
	return value
}

func TestPrivateCluster(t *testing.T) {
	t.Parallel()
	c := Private(t, Options{Settings: map[string]string{"application_name": "it's mine", "work_mem": "9MB"}})
	require.NoError(t, c.CreateDatabase(t.Context(), `a"b`))
	for _, u := range []string{c.URL(`a"b`), c.SocketURL(`a"b`)} {
		conn := connect(t, u)
		var name string
		require.NoError(t, conn.QueryRow(t.Context(), "select current_database()").Scan(&name))
		require.Equal(t, `a"b`, name)
		for setting, want := range map[string]string{
			"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on", "work_mem": "9MB", "max_connections": "200",
			"shared_buffers": "128MB", "server_encoding": "UTF8", "lc_messages": "C", "listen_addresses": "127.0.0.1",
		} {
			require.Equal(t, want, show(t, conn, setting), setting)
		}
		var collation string // a setting, too, until PostgreSQL 15
		require.NoError(t, conn.QueryRow(t.Context(), "select datcollate from pg_database where datname = current_database()").Scan(&collation))
		require.Equal(t, "C", collation)
	}
	require.FileExists(t, c.Log())

	u, err := url.Parse(c.URL("postgres"))
	require.NoError(t, err)
	u.User = url.UserPassword("runlane", "wrong")
	_, err = pgx.Connect(t.Context(), u.String())
	require.ErrorContains(t, err, "password authentication failed")

	require.NoError(t, c.Stop())
	require.NoError(t, c.Stop(), "a second Stop is no error")
	require.NoDirExists(t, string(c.dir))
}

func TestRestart(t *testing.T) {
	t.Parallel()
	c := Private(t, Options{Volatile: true})
	_, err := connect(t, c.URL("postgres")).Exec(t.Context(), "create table kept as select 1 as n")
	require.NoError(t, err)
	for _, mode := range []Mode{Fast, Immediate, Crash} {
		before := c.Pid()
		require.NoError(t, c.Restart(t.Context(), mode))
		require.NotEqual(t, before, c.Pid())
		var n int
		require.NoError(t, connect(t, c.URL("postgres")).QueryRow(t.Context(), "select n from kept").Scan(&n))
		require.False(t, runs(before))
	}

	require.NoError(t, c.Halt(t.Context(), Fast))
	require.NoError(t, c.Halt(t.Context(), Fast), "halted already")
	require.Zero(t, c.Pid())
	_, err = pgx.Connect(t.Context(), c.URL("postgres"))
	require.Error(t, err)
	require.NoError(t, c.Resume(t.Context()))
	require.NoError(t, c.Resume(t.Context()), "runs already")

	// A test may also kill the server itself.
	require.NoError(t, syscall.Kill(c.Pid(), syscall.SIGKILL))
	eventually(t, "the end of the server", func() bool { return !runs(c.Pid()) })
	require.NoError(t, c.Resume(t.Context()))
	requireConnects(t, c.URL("postgres"))

	require.ErrorContains(t, c.Halt(t.Context(), Mode(7)), "no way to stop numbered 7")
	require.NoError(t, c.Halt(t.Context(), Crash)) // and Stop frees what it left
}

func TestRequestThatIsGivenUp(t *testing.T) {
	t.Parallel()
	c := Private(t, Options{Volatile: true})
	pid := c.Pid()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, c.Restart(ctx, Fast), context.Canceled)
	require.ErrorIs(t, c.Restart(t.Context(), Fast), context.Canceled, "the answer that was not read is in the way")
	require.ErrorIs(t, c.Stop(), context.Canceled)
	eventually(t, "the end of the server", func() bool { return !runs(pid) })
	require.NoDirExists(t, string(c.dir))
	c.stopErr = nil // for the cleanup of Private
}

func TestKilledOwnerOfACluster(t *testing.T) {
	t.Parallel()
	for _, opts := range []Options{{}, {Volatile: true, Dir: filepath.Join(publicDir(t), "demo")}} {
		h := startHelper(t, helpCluster, withOptions(t, opts))
		r := h.ready(t)
		requireConnects(t, r.URL)
		h.kill()
		requireGone(t, r)
	}
}

func withOptions(t *testing.T, opts Options) func(*exec.Cmd) {
	t.Helper()
	text, err := json.Marshal(opts)
	require.NoError(t, err)
	return withEnv(optionsEnv + "=" + string(text))
}

func TestKeptCluster(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(publicDir(t), "deep", "demo")
	opts := Options{Dir: dir, Volatile: true, Keep: true}
	h := startHelper(t, helpCluster, withOptions(t, opts))
	r := h.ready(t)
	_, err := connect(t, r.URL).Exec(t.Context(), "create table kept as select 1 as n")
	require.NoError(t, err)

	_, err = Start(t.Context(), opts)
	require.ErrorContains(t, err, "is in use")
	h.kill()
	eventually(t, "the end of the watchdog", func() bool { return !runs(r.Watchdog) })
	require.True(t, runs(r.Postmaster), "the server is kept")
	sweep("")
	requireConnects(t, r.URL)

	c, err := Start(t.Context(), opts)
	require.NoError(t, err)
	require.Equal(t, r.URL, c.URL("postgres"))
	require.False(t, runs(r.Postmaster))
	pid := c.Pid()
	require.NoError(t, c.Stop())
	require.False(t, runs(pid))
	require.DirExists(t, dir)

	opts.Keep = false
	c, err = Start(t.Context(), opts)
	require.NoError(t, err)
	var n int
	require.NoError(t, connect(t, c.URL("postgres")).QueryRow(t.Context(), "select n from kept").Scan(&n))
	require.NoError(t, c.Stop())
	require.NoDirExists(t, dir)
}

func TestStartRefuses(t *testing.T) {
	dir := publicDir(t)
	file := filepath.Join(dir, "letter.txt")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	_, err := Start(t.Context(), Options{Dir: dir})
	require.ErrorContains(t, err, "neither empty nor the folder of a cluster")
	require.FileExists(t, file)

	_, err = Start(t.Context(), Options{Settings: map[string]string{"port": "5432"}})
	require.ErrorContains(t, err, `the setting "port" is not free`)

	if os.Geteuid() == 0 {
		private := filepath.Join(dir, "private")
		require.NoError(t, os.Mkdir(private, 0o700))
		_, err = Start(t.Context(), Options{Dir: filepath.Join(private, "demo")})
		require.ErrorContains(t, err, "choose another folder")
	}
}

func TestFailedStartShowsTheLog(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(publicDir(t), "demo")
	_, err := Start(t.Context(), Options{Dir: dir, Settings: map[string]string{"shared_buffers": "plenty"}})
	require.ErrorContains(t, err, "PostgreSQL did not start")
	require.ErrorContains(t, err, `invalid value for parameter "shared_buffers": "plenty"`)
	eventually(t, "the end of the folder", func() bool {
		_, err := os.Stat(dir)
		return os.IsNotExist(err)
	})
}

func TestLongPathHasNoSocket(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(publicDir(t), "a-name-that-is-far-too-long-for-the-path-of-a-socket-of-any-kind-in-any-unix-system")
	c := Private(t, Options{Dir: dir, Volatile: true})
	require.Empty(t, c.SocketURL("postgres"))
	requireConnects(t, c.URL("postgres"))
}
