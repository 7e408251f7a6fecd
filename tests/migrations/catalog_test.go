// Package migrations_test compares a migrated database with the declarations of
// ent/schema, in three independent ways: object by object with what is declared,
// and, as a whole, through the catalog and through pg_dump, with a database that is
// made from the declarations.
package migrations_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"entgo.io/ent/dialect"
	"entgo.io/ent/dialect/sql/schema"
	"entgo.io/ent/schema/field"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/ent/entext"
	"github.com/seed4391e180/runlane/internal/pgtest"
	"github.com/seed4391e180/runlane/storage"
)

// load builds and runs a program, so it is done once.
var load = sync.OnceValues(func() ([]*schema.Table, error) { return entext.Load("../../ent/schema") })

// declared returns the tables of ent/schema, sorted by name.
func declared(t *testing.T) []*schema.Table {
	t.Helper()
	tables, err := load()
	require.NoError(t, err)
	tables = slices.Clone(tables)
	slices.SortFunc(tables, func(a, b *schema.Table) int { return strings.Compare(a.Name, b.Name) })
	return tables
}

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(t.Context())) })
	return conn
}

// column reads one column of a query as text.
func column(t *testing.T, conn *pgx.Conn, sql string, args ...any) []string {
	t.Helper()
	rows, err := conn.Query(t.Context(), sql, args...)
	require.NoError(t, err)
	list, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	slices.Sort(list)
	return list
}

func sql(t *testing.T, conn *pgx.Conn, text string) {
	t.Helper()
	_, err := conn.Exec(t.Context(), text)
	require.NoError(t, err, text)
}

// tableOf is the mechanical name of a collection's table.
func tableOf(c storage.Collection) string {
	if c == storage.Runs {
		return "runlane_runs"
	}
	return "runlane_record_" + storage.SnakeCase(c.String())
}

// Nothing in the declarations is missing, extra or misspelt: the contract's closed
// sets give the names.
func TestDeclarationsFollowTheContract(t *testing.T) {
	tables := make(map[string]*schema.Table)
	for _, table := range declared(t) {
		tables[table.Name] = table
	}
	require.Len(t, tables, len(storage.Collections()))
	for _, c := range storage.Collections() {
		table := tables[tableOf(c)]
		require.NotNil(t, table, "collection %s has no table %s", c, tableOf(c))

		key := []string{"partition_key", "record_id"}
		switch c {
		case storage.Runs:
			key = []string{"environment_key", "run_id"}
		case storage.RunEvents:
			key = []string{"environment_key", "record_id"}
		}
		require.Equal(t, key, columnNames(table.PrimaryKey), table.Name)
		for name, kind := range map[string]string{"record_version": "bigint", "record_document": "jsonb"} {
			found, ok := table.Column(name)
			require.True(t, ok && !found.Nullable && typeOf(t, found) == kind, "%s.%s", table.Name, name)
		}

		var pairs []string
		for _, ix := range storage.IndexesOn(c) {
			name := storage.SnakeCase(ix.String())
			pair := []string{name + "_partition", name + "_sort"}
			pairs = append(pairs, pair...)
			at := slices.IndexFunc(table.Indexes, func(x *schema.Index) bool { return x.Name == "runlane_"+name })
			require.GreaterOrEqual(t, at, 0, "%s has no index runlane_%s", table.Name, name)
			require.Equal(t, append(pair, key[1]), columnNames(table.Indexes[at].Columns), name)
			require.Equal(t, name+"_partition IS NOT NULL", table.Indexes[at].Annotation.Where)
			require.Contains(t, table.Annotation.Checks, name+"_pair")
		}
		for _, c := range table.Columns {
			if strings.HasSuffix(c.Name, "_partition") || strings.HasSuffix(c.Name, "_sort") {
				require.Contains(t, pairs, c.Name, "%s has a pair that belongs to no index", table.Name)
			}
		}
	}
}

// All text of the contract compares byte by byte, and a unique index begins with
// the environment, so that tables can be distributed by it.
func TestDeclarationsKeepTheirHabits(t *testing.T) {
	for _, table := range declared(t) {
		for _, c := range table.Columns {
			if typeOf(t, c) == "text" {
				require.Equal(t, "C", c.Collation, "%s.%s", table.Name, c.Name)
			}
		}
		for _, ix := range table.Indexes {
			require.True(t, strings.HasPrefix(ix.Name, "runlane_"), ix.Name)
			require.LessOrEqual(t, len(ix.Name), 63)
			require.NotNil(t, ix.Annotation, "%s is not partial", ix.Name)
			require.NotEmpty(t, ix.Annotation.Where, "%s is not partial", ix.Name)
			if ix.Unique {
				require.Equal(t, table.PrimaryKey[0].Name, ix.Columns[0].Name, ix.Name)
			}
		}
	}
}

func TestCatalogMatchesTheDeclarations(t *testing.T) {
	conn := connect(t, pgtest.New(t).URL)
	tables := declared(t)

	wantRelations := []string{"r atlas_schema_revisions", "S runlane_record_versions"}
	for _, table := range tables {
		wantRelations = append(wantRelations, "r "+table.Name)
	}
	slices.Sort(wantRelations)
	require.Equal(t, wantRelations, column(t, conn, `SELECT relkind::text || ' ' || relname FROM pg_class
WHERE relnamespace = 'runlane'::regnamespace AND relkind NOT IN ('i', 't')`))
	require.Equal(t, []string{"runlane_assert_record_write"}, column(t, conn, `SELECT proname::text FROM pg_proc WHERE pronamespace = 'runlane'::regnamespace`))
	require.Empty(t, column(t, conn, `SELECT tgname::text FROM pg_trigger`))
	require.Equal(t, []string{"public", "runlane"}, column(t, conn, `SELECT nspname::text FROM pg_namespace
WHERE nspname NOT LIKE 'pg\_%' AND nspname <> 'information_schema'`))

	sql(t, conn, "CREATE SCHEMA declared")
	for _, table := range tables {
		t.Run(table.Name, func(t *testing.T) {
			redeclare(t, conn, table)
			require.Equal(t, wantColumns(t, table), column(t, conn, columnsOf, "runlane."+table.Name))
			require.Equal(t, []string{strings.Join(columnNames(table.PrimaryKey), ",")}, column(t, conn, primaryKeyOf, "runlane."+table.Name))
			require.Equal(t, wantIndexes(table), column(t, conn, indexesOf, "runlane."+table.Name))
			require.Equal(t, column(t, conn, expressionsOf, "declared."+table.Name), column(t, conn, expressionsOf, "runlane."+table.Name))
		})
	}
}

const columnsOf = `SELECT format('%s %s %s null=%s default=%s', a.attname, format_type(a.atttypid, a.atttypmod),
  coalesce(c.collname, '-'), NOT a.attnotnull, coalesce(pg_get_expr(d.adbin, d.adrelid), '-'))
FROM pg_attribute a LEFT JOIN pg_collation c ON c.oid = a.attcollation
LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
WHERE a.attrelid = $1::text::regclass AND a.attnum > 0 AND NOT a.attisdropped`

const primaryKeyOf = `SELECT string_agg(a.attname, ',' ORDER BY k.at) FROM pg_constraint c
CROSS JOIN unnest(c.conkey) WITH ORDINALITY AS k (col, at) JOIN pg_attribute a ON a.attrelid = c.conrelid AND a.attnum = k.col
WHERE c.contype = 'p' AND c.conrelid = $1::text::regclass GROUP BY c.oid`

const indexesOf = `SELECT format('%s unique=%s valid=%s %s (%s) %s', i.relname, x.indisunique, x.indisvalid, m.amname,
  (SELECT string_agg(pg_get_indexdef(x.indexrelid, n, true), ',' ORDER BY n) FROM generate_series(1, x.indnatts) AS n), coalesce(i.reloptions::text, '-'))
FROM pg_index x JOIN pg_class i ON i.oid = x.indexrelid JOIN pg_am m ON m.oid = i.relam
WHERE x.indrelid = $1::text::regclass AND NOT x.indisprimary`

// expressionsOf gives the predicates and checks in the server's own spelling.
const expressionsOf = `SELECT i.relname || ' WHERE ' || coalesce(pg_get_expr(x.indpred, x.indrelid), '-')
FROM pg_index x JOIN pg_class i ON i.oid = x.indexrelid WHERE x.indrelid = $1::text::regclass AND NOT x.indisprimary
UNION ALL
SELECT conname || ' ' || convalidated || ' ' || pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid = $1::text::regclass AND contype <> 'p'`

// redeclare makes a table of the same name in another schema, with the predicates
// and checks as they are declared, so that the server spells both alike.
func redeclare(t *testing.T, conn *pgx.Conn, table *schema.Table) {
	t.Helper()
	sql(t, conn, fmt.Sprintf("CREATE TABLE declared.%s (LIKE runlane.%[1]s)", table.Name))
	for name, expr := range table.Annotation.Checks {
		sql(t, conn, fmt.Sprintf("ALTER TABLE declared.%s ADD CONSTRAINT %s CHECK (%s)", table.Name, name, expr))
	}
	for _, ix := range table.Indexes {
		sql(t, conn, fmt.Sprintf("CREATE INDEX %s ON declared.%s (%s) WHERE %s", ix.Name, table.Name,
			strings.Join(columnNames(ix.Columns), ", "), ix.Annotation.Where))
	}
}

func wantColumns(t *testing.T, table *schema.Table) []string {
	t.Helper()
	var list []string
	for _, c := range table.Columns {
		collation := "-"
		if c.Collation != "" {
			collation = c.Collation
		}
		value := "-"
		if c.Default != nil {
			value = fmt.Sprint(c.Default)
			if e, ok := c.Default.(schema.Expr); ok {
				value = string(e)
			}
		}
		null := "f"
		if c.Nullable {
			null = "t"
		}
		list = append(list, fmt.Sprintf("%s %s %s null=%s default=%s", c.Name, typeOf(t, c), collation, null, value))
	}
	slices.Sort(list)
	return list
}

func wantIndexes(table *schema.Table) []string {
	list := []string{}
	for _, ix := range table.Indexes {
		unique := "f"
		if ix.Unique {
			unique = "t"
		}
		list = append(list, fmt.Sprintf("%s unique=%s valid=t btree (%s) -", ix.Name, unique, strings.Join(columnNames(ix.Columns), ",")))
	}
	slices.Sort(list)
	return list
}

// typeOf is the name that the server gives to a column's type.
func typeOf(t *testing.T, c *schema.Column) string {
	t.Helper()
	name := c.SchemaType[dialect.Postgres]
	if name == "" {
		name = map[field.Type]string{field.TypeInt64: "bigint", field.TypeInt16: "smallint", field.TypeBool: "boolean"}[c.Type]
	}
	if name == "timestamptz" {
		name = "timestamp with time zone"
	}
	require.NotEmpty(t, name, "column %s has the type %s, which has no agreed PostgreSQL type", c.Name, c.Type)
	return name
}

func columnNames(columns []*schema.Column) []string {
	list := make([]string, len(columns))
	for i, c := range columns {
		list[i] = c.Name
	}
	return list
}
