-- Takes the advisory locks of a set of keys, waiting for each at most lock_timeout.
-- $1 lock texts, $2 for each whether it is exclusive
-- locks: advisory, until the transaction ends, in the order of the hashed texts: the one canonical order
-- index: none
--
-- What depends on these locks belongs in a later statement: this one's snapshot is
-- older than its waits.
WITH wanted AS MATERIALIZED (
  SELECT hash, bool_or(exclusive) AS exclusive
  FROM (
    SELECT pg_catalog.hashtextextended(u.text, 0) AS hash, u.exclusive
    FROM unnest($1::text[], $2::boolean[]) AS u(text, exclusive)
  ) hashed
  GROUP BY hash
  ORDER BY hash
), taken AS MATERIALIZED (
  SELECT CASE WHEN exclusive THEN pg_advisory_xact_lock(hash) ELSE pg_advisory_xact_lock_shared(hash) END
  FROM wanted
)
SELECT count(*) FROM taken
