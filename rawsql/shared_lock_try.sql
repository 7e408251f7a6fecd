-- Takes the advisory locks of several commits without waiting. A commit that does not
-- get all of its own is busy: the next statements leave it out.
-- $1 lock texts, $2 for each whether it is exclusive, $3 the commit that it belongs to
-- locks: advisory, until the transaction ends; several texts with one hash are one lock, exclusive if any is
-- index: none
--
-- The setting is how a statement tells the next ones of the same pipeline, since the
-- client learns of nothing before the transaction has ended. It ends with the
-- transaction, too.
WITH asked AS MATERIALIZED (
  SELECT pg_catalog.hashtextextended(u.text, 0) AS hash, u.exclusive, u.member, u.place
  FROM unnest($1::text[], $2::boolean[], $3::int[]) WITH ORDINALITY AS u(text, exclusive, member, place)
), wanted AS MATERIALIZED (
  SELECT hash, bool_or(exclusive) AS exclusive FROM asked GROUP BY hash ORDER BY hash
), tried AS MATERIALIZED (
  SELECT hash, CASE WHEN exclusive THEN pg_try_advisory_xact_lock(hash) ELSE pg_try_advisory_xact_lock_shared(hash) END AS taken
  FROM wanted
), busy AS MATERIALIZED (
  SELECT a.member, min(a.place) AS place FROM asked a JOIN tried t ON t.hash = a.hash WHERE NOT t.taken GROUP BY a.member
)
SELECT pg_catalog.array_agg(b.place ORDER BY b.member) AS places,
  set_config('runlane.busy', coalesce(string_agg(b.member::text, ',' ORDER BY b.member), ''), true) AS busy
FROM busy b
