-- The one statement of a transaction that several commits share. Its groups are those
-- of commit.sql, with the rows of all commits; member says whose a row is. What each
-- commit depends on is looked at first, and a commit with a fault (something that it
-- read has changed, a fence is gone, a key is taken) is refused: none of its rows is
-- written. The counts of the rest are asserted in the outer select list.
-- parameters: the deadline, then those of the groups
-- locks: the rows that are written
-- index: the primary keys
WITH clock AS MATERIALIZED (
  SELECT c.at, {time_text} AS text, {time_key} AS key FROM (SELECT clock_timestamp() AS at) c
),
{lookups},
refused AS MATERIALIZED (
  {refusals}
),
{groups}
SELECT clock.at,
  (SELECT coalesce(string_agg(f.member::text || ' ' || f.code, ','), '') FROM refused f) AS refused,
  set_config('runlane.refused', (SELECT coalesce(string_agg(f.member::text, ','), '') FROM refused f), true) AS members{asserts}
FROM clock
