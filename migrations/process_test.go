package migrations_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	osexec "os/exec"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/migrations"
)

// runnerEnv makes a process of the test binary a runner on the database that it
// names, with the files of the folder in dirEnv.
const (
	runnerEnv = "RUNLANE_TEST_RUNNER"
	dirEnv    = "RUNLANE_TEST_RUNNER_DIR"
)

func TestMain(m *testing.M) {
	if url := os.Getenv(runnerEnv); url != "" {
		if err := runner(url, os.Getenv(dirEnv)); err != nil {
			fmt.Println("error", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// runner is a program that migrates, and prints a line for each step.
func runner(url, dir string) error {
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	_, err = migrations.Apply(ctx, conn, migrations.Options{Dir: os.DirFS(dir), Progress: func(e migrations.Event) {
		fmt.Println(e.Stage, e.File.Version)
	}})
	return err
}

// start starts a runner as a process of its own and returns it once it has printed
// a line.
func start(t *testing.T, conn *pgx.Conn, f files, line string) *osexec.Cmd {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, f.fs(t)))
	cmd := osexec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), runnerEnv+"="+conn.Config().ConnString(), dirEnv+"="+dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it has ended, unless the test failed
		_ = cmd.Wait()
	})
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if lines.Text() == line {
			return cmd
		}
	}
	require.Fail(t, "the runner ended by itself", line)
	return nil
}

// A runner that gets SIGKILL has nobody to tell the server. The server finds out by
// itself, also in the middle of a statement.
func TestKilledProcessLeavesNothing(t *testing.T) {
	conn := empty(t)
	cmd := start(t, conn, slow, "applying 4")
	await(t, conn, "SELECT EXISTS (SELECT 1 FROM pg_stat_activity WHERE query LIKE 'SELECT pg_sleep(60)%' AND state = 'active')")
	require.NoError(t, cmd.Process.Kill())
	apply(t, conn, three.fs(t)) // waits for the server to notice
	requireOnlyThree(t, conn)
}

// The same between two statements, where the connection is all there is to notice.
func TestKilledProcessBetweenStatements(t *testing.T) {
	conn := empty(t)
	cmd := start(t, conn, slow, "applied 2")
	require.NoError(t, cmd.Process.Kill())
	apply(t, conn, three.fs(t))
	requireOnlyThree(t, conn)
}

func requireOnlyThree(t *testing.T, conn *pgx.Conn) {
	t.Helper()
	require.NoError(t, migrations.Verify(t.Context(), conn, migrations.Options{Dir: three.fs(t)}))
}

// A build that is cut off leaves an index that nothing uses, and a row that says so.
func TestKilledProcessDuringABuild(t *testing.T) {
	conn, worker := populated(t)
	exec(t, worker, "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1")
	cmd := start(t, conn, grown, "applying 5")
	awaitBuild(t, conn)
	require.NoError(t, cmd.Process.Kill())
	await(t, conn, "SELECT NOT EXISTS (SELECT 1 FROM pg_stat_activity WHERE query LIKE 'CREATE INDEX CONCURRENTLY%' AND datname = current_database())")

	o := migrations.Options{Dir: grown.fs(t)}
	state, err := migrations.Status(t.Context(), conn, o)
	require.NoError(t, err)
	require.True(t, state.Started)
	require.Equal(t, []string{"runlane_one_size"}, state.Invalid)
	refused(t, migrations.Verify(t.Context(), conn, o), migrations.ErrInvalidIndex, "runlane_one_size")
	exec(t, worker, "ROLLBACK")
	apply(t, conn, grown.fs(t))
	requireWhole(t, conn)
}
