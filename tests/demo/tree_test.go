package demo_test

import (
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// place is a folder of one test: the program under a name of its own, a tree to
// work on, and a place for temporary files, which every user can read and write.
type place struct{ dir, program, tree, tmp string }

func newPlace(t *testing.T) place {
	t.Helper()
	require.NoError(t, lookAtSources())
	// Short, for the path of a Unix socket, and entered by the server's account.
	dir, err := os.MkdirTemp("/tmp", "rl-")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	dir, err = filepath.EvalSymlinks(dir)
	require.NoError(t, err)
	p := place{dir: dir, program: filepath.Join(dir, "runlane"), tree: filepath.Join(dir, "tree"), tmp: filepath.Join(dir, "tmp")}
	for _, path := range []string{p.dir, p.tree, p.tmp} {
		require.NoError(t, os.MkdirAll(path, 0o755))
	}
	require.NoError(t, os.Chmod(p.dir, 0o755))
	require.NoError(t, os.Chmod(p.tmp, 0o777))
	require.NoError(t, os.Link(built, p.program))
	return p
}

// tally is what a tree holds, counted while it is made.
type tally struct {
	files, bytes, lines int
	digest              string
}

// plant makes a tree of so many Go files, among things that are none.
func (p place) plant(t *testing.T, files int) tally {
	t.Helper()
	random := rand.New(rand.NewPCG(1, uint64(files)))
	var sum tally
	var digests []string
	for i := range files {
		path := fmt.Sprintf("%02d/%d/file_%d.go", i%17, i%3, i)
		text := strings.Repeat("// a line of text\n", random.IntN(400))
		switch i {
		case 1:
			text = "" // no bytes at all
		case 2:
			text = "package p // no newline at the end"
		case 3:
			path = "Ünï code/with 'quotes' and \"more\".go"
		case 4:
			text = strings.Repeat("\x00\xff\n", 1<<20) // larger than any buffer
		}
		p.write(t, path, text)
		sum.files++
		sum.bytes += len(text)
		sum.lines += strings.Count(text, "\n")
		digests = append(digests, fmt.Sprintf("./%s\x00%x", path, sha256.Sum256([]byte(text))))
	}
	p.write(t, "README.md", "no Go file")
	p.write(t, "folder.go/inner.txt", "a folder with the name of a file")
	require.NoError(t, os.Symlink("00/0/file_0.go", filepath.Join(p.tree, "link.go")))
	slices.Sort(digests)
	all := sha256.New()
	for _, line := range digests {
		path, digest, _ := strings.Cut(line, "\x00")
		fmt.Fprintf(all, "%s  %s\n", digest, path)
	}
	sum.digest = fmt.Sprintf("%x", all.Sum(nil))
	return sum
}

func (p place) write(t *testing.T, path, text string) {
	t.Helper()
	full := filepath.Join(p.tree, filepath.FromSlash(path))
	require.NoError(t, os.MkdirAll(filepath.Dir(full), 0o755))
	require.NoError(t, os.WriteFile(full, []byte(text), 0o644))
}
