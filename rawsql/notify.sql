-- Sends a hint for each topic when the transaction commits.
-- $1 channel, $2 topics
-- locks: at commit, the one lock that orders all notifications of the database
-- index: none
SELECT count(pg_notify($1, u.topic)) FROM pg_catalog.unnest($2::text[]) AS u(topic)
