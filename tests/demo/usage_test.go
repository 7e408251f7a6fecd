package demo_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCommandLinesThatMakeNoSense(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.plant(t, 3)
	for name, c := range map[string]struct {
		args []string
		says string
	}{
		"no command":      {nil, `runlane: "runlane" needs a command; see "runlane --help"`},
		"unknown command": {[]string{"dance"}, `runlane: unknown command "dance" for "runlane"`},
		"unknown flag":    {[]string{"demo", "--dance"}, "runlane: unknown flag: --dance"},
		"an argument":     {[]string{"demo", p.tree}, `runlane: unknown command "` + p.tree + `" for "runlane demo"`},
		"no folder":       {[]string{"demo", "--dir", p.tree + "/README.md"}, "runlane: " + p.tree + "/README.md is not a folder"},
		"nothing there":   {[]string{"demo", "--dir", p.tree + "/none"}, "runlane: there is no tree: lstat " + p.tree + "/none: no such file or directory"},
		"too few files":   {[]string{"demo", "--dir", p.tree}, "runlane: " + p.tree + " holds 3 Go files; the demo needs 24, better 300"},
	} {
		t.Run(name, func(t *testing.T) {
			code, out, errors := p.start(t, nil, c.args...).end(t)
			require.Equal(t, 2, code)
			require.Empty(t, out)
			require.Equal(t, c.says+"\n", errors)
			require.Empty(t, p.left(t))
		})
	}
}

// The folder of the server programs is wrong: a failure, not a wrong command line.
func TestNoServer(t *testing.T) {
	p := newPlace(t)
	p.plant(t, 30)
	require.NoError(t, os.Mkdir(p.dir+"/empty", 0o755))
	t.Setenv("RUNLANE_PG_BIN", p.dir+"/empty")
	code, _, errors := p.start(t, nil, "demo", "--dir", p.tree).end(t)
	require.Equal(t, 1, code)
	require.Regexp(t, `^runlane: starting PostgreSQL: .*does not hold the programs postgres and initdb\n$`, errors)
	require.Empty(t, p.left(t))
}
