-- A page of a run's history, locked. Both paths are merged before anything is
-- locked, so that the order is global and no losing row is touched. What could not be
-- locked is reported as well: the page goes on behind it.
-- $1 index partition, $2 environment, $3 from and $4 until (null: just after now), $5 resume sort, $6 resume id, $7 limit,
-- $8 encoded run id, $9 first sequence, $10 sequence beyond the last, $11 resume sequence, $12 resume id behind it,
-- $13 and $14 lock text before and behind the key, $15 the same before the private key of a payload
-- locks: FOR UPDATE SKIP LOCKED on the page, and its advisory locks by trying: of the records, and of payloads they may share
-- index: runlane_run_events_native and {index}
WITH clock AS MATERIALIZED (SELECT clock_timestamp() AS at),
{merged},
picked AS MATERIALIZED (
  SELECT found.*
  FROM merged m CROSS JOIN LATERAL (
    SELECT r.environment_key AS partition, r.record_id AS id, r.record_version AS version, {document} AS document, r.run_id, r.sequence
    FROM {table} r WHERE r.environment_key = $2 AND r.record_id = m.id LIMIT 1
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
ORDER BY m.sort {direction}, m.id {direction}
