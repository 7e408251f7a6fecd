-- a run, by occurrence
WITH page AS MATERIALIZED (
  SELECT most.record_id, most.run_id, most.sequence, most.occurred_at
  FROM (
  SELECT r.record_id, r.run_id, r.sequence, r.occurred_at
  FROM "runlane"."runlane_record_run_events" r
  WHERE r.environment_key = $1 AND r.run_id = $3 AND r.sequence_index_native
    AND (pg_catalog.cardinality($4::text[]) = 0 OR r.event_type = ANY ($4::text[]))
    AND (r.occurred_at, r.record_id) > ($5::text::timestamptz, ''::text) AND (r.occurred_at, r.record_id) < ($6::text::timestamptz, ''::text)
    AND (r.occurred_at, r.record_id) > ($7::text::timestamptz, $8::text)
  ORDER BY occurred_at ASC, record_id ASC
  LIMIT 51) most
  LIMIT $2
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
  SELECT most.record_id, most.run_id, most.sequence, most.occurred_at
  FROM (
  SELECT r.record_id, r.run_id, r.sequence, r.occurred_at
  FROM "runlane"."runlane_record_run_events" r
  WHERE r.environment_key = $1 AND r.run_id = $3 AND r.sequence_index_native
    AND (pg_catalog.cardinality($4::text[]) = 0 OR r.event_type = ANY ($4::text[]))
    AND (r.occurred_at, r.record_id) > ($5::text::timestamptz, ''::text) AND (r.occurred_at, r.record_id) < ($6::text::timestamptz, ''::text)
    AND (r.occurred_at, r.record_id) < ($7::text::timestamptz, $8::text)
  ORDER BY occurred_at DESC, record_id DESC
  LIMIT 51) most
  LIMIT $2
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
  SELECT most.record_id, most.run_id, most.sequence, most.occurred_at
  FROM (
  SELECT r.record_id, r.run_id, r.sequence, r.occurred_at
  FROM "runlane"."runlane_record_run_events" r
  WHERE r.environment_key = $1 AND r.run_id = $3 AND r.sequence_index_native
    AND (pg_catalog.cardinality($4::text[]) = 0 OR r.event_type = ANY ($4::text[]))
    AND (r.occurred_at, r.record_id) > ($5::text::timestamptz, ''::text) AND (r.occurred_at, r.record_id) < ($6::text::timestamptz, ''::text)
    AND (r.sequence, r.record_id) > ($7::text::bigint, $8::text)
  ORDER BY sequence ASC, record_id ASC
  LIMIT 51) most
  LIMIT $2
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
  SELECT most.record_id, most.run_id, most.sequence, most.occurred_at
  FROM (
  SELECT r.record_id, r.run_id, r.sequence, r.occurred_at
  FROM "runlane"."runlane_record_run_events" r
  WHERE r.environment_key = $1 AND r.run_id = $3 AND r.sequence_index_native
    AND (pg_catalog.cardinality($4::text[]) = 0 OR r.event_type = ANY ($4::text[]))
    AND (r.occurred_at, r.record_id) > ($5::text::timestamptz, ''::text) AND (r.occurred_at, r.record_id) < ($6::text::timestamptz, ''::text)
    AND (r.sequence, r.record_id) < ($7::text::bigint, $8::text)
  ORDER BY sequence DESC, record_id DESC
  LIMIT 51) most
  LIMIT $2
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
  SELECT most.record_id, most.run_id, most.sequence, most.occurred_at
  FROM (
  SELECT r.record_id, r.run_id, r.sequence, r.occurred_at
  FROM "runlane"."runlane_record_run_events" r
  WHERE r.environment_key = $1 AND r.occurred_at IS NOT NULL
    AND (r.occurred_at, r.record_id) > ($3::text::timestamptz, $4::text)
    AND (r.occurred_at, r.record_id) < ($5::text::timestamptz, ''::text)
  ORDER BY occurred_at ASC, record_id ASC
  LIMIT 51) most
  LIMIT $2
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
  SELECT most.record_id, most.run_id, most.sequence, most.occurred_at
  FROM (
  SELECT r.record_id, r.run_id, r.sequence, r.occurred_at
  FROM "runlane"."runlane_record_run_events" r
  WHERE r.environment_key = $1 AND r.occurred_at IS NOT NULL
    AND (r.occurred_at, r.record_id) < ($3::text::timestamptz, $4::text)
    AND (r.occurred_at, r.record_id) > ($5::text::timestamptz, ''::text)
  ORDER BY occurred_at DESC, record_id DESC
  LIMIT 51) most
  LIMIT $2
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

-- two types, by occurrence
WITH page AS MATERIALIZED (
  SELECT most.record_id, most.run_id, most.sequence, most.occurred_at
  FROM (
  SELECT t.record_id, t.run_id, t.sequence, t.occurred_at
  FROM (
    SELECT r.record_id, r.run_id, r.sequence, r.occurred_at
    FROM "runlane"."runlane_record_run_events" r
    WHERE r.environment_key = $1 AND r.event_type = ($6::text[])[1]
      AND (r.occurred_at, r.record_id) > ($3::text::timestamptz, $4::text)
      AND (r.occurred_at, r.record_id) < ($5::text::timestamptz, ''::text)
    ORDER BY r.occurred_at ASC, r.record_id ASC
    LIMIT 51) t
  UNION ALL
  SELECT t.record_id, t.run_id, t.sequence, t.occurred_at
  FROM (
    SELECT r.record_id, r.run_id, r.sequence, r.occurred_at
    FROM "runlane"."runlane_record_run_events" r
    WHERE r.environment_key = $1 AND r.event_type = ($6::text[])[2]
      AND (r.occurred_at, r.record_id) > ($3::text::timestamptz, $4::text)
      AND (r.occurred_at, r.record_id) < ($5::text::timestamptz, ''::text)
    ORDER BY r.occurred_at ASC, r.record_id ASC
    LIMIT 51) t
  ORDER BY occurred_at ASC, record_id ASC
  LIMIT 51) most
  LIMIT $2
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

-- two types, by occurrence, descending
WITH page AS MATERIALIZED (
  SELECT most.record_id, most.run_id, most.sequence, most.occurred_at
  FROM (
  SELECT t.record_id, t.run_id, t.sequence, t.occurred_at
  FROM (
    SELECT r.record_id, r.run_id, r.sequence, r.occurred_at
    FROM "runlane"."runlane_record_run_events" r
    WHERE r.environment_key = $1 AND r.event_type = ($6::text[])[1]
      AND (r.occurred_at, r.record_id) < ($3::text::timestamptz, $4::text)
      AND (r.occurred_at, r.record_id) > ($5::text::timestamptz, ''::text)
    ORDER BY r.occurred_at DESC, r.record_id DESC
    LIMIT 51) t
  UNION ALL
  SELECT t.record_id, t.run_id, t.sequence, t.occurred_at
  FROM (
    SELECT r.record_id, r.run_id, r.sequence, r.occurred_at
    FROM "runlane"."runlane_record_run_events" r
    WHERE r.environment_key = $1 AND r.event_type = ($6::text[])[2]
      AND (r.occurred_at, r.record_id) < ($3::text::timestamptz, $4::text)
      AND (r.occurred_at, r.record_id) > ($5::text::timestamptz, ''::text)
    ORDER BY r.occurred_at DESC, r.record_id DESC
    LIMIT 51) t
  ORDER BY occurred_at DESC, record_id DESC
  LIMIT 51) most
  LIMIT $2
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

