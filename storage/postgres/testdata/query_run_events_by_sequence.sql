-- candidates, ascending
WITH clock AS MATERIALIZED (SELECT clock_timestamp() AS at),
merged AS MATERIALIZED (
  SELECT both_paths.id, both_paths.sort FROM (
    (SELECT r.record_id AS id, ('#' || lpad(to_hex((r.sequence)::bigint # '-9223372036854775808'::bigint), 16, '0')) AS sort
     FROM "runlane"."runlane_record_run_events" r
     WHERE r.environment_key = $2 AND r.run_id = $8 AND r.sequence_index_native
       AND r.sequence >= $9::bigint AND r.sequence < $10::bigint
       AND (r.sequence, r.record_id) > ($11::bigint, $12::text)
     ORDER BY r.sequence ASC, r.record_id ASC
     LIMIT $7)
    UNION ALL
    (SELECT r.record_id AS id, r.run_events_by_sequence_sort AS sort
     FROM "runlane"."runlane_record_run_events" r
     WHERE r.run_events_by_sequence_partition = $1 AND r.environment_key = $2
       AND r.run_events_by_sequence_sort >= (SELECT coalesce($3::text, ('@' || lpad(to_hex((extract(epoch from (clock.at + interval '1 microsecond')) * 1000000::numeric)::bigint # '-9223372036854775808'::bigint), 16, '0'))) FROM clock)
       AND r.run_events_by_sequence_sort < (SELECT coalesce($4::text, ('@' || lpad(to_hex((extract(epoch from (clock.at + interval '1 microsecond')) * 1000000::numeric)::bigint # '-9223372036854775808'::bigint), 16, '0'))) FROM clock)
       AND (r.run_events_by_sequence_sort, r.record_id) > ($5::text, $6::text)
     ORDER BY r.run_events_by_sequence_sort ASC, r.record_id ASC
     LIMIT $7)
  ) both_paths
  ORDER BY both_paths.sort ASC, both_paths.id ASC
  LIMIT $7
)
SELECT clock.at, page.partition, page.id, page.version, page.document, page.sort
FROM clock LEFT JOIN LATERAL (
  SELECT found.*, m.sort
  FROM merged m CROSS JOIN LATERAL (
    SELECT r.environment_key AS partition, r.record_id AS id, r.record_version AS version, CASE WHEN NOT r.payload_from_run THEN r.record_document
     ELSE pg_catalog.jsonb_set(r.record_document, ARRAY['value', 'event', 'payload'],
       (SELECT p.record_payload FROM "runlane"."runlane_runs" p WHERE p.environment_key = r.environment_key AND p.run_id = r.run_id)) END AS document
    FROM "runlane"."runlane_record_run_events" r WHERE r.environment_key = $2 AND r.record_id = m.id LIMIT 1
  ) found
) page ON true
ORDER BY page.sort ASC, page.id ASC

-- candidates, descending
WITH clock AS MATERIALIZED (SELECT clock_timestamp() AS at),
merged AS MATERIALIZED (
  SELECT both_paths.id, both_paths.sort FROM (
    (SELECT r.record_id AS id, ('#' || lpad(to_hex((r.sequence)::bigint # '-9223372036854775808'::bigint), 16, '0')) AS sort
     FROM "runlane"."runlane_record_run_events" r
     WHERE r.environment_key = $2 AND r.run_id = $8 AND r.sequence_index_native
       AND r.sequence >= $9::bigint AND r.sequence < $10::bigint
       AND (r.sequence, r.record_id) < ($11::bigint, $12::text)
     ORDER BY r.sequence DESC, r.record_id DESC
     LIMIT $7)
    UNION ALL
    (SELECT r.record_id AS id, r.run_events_by_sequence_sort AS sort
     FROM "runlane"."runlane_record_run_events" r
     WHERE r.run_events_by_sequence_partition = $1 AND r.environment_key = $2
       AND r.run_events_by_sequence_sort >= (SELECT coalesce($3::text, ('@' || lpad(to_hex((extract(epoch from (clock.at + interval '1 microsecond')) * 1000000::numeric)::bigint # '-9223372036854775808'::bigint), 16, '0'))) FROM clock)
       AND r.run_events_by_sequence_sort < (SELECT coalesce($4::text, ('@' || lpad(to_hex((extract(epoch from (clock.at + interval '1 microsecond')) * 1000000::numeric)::bigint # '-9223372036854775808'::bigint), 16, '0'))) FROM clock)
       AND (r.run_events_by_sequence_sort, r.record_id) < ($5::text, $6::text)
     ORDER BY r.run_events_by_sequence_sort DESC, r.record_id DESC
     LIMIT $7)
  ) both_paths
  ORDER BY both_paths.sort DESC, both_paths.id DESC
  LIMIT $7
)
SELECT clock.at, page.partition, page.id, page.version, page.document, page.sort
FROM clock LEFT JOIN LATERAL (
  SELECT found.*, m.sort
  FROM merged m CROSS JOIN LATERAL (
    SELECT r.environment_key AS partition, r.record_id AS id, r.record_version AS version, CASE WHEN NOT r.payload_from_run THEN r.record_document
     ELSE pg_catalog.jsonb_set(r.record_document, ARRAY['value', 'event', 'payload'],
       (SELECT p.record_payload FROM "runlane"."runlane_runs" p WHERE p.environment_key = r.environment_key AND p.run_id = r.run_id)) END AS document
    FROM "runlane"."runlane_record_run_events" r WHERE r.environment_key = $2 AND r.record_id = m.id LIMIT 1
  ) found
) page ON true
ORDER BY page.sort DESC, page.id DESC

-- exclusive, ascending
WITH clock AS MATERIALIZED (SELECT clock_timestamp() AS at),
merged AS MATERIALIZED (
  SELECT both_paths.id, both_paths.sort FROM (
    (SELECT r.record_id AS id, ('#' || lpad(to_hex((r.sequence)::bigint # '-9223372036854775808'::bigint), 16, '0')) AS sort
     FROM "runlane"."runlane_record_run_events" r
     WHERE r.environment_key = $2 AND r.run_id = $8 AND r.sequence_index_native
       AND r.sequence >= $9::bigint AND r.sequence < $10::bigint
       AND (r.sequence, r.record_id) > ($11::bigint, $12::text)
     ORDER BY r.sequence ASC, r.record_id ASC
     LIMIT $7)
    UNION ALL
    (SELECT r.record_id AS id, r.run_events_by_sequence_sort AS sort
     FROM "runlane"."runlane_record_run_events" r
     WHERE r.run_events_by_sequence_partition = $1 AND r.environment_key = $2
       AND r.run_events_by_sequence_sort >= (SELECT coalesce($3::text, ('@' || lpad(to_hex((extract(epoch from (clock.at + interval '1 microsecond')) * 1000000::numeric)::bigint # '-9223372036854775808'::bigint), 16, '0'))) FROM clock)
       AND r.run_events_by_sequence_sort < (SELECT coalesce($4::text, ('@' || lpad(to_hex((extract(epoch from (clock.at + interval '1 microsecond')) * 1000000::numeric)::bigint # '-9223372036854775808'::bigint), 16, '0'))) FROM clock)
       AND (r.run_events_by_sequence_sort, r.record_id) > ($5::text, $6::text)
     ORDER BY r.run_events_by_sequence_sort ASC, r.record_id ASC
     LIMIT $7)
  ) both_paths
  ORDER BY both_paths.sort ASC, both_paths.id ASC
  LIMIT $7
),
picked AS MATERIALIZED (
  SELECT found.*
  FROM merged m CROSS JOIN LATERAL (
    SELECT r.environment_key AS partition, r.record_id AS id, r.record_version AS version, CASE WHEN NOT r.payload_from_run THEN r.record_document
     ELSE pg_catalog.jsonb_set(r.record_document, ARRAY['value', 'event', 'payload'],
       (SELECT p.record_payload FROM "runlane"."runlane_runs" p WHERE p.environment_key = r.environment_key AND p.run_id = r.run_id)) END AS document, r.run_id, r.sequence
    FROM "runlane"."runlane_record_run_events" r WHERE r.environment_key = $2 AND r.record_id = m.id LIMIT 1
    FOR UPDATE OF r SKIP LOCKED
  ) found
),
tried AS MATERIALIZED (
  SELECT p.*, pg_try_advisory_xact_lock(pg_catalog.hashtextextended($13::text || p.partition || p.id || $14::text, 0))
    AND (p.run_id IS NULL
      OR pg_try_advisory_xact_lock(pg_catalog.hashtextextended($15::text || p.partition || p.run_id || '#' || p.sequence::text || $14::text, 0))) AS mine
  FROM picked p
),
done AS MATERIALIZED (SELECT count(*) AS n, clock_timestamp() AS at FROM tried)
SELECT done.at, t.partition, m.id, t.version, t.document, m.sort, coalesce(t.mine, false) AS mine
FROM done LEFT JOIN merged m ON true LEFT JOIN tried t ON t.id = m.id
ORDER BY m.sort ASC, m.id ASC

-- exclusive, descending
WITH clock AS MATERIALIZED (SELECT clock_timestamp() AS at),
merged AS MATERIALIZED (
  SELECT both_paths.id, both_paths.sort FROM (
    (SELECT r.record_id AS id, ('#' || lpad(to_hex((r.sequence)::bigint # '-9223372036854775808'::bigint), 16, '0')) AS sort
     FROM "runlane"."runlane_record_run_events" r
     WHERE r.environment_key = $2 AND r.run_id = $8 AND r.sequence_index_native
       AND r.sequence >= $9::bigint AND r.sequence < $10::bigint
       AND (r.sequence, r.record_id) < ($11::bigint, $12::text)
     ORDER BY r.sequence DESC, r.record_id DESC
     LIMIT $7)
    UNION ALL
    (SELECT r.record_id AS id, r.run_events_by_sequence_sort AS sort
     FROM "runlane"."runlane_record_run_events" r
     WHERE r.run_events_by_sequence_partition = $1 AND r.environment_key = $2
       AND r.run_events_by_sequence_sort >= (SELECT coalesce($3::text, ('@' || lpad(to_hex((extract(epoch from (clock.at + interval '1 microsecond')) * 1000000::numeric)::bigint # '-9223372036854775808'::bigint), 16, '0'))) FROM clock)
       AND r.run_events_by_sequence_sort < (SELECT coalesce($4::text, ('@' || lpad(to_hex((extract(epoch from (clock.at + interval '1 microsecond')) * 1000000::numeric)::bigint # '-9223372036854775808'::bigint), 16, '0'))) FROM clock)
       AND (r.run_events_by_sequence_sort, r.record_id) < ($5::text, $6::text)
     ORDER BY r.run_events_by_sequence_sort DESC, r.record_id DESC
     LIMIT $7)
  ) both_paths
  ORDER BY both_paths.sort DESC, both_paths.id DESC
  LIMIT $7
),
picked AS MATERIALIZED (
  SELECT found.*
  FROM merged m CROSS JOIN LATERAL (
    SELECT r.environment_key AS partition, r.record_id AS id, r.record_version AS version, CASE WHEN NOT r.payload_from_run THEN r.record_document
     ELSE pg_catalog.jsonb_set(r.record_document, ARRAY['value', 'event', 'payload'],
       (SELECT p.record_payload FROM "runlane"."runlane_runs" p WHERE p.environment_key = r.environment_key AND p.run_id = r.run_id)) END AS document, r.run_id, r.sequence
    FROM "runlane"."runlane_record_run_events" r WHERE r.environment_key = $2 AND r.record_id = m.id LIMIT 1
    FOR UPDATE OF r SKIP LOCKED
  ) found
),
tried AS MATERIALIZED (
  SELECT p.*, pg_try_advisory_xact_lock(pg_catalog.hashtextextended($13::text || p.partition || p.id || $14::text, 0))
    AND (p.run_id IS NULL
      OR pg_try_advisory_xact_lock(pg_catalog.hashtextextended($15::text || p.partition || p.run_id || '#' || p.sequence::text || $14::text, 0))) AS mine
  FROM picked p
),
done AS MATERIALIZED (SELECT count(*) AS n, clock_timestamp() AS at FROM tried)
SELECT done.at, t.partition, m.id, t.version, t.document, m.sort, coalesce(t.mine, false) AS mine
FROM done LEFT JOIN merged m ON true LEFT JOIN tried t ON t.id = m.id
ORDER BY m.sort DESC, m.id DESC

