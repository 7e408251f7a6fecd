-- One group of a shared commit: refuses the commits that depend on a record which no longer has the version that was read.
-- $1 environments, $2 ids, $3 versions, then the members
-- locks: none; the advisory locks of the keys were taken by an earlier statement
-- index: the primary key
{group}_refused AS MATERIALIZED (
  SELECT u.member
  FROM unnest($2::text[], $3::bigint[]{arrays}) AS u(id, version{names})
  LEFT JOIN LATERAL (
    SELECT true AS here FROM {table} r WHERE r.{partition} = {environment} AND r.{id} = u.id AND r.record_version = u.version LIMIT 1
  ) found ON true
  WHERE found.here IS NULL
)
