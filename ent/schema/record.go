// Package schema is the only place where a table, a column or an index of
// runlane is declared. Migrations are planned from it and the read client of
// operator queries is generated from it; what ent cannot declare (a sequence, a
// function, storage parameters) stands beside it in objects.sql.
//
// Three habits keep the declarations honest:
//
//   - Defaults are entsql.DefaultExpr, never Default: a Go default would make
//     the generated client import this package, and ent's code generator with it.
//   - Text of the contract is text COLLATE "C", because the order of encoded
//     keys is the order of their bytes.
//   - Names are mechanical. The tests derive the names of tables, columns and
//     indexes from the collections and compare them with a live catalog.
package schema

import (
	"encoding/json"

	"entgo.io/ent"
	"entgo.io/ent/dialect"
	"entgo.io/ent/dialect/entsql"
	"entgo.io/ent/schema"
	"entgo.io/ent/schema/field"
	"entgo.io/ent/schema/index"
	"entgo.io/ent/schema/mixin"

	"github.com/seed4391e180/runlane/ent/entext"
)

func init() { entext.RequireOwnLoader() }

var (
	jsonbType = map[string]string{dialect.Postgres: "jsonb"}
	textType  = map[string]string{dialect.Postgres: "text"}
	timeType  = map[string]string{dialect.Postgres: "timestamptz"}

	bytewise = &entsql.Annotation{Collation: "C"}
)

// text is a column of contract text: it compares byte by byte.
func text(name string) ent.Field {
	return field.String(name).SchemaType(textType).Annotations(bytewise)
}

// optionalText is [text] that may be null.
func optionalText(name string) ent.Field {
	return field.String(name).SchemaType(textType).Annotations(bytewise).Optional().Nillable()
}

// optionalTime is a timestamptz with microseconds that may be null.
func optionalTime(name string) ent.Field {
	return field.Time(name).SchemaType(timeType).Optional().Nillable()
}

// record is what the tables of all collections have in common: a two-column
// key, a version, a document, and for each named index a pair of columns with
// the encoded partition and sort value.
type record struct {
	mixin.Schema
	table   string
	key     [2]string
	indexes []string
}

// collection is the record of an ordinary collection: its table is
// runlane_record_<name>, its key (partition_key, record_id).
func collection(name string, indexes ...string) ent.Mixin {
	return record{
		table:   "runlane_record_" + name,
		key:     [2]string{"partition_key", "record_id"},
		indexes: indexes,
	}
}

func (r record) Fields() []ent.Field {
	fields := []ent.Field{
		text(r.key[0]),
		text(r.key[1]),
		field.Int64("record_version"),
		// Bytes, not field.JSON: ent would decode and copy each document it reads.
		field.Bytes("record_document").GoType(json.RawMessage{}).SchemaType(jsonbType),
	}
	for _, name := range r.indexes {
		fields = append(fields, optionalText(name+"_partition"), optionalText(name+"_sort"))
	}
	return fields
}

// Indexes declares one B-tree for each named index. It ends in the record key,
// so that records with equal sort values have a stable order, and leaves out
// records that have no entry. The key's first column is missing on purpose: the
// partition value already contains the environment.
func (r record) Indexes() []ent.Index {
	indexes := make([]ent.Index, 0, len(r.indexes))
	for _, name := range r.indexes {
		indexes = append(indexes, index.Fields(name+"_partition", name+"_sort", r.key[1]).
			StorageKey("runlane_"+name).
			Annotations(entsql.IndexWhere(name+"_partition IS NOT NULL")))
	}
	return indexes
}

// Annotations declares the table, its key, and for each named index a check
// that refuses half a pair.
func (r record) Annotations() []schema.Annotation {
	checks := make(map[string]string, len(r.indexes))
	for _, name := range r.indexes {
		checks[name+"_pair"] = "(" + name + "_partition IS NULL) = (" + name + "_sort IS NULL)"
	}
	return []schema.Annotation{
		entsql.Table(r.table),
		entsql.Checks(checks),
		entext.PrimaryKey(r.key[0], r.key[1]),
	}
}
