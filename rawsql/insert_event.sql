-- One group of a commit: new events of one environment.
-- $1 environment, $2 ids, $3 versions, $4 documents, $5 microseconds after the commit,
-- $6 encoded run ids ('' unless canonical), $7 for each whether the typed columns are its index entry,
-- $8 for each whether its payload is the run's, then the index pair ('' if native)
-- locks: the new rows
-- index: the primary key decides what exists
{group}_rows AS MATERIALIZED (
  SELECT u.*, {filled} AS document
  FROM clock, unnest($2::text[], $3::bigint[], $4::text[], $5::bigint[], $6::text[], $7::boolean[], $8::boolean[]{arrays}) AS u(id, version, document_text, later, run_id, native, shared{names})
),
{group} AS (
  INSERT INTO {table} (environment_key, record_id, record_version, record_document, payload_from_run, sequence_index_native,
    run_id, sequence, event_type, occurred_at{columns})
  SELECT {environment}, u.id, u.version, u.document, u.shared, u.native,
    nullif(u.run_id, ''), v.sequence, v.event ->> 'type'::text, (v.event ->> 'at'::text)::timestamptz{values}
  FROM clock, {group}_rows u LEFT JOIN LATERAL
    jsonb_to_record(CASE WHEN u.run_id <> '' THEN u.document -> 'value'::text END) AS v(sequence bigint, event jsonb) ON true
  WHERE {after}
  ON CONFLICT (environment_key, record_id) DO NOTHING
  RETURNING 1
)
