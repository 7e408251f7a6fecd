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
  SELECT u.* FROM unnest($6::text[], $7::bigint[]) AS u(id, fence)
),
g2_found AS MATERIALIZED (
  SELECT u.*, found.place
  FROM g2_rows u LEFT JOIN LATERAL (
    SELECT r.ctid AS place FROM "runlane"."runlane_runs" r WHERE r.environment_key = $5 AND r.run_id = u.id AND r.record_version = u.fence LIMIT 1
  ) found ON true
),
g2 AS (
  DELETE FROM "runlane"."runlane_runs" r
  USING g2_found u
  WHERE r.ctid = u.place AND (SELECT count(*) FROM g1) >= 0
  RETURNING 1
)
SELECT clock.at,
  "runlane"."runlane_assert_record_write"(clock.at < $1::text::timestamptz, 'deadline'),
  "runlane"."runlane_assert_record_write"((SELECT count(*) FROM g1) = (SELECT count(*) FROM g1_found), 'g1'),
  "runlane"."runlane_assert_record_write"((SELECT count(*) FROM g2) = pg_catalog.cardinality($6::text[]), 'g2') FROM clock

-- RunEvents
WITH clock AS MATERIALIZED (
  SELECT c.at, to_char((c.at) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') AS text, ('@' || lpad(to_hex((extract(epoch from (c.at)) * 1000000::numeric)::bigint # '-9223372036854775808'::bigint), 16, '0')) AS key FROM (SELECT clock_timestamp() AS at) c
),
g1_rows AS MATERIALIZED (
  SELECT u.* FROM unnest($3::text[], $4::bigint[]) AS u(id, fence)
),
g1_found AS MATERIALIZED (
  SELECT u.*, found.place
  FROM g1_rows u LEFT JOIN LATERAL (
    SELECT r.ctid AS place FROM "runlane"."runlane_record_run_events" r WHERE r.environment_key = $2 AND r.record_id = u.id AND r.record_version = u.fence LIMIT 1
  ) found ON true
),
g1 AS (
  DELETE FROM "runlane"."runlane_record_run_events" r
  USING g1_found u
  WHERE r.ctid = u.place AND true
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
  SELECT u.* FROM unnest($3::text[], $4::bigint[]) AS u(id, fence)
),
g1_found AS MATERIALIZED (
  SELECT u.*, found.place
  FROM g1_rows u LEFT JOIN LATERAL (
    SELECT r.ctid AS place FROM "runlane"."runlane_record_run_event_id_owners" r WHERE r.partition_key = $2 AND r.record_id = u.id AND r.record_version = u.fence LIMIT 1
  ) found ON true
),
g1 AS (
  DELETE FROM "runlane"."runlane_record_run_event_id_owners" r
  USING g1_found u
  WHERE r.ctid = u.place AND true
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
  SELECT u.* FROM unnest($3::text[], $4::bigint[]) AS u(id, fence)
),
g1_found AS MATERIALIZED (
  SELECT u.*, found.place
  FROM g1_rows u LEFT JOIN LATERAL (
    SELECT r.ctid AS place FROM "runlane"."runlane_record_run_completion_wait_presence" r WHERE r.partition_key = $2 AND r.record_id = u.id AND r.record_version = u.fence LIMIT 1
  ) found ON true
),
g1 AS (
  DELETE FROM "runlane"."runlane_record_run_completion_wait_presence" r
  USING g1_found u
  WHERE r.ctid = u.place AND true
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
  SELECT u.* FROM unnest($3::text[], $4::bigint[]) AS u(id, fence)
),
g1_found AS MATERIALIZED (
  SELECT u.*, found.place
  FROM g1_rows u LEFT JOIN LATERAL (
    SELECT r.ctid AS place FROM "runlane"."runlane_record_idempotency_owners" r WHERE r.partition_key = $2 AND r.record_id = u.id AND r.record_version = u.fence LIMIT 1
  ) found ON true
),
g1 AS (
  DELETE FROM "runlane"."runlane_record_idempotency_owners" r
  USING g1_found u
  WHERE r.ctid = u.place AND true
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
  SELECT u.* FROM unnest($3::text[], $4::bigint[]) AS u(id, fence)
),
g1_found AS MATERIALIZED (
  SELECT u.*, found.place
  FROM g1_rows u LEFT JOIN LATERAL (
    SELECT r.ctid AS place FROM "runlane"."runlane_record_singleton_owners" r WHERE r.partition_key = $2 AND r.record_id = u.id AND r.record_version = u.fence LIMIT 1
  ) found ON true
),
g1 AS (
  DELETE FROM "runlane"."runlane_record_singleton_owners" r
  USING g1_found u
  WHERE r.ctid = u.place AND true
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
  SELECT u.* FROM unnest($3::text[], $4::bigint[]) AS u(id, fence)
),
g1_found AS MATERIALIZED (
  SELECT u.*, found.place
  FROM g1_rows u LEFT JOIN LATERAL (
    SELECT r.ctid AS place FROM "runlane"."runlane_record_queue_slots" r WHERE r.partition_key = $2 AND r.record_id = u.id AND r.record_version = u.fence LIMIT 1
  ) found ON true
),
g1 AS (
  DELETE FROM "runlane"."runlane_record_queue_slots" r
  USING g1_found u
  WHERE r.ctid = u.place AND true
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
  SELECT u.* FROM unnest($3::text[], $4::bigint[]) AS u(id, fence)
),
g1_found AS MATERIALIZED (
  SELECT u.*, found.place
  FROM g1_rows u LEFT JOIN LATERAL (
    SELECT r.ctid AS place FROM "runlane"."runlane_record_schedule_occurrences" r WHERE r.partition_key = $2 AND r.record_id = u.id AND r.record_version = u.fence LIMIT 1
  ) found ON true
),
g1 AS (
  DELETE FROM "runlane"."runlane_record_schedule_occurrences" r
  USING g1_found u
  WHERE r.ctid = u.place AND true
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
  SELECT u.* FROM unnest($3::text[], $4::bigint[]) AS u(id, fence)
),
g1_found AS MATERIALIZED (
  SELECT u.*, found.place
  FROM g1_rows u LEFT JOIN LATERAL (
    SELECT r.ctid AS place FROM "runlane"."runlane_record_schedule_cursors" r WHERE r.partition_key = $2 AND r.record_id = u.id AND r.record_version = u.fence LIMIT 1
  ) found ON true
),
g1 AS (
  DELETE FROM "runlane"."runlane_record_schedule_cursors" r
  USING g1_found u
  WHERE r.ctid = u.place AND true
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
  SELECT u.* FROM unnest($3::text[], $4::bigint[]) AS u(id, fence)
),
g1_found AS MATERIALIZED (
  SELECT u.*, found.place
  FROM g1_rows u LEFT JOIN LATERAL (
    SELECT r.ctid AS place FROM "runlane"."runlane_record_observation_heads" r WHERE r.partition_key = $2 AND r.record_id = u.id AND r.record_version = u.fence LIMIT 1
  ) found ON true
),
g1 AS (
  DELETE FROM "runlane"."runlane_record_observation_heads" r
  USING g1_found u
  WHERE r.ctid = u.place AND true
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
  SELECT u.* FROM unnest($3::text[], $4::bigint[]) AS u(id, fence)
),
g1_found AS MATERIALIZED (
  SELECT u.*, found.place
  FROM g1_rows u LEFT JOIN LATERAL (
    SELECT r.ctid AS place FROM "runlane"."runlane_record_observation_records" r WHERE r.partition_key = $2 AND r.record_id = u.id AND r.record_version = u.fence LIMIT 1
  ) found ON true
),
g1 AS (
  DELETE FROM "runlane"."runlane_record_observation_records" r
  USING g1_found u
  WHERE r.ctid = u.place AND true
  RETURNING 1
)
SELECT clock.at,
  "runlane"."runlane_assert_record_write"(clock.at < $1::text::timestamptz, 'deadline'),
  "runlane"."runlane_assert_record_write"((SELECT count(*) FROM g1) = pg_catalog.cardinality($3::text[]), 'g1') FROM clock

