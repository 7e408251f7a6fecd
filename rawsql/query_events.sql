-- A page of a run's history: canonical events by their typed columns, merged with
-- opaque records that carry the generic pair.
-- $1 index partition, $2 environment, $3 from and $4 until (null: just after now), $5 resume sort, $6 resume id, $7 limit,
-- $8 encoded run id, $9 first sequence, $10 sequence beyond the last, $11 resume sequence, $12 resume id behind it
-- locks: none
-- index: runlane_run_events_native and {index}
WITH clock AS MATERIALIZED (SELECT clock_timestamp() AS at),
{merged}
SELECT clock.at, page.partition, page.id, page.version, page.document, page.sort
FROM clock LEFT JOIN LATERAL (
  SELECT found.*, m.sort
  FROM merged m CROSS JOIN LATERAL (
    SELECT r.environment_key AS partition, r.record_id AS id, r.record_version AS version, {document} AS document
    FROM {table} r WHERE r.environment_key = $2 AND r.record_id = m.id LIMIT 1
  ) found
) page ON true
ORDER BY page.sort {direction}, page.id {direction}
