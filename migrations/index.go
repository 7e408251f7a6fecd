package migrations

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// index is what the schema has under the name of an index.
type index struct{ exists, valid bool }

const findIndex = `SELECT i.indisvalid
FROM pg_catalog.pg_index i
JOIN pg_catalog.pg_class c ON c.oid = i.indexrelid
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = $1 AND c.relname = $2`

func (r *runner) findIndex(ctx context.Context, tx pgx.Tx, name string) (index, error) {
	rows, err := tx.Query(ctx, findIndex, r.mode, r.schema, name)
	if err != nil {
		return index{}, r.wrap(err, "", "look for the index", "")
	}
	found, err := pgx.CollectRows(rows, pgx.RowTo[bool])
	if err != nil {
		return index{}, r.wrap(err, "", "look for the index", "")
	}
	return index{exists: len(found) > 0, valid: len(found) > 0 && found[0]}, nil
}

// invalidIndexes lists what builds left behind, whoever began them. An application's
// own tables in the schema are its own business.
const invalidIndexes = `SELECT c.relname::text
FROM pg_catalog.pg_index i
JOIN pg_catalog.pg_class c ON c.oid = i.indexrelid
JOIN pg_catalog.pg_class t ON t.oid = i.indrelid
JOIN pg_catalog.pg_namespace n ON n.oid = t.relnamespace
WHERE n.nspname = $1 AND NOT i.indisvalid AND pg_catalog.starts_with(t.relname::text, 'runlane_')
ORDER BY 1`

func (r *runner) invalidIndexes(ctx context.Context, tx pgx.Tx) ([]string, error) {
	rows, err := tx.Query(ctx, invalidIndexes, r.mode, r.schema)
	if err != nil {
		return nil, r.wrap(err, "", "look for invalid indexes", "")
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, r.wrap(err, "", "look for invalid indexes", "")
	}
	return names, nil
}
