package pgtest

import (
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestServerDoesNotRunAsRoot(t *testing.T) {
	t.Parallel()
	c := Private(t, Options{Volatile: true})
	info, err := os.Stat(c.dir.path(dataDir))
	require.NoError(t, err)
	uid, _ := owner(info)
	require.NotZero(t, uid)
	if os.Geteuid() != 0 {
		require.Equal(t, os.Geteuid(), uid)
	}
}

func TestServerAccount(t *testing.T) {
	a, err := serverAccount("no-such-account", "nobody")
	require.NoError(t, err)
	require.NotZero(t, a.UID)
	if os.Geteuid() == 0 {
		require.Equal(t, "nobody", a.Name)
		require.True(t, a.Switch)
		_, err = serverAccount("no-such-account", "root")
		require.ErrorContains(t, err, "PostgreSQL does not run as root")
		return
	}
	require.Equal(t, os.Geteuid(), a.UID)
	require.False(t, a.Switch)
}

// As root, the whole of it is done once more by an ordinary user.
func TestOrdinaryUser(t *testing.T) {
	t.Parallel()
	program := filepath.Join(publicDir(t), "pgtest.test")
	copyFile(t, os.Args[0], program) // the go command builds in a private folder
	h, r := session(t, func(cmd *exec.Cmd) {
		withEnv(urlEnv+"=", "TMPDIR=", "HOME=/nowhere")(cmd)
		cmd.Path, cmd.Args[0], cmd.Dir = program, program, "/"
		if os.Geteuid() == 0 {
			u, err := user.Lookup("nobody")
			require.NoError(t, err)
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: number(t, u.Uid), Gid: number(t, u.Gid)}}
		}
	})
	info, err := os.Stat(filepath.Join(r.Folder, dataDir))
	require.NoError(t, err)
	uid, _ := owner(info)
	require.NotZero(t, uid)
	requireConnects(t, r.URL)
	h.kill()
	requireGone(t, r)
}

func number(t *testing.T, text string) uint32 {
	t.Helper()
	n, err := strconv.ParseUint(text, 10, 32)
	require.NoError(t, err)
	return uint32(n)
}

// A TMPDIR that the server's account cannot enter is passed over.
func TestPrivateTemporaryFolder(t *testing.T) {
	dir := filepath.Join(publicDir(t), "p")
	require.NoError(t, os.Mkdir(dir, 0o700))
	h, r := session(t, withEnv(urlEnv+"=", "TMPDIR="+dir))
	require.Equal(t, os.Geteuid() != 0, filepath.Dir(r.Folder) == dir)
	h.kill()
	requireGone(t, r)
}

func TestFolderOfSomebodyElse(t *testing.T) {
	a, err := serverAccount("postgres", "nobody")
	require.NoError(t, err)
	f := folder(filepath.Join(publicDir(t), "x"))
	require.NoError(t, os.Symlink(t.TempDir(), string(f)))
	_, err = f.enter(t.Context(), a)
	require.ErrorContains(t, err, "belongs to somebody else")
	require.NoError(t, os.Remove(string(f)))

	if os.Geteuid() == 0 {
		require.NoError(t, os.Mkdir(string(f), 0o700))
		require.NoError(t, os.Chown(string(f), a.UID, a.GID))
		_, err = f.enter(t.Context(), a)
		require.ErrorContains(t, err, "belongs to somebody else")
	}
}

func TestParseStat(t *testing.T) {
	stat := "7 (a) b (c) S 1 7 7 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 987654 1 2 3\n"
	p, program, ok := parseStat(7, []byte(stat))
	require.True(t, ok)
	require.Equal(t, process{PID: 7, Start: "987654"}, p)
	require.Equal(t, "a) b (c", program)
	for _, bad := range []string{"", "7", "7 (x", ")(", "7 (x) S 1 2", "7 (x) Z 1 7 7 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 987654"} {
		_, _, ok := parseStat(7, []byte(bad))
		require.False(t, ok, bad)
	}
	me, _, ok := inspect(os.Getpid())
	require.True(t, ok)
	require.True(t, me.alive())
	require.False(t, process{PID: me.PID, Start: "earlier"}.alive())
}
