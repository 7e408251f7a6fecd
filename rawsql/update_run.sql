-- One group of a commit: new documents and entries for runs of one environment.
-- A payload that did not change keeps its datum, so that it is not written again.
-- Operator columns are rewritten as a whole; a document that is not canonical clears them.
-- $1 environment, $2 ids, $3 versions, $4 documents without payload, $5 microseconds after the commit,
-- $6 payloads ('' is none), $7 for each whether it is canonical, $8 fences, $9 for each whether it has the payload that was read, then the index pairs
-- locks: the rows
-- index: the primary key
--
-- Rows are looked up one by one by their whole key and then written where they were
-- found: a join may scan a whole environment until there are statistics. What is not
-- found has no place, and is missed in the count.
{group}_rows AS MATERIALIZED (
  SELECT u.*, {filled_payload} AS new_payload, {filled} AS document
  FROM clock, unnest($2::text[], $3::bigint[], $4::text[], $5::bigint[], $6::text[], $7::boolean[], $8::bigint[], $9::boolean[]{arrays}) AS u(id, version, document_text, later, payload, canonical, fence, kept{names})
),
{group}_found AS MATERIALIZED (
  SELECT u.*, found.place
  FROM {group}_rows u LEFT JOIN LATERAL (
    SELECT r.ctid AS place FROM {table} r WHERE r.environment_key = {environment} AND r.run_id = u.id AND r.record_version = u.fence LIMIT 1
  ) found ON true
),
{group} AS (
  UPDATE {table} r
  SET record_version = u.version, record_document = u.document,
    record_payload = CASE WHEN u.kept THEN r.record_payload ELSE u.new_payload END,
    task = v.task, queue = v.queue, status = v.status, priority = v.priority,
    created_at = v.created_at, updated_at = v.updated_at, due_at = v.due_at, lease_expires_at = v.lease_expires_at,
    idempotency_key = v.idempotency_key, singleton_key = v.singleton_key, concurrency_key = v.concurrency_key,
    source_type = v.source_type, source_run_id = v.source_run_id, schedule_id = v.schedule_id{assignments}
  FROM clock, {group}_found u LEFT JOIN LATERAL {operator_columns} ON true
  WHERE r.ctid = u.place AND {after}
  RETURNING 1
)
