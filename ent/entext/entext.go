// Package entext gives ent's read-only schemas (ent.View) real tables.
//
// The records of runlane have composite primary keys. ent's ordinary schemas
// cannot express one without generating methods that address a row by half of
// its key (and then change every row that shares that half), so the tables are
// declared as views: the generated client can only query. [Tables] turns the
// same declarations into the table definitions that migrations are planned from.
package entext

import (
	"encoding/json"
	"fmt"

	"entgo.io/ent/dialect/sql/schema"
	"entgo.io/ent/entc"
	"entgo.io/ent/entc/gen"
	"entgo.io/ent/schema/field"
)

const primaryKeyName = "RunlanePrimaryKey"

// PrimaryKeyAnnotation names the primary key columns of a table, in key order.
type PrimaryKeyAnnotation struct {
	Columns []string `json:"columns"`
}

// Name implements ent's schema.Annotation.
func (PrimaryKeyAnnotation) Name() string { return primaryKeyName }

// PrimaryKey declares the primary key of a schema's table.
func PrimaryKey(columns ...string) PrimaryKeyAnnotation {
	return PrimaryKeyAnnotation{Columns: columns}
}

// Load reads the schema package at path and returns the table of each of its
// schemas, in the order in which ent lists them (by schema name).
func Load(path string) ([]*schema.Table, error) {
	allowLoading()
	cfg, err := config()
	if err != nil {
		return nil, err
	}
	g, err := entc.LoadGraph(path, cfg)
	if err != nil {
		return nil, fmt.Errorf("load ent schemas: %w", err)
	}
	return Tables(g)
}

// config is what every run of ent's code generator needs here.
func config() (*gen.Config, error) {
	storage, err := gen.NewStorage("sql")
	if err != nil {
		return nil, err
	}
	return &gen.Config{
		Storage: storage,
		IDType:  &field.TypeInfo{Type: field.TypeString}, // a graph of nothing but views panics without it
	}, nil
}

// Tables returns the table definition of every schema of the graph. A schema
// without a [PrimaryKey] is an error, and so is a key column that does not
// exist or may be null.
func Tables(g *gen.Graph) ([]*schema.Table, error) {
	keys := make(map[string][]string, len(g.Nodes))
	for _, n := range g.Nodes {
		columns, err := primaryKey(n)
		if err != nil {
			return nil, err
		}
		keys[n.Table()] = columns
	}
	// ent leaves views out of the table list; the graph shares these pointers.
	for _, s := range g.Schemas {
		view := s.View
		s.View = false
		defer func() { s.View = view }()
	}
	tables, err := g.Tables()
	if err != nil {
		return nil, err
	}
	for _, t := range tables {
		if err := setPrimaryKey(t, keys[t.Name]); err != nil {
			return nil, err
		}
	}
	return tables, nil
}

func setPrimaryKey(t *schema.Table, columns []string) error {
	t.PrimaryKey = t.PrimaryKey[:0]
	for _, name := range columns {
		c, ok := t.Column(name)
		if !ok {
			return fmt.Errorf("%s: primary key names unknown column %q", t.Name, name)
		}
		if c.Nullable {
			return fmt.Errorf("%s: primary key column %q may be null", t.Name, name)
		}
		c.Key = schema.PrimaryKey
		t.PrimaryKey = append(t.PrimaryKey, c)
	}
	return nil
}

// primaryKey reads the annotation, which ent hands over as decoded JSON.
func primaryKey(n *gen.Type) ([]string, error) {
	raw, ok := n.Annotations[primaryKeyName]
	if !ok {
		return nil, fmt.Errorf("schema %s declares no primary key: annotate it with entext.PrimaryKey", n.Name)
	}
	text, err := json.Marshal(raw)
	if err != nil {
		return nil, err
	}
	var a PrimaryKeyAnnotation
	if err := json.Unmarshal(text, &a); err != nil {
		return nil, fmt.Errorf("schema %s: primary key annotation: %w", n.Name, err)
	}
	if len(a.Columns) == 0 {
		return nil, fmt.Errorf("schema %s has an empty primary key", n.Name)
	}
	return a.Columns, nil
}
