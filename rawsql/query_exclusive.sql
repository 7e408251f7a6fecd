-- A page from a named index, locked. Locks exactly the page: what another
-- transaction has locked is passed over, and nothing behind the page is touched. The
-- advisory lock of each record is tried as well, since point writers hold that one;
-- what is busy is reported and left to its holder. The clock is read after the locks.
-- $1 index partition, $2 environment, $3 from and $4 until (null: just after now), $5 resume sort, $6 resume id, $7 limit, $8 and $9 lock text before and behind the key
-- locks: FOR UPDATE SKIP LOCKED on the page, and its advisory locks by trying
-- index: {index}
WITH clock AS MATERIALIZED (SELECT clock_timestamp() AS at),
picked AS MATERIALIZED (
  SELECT r.{partition} AS partition, r.{id} AS id, r.record_version AS version, {document} AS document, r.{sort} AS sort
  FROM {table} r
  WHERE r.{index_partition} = $1 AND r.{partition} = $2
    AND r.{sort} >= (SELECT coalesce($3::text, {just_after_now}) FROM clock)
    AND r.{sort} < (SELECT coalesce($4::text, {just_after_now}) FROM clock)
    AND (r.{sort}, r.{id}) {beyond} ($5::text, $6::text)
  ORDER BY r.{sort} {direction}, r.{id} {direction}
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
ORDER BY t.sort {direction}, t.id {direction}
