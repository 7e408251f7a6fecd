-- Whether a commit that was sent on a lost connection can no longer take effect
-- unless it already holds its locks: its deadline is past, or its server process
-- is gone. The process counts only where no pooler stands between, that is, where
-- this connection's process is the one that the client was told.
-- $1 the deadline, $2 process of the lost connection, $3 process of this connection as the client was told
-- locks: none
-- index: none
SELECT clock_timestamp() > $1::text::timestamptz
  OR (pg_backend_pid() = $3::bigint AND NOT EXISTS (SELECT FROM pg_catalog.pg_stat_activity a WHERE a.pid = $2::bigint)) AS ended
