-- One group of a seal: locks records and checks that they still have the versions that were read.
-- $1 environment, $2 ids, $3 versions
-- locks: FOR NO KEY UPDATE on the records, until the transaction ends
-- index: the primary key
{group}_locked AS MATERIALIZED (
  SELECT e.id
  FROM unnest($2::text[], $3::bigint[]) AS e(id, version)
  CROSS JOIN LATERAL (
    SELECT 1 FROM {table} r WHERE r.{partition} = $1 AND r.{id} = e.id AND r.record_version = e.version LIMIT 1 FOR NO KEY UPDATE OF r
  ) found
),
{group} AS MATERIALIZED (
  SELECT {assert}(count(*) = pg_catalog.cardinality($2::text[]), '{group}') AS ok FROM {group}_locked
)
