package postgres

import (
	"context"
	stdsql "database/sql"
	"errors"
	"fmt"

	"entgo.io/ent/dialect"
	"entgo.io/ent/dialect/sql"
	"github.com/jackc/pgx/v5"
)

// querier is what generated ent queries run on: a pool, a connection or a transaction.
type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// entDriver runs generated ent queries on pgx, without database/sql in between. It
// reads only, and owns nothing.
type entDriver struct{ q querier }

// asking is a querier whose rows are scanned by hand: the generated query is sent, and
// sees no row. Scanning a page is most of what it costs in the client, and the generated
// code allocates each value of each row twice.
type asking struct {
	querier
	scan func(pgx.Rows) error
}

var errReadOnly = errors.New("storage/postgres: the ent client only runs queries")

func (entDriver) Dialect() string                              { return dialect.Postgres }
func (entDriver) Close() error                                 { return nil }
func (entDriver) Tx(context.Context) (dialect.Tx, error)       { return nil, errReadOnly }
func (entDriver) Exec(context.Context, string, any, any) error { return errReadOnly }

func (d entDriver) Query(ctx context.Context, query string, args, v any) error {
	dst, ok := v.(*sql.Rows)
	if !ok {
		return fmt.Errorf("storage/postgres: unexpected ent result %T", v)
	}
	argv, ok := args.([]any)
	if !ok {
		return fmt.Errorf("storage/postgres: unexpected ent arguments %T", args)
	}
	rows, err := d.q.Query(ctx, query, argv...)
	if err != nil {
		return err
	}
	if by, ok := d.q.(asking); ok {
		*dst = sql.Rows{ColumnScanner: noRows{}}
		return scanAll(rows, by.scan)
	}
	*dst = sql.Rows{ColumnScanner: entRows{rows}}
	return nil
}

// noRows is what the generated code sees of rows that are scanned by hand.
type noRows struct{ sql.ColumnScanner }

func (noRows) Close() error               { return nil }
func (noRows) Columns() ([]string, error) { return nil, nil }
func (noRows) Err() error                 { return nil }
func (noRows) Next() bool                 { return false }

// entRows adapts pgx.Rows to ent's column scanner.
type entRows struct{ pgx.Rows }

func (r entRows) Close() error {
	r.Rows.Close()
	return r.Err()
}

func (r entRows) Columns() ([]string, error) {
	fields := r.FieldDescriptions()
	names := make([]string, len(fields))
	for i := range fields {
		names[i] = fields[i].Name
	}
	return names, r.Err()
}

func (entRows) NextResultSet() bool { return false }

// ColumnTypes is only asked for columns that the schema does not know.
func (entRows) ColumnTypes() ([]*stdsql.ColumnType, error) { return nil, errReadOnly }
