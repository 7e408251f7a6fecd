-- One group of a shared commit: refuses the commits that depend on the absence of a record which is there.
-- $1 environments, $2 ids, then the members
-- locks: none; the advisory locks of the keys were taken by an earlier statement
-- index: the primary key
{group}_refused AS MATERIALIZED (
  SELECT u.member
  FROM unnest($2::text[]{arrays}) AS u(id{names})
  CROSS JOIN LATERAL (SELECT 1 FROM {table} r WHERE r.{partition} = {environment} AND r.{id} = u.id LIMIT 1) found
)
