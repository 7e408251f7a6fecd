-- One group of a commit: new documents for events of one environment. The payload
-- stands in the document from now on, whatever it shared before.
-- $1 environment, $2 ids, $3 versions, $4 documents, $5 microseconds after the commit,
-- $6 encoded run ids ('' unless canonical), $7 for each whether the typed columns are its index entry,
-- $8 fences, then the index pair ('' if native)
-- locks: the rows
-- index: the primary key
--
-- Rows are looked up one by one by their whole key and then written where they were
-- found: a join may scan a whole environment until there are statistics. What is not
-- found has no place, and is missed in the count.
{group}_rows AS MATERIALIZED (
  SELECT u.*, {filled} AS document
  FROM clock, unnest($2::text[], $3::bigint[], $4::text[], $5::bigint[], $6::text[], $7::boolean[], $8::bigint[]{arrays}) AS u(id, version, document_text, later, run_id, native, fence{names})
),
{group}_found AS MATERIALIZED (
  SELECT u.*, found.place
  FROM {group}_rows u LEFT JOIN LATERAL (
    SELECT r.ctid AS place FROM {table} r WHERE r.environment_key = {environment} AND r.record_id = u.id AND r.record_version = u.fence LIMIT 1
  ) found ON true
),
{group} AS (
  UPDATE {table} r
  SET record_version = u.version, record_document = u.document, payload_from_run = false, sequence_index_native = u.native,
    run_id = nullif(u.run_id, ''), sequence = v.sequence, event_type = v.event ->> 'type'::text, occurred_at = (v.event ->> 'at'::text)::timestamptz{assignments}
  FROM clock, {group}_found u LEFT JOIN LATERAL
    jsonb_to_record(CASE WHEN u.run_id <> '' THEN u.document -> 'value'::text END) AS v(sequence bigint, event jsonb) ON true
  WHERE r.ctid = u.place AND {after}
  RETURNING 1
)
