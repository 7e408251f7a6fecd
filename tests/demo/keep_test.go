package demo_test

import (
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

func TestKeep(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.plant(t, 300)
	d := p.start(t, nil, "demo", "--dir", p.tree, "--keep")
	code, out, errors := d.end(t)
	require.Zero(t, code, out+errors)
	require.NotEmpty(t, p.left(t), "the server is gone")

	_, last, found := strings.Cut(out, "\nEnd it:\n\n  ")
	require.True(t, found, out)
	end := func() {
		said, err := exec.Command("sh", "-c", strings.TrimSpace(last)).CombinedOutput()
		require.NoError(t, err, string(said))
		p.requireNothingSoon(t)
	}
	defer end()

	commands := regexp.MustCompile(`(?m)^  psql '(\S+)' -c "(.*)"$`).FindAllStringSubmatch(out, -1)
	require.NotEmpty(t, commands, out)
	for _, command := range commands {
		conn, err := pgx.Connect(t.Context(), command[1])
		require.NoError(t, err)
		rows, err := conn.Query(t.Context(), command[2])
		require.NoError(t, err)
		all, err := pgx.CollectRows(rows, pgx.RowToMap)
		require.NoError(t, err, command[2])
		require.NotEmpty(t, all, command[2])
		require.NoError(t, conn.Close(t.Context()))
	}
}
