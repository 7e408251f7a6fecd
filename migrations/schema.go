package migrations

import (
	"context"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
)

// maxIdentifier is what PostgreSQL keeps of a name; it silently cuts off the rest.
const maxIdentifier = 63

// checkSchemaName refuses what cannot be a schema, or cannot be named in a search
// path, before it reaches the server.
func checkSchemaName(name string) error {
	refuse := func(detail string) error {
		return &Error{Kind: ErrSchemaName, Schema: name, Detail: detail, Mend: "choose another name"}
	}
	switch {
	case len(name) > maxIdentifier:
		return refuse(fmt.Sprintf("it has %d bytes, PostgreSQL keeps %d", len(name), maxIdentifier))
	case !utf8.ValidString(name) || strings.ContainsRune(name, 0):
		return refuse("it is not text that PostgreSQL can store")
	case strings.HasPrefix(name, "pg_"):
		return refuse(`names that begin with "pg_" belong to PostgreSQL`)
	case name == "$user":
		return refuse("a search path reads it as the name of the current user")
	}
	return nil
}

// quote makes an identifier of a name.
func quote(name string) string { return pgx.Identifier{name}.Sanitize() }

const findSchema = `SELECT pg_catalog.has_schema_privilege(n.oid, 'USAGE'), pg_catalog.has_schema_privilege(n.oid, 'CREATE')
FROM pg_catalog.pg_namespace n WHERE n.nspname = $1`

// access is what the role may do in the schema.
type access struct{ exists, usage, create bool }

func (r *runner) findSchema(ctx context.Context, tx pgx.Tx) (access, error) {
	rows, err := tx.Query(ctx, findSchema, r.mode, r.schema)
	if err != nil {
		return access{}, r.wrap(err, "", "look for the schema", "")
	}
	found, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (access, error) {
		a := access{exists: true}
		err := row.Scan(&a.usage, &a.create)
		return a, err
	})
	if err != nil {
		return access{}, r.wrap(err, "", "look for the schema", "")
	}
	if len(found) == 0 {
		return access{}, nil
	}
	return found[0], nil
}

// searchPath makes the schema the place of all unqualified names. Temporary tables
// come last, so that none can stand in for a table of the schema.
func searchPath(schema string) string { return quote(schema) + ", pg_temp" }

// useSchema sets the search path until the end of the transaction.
func (r *runner) useSchema(ctx context.Context, tx pgx.Tx) error {
	_, err := tx.Exec(ctx, `SELECT pg_catalog.set_config('search_path', $1::text, true)`, r.mode, searchPath(r.schema))
	if err != nil {
		return r.wrap(err, "", "set the search path", "")
	}
	return nil
}

// createSchema makes the schema; IF NOT EXISTS would not help a role that may not,
// since the server looks at the permission first.
func (r *runner) createSchema(ctx context.Context, tx pgx.Tx) error {
	if _, err := tx.Exec(ctx, "CREATE SCHEMA "+quote(r.schema)); err != nil {
		return r.wrap(err, "", "the schema does not exist",
			"let an administrator create it and give it to the role: CREATE SCHEMA "+quote(r.schema)+" AUTHORIZATION …")
	}
	return nil
}

// mayUse refuses a role that cannot see into the schema, which the search path
// would otherwise pass over in silence.
func (r *runner) mayUse(a access) error {
	if a.usage {
		return nil
	}
	return &Error{Kind: ErrPermission, Schema: r.schema, Detail: "the role may not use the schema",
		Mend: "GRANT USAGE ON SCHEMA " + quote(r.schema) + " TO …"}
}

// mayCreate refuses a role that cannot create tables in the schema.
func (r *runner) mayCreate(a access) error {
	if a.create {
		return nil
	}
	return &Error{Kind: ErrPermission, Schema: r.schema, Detail: "the role may not create tables in the schema",
		Mend: "GRANT CREATE ON SCHEMA " + quote(r.schema) + " TO …, or migrate as its owner"}
}
