-- candidates, ascending
WITH clock AS MATERIALIZED (SELECT clock_timestamp() AS at)
SELECT clock.at, page.partition, page.id, page.version, page.document, page.sort
FROM clock LEFT JOIN LATERAL (
  SELECT r.partition_key AS partition, r.record_id AS id, r.record_version AS version, r.record_document AS document, r.schedule_occurrences_by_fire_time_sort AS sort
  FROM "runlane"."runlane_record_schedule_occurrences" r
  WHERE r.schedule_occurrences_by_fire_time_partition = $1 AND r.partition_key = $2
    AND r.schedule_occurrences_by_fire_time_sort >= (SELECT coalesce($3::text, ('@' || lpad(to_hex((extract(epoch from (clock.at + interval '1 microsecond')) * 1000000::numeric)::bigint # '-9223372036854775808'::bigint), 16, '0'))) FROM clock)
    AND r.schedule_occurrences_by_fire_time_sort < (SELECT coalesce($4::text, ('@' || lpad(to_hex((extract(epoch from (clock.at + interval '1 microsecond')) * 1000000::numeric)::bigint # '-9223372036854775808'::bigint), 16, '0'))) FROM clock)
    AND (r.schedule_occurrences_by_fire_time_sort, r.record_id) > ($5::text, $6::text)
  ORDER BY r.schedule_occurrences_by_fire_time_sort ASC, r.record_id ASC
  LIMIT $7
) page ON true
ORDER BY page.sort ASC, page.id ASC

-- candidates, descending
WITH clock AS MATERIALIZED (SELECT clock_timestamp() AS at)
SELECT clock.at, page.partition, page.id, page.version, page.document, page.sort
FROM clock LEFT JOIN LATERAL (
  SELECT r.partition_key AS partition, r.record_id AS id, r.record_version AS version, r.record_document AS document, r.schedule_occurrences_by_fire_time_sort AS sort
  FROM "runlane"."runlane_record_schedule_occurrences" r
  WHERE r.schedule_occurrences_by_fire_time_partition = $1 AND r.partition_key = $2
    AND r.schedule_occurrences_by_fire_time_sort >= (SELECT coalesce($3::text, ('@' || lpad(to_hex((extract(epoch from (clock.at + interval '1 microsecond')) * 1000000::numeric)::bigint # '-9223372036854775808'::bigint), 16, '0'))) FROM clock)
    AND r.schedule_occurrences_by_fire_time_sort < (SELECT coalesce($4::text, ('@' || lpad(to_hex((extract(epoch from (clock.at + interval '1 microsecond')) * 1000000::numeric)::bigint # '-9223372036854775808'::bigint), 16, '0'))) FROM clock)
    AND (r.schedule_occurrences_by_fire_time_sort, r.record_id) < ($5::text, $6::text)
  ORDER BY r.schedule_occurrences_by_fire_time_sort DESC, r.record_id DESC
  LIMIT $7
) page ON true
ORDER BY page.sort DESC, page.id DESC

-- exclusive, ascending
WITH clock AS MATERIALIZED (SELECT clock_timestamp() AS at),
picked AS MATERIALIZED (
  SELECT r.partition_key AS partition, r.record_id AS id, r.record_version AS version, r.record_document AS document, r.schedule_occurrences_by_fire_time_sort AS sort
  FROM "runlane"."runlane_record_schedule_occurrences" r
  WHERE r.schedule_occurrences_by_fire_time_partition = $1 AND r.partition_key = $2
    AND r.schedule_occurrences_by_fire_time_sort >= (SELECT coalesce($3::text, ('@' || lpad(to_hex((extract(epoch from (clock.at + interval '1 microsecond')) * 1000000::numeric)::bigint # '-9223372036854775808'::bigint), 16, '0'))) FROM clock)
    AND r.schedule_occurrences_by_fire_time_sort < (SELECT coalesce($4::text, ('@' || lpad(to_hex((extract(epoch from (clock.at + interval '1 microsecond')) * 1000000::numeric)::bigint # '-9223372036854775808'::bigint), 16, '0'))) FROM clock)
    AND (r.schedule_occurrences_by_fire_time_sort, r.record_id) > ($5::text, $6::text)
  ORDER BY r.schedule_occurrences_by_fire_time_sort ASC, r.record_id ASC
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
  SELECT r.partition_key AS partition, r.record_id AS id, r.record_version AS version, r.record_document AS document, r.schedule_occurrences_by_fire_time_sort AS sort
  FROM "runlane"."runlane_record_schedule_occurrences" r
  WHERE r.schedule_occurrences_by_fire_time_partition = $1 AND r.partition_key = $2
    AND r.schedule_occurrences_by_fire_time_sort >= (SELECT coalesce($3::text, ('@' || lpad(to_hex((extract(epoch from (clock.at + interval '1 microsecond')) * 1000000::numeric)::bigint # '-9223372036854775808'::bigint), 16, '0'))) FROM clock)
    AND r.schedule_occurrences_by_fire_time_sort < (SELECT coalesce($4::text, ('@' || lpad(to_hex((extract(epoch from (clock.at + interval '1 microsecond')) * 1000000::numeric)::bigint # '-9223372036854775808'::bigint), 16, '0'))) FROM clock)
    AND (r.schedule_occurrences_by_fire_time_sort, r.record_id) < ($5::text, $6::text)
  ORDER BY r.schedule_occurrences_by_fire_time_sort DESC, r.record_id DESC
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

