-- One group of a commit: removes records of one collection in one environment.
-- $1 environment, $2 ids, $3 fences
-- locks: the rows
-- index: the primary key
--
-- Rows are looked up one by one by their whole key and then written where they were
-- found: a join may scan a whole environment until there are statistics.
{group}_found AS MATERIALIZED (
  SELECT found.place
  FROM unnest($2::text[], $3::bigint[]) AS u(id, fence) CROSS JOIN LATERAL (
    SELECT r.ctid AS place FROM {table} r WHERE r.{partition} = $1 AND r.{id} = u.id AND r.record_version = u.fence LIMIT 1
  ) found
),
{group} AS (
  DELETE FROM {table} r
  USING {group}_found u
  WHERE r.ctid = u.place AND {after}
  RETURNING 1
)
