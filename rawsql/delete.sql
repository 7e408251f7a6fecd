-- One group of a commit: removes records of one collection in one environment.
-- $1 environment, $2 ids, $3 fences
-- locks: the rows
-- index: the primary key
--
-- Rows are looked up one by one by their whole key and then written where they were
-- found: a join may scan a whole environment until there are statistics. What is not
-- found has no place, and is missed in the count.
{group}_rows AS MATERIALIZED (
  SELECT u.* FROM unnest($2::text[], $3::bigint[]{arrays}) AS u(id, fence{names})
),
{group}_found AS MATERIALIZED (
  SELECT u.*, found.place
  FROM {group}_rows u LEFT JOIN LATERAL (
    SELECT r.ctid AS place FROM {table} r WHERE r.{partition} = {environment} AND r.{id} = u.id AND r.record_version = u.fence LIMIT 1
  ) found ON true
),
{group} AS (
  DELETE FROM {table} r
  USING {group}_found u
  WHERE r.ctid = u.place AND {after}
  RETURNING 1
)
