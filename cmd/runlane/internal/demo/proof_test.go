package demo

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/run"
	"github.com/seed4391e180/runlane/storage"
)

func TestCompare(t *testing.T) {
	a, b := digest{"a", 1, 1}, digest{"b", 2, 2}
	tree := map[string]digest{"same": a, "missing": a, "sum": a, "bytes": a, "lines": a}
	results := map[string]digest{
		"same": a, "surplus": b, "sum": {"b", 1, 1}, "bytes": {"a", 2, 1}, "lines": {"a", 1, 2},
	}
	require.Equal(t, comparison{
		missing: []string{"missing"}, surplus: []string{"surplus"}, different: []string{"bytes", "lines", "sum"},
	}, compare(tree, results))
	require.Equal(t, comparison{}, compare(tree, tree))
}

func TestSumUp(t *testing.T) {
	s := sumUp(map[string]digest{"b.go": {"bb", 3, 1}, "a.go": {"aa", 4, 2}})
	want := fmt.Sprintf("%x", sha256.Sum256([]byte("aa  ./a.go\nbb  ./b.go\n")))
	require.Equal(t, sums{files: 2, bytes: 7, lines: 3, digest: want}, s)
}

// What the workers compute and what the walk computes is written twice, and agrees.
func TestWalkAndDigestFileAgree(t *testing.T) {
	root := t.TempDir()
	for path, text := range map[string]string{
		"empty.go": "", "a/one.go": "package a\n", "a/b/large.go": string(make([]byte, 100_000)), "a/b/c.go": "no newline", "not.txt": "x", "d.go/x": "",
	} {
		full := filepath.Join(root, path)
		require.NoError(t, os.MkdirAll(filepath.Dir(full), 0o755))
		require.NoError(t, os.WriteFile(full, []byte(text), 0o644))
	}
	files, err := list(root)
	require.NoError(t, err)
	require.Equal(t, []string{"a/b/c.go", "a/b/large.go", "a/one.go", "empty.go"}, files)
	walked, err := walk(root)
	require.NoError(t, err)
	require.Len(t, walked, len(files))
	for _, path := range files {
		d, err := digestFile(filepath.Join(root, path))
		require.NoError(t, err)
		require.Equal(t, walked[path], d)
	}
}

func TestRecordCountsWhatItCannotUse(t *testing.T) {
	r := &record{statuses: statuses{}, results: map[string]digest{}}
	add := func(status run.Status, payload, result string) {
		r.add(&storage.RunItem{RunSummary: storage.RunSummary{Status: status}, Run: &run.Run{Payload: []byte(payload), Result: []byte(result), Retries: 1}})
	}
	add(run.StatusSucceeded, `{"path": "a"}`, `{"sha256": "s", "bytes": 1, "lines": 2}`)
	add(run.StatusSucceeded, `{"path": "a"}`, `{"sha256": "s", "bytes": 1, "lines": 2}`)
	add(run.StatusSucceeded, `{"path": "b"}`, `[]`)
	add(run.StatusFailed, `{"path": "c"}`, ``)
	r.add(&storage.RunItem{RunSummary: storage.RunSummary{Status: run.StatusSucceeded}}) // does not decode
	require.Equal(t, map[string]digest{"a": {"s", 1, 2}}, r.results)
	require.Equal(t, 1, r.repeated)
	require.Equal(t, 3, r.unreadable)
	require.Equal(t, 2, r.retries)
	require.Equal(t, statuses{run.StatusSucceeded: 4, run.StatusFailed: 1}, r.statuses)
}
