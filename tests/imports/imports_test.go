// Package imports_test holds the direction of the arrows between packages.
package imports_test

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const module = "github.com/seed4391e180/runlane"

// rule says what the packages below a path may import: of this module, and of
// others. Standard packages are free.
type rule struct {
	path   string
	own    []string
	others []string
	never  []string // must not be linked at all, however indirectly
}

const (
	uuid = "github.com/google/uuid"
	pgx  = "github.com/jackc/pgx/v5"
	ent  = "entgo.io/ent"
)

// The first rule whose path is a prefix of a package decides. Packages that no rule
// names may import anything; nobody may import them.
var rules = []rule{
	{path: "run", others: []string{uuid}},
	{path: "internal/jsonscan"},
	{path: "storage/keys", others: []string{uuid}},
	{path: "storage/codec", own: []string{"storage", "storage/keys", "run", "internal/jsonscan"}, others: []string{uuid}},
	{path: "storage/memory", own: []string{"storage", "storage/keys", "storage/codec", "run", "internal/cursor", "internal/jsonscan"},
		others: []string{uuid, "github.com/google/btree"}, never: []string{module + "/internal/txn", module + "/rawsql", module + "/ent", ent, pgx}},
	{path: "storage/storagetest", own: []string{"storage", "storage/keys", "storage/codec", "run"},
		others: []string{uuid, "github.com/stretchr/testify", "pgregory.net/rapid"}, never: []string{module + "/internal/txn", ent, pgx}},
	{path: "storage/postgres", own: []string{"storage", "storage/keys", "storage/codec", "run", "internal/txn", "internal/cursor", "internal/jsonscan", "rawsql", "ent"},
		others: []string{uuid, pgx, ent}, never: []string{"ariga.io/atlas"}},
	{path: "storage", own: []string{"run", "internal/jsonscan"}, others: []string{uuid}},
	{path: "internal/txn", own: []string{"storage", "storage/codec"}, never: []string{pgx, ent}},
	{path: "internal/cursor", own: []string{"storage"}},
	{path: "internal/doctor", own: []string{"storage", "storage/keys", "storage/postgres", "migrations"}, others: []string{pgx}},
	{path: "internal/pgtest", own: []string{"migrations"}, others: []string{pgx, "golang.org/x/sync", "golang.org/x/sys"}},
	{path: "rawsql"},
	{path: "migrations", others: []string{pgx, "ariga.io/atlas"}, never: []string{module + "/storage", ent}},
	{path: "lane/lanetest", own: []string{"lane", "storage", "storage/memory", "run"}, never: []string{pgx, ent}},
	{path: "lane/laneotel", own: []string{"lane"}, others: []string{"go.opentelemetry.io/otel"}, never: []string{pgx, ent}},
	{path: "lane", own: []string{"storage", "storage/keys", "storage/codec", "run"}, others: []string{uuid, "github.com/robfig/cron/v3"},
		never: []string{pgx, ent, module + "/storage/postgres", module + "/rawsql"}},
}

// leaves are imported by nobody but themselves.
var leaves = []string{"cmd", "examples", "tests", "bench"}

type pkg struct {
	ImportPath string
	Imports    []string
	Deps       []string
}

func packages(t *testing.T) []pkg {
	t.Helper()
	cmd := exec.Command("go", "list", "-json=ImportPath,Imports,Deps", module+"/...")
	out, err := cmd.Output()
	require.NoError(t, err)
	var all []pkg
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p pkg
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else {
			require.NoError(t, err)
		}
		all = append(all, p)
	}
}

func below(path, root string) bool { return path == root || strings.HasPrefix(path, root+"/") }

func anyBelow(path string, roots []string) bool {
	return slices.ContainsFunc(roots, func(root string) bool { return below(path, root) })
}

func TestImportDirections(t *testing.T) {
	all := packages(t)
	seen := make(map[string]bool)
	for _, p := range all {
		own := strings.TrimPrefix(p.ImportPath, module+"/")
		for _, imported := range p.Imports {
			if rel, ok := strings.CutPrefix(imported, module+"/"); ok && anyBelow(rel, leaves) && !anyBelow(own, leaves) {
				t.Errorf("%s imports %s, which is for nobody to import", own, rel)
			}
		}
		i := slices.IndexFunc(rules, func(r rule) bool { return below(own, r.path) })
		if i < 0 {
			continue
		}
		seen[rules[i].path] = true
		check(t, own, p, rules[i])
	}
	for _, r := range rules {
		require.True(t, seen[r.path], "the rule for %s names no package", r.path)
	}
}

func check(t *testing.T, own string, p pkg, r rule) {
	t.Helper()
	for _, imported := range p.Imports {
		rel, ours := strings.CutPrefix(imported, module+"/")
		switch {
		case ours && (below(rel, r.path) || slices.Contains(r.own, rel) || anyBelow(rel, []string{"ent"}) && slices.Contains(r.own, "ent")):
		case ours:
			t.Errorf("%s must not import %s", own, rel)
		case strings.Contains(strings.SplitN(imported, "/", 2)[0], ".") && !anyBelow(imported, r.others):
			t.Errorf("%s must not import %s", own, imported)
		}
	}
	for _, dep := range p.Deps {
		if anyBelow(dep, r.never) {
			t.Errorf("%s must not depend on %s, not even through another package", own, dep)
		}
	}
}
