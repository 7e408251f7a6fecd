-- Runs
WITH clock AS MATERIALIZED (
  SELECT c.at, to_char((c.at) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') AS text, ('@' || lpad(to_hex((extract(epoch from (c.at)) * 1000000::numeric)::bigint # '-9223372036854775808'::bigint), 16, '0')) AS key FROM (SELECT clock_timestamp() AS at) c
),
g1_rows AS MATERIALIZED (
  SELECT u.*, replace(replace(nullif(u.payload, ''), E'\x01', clock.text), E'\x02', CASE WHEN u.later = 0 THEN clock.text ELSE to_char((clock.at + u.later::float8 * interval '1 microsecond') AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') END)::jsonb AS new_payload, replace(replace(u.document_text, E'\x01', clock.text), E'\x02', CASE WHEN u.later = 0 THEN clock.text ELSE to_char((clock.at + u.later::float8 * interval '1 microsecond') AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') END)::jsonb AS document
  FROM clock, unnest($3::text[], $4::bigint[], $5::text[], $6::bigint[], $7::text[], $8::boolean[], $9::text[], $10::text[], $11::text[], $12::text[], $13::text[], $14::text[], $15::text[], $16::text[]) AS u(id, version, document_text, later, payload, canonical, runs_by_due_partition, runs_by_due_sort, runs_by_lease_expiry_partition, runs_by_lease_expiry_sort, runs_waiting_for_completion_partition, runs_waiting_for_completion_sort, runs_by_retention_partition, runs_by_retention_sort)
),
g1 AS (
  INSERT INTO "runlane"."runlane_runs" (environment_key, run_id, record_version, record_document, record_payload,
    task, queue, status, priority, created_at, updated_at, due_at, lease_expires_at,
    idempotency_key, singleton_key, concurrency_key, source_type, source_run_id, schedule_id, runs_by_due_partition, runs_by_due_sort, runs_by_lease_expiry_partition, runs_by_lease_expiry_sort, runs_waiting_for_completion_partition, runs_waiting_for_completion_sort, runs_by_retention_partition, runs_by_retention_sort)
  SELECT $2, u.id, u.version, u.document, u.new_payload,
    v.task, v.queue, v.status, v.priority, v.created_at, v.updated_at, v.due_at, v.lease_expires_at,
    v.idempotency_key, v.singleton_key, v.concurrency_key, v.source_type, v.source_run_id, v.schedule_id, nullif(u.runs_by_due_partition, ''), replace(replace(nullif(u.runs_by_due_sort, ''), E'\x01', clock.key), E'\x02', CASE WHEN u.later = 0 THEN clock.key ELSE ('@' || lpad(to_hex((extract(epoch from (clock.at + u.later::float8 * interval '1 microsecond')) * 1000000::numeric)::bigint # '-9223372036854775808'::bigint), 16, '0')) END), nullif(u.runs_by_lease_expiry_partition, ''), replace(replace(nullif(u.runs_by_lease_expiry_sort, ''), E'\x01', clock.key), E'\x02', CASE WHEN u.later = 0 THEN clock.key ELSE ('@' || lpad(to_hex((extract(epoch from (clock.at + u.later::float8 * interval '1 microsecond')) * 1000000::numeric)::bigint # '-9223372036854775808'::bigint), 16, '0')) END), nullif(u.runs_waiting_for_completion_partition, ''), replace(replace(nullif(u.runs_waiting_for_completion_sort, ''), E'\x01', clock.key), E'\x02', CASE WHEN u.later = 0 THEN clock.key ELSE ('@' || lpad(to_hex((extract(epoch from (clock.at + u.later::float8 * interval '1 microsecond')) * 1000000::numeric)::bigint # '-9223372036854775808'::bigint), 16, '0')) END), nullif(u.runs_by_retention_partition, ''), replace(replace(nullif(u.runs_by_retention_sort, ''), E'\x01', clock.key), E'\x02', CASE WHEN u.later = 0 THEN clock.key ELSE ('@' || lpad(to_hex((extract(epoch from (clock.at + u.later::float8 * interval '1 microsecond')) * 1000000::numeric)::bigint # '-9223372036854775808'::bigint), 16, '0')) END)
  FROM clock, g1_rows u LEFT JOIN LATERAL jsonb_to_record(CASE WHEN u.canonical THEN u.document -> 'value'::text END) AS v(
  task text, queue text, status text, priority smallint, created_at timestamptz, updated_at timestamptz, due_at timestamptz,
  lease_expires_at timestamptz, idempotency_key text, singleton_key text, concurrency_key text,
  source_type text, source_run_id text, schedule_id text) ON true
  WHERE true
  ON CONFLICT (environment_key, run_id) DO NOTHING
  RETURNING 1
)
SELECT clock.at,
  "runlane"."runlane_assert_record_write"(clock.at < $1::text::timestamptz, 'deadline'),
  "runlane"."runlane_assert_record_write"((SELECT count(*) FROM g1) = pg_catalog.cardinality($3::text[]), 'g1') FROM clock

-- RunEvents
WITH clock AS MATERIALIZED (
  SELECT c.at, to_char((c.at) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') AS text, ('@' || lpad(to_hex((extract(epoch from (c.at)) * 1000000::numeric)::bigint # '-9223372036854775808'::bigint), 16, '0')) AS key FROM (SELECT clock_timestamp() AS at) c
),
g1_rows AS MATERIALIZED (
  SELECT u.*, replace(replace(u.document_text, E'\x01', clock.text), E'\x02', CASE WHEN u.later = 0 THEN clock.text ELSE to_char((clock.at + u.later::float8 * interval '1 microsecond') AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') END)::jsonb AS document
  FROM clock, unnest($3::text[], $4::bigint[], $5::text[], $6::bigint[], $7::text[], $8::boolean[], $9::boolean[], $10::text[], $11::text[]) AS u(id, version, document_text, later, run_id, native, shared, run_events_by_sequence_partition, run_events_by_sequence_sort)
),
g1 AS (
  INSERT INTO "runlane"."runlane_record_run_events" (environment_key, record_id, record_version, record_document, payload_from_run, sequence_index_native,
    run_id, sequence, event_type, occurred_at, run_events_by_sequence_partition, run_events_by_sequence_sort)
  SELECT $2, u.id, u.version, u.document, u.shared, u.native,
    nullif(u.run_id, ''), v.sequence, v.event ->> 'type'::text, (v.event ->> 'at'::text)::timestamptz, nullif(u.run_events_by_sequence_partition, ''), replace(replace(nullif(u.run_events_by_sequence_sort, ''), E'\x01', clock.key), E'\x02', CASE WHEN u.later = 0 THEN clock.key ELSE ('@' || lpad(to_hex((extract(epoch from (clock.at + u.later::float8 * interval '1 microsecond')) * 1000000::numeric)::bigint # '-9223372036854775808'::bigint), 16, '0')) END)
  FROM clock, g1_rows u LEFT JOIN LATERAL
    jsonb_to_record(CASE WHEN u.run_id <> '' THEN u.document -> 'value'::text END) AS v(sequence bigint, event jsonb) ON true
  WHERE true
  ON CONFLICT (environment_key, record_id) DO NOTHING
  RETURNING 1
)
SELECT clock.at,
  "runlane"."runlane_assert_record_write"(clock.at < $1::text::timestamptz, 'deadline'),
  "runlane"."runlane_assert_record_write"((SELECT count(*) FROM g1) = pg_catalog.cardinality($3::text[]), 'g1') FROM clock

-- RunEventIdOwners
WITH clock AS MATERIALIZED (
  SELECT c.at, to_char((c.at) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') AS text, ('@' || lpad(to_hex((extract(epoch from (c.at)) * 1000000::numeric)::bigint # '-9223372036854775808'::bigint), 16, '0')) AS key FROM (SELECT clock_timestamp() AS at) c
),
g1_rows AS MATERIALIZED (
  SELECT u.*, replace(replace(u.document_text, E'\x01', clock.text), E'\x02', CASE WHEN u.later = 0 THEN clock.text ELSE to_char((clock.at + u.later::float8 * interval '1 microsecond') AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') END)::jsonb AS document
  FROM clock, unnest($3::text[], $4::bigint[], $5::text[], $6::bigint[]) AS u(id, version, document_text, later)
),
g1 AS (
  INSERT INTO "runlane"."runlane_record_run_event_id_owners" (partition_key, record_id, record_version, record_document)
  SELECT $2, u.id, u.version, u.document
  FROM g1_rows u, clock
  WHERE true
  ON CONFLICT (partition_key, record_id) DO NOTHING
  RETURNING 1
)
SELECT clock.at,
  "runlane"."runlane_assert_record_write"(clock.at < $1::text::timestamptz, 'deadline'),
  "runlane"."runlane_assert_record_write"((SELECT count(*) FROM g1) = pg_catalog.cardinality($3::text[]), 'g1') FROM clock

-- RunCompletionWaitPresence
WITH clock AS MATERIALIZED (
  SELECT c.at, to_char((c.at) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') AS text, ('@' || lpad(to_hex((extract(epoch from (c.at)) * 1000000::numeric)::bigint # '-9223372036854775808'::bigint), 16, '0')) AS key FROM (SELECT clock_timestamp() AS at) c
),
g1_rows AS MATERIALIZED (
  SELECT u.*, replace(replace(u.document_text, E'\x01', clock.text), E'\x02', CASE WHEN u.later = 0 THEN clock.text ELSE to_char((clock.at + u.later::float8 * interval '1 microsecond') AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') END)::jsonb AS document
  FROM clock, unnest($3::text[], $4::bigint[], $5::text[], $6::bigint[]) AS u(id, version, document_text, later)
),
g1 AS (
  INSERT INTO "runlane"."runlane_record_run_completion_wait_presence" (partition_key, record_id, record_version, record_document)
  SELECT $2, u.id, u.version, u.document
  FROM g1_rows u, clock
  WHERE true
  ON CONFLICT (partition_key, record_id) DO NOTHING
  RETURNING 1
)
SELECT clock.at,
  "runlane"."runlane_assert_record_write"(clock.at < $1::text::timestamptz, 'deadline'),
  "runlane"."runlane_assert_record_write"((SELECT count(*) FROM g1) = pg_catalog.cardinality($3::text[]), 'g1') FROM clock

-- IdempotencyOwners
WITH clock AS MATERIALIZED (
  SELECT c.at, to_char((c.at) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') AS text, ('@' || lpad(to_hex((extract(epoch from (c.at)) * 1000000::numeric)::bigint # '-9223372036854775808'::bigint), 16, '0')) AS key FROM (SELECT clock_timestamp() AS at) c
),
g1_rows AS MATERIALIZED (
  SELECT u.*, replace(replace(u.document_text, E'\x01', clock.text), E'\x02', CASE WHEN u.later = 0 THEN clock.text ELSE to_char((clock.at + u.later::float8 * interval '1 microsecond') AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') END)::jsonb AS document
  FROM clock, unnest($3::text[], $4::bigint[], $5::text[], $6::bigint[], $7::text[], $8::text[]) AS u(id, version, document_text, later, idempotency_owners_by_expiry_partition, idempotency_owners_by_expiry_sort)
),
g1 AS (
  INSERT INTO "runlane"."runlane_record_idempotency_owners" (partition_key, record_id, record_version, record_document, idempotency_owners_by_expiry_partition, idempotency_owners_by_expiry_sort)
  SELECT $2, u.id, u.version, u.document, nullif(u.idempotency_owners_by_expiry_partition, ''), replace(replace(nullif(u.idempotency_owners_by_expiry_sort, ''), E'\x01', clock.key), E'\x02', CASE WHEN u.later = 0 THEN clock.key ELSE ('@' || lpad(to_hex((extract(epoch from (clock.at + u.later::float8 * interval '1 microsecond')) * 1000000::numeric)::bigint # '-9223372036854775808'::bigint), 16, '0')) END)
  FROM g1_rows u, clock
  WHERE true
  ON CONFLICT (partition_key, record_id) DO NOTHING
  RETURNING 1
)
SELECT clock.at,
  "runlane"."runlane_assert_record_write"(clock.at < $1::text::timestamptz, 'deadline'),
  "runlane"."runlane_assert_record_write"((SELECT count(*) FROM g1) = pg_catalog.cardinality($3::text[]), 'g1') FROM clock

-- SingletonOwners
WITH clock AS MATERIALIZED (
  SELECT c.at, to_char((c.at) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') AS text, ('@' || lpad(to_hex((extract(epoch from (c.at)) * 1000000::numeric)::bigint # '-9223372036854775808'::bigint), 16, '0')) AS key FROM (SELECT clock_timestamp() AS at) c
),
g1_rows AS MATERIALIZED (
  SELECT u.*, replace(replace(u.document_text, E'\x01', clock.text), E'\x02', CASE WHEN u.later = 0 THEN clock.text ELSE to_char((clock.at + u.later::float8 * interval '1 microsecond') AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') END)::jsonb AS document
  FROM clock, unnest($3::text[], $4::bigint[], $5::text[], $6::bigint[]) AS u(id, version, document_text, later)
),
g1 AS (
  INSERT INTO "runlane"."runlane_record_singleton_owners" (partition_key, record_id, record_version, record_document)
  SELECT $2, u.id, u.version, u.document
  FROM g1_rows u, clock
  WHERE true
  ON CONFLICT (partition_key, record_id) DO NOTHING
  RETURNING 1
)
SELECT clock.at,
  "runlane"."runlane_assert_record_write"(clock.at < $1::text::timestamptz, 'deadline'),
  "runlane"."runlane_assert_record_write"((SELECT count(*) FROM g1) = pg_catalog.cardinality($3::text[]), 'g1') FROM clock

-- QueueSlots
WITH clock AS MATERIALIZED (
  SELECT c.at, to_char((c.at) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') AS text, ('@' || lpad(to_hex((extract(epoch from (c.at)) * 1000000::numeric)::bigint # '-9223372036854775808'::bigint), 16, '0')) AS key FROM (SELECT clock_timestamp() AS at) c
),
g1_rows AS MATERIALIZED (
  SELECT u.*, replace(replace(u.document_text, E'\x01', clock.text), E'\x02', CASE WHEN u.later = 0 THEN clock.text ELSE to_char((clock.at + u.later::float8 * interval '1 microsecond') AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') END)::jsonb AS document
  FROM clock, unnest($3::text[], $4::bigint[], $5::text[], $6::bigint[], $7::text[], $8::text[]) AS u(id, version, document_text, later, queue_slots_by_expiry_partition, queue_slots_by_expiry_sort)
),
g1 AS (
  INSERT INTO "runlane"."runlane_record_queue_slots" (partition_key, record_id, record_version, record_document, queue_slots_by_expiry_partition, queue_slots_by_expiry_sort)
  SELECT $2, u.id, u.version, u.document, nullif(u.queue_slots_by_expiry_partition, ''), replace(replace(nullif(u.queue_slots_by_expiry_sort, ''), E'\x01', clock.key), E'\x02', CASE WHEN u.later = 0 THEN clock.key ELSE ('@' || lpad(to_hex((extract(epoch from (clock.at + u.later::float8 * interval '1 microsecond')) * 1000000::numeric)::bigint # '-9223372036854775808'::bigint), 16, '0')) END)
  FROM g1_rows u, clock
  WHERE true
  ON CONFLICT (partition_key, record_id) DO NOTHING
  RETURNING 1
)
SELECT clock.at,
  "runlane"."runlane_assert_record_write"(clock.at < $1::text::timestamptz, 'deadline'),
  "runlane"."runlane_assert_record_write"((SELECT count(*) FROM g1) = pg_catalog.cardinality($3::text[]), 'g1') FROM clock

-- ScheduleOccurrences
WITH clock AS MATERIALIZED (
  SELECT c.at, to_char((c.at) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') AS text, ('@' || lpad(to_hex((extract(epoch from (c.at)) * 1000000::numeric)::bigint # '-9223372036854775808'::bigint), 16, '0')) AS key FROM (SELECT clock_timestamp() AS at) c
),
g1_rows AS MATERIALIZED (
  SELECT u.*, replace(replace(u.document_text, E'\x01', clock.text), E'\x02', CASE WHEN u.later = 0 THEN clock.text ELSE to_char((clock.at + u.later::float8 * interval '1 microsecond') AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') END)::jsonb AS document
  FROM clock, unnest($3::text[], $4::bigint[], $5::text[], $6::bigint[], $7::text[], $8::text[]) AS u(id, version, document_text, later, schedule_occurrences_by_fire_time_partition, schedule_occurrences_by_fire_time_sort)
),
g1 AS (
  INSERT INTO "runlane"."runlane_record_schedule_occurrences" (partition_key, record_id, record_version, record_document, schedule_occurrences_by_fire_time_partition, schedule_occurrences_by_fire_time_sort)
  SELECT $2, u.id, u.version, u.document, nullif(u.schedule_occurrences_by_fire_time_partition, ''), replace(replace(nullif(u.schedule_occurrences_by_fire_time_sort, ''), E'\x01', clock.key), E'\x02', CASE WHEN u.later = 0 THEN clock.key ELSE ('@' || lpad(to_hex((extract(epoch from (clock.at + u.later::float8 * interval '1 microsecond')) * 1000000::numeric)::bigint # '-9223372036854775808'::bigint), 16, '0')) END)
  FROM g1_rows u, clock
  WHERE true
  ON CONFLICT (partition_key, record_id) DO NOTHING
  RETURNING 1
)
SELECT clock.at,
  "runlane"."runlane_assert_record_write"(clock.at < $1::text::timestamptz, 'deadline'),
  "runlane"."runlane_assert_record_write"((SELECT count(*) FROM g1) = pg_catalog.cardinality($3::text[]), 'g1') FROM clock

-- ScheduleCursors
WITH clock AS MATERIALIZED (
  SELECT c.at, to_char((c.at) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') AS text, ('@' || lpad(to_hex((extract(epoch from (c.at)) * 1000000::numeric)::bigint # '-9223372036854775808'::bigint), 16, '0')) AS key FROM (SELECT clock_timestamp() AS at) c
),
g1_rows AS MATERIALIZED (
  SELECT u.*, replace(replace(u.document_text, E'\x01', clock.text), E'\x02', CASE WHEN u.later = 0 THEN clock.text ELSE to_char((clock.at + u.later::float8 * interval '1 microsecond') AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') END)::jsonb AS document
  FROM clock, unnest($3::text[], $4::bigint[], $5::text[], $6::bigint[]) AS u(id, version, document_text, later)
),
g1 AS (
  INSERT INTO "runlane"."runlane_record_schedule_cursors" (partition_key, record_id, record_version, record_document)
  SELECT $2, u.id, u.version, u.document
  FROM g1_rows u, clock
  WHERE true
  ON CONFLICT (partition_key, record_id) DO NOTHING
  RETURNING 1
)
SELECT clock.at,
  "runlane"."runlane_assert_record_write"(clock.at < $1::text::timestamptz, 'deadline'),
  "runlane"."runlane_assert_record_write"((SELECT count(*) FROM g1) = pg_catalog.cardinality($3::text[]), 'g1') FROM clock

-- ObservationHeads
WITH clock AS MATERIALIZED (
  SELECT c.at, to_char((c.at) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') AS text, ('@' || lpad(to_hex((extract(epoch from (c.at)) * 1000000::numeric)::bigint # '-9223372036854775808'::bigint), 16, '0')) AS key FROM (SELECT clock_timestamp() AS at) c
),
g1_rows AS MATERIALIZED (
  SELECT u.*, replace(replace(u.document_text, E'\x01', clock.text), E'\x02', CASE WHEN u.later = 0 THEN clock.text ELSE to_char((clock.at + u.later::float8 * interval '1 microsecond') AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') END)::jsonb AS document
  FROM clock, unnest($3::text[], $4::bigint[], $5::text[], $6::bigint[]) AS u(id, version, document_text, later)
),
g1 AS (
  INSERT INTO "runlane"."runlane_record_observation_heads" (partition_key, record_id, record_version, record_document)
  SELECT $2, u.id, u.version, u.document
  FROM g1_rows u, clock
  WHERE true
  ON CONFLICT (partition_key, record_id) DO NOTHING
  RETURNING 1
)
SELECT clock.at,
  "runlane"."runlane_assert_record_write"(clock.at < $1::text::timestamptz, 'deadline'),
  "runlane"."runlane_assert_record_write"((SELECT count(*) FROM g1) = pg_catalog.cardinality($3::text[]), 'g1') FROM clock

-- ObservationRecords
WITH clock AS MATERIALIZED (
  SELECT c.at, to_char((c.at) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') AS text, ('@' || lpad(to_hex((extract(epoch from (c.at)) * 1000000::numeric)::bigint # '-9223372036854775808'::bigint), 16, '0')) AS key FROM (SELECT clock_timestamp() AS at) c
),
g1_rows AS MATERIALIZED (
  SELECT u.*, replace(replace(u.document_text, E'\x01', clock.text), E'\x02', CASE WHEN u.later = 0 THEN clock.text ELSE to_char((clock.at + u.later::float8 * interval '1 microsecond') AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') END)::jsonb AS document
  FROM clock, unnest($3::text[], $4::bigint[], $5::text[], $6::bigint[], $7::text[], $8::text[]) AS u(id, version, document_text, later, observations_by_position_partition, observations_by_position_sort)
),
g1 AS (
  INSERT INTO "runlane"."runlane_record_observation_records" (partition_key, record_id, record_version, record_document, observations_by_position_partition, observations_by_position_sort)
  SELECT $2, u.id, u.version, u.document, nullif(u.observations_by_position_partition, ''), replace(replace(nullif(u.observations_by_position_sort, ''), E'\x01', clock.key), E'\x02', CASE WHEN u.later = 0 THEN clock.key ELSE ('@' || lpad(to_hex((extract(epoch from (clock.at + u.later::float8 * interval '1 microsecond')) * 1000000::numeric)::bigint # '-9223372036854775808'::bigint), 16, '0')) END)
  FROM g1_rows u, clock
  WHERE true
  ON CONFLICT (partition_key, record_id) DO NOTHING
  RETURNING 1
)
SELECT clock.at,
  "runlane"."runlane_assert_record_write"(clock.at < $1::text::timestamptz, 'deadline'),
  "runlane"."runlane_assert_record_write"((SELECT count(*) FROM g1) = pg_catalog.cardinality($3::text[]), 'g1') FROM clock

