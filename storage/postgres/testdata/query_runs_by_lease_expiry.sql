-- candidates, ascending
WITH clock AS MATERIALIZED (SELECT clock_timestamp() AS at)
SELECT clock.at, page.partition, page.id, page.version, page.document, page.sort
FROM clock LEFT JOIN LATERAL (
  SELECT r.environment_key AS partition, r.run_id AS id, r.record_version AS version, CASE WHEN r.record_payload IS NULL THEN r.record_document
     ELSE pg_catalog.jsonb_set(r.record_document, ARRAY['value', 'payload'], r.record_payload) END AS document, r.runs_by_lease_expiry_sort AS sort
  FROM "runlane"."runlane_runs" r
  WHERE r.runs_by_lease_expiry_partition = $1 AND r.environment_key = $2
    AND r.runs_by_lease_expiry_sort >= (SELECT coalesce($3::text, ('@' || lpad(to_hex((extract(epoch from (clock.at + interval '1 microsecond')) * 1000000::numeric)::bigint # '-9223372036854775808'::bigint), 16, '0'))) FROM clock)
    AND r.runs_by_lease_expiry_sort < (SELECT coalesce($4::text, ('@' || lpad(to_hex((extract(epoch from (clock.at + interval '1 microsecond')) * 1000000::numeric)::bigint # '-9223372036854775808'::bigint), 16, '0'))) FROM clock)
    AND (r.runs_by_lease_expiry_sort, r.run_id) > ($5::text, $6::text)
  ORDER BY r.runs_by_lease_expiry_sort ASC, r.run_id ASC
  LIMIT $7
) page ON true
ORDER BY page.sort ASC, page.id ASC

-- candidates, descending
WITH clock AS MATERIALIZED (SELECT clock_timestamp() AS at)
SELECT clock.at, page.partition, page.id, page.version, page.document, page.sort
FROM clock LEFT JOIN LATERAL (
  SELECT r.environment_key AS partition, r.run_id AS id, r.record_version AS version, CASE WHEN r.record_payload IS NULL THEN r.record_document
     ELSE pg_catalog.jsonb_set(r.record_document, ARRAY['value', 'payload'], r.record_payload) END AS document, r.runs_by_lease_expiry_sort AS sort
  FROM "runlane"."runlane_runs" r
  WHERE r.runs_by_lease_expiry_partition = $1 AND r.environment_key = $2
    AND r.runs_by_lease_expiry_sort >= (SELECT coalesce($3::text, ('@' || lpad(to_hex((extract(epoch from (clock.at + interval '1 microsecond')) * 1000000::numeric)::bigint # '-9223372036854775808'::bigint), 16, '0'))) FROM clock)
    AND r.runs_by_lease_expiry_sort < (SELECT coalesce($4::text, ('@' || lpad(to_hex((extract(epoch from (clock.at + interval '1 microsecond')) * 1000000::numeric)::bigint # '-9223372036854775808'::bigint), 16, '0'))) FROM clock)
    AND (r.runs_by_lease_expiry_sort, r.run_id) < ($5::text, $6::text)
  ORDER BY r.runs_by_lease_expiry_sort DESC, r.run_id DESC
  LIMIT $7
) page ON true
ORDER BY page.sort DESC, page.id DESC

-- exclusive, ascending
WITH clock AS MATERIALIZED (SELECT clock_timestamp() AS at),
picked AS MATERIALIZED (
  SELECT r.environment_key AS partition, r.run_id AS id, r.record_version AS version, CASE WHEN r.record_payload IS NULL THEN r.record_document
     ELSE pg_catalog.jsonb_set(r.record_document, ARRAY['value', 'payload'], r.record_payload) END AS document, r.runs_by_lease_expiry_sort AS sort
  FROM "runlane"."runlane_runs" r
  WHERE r.runs_by_lease_expiry_partition = $1 AND r.environment_key = $2
    AND r.runs_by_lease_expiry_sort >= (SELECT coalesce($3::text, ('@' || lpad(to_hex((extract(epoch from (clock.at + interval '1 microsecond')) * 1000000::numeric)::bigint # '-9223372036854775808'::bigint), 16, '0'))) FROM clock)
    AND r.runs_by_lease_expiry_sort < (SELECT coalesce($4::text, ('@' || lpad(to_hex((extract(epoch from (clock.at + interval '1 microsecond')) * 1000000::numeric)::bigint # '-9223372036854775808'::bigint), 16, '0'))) FROM clock)
    AND (r.runs_by_lease_expiry_sort, r.run_id) > ($5::text, $6::text)
  ORDER BY r.runs_by_lease_expiry_sort ASC, r.run_id ASC
  LIMIT $7
  FOR UPDATE OF r SKIP LOCKED
),
tried AS MATERIALIZED (
  SELECT p.*, pg_try_advisory_xact_lock(pg_catalog.hashtextextended($8::text || p.partition || p.id || $9::text, 0)) AS mine
  FROM picked p
),
done AS MATERIALIZED (SELECT count(*) AS n, clock_timestamp() AS at FROM tried)
SELECT done.at, t.partition, t.id, t.version, t.document, t.sort, t.mine
FROM done LEFT JOIN tried t ON true
ORDER BY t.sort ASC, t.id ASC

-- exclusive, descending
WITH clock AS MATERIALIZED (SELECT clock_timestamp() AS at),
picked AS MATERIALIZED (
  SELECT r.environment_key AS partition, r.run_id AS id, r.record_version AS version, CASE WHEN r.record_payload IS NULL THEN r.record_document
     ELSE pg_catalog.jsonb_set(r.record_document, ARRAY['value', 'payload'], r.record_payload) END AS document, r.runs_by_lease_expiry_sort AS sort
  FROM "runlane"."runlane_runs" r
  WHERE r.runs_by_lease_expiry_partition = $1 AND r.environment_key = $2
    AND r.runs_by_lease_expiry_sort >= (SELECT coalesce($3::text, ('@' || lpad(to_hex((extract(epoch from (clock.at + interval '1 microsecond')) * 1000000::numeric)::bigint # '-9223372036854775808'::bigint), 16, '0'))) FROM clock)
    AND r.runs_by_lease_expiry_sort < (SELECT coalesce($4::text, ('@' || lpad(to_hex((extract(epoch from (clock.at + interval '1 microsecond')) * 1000000::numeric)::bigint # '-9223372036854775808'::bigint), 16, '0'))) FROM clock)
    AND (r.runs_by_lease_expiry_sort, r.run_id) < ($5::text, $6::text)
  ORDER BY r.runs_by_lease_expiry_sort DESC, r.run_id DESC
  LIMIT $7
  FOR UPDATE OF r SKIP LOCKED
),
tried AS MATERIALIZED (
  SELECT p.*, pg_try_advisory_xact_lock(pg_catalog.hashtextextended($8::text || p.partition || p.id || $9::text, 0)) AS mine
  FROM picked p
),
done AS MATERIALIZED (SELECT count(*) AS n, clock_timestamp() AS at FROM tried)
SELECT done.at, t.partition, t.id, t.version, t.document, t.sort, t.mine
FROM done LEFT JOIN tried t ON true
ORDER BY t.sort DESC, t.id DESC

