-- Takes the advisory locks of a set of keys, or fails without waiting.
-- $1 lock texts, $2 for each whether it is exclusive
-- locks: advisory, until the transaction ends; several texts with one hash are one lock, exclusive if any is
-- index: none
WITH wanted AS MATERIALIZED (
  SELECT hash, bool_or(exclusive) AS exclusive, min(place) AS place
  FROM (
    SELECT pg_catalog.hashtextextended(u.text, 0) AS hash, u.exclusive, u.place
    FROM unnest($1::text[], $2::boolean[]) WITH ORDINALITY AS u(text, exclusive, place)
  ) hashed
  GROUP BY hash
  ORDER BY hash
), tried AS MATERIALIZED (
  SELECT place, CASE WHEN exclusive THEN pg_try_advisory_xact_lock(hash) ELSE pg_try_advisory_xact_lock_shared(hash) END AS taken
  FROM wanted
)
SELECT {assert}(bool_and(taken), 'busy ' || coalesce(min(place) FILTER (WHERE NOT taken), 0)::text) FROM tried
