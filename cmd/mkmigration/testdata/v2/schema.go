// Package v2 is what became of v1: a column, an index and a check more, and a check
// that allows more.
package v2

import (
	"entgo.io/ent"
	"entgo.io/ent/dialect"
	"entgo.io/ent/dialect/entsql"
	"entgo.io/ent/schema"
	"entgo.io/ent/schema/field"
	"entgo.io/ent/schema/index"

	"github.com/seed4391e180/runlane/ent/entext"
)

// Thing is a table with a composite key.
type Thing struct{ ent.View }

// Fields declares three columns.
func (Thing) Fields() []ent.Field {
	text := map[string]string{dialect.Postgres: "text"}
	return []ent.Field{
		field.String("part").SchemaType(text),
		field.String("name").SchemaType(text),
		field.Int64("size").Optional().Nillable(),
	}
}

// Indexes declares a partial index.
func (Thing) Indexes() []ent.Index {
	return []ent.Index{index.Fields("part", "size").StorageKey("things_size").Annotations(entsql.IndexWhere("size IS NOT NULL"))}
}

// Annotations declares the key and the checks.
func (Thing) Annotations() []schema.Annotation {
	return []schema.Annotation{
		entsql.Table("things"),
		entsql.Checks(map[string]string{"things_size_positive": "size > 0", "things_name_short": "length(name) < 20"}),
		entext.PrimaryKey("part", "name"),
	}
}
