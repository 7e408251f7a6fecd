package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// asker runs single statements on a connection of the pool.
type asker struct {
	conn *pgx.Conn
	mode pgx.QueryExecMode
}

func (d *Driver) ask(conn *pgx.Conn) asker { return asker{conn, d.execMode} }

// Query is pgx's, but for the mode describe_exec: there pgx describes a statement in
// one round trip and runs it in the next, without spelling it again. Behind a pooler
// in transaction mode somebody else's statement may stand in its place by then, and be
// run instead. In a batch pgx spells it again.
func (a asker) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	if a.mode != pgx.QueryExecModeDescribeExec || a.conn.PgConn().TxStatus() != 'I' {
		return a.conn.Query(ctx, sql, args...)
	}
	batch := &pgx.Batch{}
	batch.Queue(sql, args...)
	results := a.conn.SendBatch(ctx, batch)
	rows, err := results.Query()
	if err != nil {
		_ = results.Close() // the first error says why
		return rows, err
	}
	return &batchRows{Rows: rows, results: results}, nil
}

// batchRows are the rows of a batch of one statement.
type batchRows struct {
	pgx.Rows
	results pgx.BatchResults
}

// Close also ends the batch, and with it the use of the connection.
func (r *batchRows) Close() {
	r.Rows.Close()
	_ = r.results.Close() // what the rows did not say, such as a lost connection, the next use does
}
