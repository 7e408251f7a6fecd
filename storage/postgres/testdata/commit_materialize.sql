-- Runs
WITH clock AS MATERIALIZED (
  SELECT c.at, to_char((c.at) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') AS text, ('@' || lpad(to_hex((extract(epoch from (c.at)) * 1000000::numeric)::bigint # '-9223372036854775808'::bigint), 16, '0')) AS key FROM (SELECT clock_timestamp() AS at) c
),
g1_found AS MATERIALIZED (
  SELECT event.place, p.record_payload
  FROM pg_catalog.unnest($3::text[]) AS u(id)
  CROSS JOIN LATERAL (SELECT r.record_payload FROM "runlane"."runlane_runs" r WHERE r.environment_key = $2 AND r.run_id = u.id LIMIT 1) p
  CROSS JOIN LATERAL (
    SELECT r.ctid AS place FROM "runlane"."runlane_record_run_events" r
    WHERE r.environment_key = $2 AND r.run_id = u.id AND r.sequence = 1 AND r.sequence_index_native AND r.payload_from_run
      AND r.record_id <> ALL ($4::text[])
    OFFSET 0
  ) event
),
g1 AS (
  UPDATE "runlane"."runlane_record_run_events" r
  SET payload_from_run = false, record_document = pg_catalog.jsonb_set(r.record_document, ARRAY['value', 'event', 'payload'], u.record_payload)
  FROM g1_found u
  WHERE r.ctid = u.place AND true
  RETURNING 1
),
g2_rows AS MATERIALIZED (
  SELECT u.*, replace(replace(nullif(u.payload, ''), E'\x01', clock.text), E'\x02', CASE WHEN u.later = 0 THEN clock.text ELSE to_char((clock.at + u.later::float8 * interval '1 microsecond') AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') END)::jsonb AS new_payload, replace(replace(u.document_text, E'\x01', clock.text), E'\x02', CASE WHEN u.later = 0 THEN clock.text ELSE to_char((clock.at + u.later::float8 * interval '1 microsecond') AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') END)::jsonb AS document
  FROM clock, unnest($6::text[], $7::bigint[], $8::text[], $9::bigint[], $10::text[], $11::boolean[], $12::bigint[], $13::boolean[], $14::text[], $15::text[], $16::text[], $17::text[], $18::text[], $19::text[], $20::text[], $21::text[]) AS u(id, version, document_text, later, payload, canonical, fence, kept, runs_by_due_partition, runs_by_due_sort, runs_by_lease_expiry_partition, runs_by_lease_expiry_sort, runs_waiting_for_completion_partition, runs_waiting_for_completion_sort, runs_by_retention_partition, runs_by_retention_sort)
),
g2_found AS MATERIALIZED (
  SELECT u.*, found.place
  FROM g2_rows u LEFT JOIN LATERAL (
    SELECT r.ctid AS place FROM "runlane"."runlane_runs" r WHERE r.environment_key = $5 AND r.run_id = u.id AND r.record_version = u.fence LIMIT 1
  ) found ON true
),
g2 AS (
  UPDATE "runlane"."runlane_runs" r
  SET record_version = u.version, record_document = u.document,
    record_payload = CASE WHEN u.kept THEN r.record_payload ELSE u.new_payload END,
    task = v.task, queue = v.queue, status = v.status, priority = v.priority,
    created_at = v.created_at, updated_at = v.updated_at, due_at = v.due_at, lease_expires_at = v.lease_expires_at,
    idempotency_key = v.idempotency_key, singleton_key = v.singleton_key, concurrency_key = v.concurrency_key,
    source_type = v.source_type, source_run_id = v.source_run_id, schedule_id = v.schedule_id, runs_by_due_partition = nullif(u.runs_by_due_partition, ''), runs_by_due_sort = replace(replace(nullif(u.runs_by_due_sort, ''), E'\x01', clock.key), E'\x02', CASE WHEN u.later = 0 THEN clock.key ELSE ('@' || lpad(to_hex((extract(epoch from (clock.at + u.later::float8 * interval '1 microsecond')) * 1000000::numeric)::bigint # '-9223372036854775808'::bigint), 16, '0')) END), runs_by_lease_expiry_partition = nullif(u.runs_by_lease_expiry_partition, ''), runs_by_lease_expiry_sort = replace(replace(nullif(u.runs_by_lease_expiry_sort, ''), E'\x01', clock.key), E'\x02', CASE WHEN u.later = 0 THEN clock.key ELSE ('@' || lpad(to_hex((extract(epoch from (clock.at + u.later::float8 * interval '1 microsecond')) * 1000000::numeric)::bigint # '-9223372036854775808'::bigint), 16, '0')) END), runs_waiting_for_completion_partition = nullif(u.runs_waiting_for_completion_partition, ''), runs_waiting_for_completion_sort = replace(replace(nullif(u.runs_waiting_for_completion_sort, ''), E'\x01', clock.key), E'\x02', CASE WHEN u.later = 0 THEN clock.key ELSE ('@' || lpad(to_hex((extract(epoch from (clock.at + u.later::float8 * interval '1 microsecond')) * 1000000::numeric)::bigint # '-9223372036854775808'::bigint), 16, '0')) END), runs_by_retention_partition = nullif(u.runs_by_retention_partition, ''), runs_by_retention_sort = replace(replace(nullif(u.runs_by_retention_sort, ''), E'\x01', clock.key), E'\x02', CASE WHEN u.later = 0 THEN clock.key ELSE ('@' || lpad(to_hex((extract(epoch from (clock.at + u.later::float8 * interval '1 microsecond')) * 1000000::numeric)::bigint # '-9223372036854775808'::bigint), 16, '0')) END)
  FROM clock, g2_found u LEFT JOIN LATERAL jsonb_to_record(CASE WHEN u.canonical THEN u.document -> 'value'::text END) AS v(
  task text, queue text, status text, priority smallint, created_at timestamptz, updated_at timestamptz, due_at timestamptz,
  lease_expires_at timestamptz, idempotency_key text, singleton_key text, concurrency_key text,
  source_type text, source_run_id text, schedule_id text) ON true
  WHERE r.ctid = u.place AND (SELECT count(*) FROM g1) >= 0
  RETURNING 1
)
SELECT clock.at,
  "runlane"."runlane_assert_record_write"(clock.at < $1::text::timestamptz, 'deadline'),
  "runlane"."runlane_assert_record_write"((SELECT count(*) FROM g1) = (SELECT count(*) FROM g1_found), 'g1'),
  "runlane"."runlane_assert_record_write"((SELECT count(*) FROM g2) = pg_catalog.cardinality($6::text[]), 'g2') FROM clock

