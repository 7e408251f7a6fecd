-- Runs
WITH clock AS MATERIALIZED (
  SELECT c.at, to_char((c.at) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') AS text, ('@' || lpad(to_hex((extract(epoch from (c.at)) * 1000000::numeric)::bigint # '-9223372036854775808'::bigint), 16, '0')) AS key FROM (SELECT clock_timestamp() AS at) c
),
g1_locked AS MATERIALIZED (
  SELECT e.id
  FROM unnest($2::text[], $3::bigint[]) AS e(id, version)
  CROSS JOIN LATERAL (
    SELECT 1 FROM "runlane"."runlane_runs" r WHERE r.environment_key = $1 AND r.run_id = e.id AND r.record_version = e.version LIMIT 1 FOR NO KEY UPDATE OF r
  ) found
),
g1 AS MATERIALIZED (
  SELECT "runlane"."runlane_assert_record_write"(count(*) = pg_catalog.cardinality($2::text[]), 'g1') AS ok FROM g1_locked
),
checked AS MATERIALIZED (SELECT count(*) AS n FROM (SELECT ok FROM g1) checks)
SELECT clock.at,
  (SELECT n FROM checked) FROM clock

-- RunEvents
WITH clock AS MATERIALIZED (
  SELECT c.at, to_char((c.at) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') AS text, ('@' || lpad(to_hex((extract(epoch from (c.at)) * 1000000::numeric)::bigint # '-9223372036854775808'::bigint), 16, '0')) AS key FROM (SELECT clock_timestamp() AS at) c
),
g1_locked AS MATERIALIZED (
  SELECT e.id
  FROM unnest($2::text[], $3::bigint[]) AS e(id, version)
  CROSS JOIN LATERAL (
    SELECT 1 FROM "runlane"."runlane_record_run_events" r WHERE r.environment_key = $1 AND r.record_id = e.id AND r.record_version = e.version LIMIT 1 FOR NO KEY UPDATE OF r
  ) found
),
g1 AS MATERIALIZED (
  SELECT "runlane"."runlane_assert_record_write"(count(*) = pg_catalog.cardinality($2::text[]), 'g1') AS ok FROM g1_locked
),
checked AS MATERIALIZED (SELECT count(*) AS n FROM (SELECT ok FROM g1) checks)
SELECT clock.at,
  (SELECT n FROM checked) FROM clock

-- RunEventIdOwners
WITH clock AS MATERIALIZED (
  SELECT c.at, to_char((c.at) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') AS text, ('@' || lpad(to_hex((extract(epoch from (c.at)) * 1000000::numeric)::bigint # '-9223372036854775808'::bigint), 16, '0')) AS key FROM (SELECT clock_timestamp() AS at) c
),
g1_locked AS MATERIALIZED (
  SELECT e.id
  FROM unnest($2::text[], $3::bigint[]) AS e(id, version)
  CROSS JOIN LATERAL (
    SELECT 1 FROM "runlane"."runlane_record_run_event_id_owners" r WHERE r.partition_key = $1 AND r.record_id = e.id AND r.record_version = e.version LIMIT 1 FOR NO KEY UPDATE OF r
  ) found
),
g1 AS MATERIALIZED (
  SELECT "runlane"."runlane_assert_record_write"(count(*) = pg_catalog.cardinality($2::text[]), 'g1') AS ok FROM g1_locked
),
checked AS MATERIALIZED (SELECT count(*) AS n FROM (SELECT ok FROM g1) checks)
SELECT clock.at,
  (SELECT n FROM checked) FROM clock

-- RunCompletionWaitPresence
WITH clock AS MATERIALIZED (
  SELECT c.at, to_char((c.at) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') AS text, ('@' || lpad(to_hex((extract(epoch from (c.at)) * 1000000::numeric)::bigint # '-9223372036854775808'::bigint), 16, '0')) AS key FROM (SELECT clock_timestamp() AS at) c
),
g1_locked AS MATERIALIZED (
  SELECT e.id
  FROM unnest($2::text[], $3::bigint[]) AS e(id, version)
  CROSS JOIN LATERAL (
    SELECT 1 FROM "runlane"."runlane_record_run_completion_wait_presence" r WHERE r.partition_key = $1 AND r.record_id = e.id AND r.record_version = e.version LIMIT 1 FOR NO KEY UPDATE OF r
  ) found
),
g1 AS MATERIALIZED (
  SELECT "runlane"."runlane_assert_record_write"(count(*) = pg_catalog.cardinality($2::text[]), 'g1') AS ok FROM g1_locked
),
checked AS MATERIALIZED (SELECT count(*) AS n FROM (SELECT ok FROM g1) checks)
SELECT clock.at,
  (SELECT n FROM checked) FROM clock

-- IdempotencyOwners
WITH clock AS MATERIALIZED (
  SELECT c.at, to_char((c.at) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') AS text, ('@' || lpad(to_hex((extract(epoch from (c.at)) * 1000000::numeric)::bigint # '-9223372036854775808'::bigint), 16, '0')) AS key FROM (SELECT clock_timestamp() AS at) c
),
g1_locked AS MATERIALIZED (
  SELECT e.id
  FROM unnest($2::text[], $3::bigint[]) AS e(id, version)
  CROSS JOIN LATERAL (
    SELECT 1 FROM "runlane"."runlane_record_idempotency_owners" r WHERE r.partition_key = $1 AND r.record_id = e.id AND r.record_version = e.version LIMIT 1 FOR NO KEY UPDATE OF r
  ) found
),
g1 AS MATERIALIZED (
  SELECT "runlane"."runlane_assert_record_write"(count(*) = pg_catalog.cardinality($2::text[]), 'g1') AS ok FROM g1_locked
),
checked AS MATERIALIZED (SELECT count(*) AS n FROM (SELECT ok FROM g1) checks)
SELECT clock.at,
  (SELECT n FROM checked) FROM clock

-- SingletonOwners
WITH clock AS MATERIALIZED (
  SELECT c.at, to_char((c.at) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') AS text, ('@' || lpad(to_hex((extract(epoch from (c.at)) * 1000000::numeric)::bigint # '-9223372036854775808'::bigint), 16, '0')) AS key FROM (SELECT clock_timestamp() AS at) c
),
g1_locked AS MATERIALIZED (
  SELECT e.id
  FROM unnest($2::text[], $3::bigint[]) AS e(id, version)
  CROSS JOIN LATERAL (
    SELECT 1 FROM "runlane"."runlane_record_singleton_owners" r WHERE r.partition_key = $1 AND r.record_id = e.id AND r.record_version = e.version LIMIT 1 FOR NO KEY UPDATE OF r
  ) found
),
g1 AS MATERIALIZED (
  SELECT "runlane"."runlane_assert_record_write"(count(*) = pg_catalog.cardinality($2::text[]), 'g1') AS ok FROM g1_locked
),
checked AS MATERIALIZED (SELECT count(*) AS n FROM (SELECT ok FROM g1) checks)
SELECT clock.at,
  (SELECT n FROM checked) FROM clock

-- QueueSlots
WITH clock AS MATERIALIZED (
  SELECT c.at, to_char((c.at) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') AS text, ('@' || lpad(to_hex((extract(epoch from (c.at)) * 1000000::numeric)::bigint # '-9223372036854775808'::bigint), 16, '0')) AS key FROM (SELECT clock_timestamp() AS at) c
),
g1_locked AS MATERIALIZED (
  SELECT e.id
  FROM unnest($2::text[], $3::bigint[]) AS e(id, version)
  CROSS JOIN LATERAL (
    SELECT 1 FROM "runlane"."runlane_record_queue_slots" r WHERE r.partition_key = $1 AND r.record_id = e.id AND r.record_version = e.version LIMIT 1 FOR NO KEY UPDATE OF r
  ) found
),
g1 AS MATERIALIZED (
  SELECT "runlane"."runlane_assert_record_write"(count(*) = pg_catalog.cardinality($2::text[]), 'g1') AS ok FROM g1_locked
),
checked AS MATERIALIZED (SELECT count(*) AS n FROM (SELECT ok FROM g1) checks)
SELECT clock.at,
  (SELECT n FROM checked) FROM clock

-- ScheduleOccurrences
WITH clock AS MATERIALIZED (
  SELECT c.at, to_char((c.at) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') AS text, ('@' || lpad(to_hex((extract(epoch from (c.at)) * 1000000::numeric)::bigint # '-9223372036854775808'::bigint), 16, '0')) AS key FROM (SELECT clock_timestamp() AS at) c
),
g1_locked AS MATERIALIZED (
  SELECT e.id
  FROM unnest($2::text[], $3::bigint[]) AS e(id, version)
  CROSS JOIN LATERAL (
    SELECT 1 FROM "runlane"."runlane_record_schedule_occurrences" r WHERE r.partition_key = $1 AND r.record_id = e.id AND r.record_version = e.version LIMIT 1 FOR NO KEY UPDATE OF r
  ) found
),
g1 AS MATERIALIZED (
  SELECT "runlane"."runlane_assert_record_write"(count(*) = pg_catalog.cardinality($2::text[]), 'g1') AS ok FROM g1_locked
),
checked AS MATERIALIZED (SELECT count(*) AS n FROM (SELECT ok FROM g1) checks)
SELECT clock.at,
  (SELECT n FROM checked) FROM clock

-- ScheduleCursors
WITH clock AS MATERIALIZED (
  SELECT c.at, to_char((c.at) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') AS text, ('@' || lpad(to_hex((extract(epoch from (c.at)) * 1000000::numeric)::bigint # '-9223372036854775808'::bigint), 16, '0')) AS key FROM (SELECT clock_timestamp() AS at) c
),
g1_locked AS MATERIALIZED (
  SELECT e.id
  FROM unnest($2::text[], $3::bigint[]) AS e(id, version)
  CROSS JOIN LATERAL (
    SELECT 1 FROM "runlane"."runlane_record_schedule_cursors" r WHERE r.partition_key = $1 AND r.record_id = e.id AND r.record_version = e.version LIMIT 1 FOR NO KEY UPDATE OF r
  ) found
),
g1 AS MATERIALIZED (
  SELECT "runlane"."runlane_assert_record_write"(count(*) = pg_catalog.cardinality($2::text[]), 'g1') AS ok FROM g1_locked
),
checked AS MATERIALIZED (SELECT count(*) AS n FROM (SELECT ok FROM g1) checks)
SELECT clock.at,
  (SELECT n FROM checked) FROM clock

-- ObservationHeads
WITH clock AS MATERIALIZED (
  SELECT c.at, to_char((c.at) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') AS text, ('@' || lpad(to_hex((extract(epoch from (c.at)) * 1000000::numeric)::bigint # '-9223372036854775808'::bigint), 16, '0')) AS key FROM (SELECT clock_timestamp() AS at) c
),
g1_locked AS MATERIALIZED (
  SELECT e.id
  FROM unnest($2::text[], $3::bigint[]) AS e(id, version)
  CROSS JOIN LATERAL (
    SELECT 1 FROM "runlane"."runlane_record_observation_heads" r WHERE r.partition_key = $1 AND r.record_id = e.id AND r.record_version = e.version LIMIT 1 FOR NO KEY UPDATE OF r
  ) found
),
g1 AS MATERIALIZED (
  SELECT "runlane"."runlane_assert_record_write"(count(*) = pg_catalog.cardinality($2::text[]), 'g1') AS ok FROM g1_locked
),
checked AS MATERIALIZED (SELECT count(*) AS n FROM (SELECT ok FROM g1) checks)
SELECT clock.at,
  (SELECT n FROM checked) FROM clock

-- ObservationRecords
WITH clock AS MATERIALIZED (
  SELECT c.at, to_char((c.at) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') AS text, ('@' || lpad(to_hex((extract(epoch from (c.at)) * 1000000::numeric)::bigint # '-9223372036854775808'::bigint), 16, '0')) AS key FROM (SELECT clock_timestamp() AS at) c
),
g1_locked AS MATERIALIZED (
  SELECT e.id
  FROM unnest($2::text[], $3::bigint[]) AS e(id, version)
  CROSS JOIN LATERAL (
    SELECT 1 FROM "runlane"."runlane_record_observation_records" r WHERE r.partition_key = $1 AND r.record_id = e.id AND r.record_version = e.version LIMIT 1 FOR NO KEY UPDATE OF r
  ) found
),
g1 AS MATERIALIZED (
  SELECT "runlane"."runlane_assert_record_write"(count(*) = pg_catalog.cardinality($2::text[]), 'g1') AS ok FROM g1_locked
),
checked AS MATERIALIZED (SELECT count(*) AS n FROM (SELECT ok FROM g1) checks)
SELECT clock.at,
  (SELECT n FROM checked) FROM clock

