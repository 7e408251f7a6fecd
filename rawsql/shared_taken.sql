-- One group of a shared commit: refuses the commits that create what is there already.
-- locks: none; the advisory locks of the keys were taken by an earlier statement
-- index: the primary key
{group}_refused AS MATERIALIZED (
  SELECT u.member
  FROM {group}_rows u
  CROSS JOIN LATERAL (SELECT 1 FROM {table} r WHERE r.{partition} = {environment} AND r.{id} = u.id LIMIT 1) found
)
