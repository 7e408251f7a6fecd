package migrations_test

import (
	"io/fs"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/migrations"
)

var (
	fileName = regexp.MustCompile(`^\d{14}_[a-z][a-z0-9]*(_[a-z0-9]+)*\.sql$`)
	header   = regexp.MustCompile(`^-- Old workers (may run|must be stopped) while this file is applied: .+\n`)
	// A name with its schema would pass by the search path.
	qualified = regexp.MustCompile(`(?i)\b(TABLE|INDEX|SEQUENCE|FUNCTION|ON|INTO|UPDATE|FROM)\s+"?[a-z_]+"?\."`)
	// A file that sets the search path or a role would do so for the files after it.
	sessionWide = regexp.MustCompile(`(?im)^\s*(SET|RESET|BEGIN|COMMIT|ROLLBACK)\s`)
)

func TestReleasedFiles(t *testing.T) {
	list, err := fs.Glob(migrations.Files, "*.sql")
	require.NoError(t, err)
	require.NotEmpty(t, list)
	for _, name := range list {
		text, err := migrations.Files.ReadFile(name)
		require.NoError(t, err)
		require.Regexp(t, fileName, name)
		require.Regexp(t, header, string(text), "%s: the first line says whether old workers may run", name)
		require.NotRegexp(t, qualified, string(text), name)
		for _, line := range strings.Split(string(text), "\n") {
			if !strings.HasPrefix(line, "  ") { // the options of a function
				require.NotRegexp(t, sessionWide, line, name)
			}
		}
	}
	require.True(t, strings.HasSuffix(list[0], "_initial.sql"))
	require.Equal(t, 1, migrations.SchemaVersion)
}

// A directory without files makes nothing, and does not say that it did.
func TestEmptyDirectory(t *testing.T) {
	conn := empty(t)
	result, err := migrations.Apply(t.Context(), conn, migrations.Options{Dir: files{}.fs(t)})
	require.NoError(t, err)
	require.Equal(t, migrations.Result{Schema: "runlane"}, result)
	require.Empty(t, objects(t, conn))
}
