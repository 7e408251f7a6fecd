-- A page of candidates from a named index.
-- $1 index partition, $2 environment, $3 from and $4 until (null: just after now), $5 resume sort, $6 resume id, $7 limit
-- locks: none
-- index: {index}
WITH clock AS MATERIALIZED (SELECT clock_timestamp() AS at)
SELECT clock.at, page.partition, page.id, page.version, page.document, page.sort
FROM clock LEFT JOIN LATERAL (
  SELECT r.{partition} AS partition, r.{id} AS id, r.record_version AS version, {document} AS document, r.{sort} AS sort
  FROM {table} r
  WHERE r.{index_partition} = $1 AND r.{partition} = $2
    AND r.{sort} >= (SELECT coalesce($3::text, {just_after_now}) FROM clock)
    AND r.{sort} < (SELECT coalesce($4::text, {just_after_now}) FROM clock)
    AND (r.{sort}, r.{id}) {beyond} ($5::text, $6::text)
  ORDER BY r.{sort} {direction}, r.{id} {direction}
  LIMIT $7
) page ON true
ORDER BY page.sort {direction}, page.id {direction}
