package source

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"

	"github.com/seed4391e180/runlane/policy/internal/rule"
)

// SumFile is the name of the file with which Atlas vouches for a directory.
const SumFile = "atlas.sum"

// Sum compares the migrations of a directory with its atlas.sum. Each line holds the
// hash of all files up to its own; the first line is the hash of the others.
func Sum(name string, sum []byte, migrations map[string][]byte) Result {
	text, problem := decode(sum)
	f := newFile(name, text)
	if problem != "" {
		f.found(rule.Unreadable, 0, "file", problem)
		return f.out
	}
	names := make([]string, 0, len(migrations))
	for n, data := range migrations {
		if !strings.HasPrefix(string(data), "-- atlas:sum ignore") {
			names = append(names, n)
		}
	}
	slices.Sort(names)
	lines := strings.Split(strings.TrimRight(f.text, "\n"), "\n")
	running, total := sha256.New(), sha256.New()
	listed := map[string]string{}
	for _, line := range lines[1:] {
		n, hash, _ := strings.Cut(line, " h1:")
		listed[n] = hash
	}
	for _, n := range names {
		running.Write([]byte(n))
		running.Write(migrations[n])
		hash := base64.StdEncoding.EncodeToString(running.Sum(nil))
		fmt.Fprintf(total, "%s%s", n, hash)
		switch have, ok := listed[n]; {
		case !ok:
			f.found(rule.Sum, 0, n, "the file is not listed")
			return f.out // all hashes behind it differ
		case have != hash:
			f.found(rule.Sum, max(strings.Index(f.text, n), 0), n, "this file or one before it was changed")
			return f.out
		}
		delete(listed, n)
	}
	for n := range listed {
		f.found(rule.Sum, max(strings.Index(f.text, n), 0), n, "the file is missing")
	}
	if want := "h1:" + base64.StdEncoding.EncodeToString(total.Sum(nil)); lines[0] != want && len(f.out.Findings) == 0 {
		f.found(rule.Sum, 0, SumFile, "the first line is not the hash of the others")
	}
	return f.out
}
