-- One group of a commit: records of one collection in one environment are still absent.
-- $1 environment, $2 ids
-- locks: none; the advisory locks of the keys were taken by an earlier statement
-- index: the primary key
{group} AS MATERIALIZED (
  SELECT {assert}(count(*) = 0, '{group}') AS ok
  FROM pg_catalog.unnest($2::text[]) AS e(id)
  CROSS JOIN LATERAL (SELECT 1 FROM {table} r WHERE r.{partition} = $1 AND r.{id} = e.id LIMIT 1) found
)
