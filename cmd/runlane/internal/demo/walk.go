package demo

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// sums is what a set of digests adds up to.
type sums struct {
	files, bytes, lines int64
	digest              string // over all digests, in the order of the paths
}

// sumUp adds up digests by path. The digest over all of them is what sha256sum
// says of its own output:
//
//	find . -type f -name '*.go' | LC_ALL=C sort | xargs sha256sum | sha256sum
func sumUp(digests map[string]digest) sums {
	var s sums
	paths := make([]string, 0, len(digests))
	for path := range digests {
		paths = append(paths, path)
	}
	slices.SortFunc(paths, cmp.Compare[string])
	all := sha256.New()
	for _, path := range paths {
		d := digests[path]
		s.files++
		s.bytes += d.Bytes
		s.lines += d.Lines
		fmt.Fprintf(all, "%s  ./%s\n", d.SHA256, path)
	}
	s.digest = hex.EncodeToString(all.Sum(nil))
	return s
}

// walk digests the Go files of a tree. It is what the results of the runs are
// compared with, so it shares no code with them.
func walk(root string) (map[string]digest, error) {
	digests := map[string]digest{}
	folders := []string{""}
	for len(folders) > 0 {
		folder := folders[len(folders)-1]
		folders = folders[:len(folders)-1]
		entries, err := os.ReadDir(filepath.Join(root, folder))
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			path := filepath.Join(folder, e.Name())
			switch {
			case e.IsDir():
				folders = append(folders, path)
			case e.Type().IsRegular() && strings.HasSuffix(e.Name(), ".go"):
				text, err := os.ReadFile(filepath.Join(root, path))
				if err != nil {
					return nil, err
				}
				sum := sha256.Sum256(text)
				digests[filepath.ToSlash(path)] = digest{
					SHA256: hex.EncodeToString(sum[:]), Bytes: int64(len(text)), Lines: int64(bytes.Count(text, []byte("\n"))),
				}
			}
		}
	}
	return digests, nil
}
