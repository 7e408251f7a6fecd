-- every operation on runs and events, in two environments
WITH clock AS MATERIALIZED (
  SELECT c.at, to_char((c.at) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') AS text, ('@' || lpad(to_hex((extract(epoch from (c.at)) * 1000000::numeric)::bigint # '-9223372036854775808'::bigint), 16, '0')) AS key FROM (SELECT clock_timestamp() AS at) c
),
g1 AS MATERIALIZED (
  SELECT "runlane"."runlane_assert_record_write"(count(*) = pg_catalog.cardinality($3::text[]), 'g1') AS ok
  FROM unnest($3::text[], $4::bigint[]) AS e(id, version)
  CROSS JOIN LATERAL (SELECT 1 FROM "runlane"."runlane_runs" r WHERE r.environment_key = $2 AND r.run_id = e.id AND r.record_version = e.version LIMIT 1) found
),
g2 AS MATERIALIZED (
  SELECT "runlane"."runlane_assert_record_write"(count(*) = pg_catalog.cardinality($6::text[]), 'g2') AS ok
  FROM unnest($6::text[], $7::bigint[]) AS e(id, version)
  CROSS JOIN LATERAL (SELECT 1 FROM "runlane"."runlane_runs" r WHERE r.environment_key = $5 AND r.run_id = e.id AND r.record_version = e.version LIMIT 1) found
),
g3 AS MATERIALIZED (
  SELECT "runlane"."runlane_assert_record_write"(count(*) = pg_catalog.cardinality($9::text[]), 'g3') AS ok
  FROM unnest($9::text[], $10::bigint[]) AS e(id, version)
  CROSS JOIN LATERAL (SELECT 1 FROM "runlane"."runlane_record_run_events" r WHERE r.environment_key = $8 AND r.record_id = e.id AND r.record_version = e.version LIMIT 1) found
),
g4 AS MATERIALIZED (
  SELECT "runlane"."runlane_assert_record_write"(count(*) = pg_catalog.cardinality($12::text[]), 'g4') AS ok
  FROM unnest($12::text[], $13::bigint[]) AS e(id, version)
  CROSS JOIN LATERAL (SELECT 1 FROM "runlane"."runlane_record_run_events" r WHERE r.environment_key = $11 AND r.record_id = e.id AND r.record_version = e.version LIMIT 1) found
),
g5_locked AS MATERIALIZED (
  SELECT e.id
  FROM unnest($15::text[], $16::bigint[]) AS e(id, version)
  CROSS JOIN LATERAL (
    SELECT 1 FROM "runlane"."runlane_runs" r WHERE r.environment_key = $14 AND r.run_id = e.id AND r.record_version = e.version LIMIT 1 FOR NO KEY UPDATE OF r
  ) found
),
g5 AS MATERIALIZED (
  SELECT "runlane"."runlane_assert_record_write"(count(*) = pg_catalog.cardinality($15::text[]), 'g5') AS ok FROM g5_locked
),
g6_locked AS MATERIALIZED (
  SELECT e.id
  FROM unnest($18::text[], $19::bigint[]) AS e(id, version)
  CROSS JOIN LATERAL (
    SELECT 1 FROM "runlane"."runlane_runs" r WHERE r.environment_key = $17 AND r.run_id = e.id AND r.record_version = e.version LIMIT 1 FOR NO KEY UPDATE OF r
  ) found
),
g6 AS MATERIALIZED (
  SELECT "runlane"."runlane_assert_record_write"(count(*) = pg_catalog.cardinality($18::text[]), 'g6') AS ok FROM g6_locked
),
g7_locked AS MATERIALIZED (
  SELECT e.id
  FROM unnest($21::text[], $22::bigint[]) AS e(id, version)
  CROSS JOIN LATERAL (
    SELECT 1 FROM "runlane"."runlane_record_run_events" r WHERE r.environment_key = $20 AND r.record_id = e.id AND r.record_version = e.version LIMIT 1 FOR NO KEY UPDATE OF r
  ) found
),
g7 AS MATERIALIZED (
  SELECT "runlane"."runlane_assert_record_write"(count(*) = pg_catalog.cardinality($21::text[]), 'g7') AS ok FROM g7_locked
),
g8_locked AS MATERIALIZED (
  SELECT e.id
  FROM unnest($24::text[], $25::bigint[]) AS e(id, version)
  CROSS JOIN LATERAL (
    SELECT 1 FROM "runlane"."runlane_record_run_events" r WHERE r.environment_key = $23 AND r.record_id = e.id AND r.record_version = e.version LIMIT 1 FOR NO KEY UPDATE OF r
  ) found
),
g8 AS MATERIALIZED (
  SELECT "runlane"."runlane_assert_record_write"(count(*) = pg_catalog.cardinality($24::text[]), 'g8') AS ok FROM g8_locked
),
g9 AS MATERIALIZED (
  SELECT "runlane"."runlane_assert_record_write"(count(*) = 0, 'g9') AS ok
  FROM pg_catalog.unnest($27::text[]) AS e(id)
  CROSS JOIN LATERAL (SELECT 1 FROM "runlane"."runlane_runs" r WHERE r.environment_key = $26 AND r.run_id = e.id LIMIT 1) found
),
g10 AS MATERIALIZED (
  SELECT "runlane"."runlane_assert_record_write"(count(*) = 0, 'g10') AS ok
  FROM pg_catalog.unnest($29::text[]) AS e(id)
  CROSS JOIN LATERAL (SELECT 1 FROM "runlane"."runlane_runs" r WHERE r.environment_key = $28 AND r.run_id = e.id LIMIT 1) found
),
g11 AS MATERIALIZED (
  SELECT "runlane"."runlane_assert_record_write"(count(*) = 0, 'g11') AS ok
  FROM pg_catalog.unnest($31::text[]) AS e(id)
  CROSS JOIN LATERAL (SELECT 1 FROM "runlane"."runlane_record_run_events" r WHERE r.environment_key = $30 AND r.record_id = e.id LIMIT 1) found
),
g12 AS MATERIALIZED (
  SELECT "runlane"."runlane_assert_record_write"(count(*) = 0, 'g12') AS ok
  FROM pg_catalog.unnest($33::text[]) AS e(id)
  CROSS JOIN LATERAL (SELECT 1 FROM "runlane"."runlane_record_run_events" r WHERE r.environment_key = $32 AND r.record_id = e.id LIMIT 1) found
),
checked AS MATERIALIZED (SELECT count(*) AS n FROM (SELECT ok FROM g1 UNION ALL SELECT ok FROM g2 UNION ALL SELECT ok FROM g3 UNION ALL SELECT ok FROM g4 UNION ALL SELECT ok FROM g5 UNION ALL SELECT ok FROM g6 UNION ALL SELECT ok FROM g7 UNION ALL SELECT ok FROM g8 UNION ALL SELECT ok FROM g9 UNION ALL SELECT ok FROM g10 UNION ALL SELECT ok FROM g11 UNION ALL SELECT ok FROM g12) checks),
g13_found AS MATERIALIZED (
  SELECT event.place, p.record_payload
  FROM pg_catalog.unnest($35::text[]) AS u(id)
  CROSS JOIN LATERAL (SELECT r.record_payload FROM "runlane"."runlane_runs" r WHERE r.environment_key = $34 AND r.run_id = u.id LIMIT 1) p
  CROSS JOIN LATERAL (
    SELECT r.ctid AS place FROM "runlane"."runlane_record_run_events" r
    WHERE r.environment_key = $34 AND r.run_id = u.id AND r.sequence = 1 AND r.sequence_index_native AND r.payload_from_run
      AND r.record_id <> ALL ($36::text[])
    OFFSET 0
  ) event
),
g13 AS (
  UPDATE "runlane"."runlane_record_run_events" r
  SET payload_from_run = false, record_document = pg_catalog.jsonb_set(r.record_document, ARRAY['value', 'event', 'payload'], u.record_payload)
  FROM g13_found u
  WHERE r.ctid = u.place AND (SELECT n FROM checked) >= 0
  RETURNING 1
),
g14_found AS MATERIALIZED (
  SELECT event.place, p.record_payload
  FROM pg_catalog.unnest($38::text[]) AS u(id)
  CROSS JOIN LATERAL (SELECT r.record_payload FROM "runlane"."runlane_runs" r WHERE r.environment_key = $37 AND r.run_id = u.id LIMIT 1) p
  CROSS JOIN LATERAL (
    SELECT r.ctid AS place FROM "runlane"."runlane_record_run_events" r
    WHERE r.environment_key = $37 AND r.run_id = u.id AND r.sequence = 1 AND r.sequence_index_native AND r.payload_from_run
      AND r.record_id <> ALL ($39::text[])
    OFFSET 0
  ) event
),
g14 AS (
  UPDATE "runlane"."runlane_record_run_events" r
  SET payload_from_run = false, record_document = pg_catalog.jsonb_set(r.record_document, ARRAY['value', 'event', 'payload'], u.record_payload)
  FROM g14_found u
  WHERE r.ctid = u.place AND (SELECT count(*) FROM g13) >= 0
  RETURNING 1
),
g15_rows AS MATERIALIZED (
  SELECT u.* FROM unnest($41::text[], $42::bigint[]) AS u(id, fence)
),
g15_found AS MATERIALIZED (
  SELECT u.*, found.place
  FROM g15_rows u LEFT JOIN LATERAL (
    SELECT r.ctid AS place FROM "runlane"."runlane_runs" r WHERE r.environment_key = $40 AND r.run_id = u.id AND r.record_version = u.fence LIMIT 1
  ) found ON true
),
g15 AS (
  DELETE FROM "runlane"."runlane_runs" r
  USING g15_found u
  WHERE r.ctid = u.place AND (SELECT count(*) FROM g14) >= 0
  RETURNING 1
),
g16_rows AS MATERIALIZED (
  SELECT u.* FROM unnest($44::text[], $45::bigint[]) AS u(id, fence)
),
g16_found AS MATERIALIZED (
  SELECT u.*, found.place
  FROM g16_rows u LEFT JOIN LATERAL (
    SELECT r.ctid AS place FROM "runlane"."runlane_runs" r WHERE r.environment_key = $43 AND r.run_id = u.id AND r.record_version = u.fence LIMIT 1
  ) found ON true
),
g16 AS (
  DELETE FROM "runlane"."runlane_runs" r
  USING g16_found u
  WHERE r.ctid = u.place AND (SELECT count(*) FROM g15) >= 0
  RETURNING 1
),
g17_rows AS MATERIALIZED (
  SELECT u.* FROM unnest($47::text[], $48::bigint[]) AS u(id, fence)
),
g17_found AS MATERIALIZED (
  SELECT u.*, found.place
  FROM g17_rows u LEFT JOIN LATERAL (
    SELECT r.ctid AS place FROM "runlane"."runlane_record_run_events" r WHERE r.environment_key = $46 AND r.record_id = u.id AND r.record_version = u.fence LIMIT 1
  ) found ON true
),
g17 AS (
  DELETE FROM "runlane"."runlane_record_run_events" r
  USING g17_found u
  WHERE r.ctid = u.place AND (SELECT count(*) FROM g16) >= 0
  RETURNING 1
),
g18_rows AS MATERIALIZED (
  SELECT u.* FROM unnest($50::text[], $51::bigint[]) AS u(id, fence)
),
g18_found AS MATERIALIZED (
  SELECT u.*, found.place
  FROM g18_rows u LEFT JOIN LATERAL (
    SELECT r.ctid AS place FROM "runlane"."runlane_record_run_events" r WHERE r.environment_key = $49 AND r.record_id = u.id AND r.record_version = u.fence LIMIT 1
  ) found ON true
),
g18 AS (
  DELETE FROM "runlane"."runlane_record_run_events" r
  USING g18_found u
  WHERE r.ctid = u.place AND (SELECT count(*) FROM g17) >= 0
  RETURNING 1
),
g19_rows AS MATERIALIZED (
  SELECT u.*, replace(replace(nullif(u.payload, ''), E'\x01', clock.text), E'\x02', CASE WHEN u.later = 0 THEN clock.text ELSE to_char((clock.at + u.later::float8 * interval '1 microsecond') AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') END)::jsonb AS new_payload, replace(replace(u.document_text, E'\x01', clock.text), E'\x02', CASE WHEN u.later = 0 THEN clock.text ELSE to_char((clock.at + u.later::float8 * interval '1 microsecond') AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') END)::jsonb AS document
  FROM clock, unnest($53::text[], $54::bigint[], $55::text[], $56::bigint[], $57::text[], $58::boolean[], $59::bigint[], $60::boolean[], $61::text[], $62::text[], $63::text[], $64::text[], $65::text[], $66::text[], $67::text[], $68::text[]) AS u(id, version, document_text, later, payload, canonical, fence, kept, runs_by_due_partition, runs_by_due_sort, runs_by_lease_expiry_partition, runs_by_lease_expiry_sort, runs_waiting_for_completion_partition, runs_waiting_for_completion_sort, runs_by_retention_partition, runs_by_retention_sort)
),
g19_found AS MATERIALIZED (
  SELECT u.*, found.place
  FROM g19_rows u LEFT JOIN LATERAL (
    SELECT r.ctid AS place FROM "runlane"."runlane_runs" r WHERE r.environment_key = $52 AND r.run_id = u.id AND r.record_version = u.fence LIMIT 1
  ) found ON true
),
g19 AS (
  UPDATE "runlane"."runlane_runs" r
  SET record_version = u.version, record_document = u.document,
    record_payload = CASE WHEN u.kept THEN r.record_payload ELSE u.new_payload END,
    task = v.task, queue = v.queue, status = v.status, priority = v.priority,
    created_at = v.created_at, updated_at = v.updated_at, due_at = v.due_at, lease_expires_at = v.lease_expires_at,
    idempotency_key = v.idempotency_key, singleton_key = v.singleton_key, concurrency_key = v.concurrency_key,
    source_type = v.source_type, source_run_id = v.source_run_id, schedule_id = v.schedule_id, runs_by_due_partition = nullif(u.runs_by_due_partition, ''), runs_by_due_sort = replace(replace(nullif(u.runs_by_due_sort, ''), E'\x01', clock.key), E'\x02', CASE WHEN u.later = 0 THEN clock.key ELSE ('@' || lpad(to_hex((extract(epoch from (clock.at + u.later::float8 * interval '1 microsecond')) * 1000000::numeric)::bigint # '-9223372036854775808'::bigint), 16, '0')) END), runs_by_lease_expiry_partition = nullif(u.runs_by_lease_expiry_partition, ''), runs_by_lease_expiry_sort = replace(replace(nullif(u.runs_by_lease_expiry_sort, ''), E'\x01', clock.key), E'\x02', CASE WHEN u.later = 0 THEN clock.key ELSE ('@' || lpad(to_hex((extract(epoch from (clock.at + u.later::float8 * interval '1 microsecond')) * 1000000::numeric)::bigint # '-9223372036854775808'::bigint), 16, '0')) END), runs_waiting_for_completion_partition = nullif(u.runs_waiting_for_completion_partition, ''), runs_waiting_for_completion_sort = replace(replace(nullif(u.runs_waiting_for_completion_sort, ''), E'\x01', clock.key), E'\x02', CASE WHEN u.later = 0 THEN clock.key ELSE ('@' || lpad(to_hex((extract(epoch from (clock.at + u.later::float8 * interval '1 microsecond')) * 1000000::numeric)::bigint # '-9223372036854775808'::bigint), 16, '0')) END), runs_by_retention_partition = nullif(u.runs_by_retention_partition, ''), runs_by_retention_sort = replace(replace(nullif(u.runs_by_retention_sort, ''), E'\x01', clock.key), E'\x02', CASE WHEN u.later = 0 THEN clock.key ELSE ('@' || lpad(to_hex((extract(epoch from (clock.at + u.later::float8 * interval '1 microsecond')) * 1000000::numeric)::bigint # '-9223372036854775808'::bigint), 16, '0')) END)
  FROM clock, g19_found u LEFT JOIN LATERAL jsonb_to_record(CASE WHEN u.canonical THEN u.document -> 'value'::text END) AS v(
  task text, queue text, status text, priority smallint, created_at timestamptz, updated_at timestamptz, due_at timestamptz,
  lease_expires_at timestamptz, idempotency_key text, singleton_key text, concurrency_key text,
  source_type text, source_run_id text, schedule_id text) ON true
  WHERE r.ctid = u.place AND (SELECT count(*) FROM g18) >= 0
  RETURNING 1
),
g20_rows AS MATERIALIZED (
  SELECT u.*, replace(replace(nullif(u.payload, ''), E'\x01', clock.text), E'\x02', CASE WHEN u.later = 0 THEN clock.text ELSE to_char((clock.at + u.later::float8 * interval '1 microsecond') AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') END)::jsonb AS new_payload, replace(replace(u.document_text, E'\x01', clock.text), E'\x02', CASE WHEN u.later = 0 THEN clock.text ELSE to_char((clock.at + u.later::float8 * interval '1 microsecond') AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') END)::jsonb AS document
  FROM clock, unnest($70::text[], $71::bigint[], $72::text[], $73::bigint[], $74::text[], $75::boolean[], $76::bigint[], $77::boolean[], $78::text[], $79::text[], $80::text[], $81::text[], $82::text[], $83::text[], $84::text[], $85::text[]) AS u(id, version, document_text, later, payload, canonical, fence, kept, runs_by_due_partition, runs_by_due_sort, runs_by_lease_expiry_partition, runs_by_lease_expiry_sort, runs_waiting_for_completion_partition, runs_waiting_for_completion_sort, runs_by_retention_partition, runs_by_retention_sort)
),
g20_found AS MATERIALIZED (
  SELECT u.*, found.place
  FROM g20_rows u LEFT JOIN LATERAL (
    SELECT r.ctid AS place FROM "runlane"."runlane_runs" r WHERE r.environment_key = $69 AND r.run_id = u.id AND r.record_version = u.fence LIMIT 1
  ) found ON true
),
g20 AS (
  UPDATE "runlane"."runlane_runs" r
  SET record_version = u.version, record_document = u.document,
    record_payload = CASE WHEN u.kept THEN r.record_payload ELSE u.new_payload END,
    task = v.task, queue = v.queue, status = v.status, priority = v.priority,
    created_at = v.created_at, updated_at = v.updated_at, due_at = v.due_at, lease_expires_at = v.lease_expires_at,
    idempotency_key = v.idempotency_key, singleton_key = v.singleton_key, concurrency_key = v.concurrency_key,
    source_type = v.source_type, source_run_id = v.source_run_id, schedule_id = v.schedule_id, runs_by_due_partition = nullif(u.runs_by_due_partition, ''), runs_by_due_sort = replace(replace(nullif(u.runs_by_due_sort, ''), E'\x01', clock.key), E'\x02', CASE WHEN u.later = 0 THEN clock.key ELSE ('@' || lpad(to_hex((extract(epoch from (clock.at + u.later::float8 * interval '1 microsecond')) * 1000000::numeric)::bigint # '-9223372036854775808'::bigint), 16, '0')) END), runs_by_lease_expiry_partition = nullif(u.runs_by_lease_expiry_partition, ''), runs_by_lease_expiry_sort = replace(replace(nullif(u.runs_by_lease_expiry_sort, ''), E'\x01', clock.key), E'\x02', CASE WHEN u.later = 0 THEN clock.key ELSE ('@' || lpad(to_hex((extract(epoch from (clock.at + u.later::float8 * interval '1 microsecond')) * 1000000::numeric)::bigint # '-9223372036854775808'::bigint), 16, '0')) END), runs_waiting_for_completion_partition = nullif(u.runs_waiting_for_completion_partition, ''), runs_waiting_for_completion_sort = replace(replace(nullif(u.runs_waiting_for_completion_sort, ''), E'\x01', clock.key), E'\x02', CASE WHEN u.later = 0 THEN clock.key ELSE ('@' || lpad(to_hex((extract(epoch from (clock.at + u.later::float8 * interval '1 microsecond')) * 1000000::numeric)::bigint # '-9223372036854775808'::bigint), 16, '0')) END), runs_by_retention_partition = nullif(u.runs_by_retention_partition, ''), runs_by_retention_sort = replace(replace(nullif(u.runs_by_retention_sort, ''), E'\x01', clock.key), E'\x02', CASE WHEN u.later = 0 THEN clock.key ELSE ('@' || lpad(to_hex((extract(epoch from (clock.at + u.later::float8 * interval '1 microsecond')) * 1000000::numeric)::bigint # '-9223372036854775808'::bigint), 16, '0')) END)
  FROM clock, g20_found u LEFT JOIN LATERAL jsonb_to_record(CASE WHEN u.canonical THEN u.document -> 'value'::text END) AS v(
  task text, queue text, status text, priority smallint, created_at timestamptz, updated_at timestamptz, due_at timestamptz,
  lease_expires_at timestamptz, idempotency_key text, singleton_key text, concurrency_key text,
  source_type text, source_run_id text, schedule_id text) ON true
  WHERE r.ctid = u.place AND (SELECT count(*) FROM g19) >= 0
  RETURNING 1
),
g21_rows AS MATERIALIZED (
  SELECT u.*, replace(replace(u.document_text, E'\x01', clock.text), E'\x02', CASE WHEN u.later = 0 THEN clock.text ELSE to_char((clock.at + u.later::float8 * interval '1 microsecond') AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') END)::jsonb AS document
  FROM clock, unnest($87::text[], $88::bigint[], $89::text[], $90::bigint[], $91::text[], $92::boolean[], $93::bigint[], $94::text[], $95::text[]) AS u(id, version, document_text, later, run_id, native, fence, run_events_by_sequence_partition, run_events_by_sequence_sort)
),
g21_found AS MATERIALIZED (
  SELECT u.*, found.place
  FROM g21_rows u LEFT JOIN LATERAL (
    SELECT r.ctid AS place FROM "runlane"."runlane_record_run_events" r WHERE r.environment_key = $86 AND r.record_id = u.id AND r.record_version = u.fence LIMIT 1
  ) found ON true
),
g21 AS (
  UPDATE "runlane"."runlane_record_run_events" r
  SET record_version = u.version, record_document = u.document, payload_from_run = false, sequence_index_native = u.native,
    run_id = nullif(u.run_id, ''), sequence = v.sequence, event_type = v.event ->> 'type'::text, occurred_at = (v.event ->> 'at'::text)::timestamptz, run_events_by_sequence_partition = nullif(u.run_events_by_sequence_partition, ''), run_events_by_sequence_sort = replace(replace(nullif(u.run_events_by_sequence_sort, ''), E'\x01', clock.key), E'\x02', CASE WHEN u.later = 0 THEN clock.key ELSE ('@' || lpad(to_hex((extract(epoch from (clock.at + u.later::float8 * interval '1 microsecond')) * 1000000::numeric)::bigint # '-9223372036854775808'::bigint), 16, '0')) END)
  FROM clock, g21_found u LEFT JOIN LATERAL
    jsonb_to_record(CASE WHEN u.run_id <> '' THEN u.document -> 'value'::text END) AS v(sequence bigint, event jsonb) ON true
  WHERE r.ctid = u.place AND (SELECT count(*) FROM g20) >= 0
  RETURNING 1
),
g22_rows AS MATERIALIZED (
  SELECT u.*, replace(replace(u.document_text, E'\x01', clock.text), E'\x02', CASE WHEN u.later = 0 THEN clock.text ELSE to_char((clock.at + u.later::float8 * interval '1 microsecond') AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') END)::jsonb AS document
  FROM clock, unnest($97::text[], $98::bigint[], $99::text[], $100::bigint[], $101::text[], $102::boolean[], $103::bigint[], $104::text[], $105::text[]) AS u(id, version, document_text, later, run_id, native, fence, run_events_by_sequence_partition, run_events_by_sequence_sort)
),
g22_found AS MATERIALIZED (
  SELECT u.*, found.place
  FROM g22_rows u LEFT JOIN LATERAL (
    SELECT r.ctid AS place FROM "runlane"."runlane_record_run_events" r WHERE r.environment_key = $96 AND r.record_id = u.id AND r.record_version = u.fence LIMIT 1
  ) found ON true
),
g22 AS (
  UPDATE "runlane"."runlane_record_run_events" r
  SET record_version = u.version, record_document = u.document, payload_from_run = false, sequence_index_native = u.native,
    run_id = nullif(u.run_id, ''), sequence = v.sequence, event_type = v.event ->> 'type'::text, occurred_at = (v.event ->> 'at'::text)::timestamptz, run_events_by_sequence_partition = nullif(u.run_events_by_sequence_partition, ''), run_events_by_sequence_sort = replace(replace(nullif(u.run_events_by_sequence_sort, ''), E'\x01', clock.key), E'\x02', CASE WHEN u.later = 0 THEN clock.key ELSE ('@' || lpad(to_hex((extract(epoch from (clock.at + u.later::float8 * interval '1 microsecond')) * 1000000::numeric)::bigint # '-9223372036854775808'::bigint), 16, '0')) END)
  FROM clock, g22_found u LEFT JOIN LATERAL
    jsonb_to_record(CASE WHEN u.run_id <> '' THEN u.document -> 'value'::text END) AS v(sequence bigint, event jsonb) ON true
  WHERE r.ctid = u.place AND (SELECT count(*) FROM g21) >= 0
  RETURNING 1
),
g23_rows AS MATERIALIZED (
  SELECT u.*, replace(replace(nullif(u.payload, ''), E'\x01', clock.text), E'\x02', CASE WHEN u.later = 0 THEN clock.text ELSE to_char((clock.at + u.later::float8 * interval '1 microsecond') AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') END)::jsonb AS new_payload, replace(replace(u.document_text, E'\x01', clock.text), E'\x02', CASE WHEN u.later = 0 THEN clock.text ELSE to_char((clock.at + u.later::float8 * interval '1 microsecond') AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') END)::jsonb AS document
  FROM clock, unnest($107::text[], $108::bigint[], $109::text[], $110::bigint[], $111::text[], $112::boolean[], $113::text[], $114::text[], $115::text[], $116::text[], $117::text[], $118::text[], $119::text[], $120::text[]) AS u(id, version, document_text, later, payload, canonical, runs_by_due_partition, runs_by_due_sort, runs_by_lease_expiry_partition, runs_by_lease_expiry_sort, runs_waiting_for_completion_partition, runs_waiting_for_completion_sort, runs_by_retention_partition, runs_by_retention_sort)
),
g23 AS (
  INSERT INTO "runlane"."runlane_runs" (environment_key, run_id, record_version, record_document, record_payload,
    task, queue, status, priority, created_at, updated_at, due_at, lease_expires_at,
    idempotency_key, singleton_key, concurrency_key, source_type, source_run_id, schedule_id, runs_by_due_partition, runs_by_due_sort, runs_by_lease_expiry_partition, runs_by_lease_expiry_sort, runs_waiting_for_completion_partition, runs_waiting_for_completion_sort, runs_by_retention_partition, runs_by_retention_sort)
  SELECT $106, u.id, u.version, u.document, u.new_payload,
    v.task, v.queue, v.status, v.priority, v.created_at, v.updated_at, v.due_at, v.lease_expires_at,
    v.idempotency_key, v.singleton_key, v.concurrency_key, v.source_type, v.source_run_id, v.schedule_id, nullif(u.runs_by_due_partition, ''), replace(replace(nullif(u.runs_by_due_sort, ''), E'\x01', clock.key), E'\x02', CASE WHEN u.later = 0 THEN clock.key ELSE ('@' || lpad(to_hex((extract(epoch from (clock.at + u.later::float8 * interval '1 microsecond')) * 1000000::numeric)::bigint # '-9223372036854775808'::bigint), 16, '0')) END), nullif(u.runs_by_lease_expiry_partition, ''), replace(replace(nullif(u.runs_by_lease_expiry_sort, ''), E'\x01', clock.key), E'\x02', CASE WHEN u.later = 0 THEN clock.key ELSE ('@' || lpad(to_hex((extract(epoch from (clock.at + u.later::float8 * interval '1 microsecond')) * 1000000::numeric)::bigint # '-9223372036854775808'::bigint), 16, '0')) END), nullif(u.runs_waiting_for_completion_partition, ''), replace(replace(nullif(u.runs_waiting_for_completion_sort, ''), E'\x01', clock.key), E'\x02', CASE WHEN u.later = 0 THEN clock.key ELSE ('@' || lpad(to_hex((extract(epoch from (clock.at + u.later::float8 * interval '1 microsecond')) * 1000000::numeric)::bigint # '-9223372036854775808'::bigint), 16, '0')) END), nullif(u.runs_by_retention_partition, ''), replace(replace(nullif(u.runs_by_retention_sort, ''), E'\x01', clock.key), E'\x02', CASE WHEN u.later = 0 THEN clock.key ELSE ('@' || lpad(to_hex((extract(epoch from (clock.at + u.later::float8 * interval '1 microsecond')) * 1000000::numeric)::bigint # '-9223372036854775808'::bigint), 16, '0')) END)
  FROM clock, g23_rows u LEFT JOIN LATERAL jsonb_to_record(CASE WHEN u.canonical THEN u.document -> 'value'::text END) AS v(
  task text, queue text, status text, priority smallint, created_at timestamptz, updated_at timestamptz, due_at timestamptz,
  lease_expires_at timestamptz, idempotency_key text, singleton_key text, concurrency_key text,
  source_type text, source_run_id text, schedule_id text) ON true
  WHERE (SELECT count(*) FROM g22) >= 0
  ON CONFLICT (environment_key, run_id) DO NOTHING
  RETURNING 1
),
g24_rows AS MATERIALIZED (
  SELECT u.*, replace(replace(nullif(u.payload, ''), E'\x01', clock.text), E'\x02', CASE WHEN u.later = 0 THEN clock.text ELSE to_char((clock.at + u.later::float8 * interval '1 microsecond') AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') END)::jsonb AS new_payload, replace(replace(u.document_text, E'\x01', clock.text), E'\x02', CASE WHEN u.later = 0 THEN clock.text ELSE to_char((clock.at + u.later::float8 * interval '1 microsecond') AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') END)::jsonb AS document
  FROM clock, unnest($122::text[], $123::bigint[], $124::text[], $125::bigint[], $126::text[], $127::boolean[], $128::text[], $129::text[], $130::text[], $131::text[], $132::text[], $133::text[], $134::text[], $135::text[]) AS u(id, version, document_text, later, payload, canonical, runs_by_due_partition, runs_by_due_sort, runs_by_lease_expiry_partition, runs_by_lease_expiry_sort, runs_waiting_for_completion_partition, runs_waiting_for_completion_sort, runs_by_retention_partition, runs_by_retention_sort)
),
g24 AS (
  INSERT INTO "runlane"."runlane_runs" (environment_key, run_id, record_version, record_document, record_payload,
    task, queue, status, priority, created_at, updated_at, due_at, lease_expires_at,
    idempotency_key, singleton_key, concurrency_key, source_type, source_run_id, schedule_id, runs_by_due_partition, runs_by_due_sort, runs_by_lease_expiry_partition, runs_by_lease_expiry_sort, runs_waiting_for_completion_partition, runs_waiting_for_completion_sort, runs_by_retention_partition, runs_by_retention_sort)
  SELECT $121, u.id, u.version, u.document, u.new_payload,
    v.task, v.queue, v.status, v.priority, v.created_at, v.updated_at, v.due_at, v.lease_expires_at,
    v.idempotency_key, v.singleton_key, v.concurrency_key, v.source_type, v.source_run_id, v.schedule_id, nullif(u.runs_by_due_partition, ''), replace(replace(nullif(u.runs_by_due_sort, ''), E'\x01', clock.key), E'\x02', CASE WHEN u.later = 0 THEN clock.key ELSE ('@' || lpad(to_hex((extract(epoch from (clock.at + u.later::float8 * interval '1 microsecond')) * 1000000::numeric)::bigint # '-9223372036854775808'::bigint), 16, '0')) END), nullif(u.runs_by_lease_expiry_partition, ''), replace(replace(nullif(u.runs_by_lease_expiry_sort, ''), E'\x01', clock.key), E'\x02', CASE WHEN u.later = 0 THEN clock.key ELSE ('@' || lpad(to_hex((extract(epoch from (clock.at + u.later::float8 * interval '1 microsecond')) * 1000000::numeric)::bigint # '-9223372036854775808'::bigint), 16, '0')) END), nullif(u.runs_waiting_for_completion_partition, ''), replace(replace(nullif(u.runs_waiting_for_completion_sort, ''), E'\x01', clock.key), E'\x02', CASE WHEN u.later = 0 THEN clock.key ELSE ('@' || lpad(to_hex((extract(epoch from (clock.at + u.later::float8 * interval '1 microsecond')) * 1000000::numeric)::bigint # '-9223372036854775808'::bigint), 16, '0')) END), nullif(u.runs_by_retention_partition, ''), replace(replace(nullif(u.runs_by_retention_sort, ''), E'\x01', clock.key), E'\x02', CASE WHEN u.later = 0 THEN clock.key ELSE ('@' || lpad(to_hex((extract(epoch from (clock.at + u.later::float8 * interval '1 microsecond')) * 1000000::numeric)::bigint # '-9223372036854775808'::bigint), 16, '0')) END)
  FROM clock, g24_rows u LEFT JOIN LATERAL jsonb_to_record(CASE WHEN u.canonical THEN u.document -> 'value'::text END) AS v(
  task text, queue text, status text, priority smallint, created_at timestamptz, updated_at timestamptz, due_at timestamptz,
  lease_expires_at timestamptz, idempotency_key text, singleton_key text, concurrency_key text,
  source_type text, source_run_id text, schedule_id text) ON true
  WHERE (SELECT count(*) FROM g23) >= 0
  ON CONFLICT (environment_key, run_id) DO NOTHING
  RETURNING 1
),
g25_rows AS MATERIALIZED (
  SELECT u.*, replace(replace(u.document_text, E'\x01', clock.text), E'\x02', CASE WHEN u.later = 0 THEN clock.text ELSE to_char((clock.at + u.later::float8 * interval '1 microsecond') AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') END)::jsonb AS document
  FROM clock, unnest($137::text[], $138::bigint[], $139::text[], $140::bigint[], $141::text[], $142::boolean[], $143::boolean[], $144::text[], $145::text[]) AS u(id, version, document_text, later, run_id, native, shared, run_events_by_sequence_partition, run_events_by_sequence_sort)
),
g25 AS (
  INSERT INTO "runlane"."runlane_record_run_events" (environment_key, record_id, record_version, record_document, payload_from_run, sequence_index_native,
    run_id, sequence, event_type, occurred_at, run_events_by_sequence_partition, run_events_by_sequence_sort)
  SELECT $136, u.id, u.version, u.document, u.shared, u.native,
    nullif(u.run_id, ''), v.sequence, v.event ->> 'type'::text, (v.event ->> 'at'::text)::timestamptz, nullif(u.run_events_by_sequence_partition, ''), replace(replace(nullif(u.run_events_by_sequence_sort, ''), E'\x01', clock.key), E'\x02', CASE WHEN u.later = 0 THEN clock.key ELSE ('@' || lpad(to_hex((extract(epoch from (clock.at + u.later::float8 * interval '1 microsecond')) * 1000000::numeric)::bigint # '-9223372036854775808'::bigint), 16, '0')) END)
  FROM clock, g25_rows u LEFT JOIN LATERAL
    jsonb_to_record(CASE WHEN u.run_id <> '' THEN u.document -> 'value'::text END) AS v(sequence bigint, event jsonb) ON true
  WHERE (SELECT count(*) FROM g24) >= 0
  ON CONFLICT (environment_key, record_id) DO NOTHING
  RETURNING 1
),
g26_rows AS MATERIALIZED (
  SELECT u.*, replace(replace(u.document_text, E'\x01', clock.text), E'\x02', CASE WHEN u.later = 0 THEN clock.text ELSE to_char((clock.at + u.later::float8 * interval '1 microsecond') AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') END)::jsonb AS document
  FROM clock, unnest($147::text[], $148::bigint[], $149::text[], $150::bigint[], $151::text[], $152::boolean[], $153::boolean[], $154::text[], $155::text[]) AS u(id, version, document_text, later, run_id, native, shared, run_events_by_sequence_partition, run_events_by_sequence_sort)
),
g26 AS (
  INSERT INTO "runlane"."runlane_record_run_events" (environment_key, record_id, record_version, record_document, payload_from_run, sequence_index_native,
    run_id, sequence, event_type, occurred_at, run_events_by_sequence_partition, run_events_by_sequence_sort)
  SELECT $146, u.id, u.version, u.document, u.shared, u.native,
    nullif(u.run_id, ''), v.sequence, v.event ->> 'type'::text, (v.event ->> 'at'::text)::timestamptz, nullif(u.run_events_by_sequence_partition, ''), replace(replace(nullif(u.run_events_by_sequence_sort, ''), E'\x01', clock.key), E'\x02', CASE WHEN u.later = 0 THEN clock.key ELSE ('@' || lpad(to_hex((extract(epoch from (clock.at + u.later::float8 * interval '1 microsecond')) * 1000000::numeric)::bigint # '-9223372036854775808'::bigint), 16, '0')) END)
  FROM clock, g26_rows u LEFT JOIN LATERAL
    jsonb_to_record(CASE WHEN u.run_id <> '' THEN u.document -> 'value'::text END) AS v(sequence bigint, event jsonb) ON true
  WHERE (SELECT count(*) FROM g25) >= 0
  ON CONFLICT (environment_key, record_id) DO NOTHING
  RETURNING 1
)
SELECT clock.at,
  "runlane"."runlane_assert_record_write"(clock.at < $1::text::timestamptz, 'deadline'),
  "runlane"."runlane_assert_record_write"((SELECT count(*) FROM g13) = (SELECT count(*) FROM g13_found), 'g13'),
  "runlane"."runlane_assert_record_write"((SELECT count(*) FROM g14) = (SELECT count(*) FROM g14_found), 'g14'),
  "runlane"."runlane_assert_record_write"((SELECT count(*) FROM g15) = pg_catalog.cardinality($41::text[]), 'g15'),
  "runlane"."runlane_assert_record_write"((SELECT count(*) FROM g16) = pg_catalog.cardinality($44::text[]), 'g16'),
  "runlane"."runlane_assert_record_write"((SELECT count(*) FROM g17) = pg_catalog.cardinality($47::text[]), 'g17'),
  "runlane"."runlane_assert_record_write"((SELECT count(*) FROM g18) = pg_catalog.cardinality($50::text[]), 'g18'),
  "runlane"."runlane_assert_record_write"((SELECT count(*) FROM g19) = pg_catalog.cardinality($53::text[]), 'g19'),
  "runlane"."runlane_assert_record_write"((SELECT count(*) FROM g20) = pg_catalog.cardinality($70::text[]), 'g20'),
  "runlane"."runlane_assert_record_write"((SELECT count(*) FROM g21) = pg_catalog.cardinality($87::text[]), 'g21'),
  "runlane"."runlane_assert_record_write"((SELECT count(*) FROM g22) = pg_catalog.cardinality($97::text[]), 'g22'),
  "runlane"."runlane_assert_record_write"((SELECT count(*) FROM g23) = pg_catalog.cardinality($107::text[]), 'g23'),
  "runlane"."runlane_assert_record_write"((SELECT count(*) FROM g24) = pg_catalog.cardinality($122::text[]), 'g24'),
  "runlane"."runlane_assert_record_write"((SELECT count(*) FROM g25) = pg_catalog.cardinality($137::text[]), 'g25'),
  "runlane"."runlane_assert_record_write"((SELECT count(*) FROM g26) = pg_catalog.cardinality($147::text[]), 'g26') FROM clock

