package entext

import (
	"fmt"
	"slices"

	"entgo.io/ent/entc"
	"entgo.io/ent/entc/gen"
)

// skipped are the files that ent would write and that nothing here uses: helpers
// for tests, for hooks and for defaults, none of which a read-only client has.
var skipped = []string{"enttest", "hook", "runtime/pkg"}

// Generate writes the read-only client of the named schemas of the package at
// path into the folder above it. The other schemas are only tables.
func Generate(path string, names ...string) error {
	allowLoading()
	cfg, err := config()
	if err != nil {
		return err
	}
	// The package that creates tables from Go is not generated: migrations are
	// files, and without it the client does not link Atlas.
	storage := *cfg.Storage
	storage.SchemaMode &^= gen.Migrate
	cfg.Storage = &storage
	cfg.Features = []gen.Feature{gen.FeatureModifier}
	cfg.Hooks = []gen.Hook{only(names)}
	for i, t := range gen.GraphTemplates {
		if slices.Contains(skipped, t.Name) {
			gen.GraphTemplates[i].Skip = func(*gen.Graph) bool { return true }
		}
	}
	return entc.Generate(path, cfg)
}

// only leaves the named schemas in the graph. A name that no schema has is an
// error.
func only(names []string) gen.Hook {
	return func(next gen.Generator) gen.Generator {
		return gen.GenerateFunc(func(g *gen.Graph) error {
			for _, name := range names {
				if !slices.ContainsFunc(g.Nodes, func(n *gen.Type) bool { return n.Name == name }) {
					return fmt.Errorf("no schema is named %s", name)
				}
			}
			g.Nodes = slices.DeleteFunc(g.Nodes, func(n *gen.Type) bool { return !slices.Contains(names, n.Name) })
			return next.Generate(g)
		})
	}
}
