package migrations_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/migrations"
)

// pinned is a released file and its SHA-256 (sha256sum).
type pinned struct{ name, hash string }

// released lists every file of the releases, in their order. Whoever releases adds the
// files that are new; nobody changes a line. The first release is v0.1.0.
var released []pinned

// checkReleased says what has become of a file that was released.
func checkReleased(dir fs.FS, list []pinned) error {
	files, err := fs.Glob(dir, "*.sql")
	if err != nil {
		return err
	}
	for i, p := range list {
		if i >= len(files) || files[i] != p.name {
			return fmt.Errorf("%s was released as file %d, and is not that any more", p.name, i+1)
		}
		text, err := fs.ReadFile(dir, p.name)
		if err != nil {
			return err
		}
		if hash := sha256.Sum256(text); hex.EncodeToString(hash[:]) != p.hash {
			return fmt.Errorf("%s was changed after it was released: put the change into a new file", p.name)
		}
	}
	return nil
}

// A released file stays as it is, where it is, for ever.
func TestReleasedFilesStay(t *testing.T) {
	require.NoError(t, checkReleased(migrations.Files, released))
	log, err := os.ReadFile("../CHANGELOG.md")
	require.NoError(t, err)
	if regexp.MustCompile(`(?m)^## \[?v?[0-9]`).Match(log) {
		require.NotEmpty(t, released, "there is a release, and its files are not pinned")
	}
}

func TestChangedReleasesAreNoticed(t *testing.T) {
	hash := func(name string) string {
		sum := sha256.Sum256([]byte(three[name]))
		return hex.EncodeToString(sum[:])
	}
	list := []pinned{{"1_one.sql", hash("1_one.sql")}, {"2_two.sql", hash("2_two.sql")}}
	require.NoError(t, checkReleased(three.fs(t), list))
	require.NoError(t, checkReleased(three.without("3_three.sql").fs(t), list))
	for name, dir := range map[string]files{
		"edited":   three.with("2_two.sql", edited("2_two.sql")),
		"gone":     three.without("2_two.sql").without("3_three.sql"),
		"replaced": three.without("2_two.sql"),
		"renamed":  three.without("1_one.sql").with("1_uno.sql", three["1_one.sql"]),
		"in front": three.with("0_zero.sql", added),
		"between":  three.with("1a_late.sql", added),
	} {
		require.Error(t, checkReleased(dir.fs(t), list), name)
	}
}
