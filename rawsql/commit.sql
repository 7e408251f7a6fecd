-- The one statement of a commit: checks what was read and applies all mutations,
-- in groups by collection and operation. CTEs have no order of their own, so each
-- group waits for the one before it ({after} in the fragments): checks, then
-- deletes, then updates, then inserts. The counts are asserted in the outer select
-- list, where nothing can be optimised away. All commit times are one reading of
-- the clock, taken after the locks of an earlier statement.
-- parameters: those of the groups, one after the other
-- locks: the rows that are written
-- index: the primary keys
WITH clock AS MATERIALIZED (
  SELECT c.at, {time_text} AS text, {time_key} AS key FROM (SELECT clock_timestamp() AS at) c
),
{groups}
SELECT clock.at{asserts} FROM clock
