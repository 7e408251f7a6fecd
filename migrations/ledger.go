package migrations

import (
	"context"
	"time"

	"ariga.io/atlas/sql/migrate"
	"github.com/jackc/pgx/v5"
)

// operator is how this package names itself in the ledger.
const operator = "runlane"

// createLedger makes the table exactly as the Atlas CLI does, which would
// otherwise see drift.
const createLedger = `CREATE TABLE IF NOT EXISTS "atlas_schema_revisions" (
  "version" character varying NOT NULL,
  "description" character varying NOT NULL,
  "type" bigint NOT NULL DEFAULT 2,
  "applied" bigint NOT NULL DEFAULT 0,
  "total" bigint NOT NULL DEFAULT 0,
  "executed_at" timestamptz NOT NULL,
  "execution_time" bigint NOT NULL,
  "error" text NULL,
  "error_stmt" text NULL,
  "hash" character varying NOT NULL,
  "partial_hashes" jsonb NULL,
  "operator_version" character varying NOT NULL,
  PRIMARY KEY ("version")
)`

// readLedger leaves out the row by which Atlas's cloud knows a database.
const readLedger = `SELECT version, description, type, applied, total, executed_at, execution_time,
  coalesce(error, ''), hash, operator_version
FROM atlas_schema_revisions
WHERE version <> '.atlas_cloud_identifier'
ORDER BY version COLLATE "C"`

const insertRevision = `INSERT INTO atlas_schema_revisions
  (version, description, type, applied, total, executed_at, execution_time, error, error_stmt, hash, partial_hashes, operator_version)
VALUES ($1, $2, $3, $4, $5, $6, $7, '', '', $8, 'null', $9)`

const updateRevision = `UPDATE atlas_schema_revisions
SET applied = $2, executed_at = $3, execution_time = $4, error = $5, error_stmt = $6, operator_version = $7
WHERE version = $1`

// revision is a row of the ledger.
type revision struct {
	version, description string
	kind                 int64
	applied, total       int64
	at                   time.Time
	took                 int64 // nanoseconds
	failure              string
	hash                 string
	operator             string
}

func (r *runner) readRevisions(ctx context.Context, tx pgx.Tx) ([]revision, error) {
	rows, err := tx.Query(ctx, readLedger, r.mode)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (v revision, err error) {
		err = row.Scan(&v.version, &v.description, &v.kind, &v.applied, &v.total, &v.at, &v.took, &v.failure, &v.hash, &v.operator)
		return v, err
	})
}

// writeRevision records a file of which some or all statements have run. The empty
// and null texts are what the CLI leaves in a row.
func (r *runner) writeRevision(ctx context.Context, tx pgx.Tx, m migration, applied int64, took time.Duration) error {
	_, err := tx.Exec(ctx, insertRevision, r.mode, m.Version, m.description, int64(migrate.RevisionTypeExecute),
		applied, int64(m.Statements), time.Now(), int64(took), m.hash, operator)
	return err
}

// updateRevision brings the row of a file that was begun up to date, outside of a
// transaction.
func (r *runner) updateRevision(ctx context.Context, m migration, applied int64, took time.Duration, failure error) error {
	text, statement := "", ""
	if failure != nil {
		text, statement = failure.Error(), m.statements[applied].Text
	}
	_, err := r.conn.Exec(ctx, updateRevision, r.mode, m.Version, applied, time.Now(), int64(took), text, statement, operator)
	return err
}
