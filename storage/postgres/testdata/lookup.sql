-- Runs
SELECT 0::int AS collection, found.partition, found.id, found.version, found.document
FROM pg_catalog.unnest($2::text[]) AS k(id) CROSS JOIN LATERAL (
  SELECT r.environment_key AS partition, r.run_id AS id, r.record_version AS version, CASE WHEN r.record_payload IS NULL THEN r.record_document
     ELSE pg_catalog.jsonb_set(r.record_document, ARRAY['value', 'payload'], r.record_payload) END AS document
  FROM "runlane"."runlane_runs" r
  WHERE r.environment_key = $1 AND r.run_id = k.id
  LIMIT 1
) found

-- RunEvents
SELECT 1::int AS collection, found.partition, found.id, found.version, found.document
FROM pg_catalog.unnest($2::text[]) AS k(id) CROSS JOIN LATERAL (
  SELECT r.environment_key AS partition, r.record_id AS id, r.record_version AS version, CASE WHEN NOT r.payload_from_run THEN r.record_document
     ELSE pg_catalog.jsonb_set(r.record_document, ARRAY['value', 'event', 'payload'],
       (SELECT p.record_payload FROM "runlane"."runlane_runs" p WHERE p.environment_key = r.environment_key AND p.run_id = r.run_id)) END AS document
  FROM "runlane"."runlane_record_run_events" r
  WHERE r.environment_key = $1 AND r.record_id = k.id
  LIMIT 1
) found

-- RunEventIdOwners
SELECT 2::int AS collection, found.partition, found.id, found.version, found.document
FROM pg_catalog.unnest($2::text[]) AS k(id) CROSS JOIN LATERAL (
  SELECT r.partition_key AS partition, r.record_id AS id, r.record_version AS version, r.record_document AS document
  FROM "runlane"."runlane_record_run_event_id_owners" r
  WHERE r.partition_key = $1 AND r.record_id = k.id
  LIMIT 1
) found

-- RunCompletionWaitPresence
SELECT 3::int AS collection, found.partition, found.id, found.version, found.document
FROM pg_catalog.unnest($2::text[]) AS k(id) CROSS JOIN LATERAL (
  SELECT r.partition_key AS partition, r.record_id AS id, r.record_version AS version, r.record_document AS document
  FROM "runlane"."runlane_record_run_completion_wait_presence" r
  WHERE r.partition_key = $1 AND r.record_id = k.id
  LIMIT 1
) found

-- IdempotencyOwners
SELECT 4::int AS collection, found.partition, found.id, found.version, found.document
FROM pg_catalog.unnest($2::text[]) AS k(id) CROSS JOIN LATERAL (
  SELECT r.partition_key AS partition, r.record_id AS id, r.record_version AS version, r.record_document AS document
  FROM "runlane"."runlane_record_idempotency_owners" r
  WHERE r.partition_key = $1 AND r.record_id = k.id
  LIMIT 1
) found

-- SingletonOwners
SELECT 5::int AS collection, found.partition, found.id, found.version, found.document
FROM pg_catalog.unnest($2::text[]) AS k(id) CROSS JOIN LATERAL (
  SELECT r.partition_key AS partition, r.record_id AS id, r.record_version AS version, r.record_document AS document
  FROM "runlane"."runlane_record_singleton_owners" r
  WHERE r.partition_key = $1 AND r.record_id = k.id
  LIMIT 1
) found

-- QueueSlots
SELECT 6::int AS collection, found.partition, found.id, found.version, found.document
FROM pg_catalog.unnest($2::text[]) AS k(id) CROSS JOIN LATERAL (
  SELECT r.partition_key AS partition, r.record_id AS id, r.record_version AS version, r.record_document AS document
  FROM "runlane"."runlane_record_queue_slots" r
  WHERE r.partition_key = $1 AND r.record_id = k.id
  LIMIT 1
) found

-- ScheduleOccurrences
SELECT 7::int AS collection, found.partition, found.id, found.version, found.document
FROM pg_catalog.unnest($2::text[]) AS k(id) CROSS JOIN LATERAL (
  SELECT r.partition_key AS partition, r.record_id AS id, r.record_version AS version, r.record_document AS document
  FROM "runlane"."runlane_record_schedule_occurrences" r
  WHERE r.partition_key = $1 AND r.record_id = k.id
  LIMIT 1
) found

-- ScheduleCursors
SELECT 8::int AS collection, found.partition, found.id, found.version, found.document
FROM pg_catalog.unnest($2::text[]) AS k(id) CROSS JOIN LATERAL (
  SELECT r.partition_key AS partition, r.record_id AS id, r.record_version AS version, r.record_document AS document
  FROM "runlane"."runlane_record_schedule_cursors" r
  WHERE r.partition_key = $1 AND r.record_id = k.id
  LIMIT 1
) found

-- ObservationHeads
SELECT 9::int AS collection, found.partition, found.id, found.version, found.document
FROM pg_catalog.unnest($2::text[]) AS k(id) CROSS JOIN LATERAL (
  SELECT r.partition_key AS partition, r.record_id AS id, r.record_version AS version, r.record_document AS document
  FROM "runlane"."runlane_record_observation_heads" r
  WHERE r.partition_key = $1 AND r.record_id = k.id
  LIMIT 1
) found

-- ObservationRecords
SELECT 10::int AS collection, found.partition, found.id, found.version, found.document
FROM pg_catalog.unnest($2::text[]) AS k(id) CROSS JOIN LATERAL (
  SELECT r.partition_key AS partition, r.record_id AS id, r.record_version AS version, r.record_document AS document
  FROM "runlane"."runlane_record_observation_records" r
  WHERE r.partition_key = $1 AND r.record_id = k.id
  LIMIT 1
) found

-- two collections, one of them in two environments
SELECT 0::int AS collection, found.partition, found.id, found.version, found.document
FROM pg_catalog.unnest($2::text[]) AS k(id) CROSS JOIN LATERAL (
  SELECT r.environment_key AS partition, r.run_id AS id, r.record_version AS version, CASE WHEN r.record_payload IS NULL THEN r.record_document
     ELSE pg_catalog.jsonb_set(r.record_document, ARRAY['value', 'payload'], r.record_payload) END AS document
  FROM "runlane"."runlane_runs" r
  WHERE r.environment_key = $1 AND r.run_id = k.id
  LIMIT 1
) found
UNION ALL
SELECT 0::int AS collection, found.partition, found.id, found.version, found.document
FROM pg_catalog.unnest($4::text[]) AS k(id) CROSS JOIN LATERAL (
  SELECT r.environment_key AS partition, r.run_id AS id, r.record_version AS version, CASE WHEN r.record_payload IS NULL THEN r.record_document
     ELSE pg_catalog.jsonb_set(r.record_document, ARRAY['value', 'payload'], r.record_payload) END AS document
  FROM "runlane"."runlane_runs" r
  WHERE r.environment_key = $3 AND r.run_id = k.id
  LIMIT 1
) found
UNION ALL
SELECT 6::int AS collection, found.partition, found.id, found.version, found.document
FROM pg_catalog.unnest($6::text[]) AS k(id) CROSS JOIN LATERAL (
  SELECT r.partition_key AS partition, r.record_id AS id, r.record_version AS version, r.record_document AS document
  FROM "runlane"."runlane_record_queue_slots" r
  WHERE r.partition_key = $5 AND r.record_id = k.id
  LIMIT 1
) found

-- versions only
SELECT 0::int AS collection, found.partition, found.id, found.version, found.document
FROM pg_catalog.unnest($2::text[]) AS k(id) CROSS JOIN LATERAL (
  SELECT r.environment_key AS partition, r.run_id AS id, r.record_version AS version, NULL::jsonb AS document
  FROM "runlane"."runlane_runs" r
  WHERE r.environment_key = $1 AND r.run_id = k.id
  LIMIT 1
) found
UNION ALL
SELECT 1::int AS collection, found.partition, found.id, found.version, found.document
FROM pg_catalog.unnest($4::text[]) AS k(id) CROSS JOIN LATERAL (
  SELECT r.environment_key AS partition, r.record_id AS id, r.record_version AS version, NULL::jsonb AS document
  FROM "runlane"."runlane_record_run_events" r
  WHERE r.environment_key = $3 AND r.record_id = k.id
  LIMIT 1
) found
UNION ALL
SELECT 6::int AS collection, found.partition, found.id, found.version, found.document
FROM pg_catalog.unnest($6::text[]) AS k(id) CROSS JOIN LATERAL (
  SELECT r.partition_key AS partition, r.record_id AS id, r.record_version AS version, NULL::jsonb AS document
  FROM "runlane"."runlane_record_queue_slots" r
  WHERE r.partition_key = $5 AND r.record_id = k.id
  LIMIT 1
) found

