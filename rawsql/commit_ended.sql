-- Whether a commit that was sent on a lost connection can no longer take effect
-- unless it already holds its locks: its deadline is past, or its server process
-- is gone. A process that is still there is told to end: one that waits for the rest
-- of a pipeline would hold its locks until the operating system misses the client.
-- The process counts only where no pooler stands between, that is, where this
-- connection's process is the one that the client was told, and it is ended only if
-- it is older than the commit: its number may have gone to another.
-- $1 the deadline, $2 process of the lost connection, $3 process of this connection as the client was told, $4 when the commit was sent
-- locks: none
-- index: none
WITH process AS MATERIALIZED (
  SELECT a.pid, a.usename, a.backend_start FROM pg_catalog.pg_stat_activity a WHERE a.pid = $2::bigint AND pg_backend_pid() = $3::bigint
)
SELECT clock_timestamp() > $1::text::timestamptz OR (pg_backend_pid() = $3::bigint AND NOT EXISTS (SELECT FROM process)) AS ended,
  (SELECT bool_and(pg_terminate_backend(p.pid)) FROM process p WHERE p.usename = current_user AND p.backend_start < $4::text::timestamptz) AS told
