-- Fragment: the commits that shared_lock_try.sql left out.
-- locks: none
-- index: none
SELECT m.member::int AS member, 'busy'::text AS code
FROM pg_catalog.unnest(string_to_array(current_setting('runlane.busy'), ',')) AS m(member)
