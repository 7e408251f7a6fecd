package pgtest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// fakeServer makes a folder that looks as if it held the server programs.
func fakeServer(t *testing.T, dir string) string {
	t.Helper()
	require.NoError(t, os.MkdirAll(dir, 0o755))
	for _, program := range []string{"postgres", "initdb"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, program), []byte("#!/bin/sh\n"), 0o755))
	}
	return dir
}

// searchOnly makes the search see nothing but what the test adds.
func searchOnly(t *testing.T, path string, patterns ...string) {
	t.Helper()
	t.Setenv(binEnv, "")
	t.Setenv("PATH", path)
	old := usualFolders
	usualFolders = patterns
	t.Cleanup(func() { usualFolders = old })
}

func TestSearchOfServerPrograms(t *testing.T) {
	root, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	old := fakeServer(t, filepath.Join(root, "postgresql/9.6/bin"))
	fakeServer(t, filepath.Join(root, "postgresql/15/bin"))
	newest := fakeServer(t, filepath.Join(root, "postgresql/16/bin"))
	require.NoError(t, os.MkdirAll(filepath.Join(root, "postgresql/17/bin"), 0o755)) // clients only
	pattern := filepath.Join(root, "postgresql/*/bin")

	t.Run("newest of the usual folders", func(t *testing.T) {
		searchOnly(t, t.TempDir(), pattern)
		dir, err := findBinaries()
		require.NoError(t, err)
		require.Equal(t, newest, dir)
	})
	t.Run("a link in PATH", func(t *testing.T) {
		bin := t.TempDir()
		require.NoError(t, os.Symlink(filepath.Join(old, "initdb"), filepath.Join(bin, "initdb")))
		searchOnly(t, bin, pattern)
		dir, err := findBinaries()
		require.NoError(t, err)
		require.Equal(t, old, dir)
	})
	t.Run("a lone wrapper in PATH is passed over", func(t *testing.T) {
		bin := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(bin, "initdb"), []byte("#!/bin/sh\n"), 0o755))
		searchOnly(t, bin, pattern)
		dir, err := findBinaries()
		require.NoError(t, err)
		require.Equal(t, newest, dir)
	})
	t.Run("pg_config", func(t *testing.T) {
		bin := t.TempDir()
		script := "#!/bin/sh\necho " + old + "\n"
		require.NoError(t, os.WriteFile(filepath.Join(bin, "pg_config"), []byte(script), 0o755))
		searchOnly(t, bin, pattern)
		dir, err := findBinaries()
		require.NoError(t, err)
		require.Equal(t, old, dir)
	})
	t.Run("the environment comes first", func(t *testing.T) {
		searchOnly(t, newest, pattern)
		t.Setenv(binEnv, old)
		dir, err := findBinaries()
		require.NoError(t, err)
		require.Equal(t, old, dir)

		t.Setenv(binEnv, root)
		_, err = findBinaries()
		require.ErrorContains(t, err, "does not hold the programs postgres and initdb")
	})
	t.Run("nothing found", func(t *testing.T) {
		searchOnly(t, t.TempDir())
		_, err := findBinaries()
		require.ErrorIs(t, err, errNoServer)
		require.ErrorContains(t, err, "make deps")
	})
}

func TestMajor(t *testing.T) {
	// Those of another server, if the shared one is external.
	require.Equal(t, Major(t), numbers(show(t, connect(t, Private(t, Options{Volatile: true}).URL("postgres")), "server_version"))[0])

	for says, want := range map[string]int{"postgres (PostgreSQL) 19beta1": 19, "postgres (PostgreSQL) 15.14 (Debian 15.14-0+deb12u1)": 15, "hello": 0} {
		dir := fakeServer(t, t.TempDir())
		require.NoError(t, os.WriteFile(filepath.Join(dir, "postgres"), []byte("#!/bin/sh\necho '"+says+"'\n"), 0o755))
		t.Setenv(binEnv, dir)
		major, err := majorVersion()
		require.Equal(t, want, major)
		require.Equal(t, want == 0, err != nil, "%s: %v", says, err)
	}
}

func TestMissingServerFailsTheTest(t *testing.T) {
	out, err := runTests(t, "^TestNewMakesAMigratedDatabase$", withEnv(urlEnv+"=", binEnv+"=/nowhere"))
	require.Error(t, err, "a test without a server must fail")
	require.Contains(t, out, "pgtest: RUNLANE_PG_BIN=/nowhere: the folder does not hold the programs postgres and initdb")
	require.NotContains(t, out, "SKIP")
}

// runTests runs some of this package's tests in a process of their own.
func runTests(t *testing.T, pattern string, adjust func(*exec.Cmd)) (string, error) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run", pattern, "-test.v")
	cmd.Env = os.Environ()
	adjust(cmd)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func TestDepsScriptSearchesTheSamePlaces(t *testing.T) {
	script := func() string {
		out, _ := exec.Command("/bin/sh", "../../scripts/deps.sh", "--find").Output()
		return strings.TrimSpace(string(out))
	}
	compare := func(t *testing.T) {
		t.Helper()
		dir, err := findBinaries()
		if err != nil {
			dir = ""
		}
		require.Equal(t, dir, script())
	}
	t.Setenv(binEnv, "")
	t.Run("as it is", compare)
	t.Run("usual folders", func(t *testing.T) {
		t.Setenv("PATH", "/usr/bin:/bin")
		compare(t)
	})
	t.Run("a chain of links", func(t *testing.T) {
		root := t.TempDir()
		fakeServer(t, filepath.Join(root, "server"))
		require.NoError(t, os.Symlink("server/initdb", filepath.Join(root, "link")))
		require.NoError(t, os.Mkdir(filepath.Join(root, "bin"), 0o755))
		require.NoError(t, os.Symlink("../link", filepath.Join(root, "bin/initdb")))
		t.Setenv("PATH", filepath.Join(root, "bin")+":/usr/bin:/bin")
		require.Equal(t, filepath.Join(root, "server"), script())
		compare(t)
	})
	t.Run("the environment", func(t *testing.T) {
		t.Setenv(binEnv, fakeServer(t, t.TempDir()))
		compare(t)
		t.Setenv(binEnv, "/nowhere")
		compare(t)
	})
}
