-- Runs
WITH clock AS MATERIALIZED (
  SELECT c.at, to_char((c.at) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') AS text, ('@' || lpad(to_hex((extract(epoch from (c.at)) * 1000000::numeric)::bigint # '-9223372036854775808'::bigint), 16, '0')) AS key FROM (SELECT clock_timestamp() AS at) c
),
g1_rows AS MATERIALIZED (
  SELECT u.*, replace(replace(nullif(u.payload, ''), E'\x01', clock.text), E'\x02', CASE WHEN u.later = 0 THEN clock.text ELSE to_char((clock.at + u.later::float8 * interval '1 microsecond') AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') END)::jsonb AS new_payload, replace(replace(u.document_text, E'\x01', clock.text), E'\x02', CASE WHEN u.later = 0 THEN clock.text ELSE to_char((clock.at + u.later::float8 * interval '1 microsecond') AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') END)::jsonb AS document
  FROM clock, unnest($3::text[], $4::bigint[], $5::text[], $6::bigint[], $7::text[], $8::boolean[], $9::bigint[], $10::boolean[], $11::text[], $12::text[], $13::text[], $14::text[], $15::text[], $16::text[], $17::text[], $18::text[]) AS u(id, version, document_text, later, payload, canonical, fence, kept, runs_by_due_partition, runs_by_due_sort, runs_by_lease_expiry_partition, runs_by_lease_expiry_sort, runs_waiting_for_completion_partition, runs_waiting_for_completion_sort, runs_by_retention_partition, runs_by_retention_sort)
),
g1_found AS MATERIALIZED (
  SELECT u.*, found.place
  FROM g1_rows u LEFT JOIN LATERAL (
    SELECT r.ctid AS place FROM "runlane"."runlane_runs" r WHERE r.environment_key = $2 AND r.run_id = u.id AND r.record_version = u.fence LIMIT 1
  ) found ON true
),
g1 AS (
  UPDATE "runlane"."runlane_runs" r
  SET record_version = u.version, record_document = u.document,
    record_payload = CASE WHEN u.kept THEN r.record_payload ELSE u.new_payload END,
    task = v.task, queue = v.queue, status = v.status, priority = v.priority,
    created_at = v.created_at, updated_at = v.updated_at, due_at = v.due_at, lease_expires_at = v.lease_expires_at,
    idempotency_key = v.idempotency_key, singleton_key = v.singleton_key, concurrency_key = v.concurrency_key,
    source_type = v.source_type, source_run_id = v.source_run_id, schedule_id = v.schedule_id, runs_by_due_partition = nullif(u.runs_by_due_partition, ''), runs_by_due_sort = replace(replace(nullif(u.runs_by_due_sort, ''), E'\x01', clock.key), E'\x02', CASE WHEN u.later = 0 THEN clock.key ELSE ('@' || lpad(to_hex((extract(epoch from (clock.at + u.later::float8 * interval '1 microsecond')) * 1000000::numeric)::bigint # '-9223372036854775808'::bigint), 16, '0')) END), runs_by_lease_expiry_partition = nullif(u.runs_by_lease_expiry_partition, ''), runs_by_lease_expiry_sort = replace(replace(nullif(u.runs_by_lease_expiry_sort, ''), E'\x01', clock.key), E'\x02', CASE WHEN u.later = 0 THEN clock.key ELSE ('@' || lpad(to_hex((extract(epoch from (clock.at + u.later::float8 * interval '1 microsecond')) * 1000000::numeric)::bigint # '-9223372036854775808'::bigint), 16, '0')) END), runs_waiting_for_completion_partition = nullif(u.runs_waiting_for_completion_partition, ''), runs_waiting_for_completion_sort = replace(replace(nullif(u.runs_waiting_for_completion_sort, ''), E'\x01', clock.key), E'\x02', CASE WHEN u.later = 0 THEN clock.key ELSE ('@' || lpad(to_hex((extract(epoch from (clock.at + u.later::float8 * interval '1 microsecond')) * 1000000::numeric)::bigint # '-9223372036854775808'::bigint), 16, '0')) END), runs_by_retention_partition = nullif(u.runs_by_retention_partition, ''), runs_by_retention_sort = replace(replace(nullif(u.runs_by_retention_sort, ''), E'\x01', clock.key), E'\x02', CASE WHEN u.later = 0 THEN clock.key ELSE ('@' || lpad(to_hex((extract(epoch from (clock.at + u.later::float8 * interval '1 microsecond')) * 1000000::numeric)::bigint # '-9223372036854775808'::bigint), 16, '0')) END)
  FROM clock, g1_found u LEFT JOIN LATERAL jsonb_to_record(CASE WHEN u.canonical THEN u.document -> 'value'::text END) AS v(
  task text, queue text, status text, priority smallint, created_at timestamptz, updated_at timestamptz, due_at timestamptz,
  lease_expires_at timestamptz, idempotency_key text, singleton_key text, concurrency_key text,
  source_type text, source_run_id text, schedule_id text) ON true
  WHERE r.ctid = u.place AND true
  RETURNING 1
)
SELECT clock.at,
  "runlane"."runlane_assert_record_write"(clock.at < $1::text::timestamptz, 'deadline'),
  "runlane"."runlane_assert_record_write"((SELECT count(*) FROM g1) = pg_catalog.cardinality($3::text[]), 'g1') FROM clock

