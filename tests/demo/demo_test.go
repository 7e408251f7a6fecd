package demo_test

import (
	"os"
	"os/user"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// users are the accounts to run as: one's own and, for root, an ordinary one. The
// caller is an ordinary one otherwise.
func users(t *testing.T) map[string]*syscall.Credential {
	t.Helper()
	all := map[string]*syscall.Credential{"as the caller": nil}
	if os.Geteuid() != 0 {
		return all
	}
	u, err := user.Lookup("nobody")
	require.NoError(t, err)
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	require.NoError(t, err)
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	require.NoError(t, err)
	all["as nobody"] = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	return all
}

// killed is the line that tells of the kill.
var killed = regexp.MustCompile(`worker A is killed \(SIGKILL\) while it holds ([0-9]+) leases; ([0-9]+) of 300 runs`)

func TestDemo(t *testing.T) {
	t.Parallel()
	for name, as := range users(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			want := p.plant(t, 300)
			d := p.start(t, as, "demo", "--dir", p.tree)
			code, out, errors := d.end(t)
			require.Empty(t, errors)
			require.Zero(t, code, out)
			require.Empty(t, p.left(t))

			kill := killed.FindStringSubmatch(out)
			require.NotNil(t, kill, out)
			held, err := strconv.Atoi(kill[1])
			require.NoError(t, err)
			ended, err := strconv.Atoi(kill[2])
			require.NoError(t, err)
			require.GreaterOrEqual(t, held, 50)
			require.GreaterOrEqual(t, ended, 60)
			require.LessOrEqual(t, ended, 240)

			row := rows(out)
			require.Equal(t, "300", row["succeeded"])
			require.Equal(t, strconv.Itoa(want.files)+" in both", row["files"])
			require.Equal(t, strconv.Itoa(want.bytes)+" in both", strings.ReplaceAll(row["bytes"], ",", ""))
			require.Equal(t, strconv.Itoa(want.lines)+" in both", strings.ReplaceAll(row["lines"], ",", ""))
			require.Equal(t, want.digest+" in both", row["digest over all digests"])
			recovered, _, _ := strings.Cut(row["leases recovered (run.lease_expired)"], " ")
			n, err := strconv.Atoi(recovered)
			require.NoError(t, err)
			require.GreaterOrEqual(t, n, held)
			require.Equal(t, recovered, row["retries"])
			require.NotContains(t, out, "FAILED")
			require.Contains(t, out, "fsync on, synchronous_commit on")
		})
	}
}

// rows reads the table: names and values with at least two spaces between.
func rows(out string) map[string]string {
	all := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^  (\S.*?) {2,}(\S.*)$`).FindAllStringSubmatch(out, -1) {
		all[m[1]] = m[2]
	}
	return all
}

// A file that appears while the work goes on has no run, and the walk finds it.
func TestADifferenceIsExitCodeOne(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.plant(t, 300)
	d := p.start(t, nil, "demo", "--dir", p.tree)
	d.await(t, "is killed")
	p.write(t, "late/late.go", "package late\n")
	code, out, errors := d.end(t)
	require.Equal(t, 1, code, out)
	require.Equal(t, 1, strings.Count(errors, "\n"), errors)
	require.Contains(t, errors, "runlane: 2 of 11 checks failed: no run is lost: each file has a result: 1, such as late/late.go; ")
	require.Contains(t, out, "300 against 301")
	require.Empty(t, p.left(t))
}

func TestInterruptedDemoLeavesNothing(t *testing.T) {
	t.Parallel()
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		for name, group := range map[string]bool{"to the demo": false, "to its process group": true} {
			t.Run(sig.String()+" "+name, func(t *testing.T) {
				t.Parallel()
				p := newPlace(t)
				p.plant(t, 300)
				d := p.start(t, nil, "demo", "--dir", p.tree, "--keep")
				d.await(t, "is killed")
				pid := d.cmd.Process.Pid
				if group {
					pid = -pid
				}
				require.NoError(t, syscall.Kill(pid, sig))
				code, _, errors := d.end(t)
				require.Equal(t, 1, code)
				require.Equal(t, "runlane: interrupted\n", errors)
				require.Empty(t, p.left(t))
			})
		}
	}
}

// The server is being made when the signal comes: whoever makes it cleans up, and
// may do so a moment after the demo has ended.
func TestDemoInterruptedAtTheStartLeavesNothing(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.plant(t, 300)
	d := p.start(t, nil, "demo", "--dir", p.tree)
	d.await(t, "300 Go files")
	require.NoError(t, d.cmd.Process.Signal(syscall.SIGINT))
	code, _, errors := d.end(t)
	require.Equal(t, 1, code)
	require.Equal(t, "runlane: interrupted\n", errors)
	p.requireNothingSoon(t)
}

func TestKilledDemoLeavesNothing(t *testing.T) {
	t.Parallel()
	for name, moment := range map[string]string{"before the work": "PostgreSQL", "during the work": "workers A", "after the kill": "is killed"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			p.plant(t, 300)
			d := p.start(t, nil, "demo", "--dir", p.tree)
			d.await(t, moment)
			require.NoError(t, d.cmd.Process.Kill())
			code, _, _ := d.end(t)
			require.Equal(t, -1, code)
			p.requireNothingSoon(t)
		})
	}
}

// A worker that dies by itself ends the demo: what it shows is a kill.
func TestDemoNoticesADeadWorker(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.plant(t, 300)
	d := p.start(t, nil, "demo", "--dir", p.tree)
	d.await(t, "is killed")
	line := regexp.MustCompile(`B \(process ([0-9]+)\)`).FindStringSubmatch(d.seen.String())
	require.NotNil(t, line)
	survivor, err := strconv.Atoi(line[1])
	require.NoError(t, err)
	require.NoError(t, syscall.Kill(survivor, syscall.SIGKILL))
	code, _, errors := d.end(t)
	require.Equal(t, 1, code)
	require.Equal(t, "runlane: worker B ended: signal: killed\n", errors)
	require.Empty(t, p.left(t))
}

func TestProfiles(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.plant(t, 300)
	d := p.start(t, nil, "demo", "--dir", p.tree, "--cpuprofile", "profiles")
	code, out, errors := d.end(t)
	require.Zero(t, code, out+errors)
	for _, name := range []string{"demo", "worker-A", "worker-B"} {
		info, err := os.Stat(filepath.Join(p.dir, "profiles", name+".pprof"))
		require.NoError(t, err)
		require.NotZero(t, info.Size(), name)
	}
}
