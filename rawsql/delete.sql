-- One group of a commit: removes records of one collection in one environment.
-- $1 environment, $2 ids, $3 fences
-- locks: the rows
-- index: the primary key
{group} AS (
  DELETE FROM {table} r
  USING unnest($2::text[], $3::bigint[]) AS u(id, fence)
  WHERE r.{partition} = $1 AND r.{id} = u.id AND r.record_version = u.fence AND {after}
  RETURNING 1
)
