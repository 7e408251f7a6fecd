-- What keeps dead rows of this database from being removed: how many transactions back
-- it reaches, and since when. Sessions of others are hidden from a role that is not in
-- pg_read_all_stats; they come as 'hidden'.
-- locks: none
-- index: none
SELECT CASE WHEN a.backend_type IS NULL THEN 'hidden' ELSE 'session' END, a.pid::text,
       concat_ws(', ', nullif(a.usename, ''), nullif(a.application_name, ''), a.state),
       greatest(age(a.backend_xmin), age(a.backend_xid))::bigint, extract(epoch FROM clock_timestamp() - a.xact_start)::float8
FROM pg_stat_activity a
WHERE a.pid <> pg_backend_pid() AND (a.backend_type IS NULL AND a.datname = current_database()
  OR a.backend_type <> 'autovacuum worker' AND (a.datname = current_database() OR a.datname IS NULL)
     AND (a.backend_xmin IS NOT NULL OR a.backend_xid IS NOT NULL))
UNION ALL
SELECT 'prepared transaction', p.gid, p.owner::text, age(p.transaction)::bigint, extract(epoch FROM clock_timestamp() - p.prepared)::float8
FROM pg_prepared_xacts p WHERE p.database = current_database()
UNION ALL
SELECT 'replication slot', s.slot_name::text, CASE WHEN s.active THEN 'active' ELSE 'not active' END, age(s.xmin)::bigint, NULL
FROM pg_replication_slots s WHERE s.xmin IS NOT NULL
