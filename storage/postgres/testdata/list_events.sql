-- a run, by occurrence
WITH page AS MATERIALIZED (
  SELECT r.record_id, r.run_id, r.sequence, r.occurred_at
  FROM "runlane"."runlane_record_run_events" r
  WHERE r.environment_key = $1 AND r.run_id = $2 AND r.sequence_index_native AND r.occurred_at IS NOT NULL
    AND (pg_catalog.cardinality($3::text[]) = 0 OR r.event_type = ANY ($3::text[]))
    AND r.occurred_at >= $4::text::timestamptz AND r.occurred_at < $5::text::timestamptz
    AND (r.occurred_at, r.record_id) > ($6::text::timestamptz, $7::text)
  ORDER BY r.occurred_at ASC, r.record_id ASC
  LIMIT $8
)
SELECT page.record_id, page.sequence, page.occurred_at, event.version, event.document
FROM page
LEFT JOIN LATERAL (
  SELECT true AS visible, p.record_payload FROM "runlane"."runlane_runs" p
  WHERE p.environment_key = $1 AND p.run_id = page.run_id AND p.status IS NOT NULL
  LIMIT 1
) parent ON true
LEFT JOIN LATERAL (
  SELECT e.record_version AS version,
    CASE WHEN NOT e.payload_from_run THEN e.record_document
         ELSE pg_catalog.jsonb_set(e.record_document, ARRAY['value', 'event', 'payload'], parent.record_payload) END AS document
  FROM "runlane"."runlane_record_run_events" e
  WHERE parent.visible AND e.environment_key = $1 AND e.record_id = page.record_id
  LIMIT 1
) event ON true
ORDER BY page.occurred_at ASC, page.record_id ASC

-- a run, by occurrence, descending
WITH page AS MATERIALIZED (
  SELECT r.record_id, r.run_id, r.sequence, r.occurred_at
  FROM "runlane"."runlane_record_run_events" r
  WHERE r.environment_key = $1 AND r.run_id = $2 AND r.sequence_index_native AND r.occurred_at IS NOT NULL
    AND (pg_catalog.cardinality($3::text[]) = 0 OR r.event_type = ANY ($3::text[]))
    AND r.occurred_at >= $4::text::timestamptz AND r.occurred_at < $5::text::timestamptz
    AND (r.occurred_at, r.record_id) < ($6::text::timestamptz, $7::text)
  ORDER BY r.occurred_at DESC, r.record_id DESC
  LIMIT $8
)
SELECT page.record_id, page.sequence, page.occurred_at, event.version, event.document
FROM page
LEFT JOIN LATERAL (
  SELECT true AS visible, p.record_payload FROM "runlane"."runlane_runs" p
  WHERE p.environment_key = $1 AND p.run_id = page.run_id AND p.status IS NOT NULL
  LIMIT 1
) parent ON true
LEFT JOIN LATERAL (
  SELECT e.record_version AS version,
    CASE WHEN NOT e.payload_from_run THEN e.record_document
         ELSE pg_catalog.jsonb_set(e.record_document, ARRAY['value', 'event', 'payload'], parent.record_payload) END AS document
  FROM "runlane"."runlane_record_run_events" e
  WHERE parent.visible AND e.environment_key = $1 AND e.record_id = page.record_id
  LIMIT 1
) event ON true
ORDER BY page.occurred_at DESC, page.record_id DESC

-- a run, by sequence
WITH page AS MATERIALIZED (
  SELECT r.record_id, r.run_id, r.sequence, r.occurred_at
  FROM "runlane"."runlane_record_run_events" r
  WHERE r.environment_key = $1 AND r.run_id = $2 AND r.sequence_index_native AND r.sequence IS NOT NULL
    AND (pg_catalog.cardinality($3::text[]) = 0 OR r.event_type = ANY ($3::text[]))
    AND r.occurred_at >= $4::text::timestamptz AND r.occurred_at < $5::text::timestamptz
    AND (r.sequence, r.record_id) > ($6::text::bigint, $7::text)
  ORDER BY r.sequence ASC, r.record_id ASC
  LIMIT $8
)
SELECT page.record_id, page.sequence, page.occurred_at, event.version, event.document
FROM page
LEFT JOIN LATERAL (
  SELECT true AS visible, p.record_payload FROM "runlane"."runlane_runs" p
  WHERE p.environment_key = $1 AND p.run_id = page.run_id AND p.status IS NOT NULL
  LIMIT 1
) parent ON true
LEFT JOIN LATERAL (
  SELECT e.record_version AS version,
    CASE WHEN NOT e.payload_from_run THEN e.record_document
         ELSE pg_catalog.jsonb_set(e.record_document, ARRAY['value', 'event', 'payload'], parent.record_payload) END AS document
  FROM "runlane"."runlane_record_run_events" e
  WHERE parent.visible AND e.environment_key = $1 AND e.record_id = page.record_id
  LIMIT 1
) event ON true
ORDER BY page.sequence ASC, page.record_id ASC

-- a run, by sequence, descending
WITH page AS MATERIALIZED (
  SELECT r.record_id, r.run_id, r.sequence, r.occurred_at
  FROM "runlane"."runlane_record_run_events" r
  WHERE r.environment_key = $1 AND r.run_id = $2 AND r.sequence_index_native AND r.sequence IS NOT NULL
    AND (pg_catalog.cardinality($3::text[]) = 0 OR r.event_type = ANY ($3::text[]))
    AND r.occurred_at >= $4::text::timestamptz AND r.occurred_at < $5::text::timestamptz
    AND (r.sequence, r.record_id) < ($6::text::bigint, $7::text)
  ORDER BY r.sequence DESC, r.record_id DESC
  LIMIT $8
)
SELECT page.record_id, page.sequence, page.occurred_at, event.version, event.document
FROM page
LEFT JOIN LATERAL (
  SELECT true AS visible, p.record_payload FROM "runlane"."runlane_runs" p
  WHERE p.environment_key = $1 AND p.run_id = page.run_id AND p.status IS NOT NULL
  LIMIT 1
) parent ON true
LEFT JOIN LATERAL (
  SELECT e.record_version AS version,
    CASE WHEN NOT e.payload_from_run THEN e.record_document
         ELSE pg_catalog.jsonb_set(e.record_document, ARRAY['value', 'event', 'payload'], parent.record_payload) END AS document
  FROM "runlane"."runlane_record_run_events" e
  WHERE parent.visible AND e.environment_key = $1 AND e.record_id = page.record_id
  LIMIT 1
) event ON true
ORDER BY page.sequence DESC, page.record_id DESC

-- an environment, by occurrence
WITH page AS MATERIALIZED (
  SELECT r.record_id, r.run_id, r.sequence, r.occurred_at
  FROM "runlane"."runlane_record_run_events" r
  WHERE r.environment_key = $1 AND $2::text = '' AND r.occurred_at IS NOT NULL
    AND (pg_catalog.cardinality($3::text[]) = 0 OR r.event_type = ANY ($3::text[]))
    AND r.occurred_at >= $4::text::timestamptz AND r.occurred_at < $5::text::timestamptz
    AND (r.occurred_at, r.record_id) > ($6::text::timestamptz, $7::text)
  ORDER BY r.occurred_at ASC, r.record_id ASC
  LIMIT $8
)
SELECT page.record_id, page.sequence, page.occurred_at, event.version, event.document
FROM page
LEFT JOIN LATERAL (
  SELECT true AS visible, p.record_payload FROM "runlane"."runlane_runs" p
  WHERE p.environment_key = $1 AND p.run_id = page.run_id AND p.status IS NOT NULL
  LIMIT 1
) parent ON true
LEFT JOIN LATERAL (
  SELECT e.record_version AS version,
    CASE WHEN NOT e.payload_from_run THEN e.record_document
         ELSE pg_catalog.jsonb_set(e.record_document, ARRAY['value', 'event', 'payload'], parent.record_payload) END AS document
  FROM "runlane"."runlane_record_run_events" e
  WHERE parent.visible AND e.environment_key = $1 AND e.record_id = page.record_id
  LIMIT 1
) event ON true
ORDER BY page.occurred_at ASC, page.record_id ASC

-- an environment, by occurrence, descending
WITH page AS MATERIALIZED (
  SELECT r.record_id, r.run_id, r.sequence, r.occurred_at
  FROM "runlane"."runlane_record_run_events" r
  WHERE r.environment_key = $1 AND $2::text = '' AND r.occurred_at IS NOT NULL
    AND (pg_catalog.cardinality($3::text[]) = 0 OR r.event_type = ANY ($3::text[]))
    AND r.occurred_at >= $4::text::timestamptz AND r.occurred_at < $5::text::timestamptz
    AND (r.occurred_at, r.record_id) < ($6::text::timestamptz, $7::text)
  ORDER BY r.occurred_at DESC, r.record_id DESC
  LIMIT $8
)
SELECT page.record_id, page.sequence, page.occurred_at, event.version, event.document
FROM page
LEFT JOIN LATERAL (
  SELECT true AS visible, p.record_payload FROM "runlane"."runlane_runs" p
  WHERE p.environment_key = $1 AND p.run_id = page.run_id AND p.status IS NOT NULL
  LIMIT 1
) parent ON true
LEFT JOIN LATERAL (
  SELECT e.record_version AS version,
    CASE WHEN NOT e.payload_from_run THEN e.record_document
         ELSE pg_catalog.jsonb_set(e.record_document, ARRAY['value', 'event', 'payload'], parent.record_payload) END AS document
  FROM "runlane"."runlane_record_run_events" e
  WHERE parent.visible AND e.environment_key = $1 AND e.record_id = page.record_id
  LIMIT 1
) event ON true
ORDER BY page.occurred_at DESC, page.record_id DESC

