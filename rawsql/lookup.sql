-- One arm of a point read: records of one collection in one environment.
-- $1 environment, $2 ids
-- locks: none
-- index: the primary key
SELECT {ordinal}::int AS collection, found.partition, found.id, found.version, found.document
FROM pg_catalog.unnest($2::text[]) AS k(id) CROSS JOIN LATERAL (
  SELECT r.{partition} AS partition, r.{id} AS id, r.record_version AS version, {document} AS document
  FROM {table} r
  WHERE r.{partition} = $1 AND r.{id} = k.id
  LIMIT 1
) found
