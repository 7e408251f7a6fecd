package migrations

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
)

const ledgerTable = "atlas_schema_revisions"

// listObjects names every table, view, sequence and function of the schema, with
// the columns of the ledger.
const listObjects = `SELECT c.relname::text, CASE WHEN c.relname = 'atlas_schema_revisions' THEN
    ARRAY(SELECT a.attname::text FROM pg_catalog.pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped)
  ELSE '{}' END
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = $1 AND c.relkind IN ('r', 'p', 'v', 'm', 'f', 'S')
UNION ALL
SELECT p.proname::text, '{}'
FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace
WHERE n.nspname = $1
ORDER BY 1`

// ledgerColumns are those that this package reads and writes.
var ledgerColumns = []string{"version", "description", "type", "applied", "total", "executed_at", "execution_time",
	"error", "error_stmt", "hash", "partial_hashes", "operator_version"}

// otherLedgers are the tables in which other tools remember what they applied.
var otherLedgers = map[string]string{
	"schema_migrations":     "golang-migrate, dbmate or Rails",
	"goose_db_version":      "goose",
	"gorp_migrations":       "sql-migrate",
	"flyway_schema_history": "Flyway",
	"databasechangelog":     "Liquibase",
	"alembic_version":       "Alembic",
	"django_migrations":     "Django",
	"knex_migrations":       "Knex",
	"_prisma_migrations":    "Prisma",
	"__drizzle_migrations":  "Drizzle",
	"schema_version":        "tern",
}

// contents is what a schema holds, as far as migrations care.
type contents struct {
	ledger bool
	ours   []string // objects whose names begin with runlane_
	other  string   // another tool's ledger
}

func (r *runner) contents(ctx context.Context, tx pgx.Tx) (contents, error) {
	rows, err := tx.Query(ctx, listObjects, r.mode, r.schema)
	if err != nil {
		return contents{}, r.wrap(err, "", "list the schema", "")
	}
	var (
		c       contents
		name    string
		columns []string
	)
	_, err = pgx.ForEachRow(rows, []any{&name, &columns}, func() error {
		switch {
		case name == ledgerTable:
			c.ledger = true
			return r.checkLedger(columns)
		case strings.HasPrefix(name, "runlane_"):
			c.ours = append(c.ours, name)
		case otherLedgers[name] != "":
			c.other = name
		}
		return nil
	})
	if refused := (*Error)(nil); err != nil && !errors.As(err, &refused) {
		err = r.wrap(err, "", "list the schema", "")
	}
	return c, err
}

func (r *runner) checkLedger(columns []string) error {
	has := make(map[string]bool, len(columns))
	for _, c := range columns {
		has[c] = true
	}
	for _, c := range ledgerColumns {
		if !has[c] {
			return &Error{Kind: ErrForeign, Schema: r.schema, File: ledgerTable,
				Detail: fmt.Sprintf("the table has no column %q, so it is not Atlas's ledger", c), Mend: ownSchema}
		}
	}
	return nil
}

const ownSchema = "give runlane a schema of its own"

// checkOurs refuses a schema that something other than this directory has written
// to. known says whether a revision of the ledger is a file of the directory.
func (r *runner) checkOurs(c contents, revisions []revision, known bool) error {
	refuse := func(file, detail, mend string) error {
		return &Error{Kind: ErrForeign, Schema: r.schema, File: file, Detail: detail, Mend: mend}
	}
	switch {
	case known:
		return nil
	case len(revisions) > 0 && len(c.ours) == 0:
		return refuse(ledgerTable, "the ledger has only migrations of another project, such as "+revisions[0].version, ownSchema)
	case len(revisions) > 0:
		return nil // our tables, a ledger that knows none of our files: the history says how it deviates
	case len(c.ours) > 0:
		return refuse(c.ours[0], "the schema has objects of runlane, but no ledger says which migrations made them",
			"restore atlas_schema_revisions with the tables, or use an empty schema; nothing is adopted")
	case c.other != "":
		return refuse(c.other, "the schema has the ledger of another tool ("+otherLedgers[c.other]+")", ownSchema)
	}
	return nil
}
