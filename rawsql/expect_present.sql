-- One group of a commit: records of one collection in one environment still have the versions that were read.
-- $1 environment, $2 ids, $3 versions
-- locks: none; the advisory locks of the keys were taken by an earlier statement
-- index: the primary key
{group} AS MATERIALIZED (
  SELECT {assert}(count(*) = pg_catalog.cardinality($2::text[]), '{group}') AS ok
  FROM unnest($2::text[], $3::bigint[]) AS e(id, version)
  CROSS JOIN LATERAL (SELECT 1 FROM {table} r WHERE r.{partition} = $1 AND r.{id} = e.id AND r.record_version = e.version LIMIT 1) found
)
