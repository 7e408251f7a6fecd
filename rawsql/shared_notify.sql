-- Sends the hints of the commits that were not refused.
-- $1 channel, $2 topics, $3 for each the commit that it belongs to
-- locks: at commit, the one lock that orders all notifications of the database
-- index: none
SELECT count(pg_notify($1, u.topic))
FROM (
  SELECT DISTINCT s.topic FROM unnest($2::text[], $3::int[]) AS s(topic, member)
  WHERE s.member <> ALL (string_to_array(current_setting('runlane.refused'), ',')::int[])
) u
