package pgtest

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// The helpers of one test are children of one process and share a session,
// which is another one than that of the tests themselves. So these tests do
// not run in parallel, and each ends with the end of the session.

func local(cmd *exec.Cmd) { withEnv(urlEnv + "=")(cmd) }

func TestProcessesShareOneCluster(t *testing.T) {
	first, second := startHelper(t, helpSession, local), startHelper(t, helpSession, local)
	first.join(t)
	second.join(t)
	one, two := first.ready(t), second.ready(t)
	require.Equal(t, one.Folder, two.Folder)
	require.Equal(t, one.Postmaster, two.Postmaster)
	require.NotEqual(t, one.URL, two.URL)

	first.end(t)
	requireConnects(t, two.URL)
	third, three := session(t, local)
	require.Equal(t, two.Postmaster, three.Postmaster)

	own, err := sharedOrder()
	require.NoError(t, err)
	require.NotEqual(t, string(own.Dir), one.Folder, "another parent has another session")
	second.kill()
	requireConnects(t, three.URL)
	third.kill()
	requireGone(t, three)
}

func TestKilledProcessLeavesNothing(t *testing.T) {
	h, r := session(t, local)
	require.True(t, runs(r.Postmaster))
	require.True(t, runs(r.Watchdog))
	h.kill()
	requireGone(t, r)
}

func TestProcessKilledDuringTheStartLeavesNothing(t *testing.T) {
	for _, file := range []string{lockName, dataDir, "data/postmaster.pid"} {
		h := startHelper(t, helpSession, local)
		o, err := sessionOrder(os.Getpid(), "")
		require.NoError(t, err)
		folder := string(o.Dir)
		h.join(t)
		eventually(t, "the file "+file, func() bool {
			_, err := os.Stat(filepath.Join(folder, file))
			return err == nil
		})
		pid, _ := readPostmasterPID(filepath.Join(folder, dataDir))
		h.kill()
		if file == lockName {
			// Killed before there is a watchdog: the next session cleans up.
			h, r := session(t, local)
			h.kill()
			requireGone(t, r)
			continue
		}
		requireGone(t, report{Folder: folder, Postmaster: pid})
	}
}

func TestNextProcessFindsTheClusterRunning(t *testing.T) {
	next := startHelper(t, helpSession, local)
	first, r := session(t, local)
	first.end(t)
	next.join(t)
	require.Equal(t, r.Postmaster, next.ready(t).Postmaster)
	next.end(t)
	requireGone(t, r)
}

func TestSessionLastsAsLongAsTheGoCommand(t *testing.T) {
	// A parent whose program is called "go".
	dir := publicDir(t)
	program := filepath.Join(dir, "go")
	copyFile(t, os.Args[0], program)
	parent := startHelper(t, helpParent, func(cmd *exec.Cmd) {
		local(cmd)
		cmd.Path, cmd.Args[0] = program, program
	})
	parent.join(t)
	r := parent.ready(t)
	require.NoError(t, parent.stdin.Close()) // its child ends
	time.Sleep(grace + grace/2)
	require.True(t, runs(r.Postmaster), "the session ended while the go command ran")
	parent.kill()
	requireGone(t, r)
}

func TestSessionWhoseWatchdogWasKilled(t *testing.T) {
	first, r := session(t, local)
	require.NoError(t, syscall.Kill(r.Watchdog, syscall.SIGKILL))
	eventually(t, "the end of the watchdog", func() bool { return !runs(r.Watchdog) })

	second, again := session(t, local)
	require.Equal(t, r.Postmaster, again.Postmaster, "it serves as long as it has users")
	first.kill()
	second.kill()
	require.True(t, runs(r.Postmaster))

	sweep("")
	requireGone(t, r)
}

func TestNextSessionReplacesOneThatWasLeft(t *testing.T) {
	first, r := session(t, local)
	require.NoError(t, syscall.Kill(r.Watchdog, syscall.SIGKILL))
	first.kill()
	eventually(t, "the end of the watchdog", func() bool { return !runs(r.Watchdog) })

	next, fresh := session(t, local)
	require.Equal(t, r.Folder, fresh.Folder)
	require.NotEqual(t, r.Postmaster, fresh.Postmaster)
	require.False(t, runs(r.Postmaster))
	next.kill()
	requireGone(t, fresh)
}

func TestTerminatedWatchdogCleansUp(t *testing.T) {
	_, r := session(t, local)
	require.NoError(t, syscall.Kill(r.Watchdog, syscall.SIGTERM))
	requireGone(t, r)
}

func TestSharedServerThatIsKilledIsReplaced(t *testing.T) {
	_, r := session(t, local)
	require.NoError(t, syscall.Kill(r.Postmaster, syscall.SIGKILL))
	requireGone(t, r)
	h, fresh := session(t, local)
	require.NotEqual(t, r.Postmaster, fresh.Postmaster)
	h.kill()
	requireGone(t, fresh)
}

func requireConnects(t *testing.T, url string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	require.NoError(t, conn.Close(t.Context()))
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	in, err := os.Open(from)
	require.NoError(t, err)
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o755)
	require.NoError(t, err)
	_, err = io.Copy(out, in)
	require.NoError(t, err)
	require.NoError(t, in.Close())
	require.NoError(t, out.Close())
}
