-- runs that are created
WITH clock AS MATERIALIZED (
  SELECT c.at, to_char((c.at) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') AS text, ('@' || lpad(to_hex((extract(epoch from (c.at)) * 1000000::numeric)::bigint # '-9223372036854775808'::bigint), 16, '0')) AS key FROM (SELECT clock_timestamp() AS at) c
),
g1_rows AS MATERIALIZED (
  SELECT u.*, replace(replace(nullif(u.payload, ''), E'\x01', clock.text), E'\x02', CASE WHEN u.later = 0 THEN clock.text ELSE to_char((clock.at + u.later::float8 * interval '1 microsecond') AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') END)::jsonb AS new_payload, replace(replace(u.document_text, E'\x01', clock.text), E'\x02', CASE WHEN u.later = 0 THEN clock.text ELSE to_char((clock.at + u.later::float8 * interval '1 microsecond') AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') END)::jsonb AS document
  FROM clock, unnest($3::text[], $4::bigint[], $5::text[], $6::bigint[], $7::text[], $8::boolean[], $9::text[], $10::text[], $11::text[], $12::text[], $13::text[], $14::text[], $15::text[], $16::text[], $2::text[], $17::int[]) AS u(id, version, document_text, later, payload, canonical, runs_by_due_partition, runs_by_due_sort, runs_by_lease_expiry_partition, runs_by_lease_expiry_sort, runs_waiting_for_completion_partition, runs_waiting_for_completion_sort, runs_by_retention_partition, runs_by_retention_sort, environment, member)
),
g1_refused AS MATERIALIZED (
  SELECT u.member
  FROM g1_rows u
  CROSS JOIN LATERAL (SELECT 1 FROM "runlane"."runlane_runs" r WHERE r.environment_key = u.environment AND r.run_id = u.id LIMIT 1) found
),
g2_rows AS MATERIALIZED (
  SELECT u.*, replace(replace(u.document_text, E'\x01', clock.text), E'\x02', CASE WHEN u.later = 0 THEN clock.text ELSE to_char((clock.at + u.later::float8 * interval '1 microsecond') AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') END)::jsonb AS document
  FROM clock, unnest($19::text[], $20::bigint[], $21::text[], $22::bigint[], $23::text[], $24::boolean[], $25::boolean[], $26::text[], $27::text[], $18::text[], $28::int[]) AS u(id, version, document_text, later, run_id, native, shared, run_events_by_sequence_partition, run_events_by_sequence_sort, environment, member)
),
g2_refused AS MATERIALIZED (
  SELECT u.member
  FROM g2_rows u
  CROSS JOIN LATERAL (SELECT 1 FROM "runlane"."runlane_record_run_events" r WHERE r.environment_key = u.environment AND r.record_id = u.id LIMIT 1) found
),
refused AS MATERIALIZED (
  SELECT m.member::int AS member, 'busy'::text AS code
FROM pg_catalog.unnest(string_to_array(current_setting('runlane.busy'), ',')) AS m(member)
  UNION ALL
  SELECT g1_refused.member, 'g1'::text FROM g1_refused
  UNION ALL
  SELECT g2_refused.member, 'g2'::text FROM g2_refused
),
g1 AS (
  INSERT INTO "runlane"."runlane_runs" (environment_key, run_id, record_version, record_document, record_payload,
    task, queue, status, priority, created_at, updated_at, due_at, lease_expires_at,
    idempotency_key, singleton_key, concurrency_key, source_type, source_run_id, schedule_id, runs_by_due_partition, runs_by_due_sort, runs_by_lease_expiry_partition, runs_by_lease_expiry_sort, runs_waiting_for_completion_partition, runs_waiting_for_completion_sort, runs_by_retention_partition, runs_by_retention_sort)
  SELECT u.environment, u.id, u.version, u.document, u.new_payload,
    v.task, v.queue, v.status, v.priority, v.created_at, v.updated_at, v.due_at, v.lease_expires_at,
    v.idempotency_key, v.singleton_key, v.concurrency_key, v.source_type, v.source_run_id, v.schedule_id, nullif(u.runs_by_due_partition, ''), replace(replace(nullif(u.runs_by_due_sort, ''), E'\x01', clock.key), E'\x02', CASE WHEN u.later = 0 THEN clock.key ELSE ('@' || lpad(to_hex((extract(epoch from (clock.at + u.later::float8 * interval '1 microsecond')) * 1000000::numeric)::bigint # '-9223372036854775808'::bigint), 16, '0')) END), nullif(u.runs_by_lease_expiry_partition, ''), replace(replace(nullif(u.runs_by_lease_expiry_sort, ''), E'\x01', clock.key), E'\x02', CASE WHEN u.later = 0 THEN clock.key ELSE ('@' || lpad(to_hex((extract(epoch from (clock.at + u.later::float8 * interval '1 microsecond')) * 1000000::numeric)::bigint # '-9223372036854775808'::bigint), 16, '0')) END), nullif(u.runs_waiting_for_completion_partition, ''), replace(replace(nullif(u.runs_waiting_for_completion_sort, ''), E'\x01', clock.key), E'\x02', CASE WHEN u.later = 0 THEN clock.key ELSE ('@' || lpad(to_hex((extract(epoch from (clock.at + u.later::float8 * interval '1 microsecond')) * 1000000::numeric)::bigint # '-9223372036854775808'::bigint), 16, '0')) END), nullif(u.runs_by_retention_partition, ''), replace(replace(nullif(u.runs_by_retention_sort, ''), E'\x01', clock.key), E'\x02', CASE WHEN u.later = 0 THEN clock.key ELSE ('@' || lpad(to_hex((extract(epoch from (clock.at + u.later::float8 * interval '1 microsecond')) * 1000000::numeric)::bigint # '-9223372036854775808'::bigint), 16, '0')) END)
  FROM clock, g1_rows u LEFT JOIN LATERAL jsonb_to_record(CASE WHEN u.canonical THEN u.document -> 'value'::text END) AS v(
  task text, queue text, status text, priority smallint, created_at timestamptz, updated_at timestamptz, due_at timestamptz,
  lease_expires_at timestamptz, idempotency_key text, singleton_key text, concurrency_key text,
  source_type text, source_run_id text, schedule_id text) ON true
  WHERE u.member <> ALL (ARRAY(SELECT f.member FROM refused f))
  ON CONFLICT (environment_key, run_id) DO NOTHING
  RETURNING 1
),
g2 AS (
  INSERT INTO "runlane"."runlane_record_run_events" (environment_key, record_id, record_version, record_document, payload_from_run, sequence_index_native,
    run_id, sequence, event_type, occurred_at, run_events_by_sequence_partition, run_events_by_sequence_sort)
  SELECT u.environment, u.id, u.version, u.document, u.shared, u.native,
    nullif(u.run_id, ''), v.sequence, v.event ->> 'type'::text, (v.event ->> 'at'::text)::timestamptz, nullif(u.run_events_by_sequence_partition, ''), replace(replace(nullif(u.run_events_by_sequence_sort, ''), E'\x01', clock.key), E'\x02', CASE WHEN u.later = 0 THEN clock.key ELSE ('@' || lpad(to_hex((extract(epoch from (clock.at + u.later::float8 * interval '1 microsecond')) * 1000000::numeric)::bigint # '-9223372036854775808'::bigint), 16, '0')) END)
  FROM clock, g2_rows u LEFT JOIN LATERAL
    jsonb_to_record(CASE WHEN u.run_id <> '' THEN u.document -> 'value'::text END) AS v(sequence bigint, event jsonb) ON true
  WHERE u.member <> ALL (ARRAY(SELECT f.member FROM refused f)) AND (SELECT count(*) FROM g1) >= 0
  ON CONFLICT (environment_key, record_id) DO NOTHING
  RETURNING 1
)
SELECT clock.at,
  (SELECT coalesce(string_agg(f.member::text || ' ' || f.code, ','), '') FROM refused f) AS refused,
  set_config('runlane.refused', (SELECT coalesce(string_agg(f.member::text, ','), '') FROM refused f), true) AS members,
  "runlane"."runlane_assert_record_write"(clock.at < $1::text::timestamptz, 'deadline'),
  "runlane"."runlane_assert_record_write"((SELECT count(*) FROM g1) = (SELECT count(*) FROM g1_rows u WHERE u.member <> ALL (ARRAY(SELECT f.member FROM refused f))), 'g1'),
  "runlane"."runlane_assert_record_write"((SELECT count(*) FROM g2) = (SELECT count(*) FROM g2_rows u WHERE u.member <> ALL (ARRAY(SELECT f.member FROM refused f))), 'g2')
FROM clock

-- every operation
WITH clock AS MATERIALIZED (
  SELECT c.at, to_char((c.at) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') AS text, ('@' || lpad(to_hex((extract(epoch from (c.at)) * 1000000::numeric)::bigint # '-9223372036854775808'::bigint), 16, '0')) AS key FROM (SELECT clock_timestamp() AS at) c
),
g1_refused AS MATERIALIZED (
  SELECT u.member
  FROM unnest($3::text[], $4::bigint[], $2::text[], $5::int[]) AS u(id, version, environment, member)
  LEFT JOIN LATERAL (
    SELECT true AS here FROM "runlane"."runlane_runs" r WHERE r.environment_key = u.environment AND r.run_id = u.id AND r.record_version = u.version LIMIT 1
  ) found ON true
  WHERE found.here IS NULL
),
g2_refused AS MATERIALIZED (
  SELECT u.member
  FROM unnest($7::text[], $8::bigint[], $6::text[], $9::int[]) AS u(id, version, environment, member)
  LEFT JOIN LATERAL (
    SELECT true AS here FROM "runlane"."runlane_record_queue_slots" r WHERE r.partition_key = u.environment AND r.record_id = u.id AND r.record_version = u.version LIMIT 1
  ) found ON true
  WHERE found.here IS NULL
),
g3_refused AS MATERIALIZED (
  SELECT u.member
  FROM unnest($11::text[], $10::text[], $12::int[]) AS u(id, environment, member)
  CROSS JOIN LATERAL (SELECT 1 FROM "runlane"."runlane_runs" r WHERE r.environment_key = u.environment AND r.run_id = u.id LIMIT 1) found
),
g4_rows AS MATERIALIZED (
  SELECT u.* FROM unnest($14::text[], $15::bigint[], $13::text[], $16::int[]) AS u(id, fence, environment, member)
),
g4_found AS MATERIALIZED (
  SELECT u.*, found.place
  FROM g4_rows u LEFT JOIN LATERAL (
    SELECT r.ctid AS place FROM "runlane"."runlane_record_run_events" r WHERE r.environment_key = u.environment AND r.record_id = u.id AND r.record_version = u.fence LIMIT 1
  ) found ON true
),
g4_refused AS MATERIALIZED (SELECT u.member FROM g4_found u WHERE u.place IS NULL),
g5_rows AS MATERIALIZED (
  SELECT u.* FROM unnest($18::text[], $19::bigint[], $17::text[], $20::int[]) AS u(id, fence, environment, member)
),
g5_found AS MATERIALIZED (
  SELECT u.*, found.place
  FROM g5_rows u LEFT JOIN LATERAL (
    SELECT r.ctid AS place FROM "runlane"."runlane_record_queue_slots" r WHERE r.partition_key = u.environment AND r.record_id = u.id AND r.record_version = u.fence LIMIT 1
  ) found ON true
),
g5_refused AS MATERIALIZED (SELECT u.member FROM g5_found u WHERE u.place IS NULL),
g6_rows AS MATERIALIZED (
  SELECT u.*, replace(replace(nullif(u.payload, ''), E'\x01', clock.text), E'\x02', CASE WHEN u.later = 0 THEN clock.text ELSE to_char((clock.at + u.later::float8 * interval '1 microsecond') AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') END)::jsonb AS new_payload, replace(replace(u.document_text, E'\x01', clock.text), E'\x02', CASE WHEN u.later = 0 THEN clock.text ELSE to_char((clock.at + u.later::float8 * interval '1 microsecond') AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') END)::jsonb AS document
  FROM clock, unnest($22::text[], $23::bigint[], $24::text[], $25::bigint[], $26::text[], $27::boolean[], $28::bigint[], $29::boolean[], $30::text[], $31::text[], $32::text[], $33::text[], $34::text[], $35::text[], $36::text[], $37::text[], $21::text[], $38::int[]) AS u(id, version, document_text, later, payload, canonical, fence, kept, runs_by_due_partition, runs_by_due_sort, runs_by_lease_expiry_partition, runs_by_lease_expiry_sort, runs_waiting_for_completion_partition, runs_waiting_for_completion_sort, runs_by_retention_partition, runs_by_retention_sort, environment, member)
),
g6_found AS MATERIALIZED (
  SELECT u.*, found.place
  FROM g6_rows u LEFT JOIN LATERAL (
    SELECT r.ctid AS place FROM "runlane"."runlane_runs" r WHERE r.environment_key = u.environment AND r.run_id = u.id AND r.record_version = u.fence LIMIT 1
  ) found ON true
),
g6_refused AS MATERIALIZED (SELECT u.member FROM g6_found u WHERE u.place IS NULL),
g7_rows AS MATERIALIZED (
  SELECT u.*, replace(replace(u.document_text, E'\x01', clock.text), E'\x02', CASE WHEN u.later = 0 THEN clock.text ELSE to_char((clock.at + u.later::float8 * interval '1 microsecond') AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') END)::jsonb AS document
  FROM clock, unnest($40::text[], $41::bigint[], $42::text[], $43::bigint[], $44::text[], $45::boolean[], $46::bigint[], $47::text[], $48::text[], $39::text[], $49::int[]) AS u(id, version, document_text, later, run_id, native, fence, run_events_by_sequence_partition, run_events_by_sequence_sort, environment, member)
),
g7_found AS MATERIALIZED (
  SELECT u.*, found.place
  FROM g7_rows u LEFT JOIN LATERAL (
    SELECT r.ctid AS place FROM "runlane"."runlane_record_run_events" r WHERE r.environment_key = u.environment AND r.record_id = u.id AND r.record_version = u.fence LIMIT 1
  ) found ON true
),
g7_refused AS MATERIALIZED (SELECT u.member FROM g7_found u WHERE u.place IS NULL),
g8_rows AS MATERIALIZED (
  SELECT u.*, replace(replace(u.document_text, E'\x01', clock.text), E'\x02', CASE WHEN u.later = 0 THEN clock.text ELSE to_char((clock.at + u.later::float8 * interval '1 microsecond') AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') END)::jsonb AS document
  FROM clock, unnest($51::text[], $52::bigint[], $53::text[], $54::bigint[], $55::bigint[], $56::text[], $57::text[], $50::text[], $58::int[]) AS u(id, version, document_text, later, fence, queue_slots_by_expiry_partition, queue_slots_by_expiry_sort, environment, member)
),
g8_found AS MATERIALIZED (
  SELECT u.*, found.place
  FROM g8_rows u LEFT JOIN LATERAL (
    SELECT r.ctid AS place FROM "runlane"."runlane_record_queue_slots" r WHERE r.partition_key = u.environment AND r.record_id = u.id AND r.record_version = u.fence LIMIT 1
  ) found ON true
),
g8_refused AS MATERIALIZED (SELECT u.member FROM g8_found u WHERE u.place IS NULL),
g9_rows AS MATERIALIZED (
  SELECT u.*, replace(replace(nullif(u.payload, ''), E'\x01', clock.text), E'\x02', CASE WHEN u.later = 0 THEN clock.text ELSE to_char((clock.at + u.later::float8 * interval '1 microsecond') AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') END)::jsonb AS new_payload, replace(replace(u.document_text, E'\x01', clock.text), E'\x02', CASE WHEN u.later = 0 THEN clock.text ELSE to_char((clock.at + u.later::float8 * interval '1 microsecond') AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') END)::jsonb AS document
  FROM clock, unnest($60::text[], $61::bigint[], $62::text[], $63::bigint[], $64::text[], $65::boolean[], $66::text[], $67::text[], $68::text[], $69::text[], $70::text[], $71::text[], $72::text[], $73::text[], $59::text[], $74::int[]) AS u(id, version, document_text, later, payload, canonical, runs_by_due_partition, runs_by_due_sort, runs_by_lease_expiry_partition, runs_by_lease_expiry_sort, runs_waiting_for_completion_partition, runs_waiting_for_completion_sort, runs_by_retention_partition, runs_by_retention_sort, environment, member)
),
g9_refused AS MATERIALIZED (
  SELECT u.member
  FROM g9_rows u
  CROSS JOIN LATERAL (SELECT 1 FROM "runlane"."runlane_runs" r WHERE r.environment_key = u.environment AND r.run_id = u.id LIMIT 1) found
),
g10_rows AS MATERIALIZED (
  SELECT u.*, replace(replace(u.document_text, E'\x01', clock.text), E'\x02', CASE WHEN u.later = 0 THEN clock.text ELSE to_char((clock.at + u.later::float8 * interval '1 microsecond') AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') END)::jsonb AS document
  FROM clock, unnest($76::text[], $77::bigint[], $78::text[], $79::bigint[], $80::text[], $81::boolean[], $82::boolean[], $83::text[], $84::text[], $75::text[], $85::int[]) AS u(id, version, document_text, later, run_id, native, shared, run_events_by_sequence_partition, run_events_by_sequence_sort, environment, member)
),
g10_refused AS MATERIALIZED (
  SELECT u.member
  FROM g10_rows u
  CROSS JOIN LATERAL (SELECT 1 FROM "runlane"."runlane_record_run_events" r WHERE r.environment_key = u.environment AND r.record_id = u.id LIMIT 1) found
),
g11_rows AS MATERIALIZED (
  SELECT u.*, replace(replace(u.document_text, E'\x01', clock.text), E'\x02', CASE WHEN u.later = 0 THEN clock.text ELSE to_char((clock.at + u.later::float8 * interval '1 microsecond') AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') END)::jsonb AS document
  FROM clock, unnest($87::text[], $88::bigint[], $89::text[], $90::bigint[], $91::text[], $92::text[], $86::text[], $93::int[]) AS u(id, version, document_text, later, queue_slots_by_expiry_partition, queue_slots_by_expiry_sort, environment, member)
),
g11_refused AS MATERIALIZED (
  SELECT u.member
  FROM g11_rows u
  CROSS JOIN LATERAL (SELECT 1 FROM "runlane"."runlane_record_queue_slots" r WHERE r.partition_key = u.environment AND r.record_id = u.id LIMIT 1) found
),
refused AS MATERIALIZED (
  SELECT m.member::int AS member, 'busy'::text AS code
FROM pg_catalog.unnest(string_to_array(current_setting('runlane.busy'), ',')) AS m(member)
  UNION ALL
  SELECT g1_refused.member, 'g1'::text FROM g1_refused
  UNION ALL
  SELECT g2_refused.member, 'g2'::text FROM g2_refused
  UNION ALL
  SELECT g3_refused.member, 'g3'::text FROM g3_refused
  UNION ALL
  SELECT g4_refused.member, 'g4'::text FROM g4_refused
  UNION ALL
  SELECT g5_refused.member, 'g5'::text FROM g5_refused
  UNION ALL
  SELECT g6_refused.member, 'g6'::text FROM g6_refused
  UNION ALL
  SELECT g7_refused.member, 'g7'::text FROM g7_refused
  UNION ALL
  SELECT g8_refused.member, 'g8'::text FROM g8_refused
  UNION ALL
  SELECT g9_refused.member, 'g9'::text FROM g9_refused
  UNION ALL
  SELECT g10_refused.member, 'g10'::text FROM g10_refused
  UNION ALL
  SELECT g11_refused.member, 'g11'::text FROM g11_refused
),
g4 AS (
  DELETE FROM "runlane"."runlane_record_run_events" r
  USING g4_found u
  WHERE r.ctid = u.place AND u.member <> ALL (ARRAY(SELECT f.member FROM refused f))
  RETURNING 1
),
g5 AS (
  DELETE FROM "runlane"."runlane_record_queue_slots" r
  USING g5_found u
  WHERE r.ctid = u.place AND u.member <> ALL (ARRAY(SELECT f.member FROM refused f)) AND (SELECT count(*) FROM g4) >= 0
  RETURNING 1
),
g6 AS (
  UPDATE "runlane"."runlane_runs" r
  SET record_version = u.version, record_document = u.document,
    record_payload = CASE WHEN u.kept THEN r.record_payload ELSE u.new_payload END,
    task = v.task, queue = v.queue, status = v.status, priority = v.priority,
    created_at = v.created_at, updated_at = v.updated_at, due_at = v.due_at, lease_expires_at = v.lease_expires_at,
    idempotency_key = v.idempotency_key, singleton_key = v.singleton_key, concurrency_key = v.concurrency_key,
    source_type = v.source_type, source_run_id = v.source_run_id, schedule_id = v.schedule_id, runs_by_due_partition = nullif(u.runs_by_due_partition, ''), runs_by_due_sort = replace(replace(nullif(u.runs_by_due_sort, ''), E'\x01', clock.key), E'\x02', CASE WHEN u.later = 0 THEN clock.key ELSE ('@' || lpad(to_hex((extract(epoch from (clock.at + u.later::float8 * interval '1 microsecond')) * 1000000::numeric)::bigint # '-9223372036854775808'::bigint), 16, '0')) END), runs_by_lease_expiry_partition = nullif(u.runs_by_lease_expiry_partition, ''), runs_by_lease_expiry_sort = replace(replace(nullif(u.runs_by_lease_expiry_sort, ''), E'\x01', clock.key), E'\x02', CASE WHEN u.later = 0 THEN clock.key ELSE ('@' || lpad(to_hex((extract(epoch from (clock.at + u.later::float8 * interval '1 microsecond')) * 1000000::numeric)::bigint # '-9223372036854775808'::bigint), 16, '0')) END), runs_waiting_for_completion_partition = nullif(u.runs_waiting_for_completion_partition, ''), runs_waiting_for_completion_sort = replace(replace(nullif(u.runs_waiting_for_completion_sort, ''), E'\x01', clock.key), E'\x02', CASE WHEN u.later = 0 THEN clock.key ELSE ('@' || lpad(to_hex((extract(epoch from (clock.at + u.later::float8 * interval '1 microsecond')) * 1000000::numeric)::bigint # '-9223372036854775808'::bigint), 16, '0')) END), runs_by_retention_partition = nullif(u.runs_by_retention_partition, ''), runs_by_retention_sort = replace(replace(nullif(u.runs_by_retention_sort, ''), E'\x01', clock.key), E'\x02', CASE WHEN u.later = 0 THEN clock.key ELSE ('@' || lpad(to_hex((extract(epoch from (clock.at + u.later::float8 * interval '1 microsecond')) * 1000000::numeric)::bigint # '-9223372036854775808'::bigint), 16, '0')) END)
  FROM clock, g6_found u LEFT JOIN LATERAL jsonb_to_record(CASE WHEN u.canonical THEN u.document -> 'value'::text END) AS v(
  task text, queue text, status text, priority smallint, created_at timestamptz, updated_at timestamptz, due_at timestamptz,
  lease_expires_at timestamptz, idempotency_key text, singleton_key text, concurrency_key text,
  source_type text, source_run_id text, schedule_id text) ON true
  WHERE r.ctid = u.place AND u.member <> ALL (ARRAY(SELECT f.member FROM refused f)) AND (SELECT count(*) FROM g5) >= 0
  RETURNING 1
),
g7 AS (
  UPDATE "runlane"."runlane_record_run_events" r
  SET record_version = u.version, record_document = u.document, payload_from_run = false, sequence_index_native = u.native,
    run_id = nullif(u.run_id, ''), sequence = v.sequence, event_type = v.event ->> 'type'::text, occurred_at = (v.event ->> 'at'::text)::timestamptz, run_events_by_sequence_partition = nullif(u.run_events_by_sequence_partition, ''), run_events_by_sequence_sort = replace(replace(nullif(u.run_events_by_sequence_sort, ''), E'\x01', clock.key), E'\x02', CASE WHEN u.later = 0 THEN clock.key ELSE ('@' || lpad(to_hex((extract(epoch from (clock.at + u.later::float8 * interval '1 microsecond')) * 1000000::numeric)::bigint # '-9223372036854775808'::bigint), 16, '0')) END)
  FROM clock, g7_found u LEFT JOIN LATERAL
    jsonb_to_record(CASE WHEN u.run_id <> '' THEN u.document -> 'value'::text END) AS v(sequence bigint, event jsonb) ON true
  WHERE r.ctid = u.place AND u.member <> ALL (ARRAY(SELECT f.member FROM refused f)) AND (SELECT count(*) FROM g6) >= 0
  RETURNING 1
),
g8 AS (
  UPDATE "runlane"."runlane_record_queue_slots" r
  SET record_version = u.version, record_document = u.document, queue_slots_by_expiry_partition = nullif(u.queue_slots_by_expiry_partition, ''), queue_slots_by_expiry_sort = replace(replace(nullif(u.queue_slots_by_expiry_sort, ''), E'\x01', clock.key), E'\x02', CASE WHEN u.later = 0 THEN clock.key ELSE ('@' || lpad(to_hex((extract(epoch from (clock.at + u.later::float8 * interval '1 microsecond')) * 1000000::numeric)::bigint # '-9223372036854775808'::bigint), 16, '0')) END)
  FROM g8_found u, clock
  WHERE r.ctid = u.place AND u.member <> ALL (ARRAY(SELECT f.member FROM refused f)) AND (SELECT count(*) FROM g7) >= 0
  RETURNING 1
),
g9 AS (
  INSERT INTO "runlane"."runlane_runs" (environment_key, run_id, record_version, record_document, record_payload,
    task, queue, status, priority, created_at, updated_at, due_at, lease_expires_at,
    idempotency_key, singleton_key, concurrency_key, source_type, source_run_id, schedule_id, runs_by_due_partition, runs_by_due_sort, runs_by_lease_expiry_partition, runs_by_lease_expiry_sort, runs_waiting_for_completion_partition, runs_waiting_for_completion_sort, runs_by_retention_partition, runs_by_retention_sort)
  SELECT u.environment, u.id, u.version, u.document, u.new_payload,
    v.task, v.queue, v.status, v.priority, v.created_at, v.updated_at, v.due_at, v.lease_expires_at,
    v.idempotency_key, v.singleton_key, v.concurrency_key, v.source_type, v.source_run_id, v.schedule_id, nullif(u.runs_by_due_partition, ''), replace(replace(nullif(u.runs_by_due_sort, ''), E'\x01', clock.key), E'\x02', CASE WHEN u.later = 0 THEN clock.key ELSE ('@' || lpad(to_hex((extract(epoch from (clock.at + u.later::float8 * interval '1 microsecond')) * 1000000::numeric)::bigint # '-9223372036854775808'::bigint), 16, '0')) END), nullif(u.runs_by_lease_expiry_partition, ''), replace(replace(nullif(u.runs_by_lease_expiry_sort, ''), E'\x01', clock.key), E'\x02', CASE WHEN u.later = 0 THEN clock.key ELSE ('@' || lpad(to_hex((extract(epoch from (clock.at + u.later::float8 * interval '1 microsecond')) * 1000000::numeric)::bigint # '-9223372036854775808'::bigint), 16, '0')) END), nullif(u.runs_waiting_for_completion_partition, ''), replace(replace(nullif(u.runs_waiting_for_completion_sort, ''), E'\x01', clock.key), E'\x02', CASE WHEN u.later = 0 THEN clock.key ELSE ('@' || lpad(to_hex((extract(epoch from (clock.at + u.later::float8 * interval '1 microsecond')) * 1000000::numeric)::bigint # '-9223372036854775808'::bigint), 16, '0')) END), nullif(u.runs_by_retention_partition, ''), replace(replace(nullif(u.runs_by_retention_sort, ''), E'\x01', clock.key), E'\x02', CASE WHEN u.later = 0 THEN clock.key ELSE ('@' || lpad(to_hex((extract(epoch from (clock.at + u.later::float8 * interval '1 microsecond')) * 1000000::numeric)::bigint # '-9223372036854775808'::bigint), 16, '0')) END)
  FROM clock, g9_rows u LEFT JOIN LATERAL jsonb_to_record(CASE WHEN u.canonical THEN u.document -> 'value'::text END) AS v(
  task text, queue text, status text, priority smallint, created_at timestamptz, updated_at timestamptz, due_at timestamptz,
  lease_expires_at timestamptz, idempotency_key text, singleton_key text, concurrency_key text,
  source_type text, source_run_id text, schedule_id text) ON true
  WHERE u.member <> ALL (ARRAY(SELECT f.member FROM refused f)) AND (SELECT count(*) FROM g8) >= 0
  ON CONFLICT (environment_key, run_id) DO NOTHING
  RETURNING 1
),
g10 AS (
  INSERT INTO "runlane"."runlane_record_run_events" (environment_key, record_id, record_version, record_document, payload_from_run, sequence_index_native,
    run_id, sequence, event_type, occurred_at, run_events_by_sequence_partition, run_events_by_sequence_sort)
  SELECT u.environment, u.id, u.version, u.document, u.shared, u.native,
    nullif(u.run_id, ''), v.sequence, v.event ->> 'type'::text, (v.event ->> 'at'::text)::timestamptz, nullif(u.run_events_by_sequence_partition, ''), replace(replace(nullif(u.run_events_by_sequence_sort, ''), E'\x01', clock.key), E'\x02', CASE WHEN u.later = 0 THEN clock.key ELSE ('@' || lpad(to_hex((extract(epoch from (clock.at + u.later::float8 * interval '1 microsecond')) * 1000000::numeric)::bigint # '-9223372036854775808'::bigint), 16, '0')) END)
  FROM clock, g10_rows u LEFT JOIN LATERAL
    jsonb_to_record(CASE WHEN u.run_id <> '' THEN u.document -> 'value'::text END) AS v(sequence bigint, event jsonb) ON true
  WHERE u.member <> ALL (ARRAY(SELECT f.member FROM refused f)) AND (SELECT count(*) FROM g9) >= 0
  ON CONFLICT (environment_key, record_id) DO NOTHING
  RETURNING 1
),
g11 AS (
  INSERT INTO "runlane"."runlane_record_queue_slots" (partition_key, record_id, record_version, record_document, queue_slots_by_expiry_partition, queue_slots_by_expiry_sort)
  SELECT u.environment, u.id, u.version, u.document, nullif(u.queue_slots_by_expiry_partition, ''), replace(replace(nullif(u.queue_slots_by_expiry_sort, ''), E'\x01', clock.key), E'\x02', CASE WHEN u.later = 0 THEN clock.key ELSE ('@' || lpad(to_hex((extract(epoch from (clock.at + u.later::float8 * interval '1 microsecond')) * 1000000::numeric)::bigint # '-9223372036854775808'::bigint), 16, '0')) END)
  FROM g11_rows u, clock
  WHERE u.member <> ALL (ARRAY(SELECT f.member FROM refused f)) AND (SELECT count(*) FROM g10) >= 0
  ON CONFLICT (partition_key, record_id) DO NOTHING
  RETURNING 1
)
SELECT clock.at,
  (SELECT coalesce(string_agg(f.member::text || ' ' || f.code, ','), '') FROM refused f) AS refused,
  set_config('runlane.refused', (SELECT coalesce(string_agg(f.member::text, ','), '') FROM refused f), true) AS members,
  "runlane"."runlane_assert_record_write"(clock.at < $1::text::timestamptz, 'deadline'),
  "runlane"."runlane_assert_record_write"((SELECT count(*) FROM g4) = (SELECT count(*) FROM g4_rows u WHERE u.member <> ALL (ARRAY(SELECT f.member FROM refused f))), 'g4'),
  "runlane"."runlane_assert_record_write"((SELECT count(*) FROM g5) = (SELECT count(*) FROM g5_rows u WHERE u.member <> ALL (ARRAY(SELECT f.member FROM refused f))), 'g5'),
  "runlane"."runlane_assert_record_write"((SELECT count(*) FROM g6) = (SELECT count(*) FROM g6_rows u WHERE u.member <> ALL (ARRAY(SELECT f.member FROM refused f))), 'g6'),
  "runlane"."runlane_assert_record_write"((SELECT count(*) FROM g7) = (SELECT count(*) FROM g7_rows u WHERE u.member <> ALL (ARRAY(SELECT f.member FROM refused f))), 'g7'),
  "runlane"."runlane_assert_record_write"((SELECT count(*) FROM g8) = (SELECT count(*) FROM g8_rows u WHERE u.member <> ALL (ARRAY(SELECT f.member FROM refused f))), 'g8'),
  "runlane"."runlane_assert_record_write"((SELECT count(*) FROM g9) = (SELECT count(*) FROM g9_rows u WHERE u.member <> ALL (ARRAY(SELECT f.member FROM refused f))), 'g9'),
  "runlane"."runlane_assert_record_write"((SELECT count(*) FROM g10) = (SELECT count(*) FROM g10_rows u WHERE u.member <> ALL (ARRAY(SELECT f.member FROM refused f))), 'g10'),
  "runlane"."runlane_assert_record_write"((SELECT count(*) FROM g11) = (SELECT count(*) FROM g11_rows u WHERE u.member <> ALL (ARRAY(SELECT f.member FROM refused f))), 'g11')
FROM clock

