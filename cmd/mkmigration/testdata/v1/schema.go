// Package v1 is a schema for the planner's tests.
package v1

import (
	"entgo.io/ent"
	"entgo.io/ent/dialect"
	"entgo.io/ent/dialect/entsql"
	"entgo.io/ent/schema"
	"entgo.io/ent/schema/field"

	"github.com/seed4391e180/runlane/ent/entext"
)

// Thing is a table with a composite key.
type Thing struct{ ent.View }

// Fields declares two columns.
func (Thing) Fields() []ent.Field {
	text := map[string]string{dialect.Postgres: "text"}
	return []ent.Field{
		field.String("part").SchemaType(text),
		field.String("name").SchemaType(text),
	}
}

// Annotations declares the key and a check.
func (Thing) Annotations() []schema.Annotation {
	return []schema.Annotation{
		entsql.Table("things"),
		entsql.Checks(map[string]string{"things_name_short": "length(name) < 10"}),
		entext.PrimaryKey("part", "name"),
	}
}
