-- One group of a commit: new runs of one environment. The payload has its own
-- column; the operator columns of canonical documents are read from the document,
-- whose commit times are filled by then.
-- $1 environment, $2 ids, $3 versions, $4 documents without payload, $5 microseconds after the commit,
-- $6 payloads ('' is none), $7 for each whether it is canonical, then the index pairs
-- locks: the new rows
-- index: the primary key decides what exists
{group}_rows AS MATERIALIZED (
  SELECT u.*, {filled_payload} AS new_payload, {filled} AS document
  FROM clock, unnest($2::text[], $3::bigint[], $4::text[], $5::bigint[], $6::text[], $7::boolean[]{arrays}) AS u(id, version, document_text, later, payload, canonical{names})
),
{group} AS (
  INSERT INTO {table} (environment_key, run_id, record_version, record_document, record_payload,
    task, queue, status, priority, created_at, updated_at, due_at, lease_expires_at,
    idempotency_key, singleton_key, concurrency_key, source_type, source_run_id, schedule_id{columns})
  SELECT {environment}, u.id, u.version, u.document, u.new_payload,
    v.task, v.queue, v.status, v.priority, v.created_at, v.updated_at, v.due_at, v.lease_expires_at,
    v.idempotency_key, v.singleton_key, v.concurrency_key, v.source_type, v.source_run_id, v.schedule_id{values}
  FROM clock, {group}_rows u LEFT JOIN LATERAL {operator_columns} ON true
  WHERE {after}
  ON CONFLICT (environment_key, run_id) DO NOTHING
  RETURNING 1
)
