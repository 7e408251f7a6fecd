-- Rows and dead rows of each table as the statistics have them, when it was vacuumed,
-- and at how many dead rows autovacuum comes.
-- $1 schema, $2 tables
-- locks: none
-- index: none
SELECT c.relname::text, s.n_live_tup, s.n_dead_tup,
       extract(epoch FROM clock_timestamp() - greatest(s.last_vacuum, s.last_autovacuum))::float8,
       coalesce(o.enabled, true),
       (coalesce(o.threshold, current_setting('autovacuum_vacuum_threshold')::float8)
         + coalesce(o.scale, current_setting('autovacuum_vacuum_scale_factor')::float8) * greatest(c.reltuples, 0))::float8
FROM pg_class c
JOIN pg_namespace n ON n.oid = c.relnamespace
JOIN pg_stat_all_tables s ON s.relid = c.oid
CROSS JOIN LATERAL (
  SELECT bool_and(v.option_value::boolean) FILTER (WHERE v.option_name = 'autovacuum_enabled') AS enabled,
         max(v.option_value) FILTER (WHERE v.option_name = 'autovacuum_vacuum_threshold')::float8 AS threshold,
         max(v.option_value) FILTER (WHERE v.option_name = 'autovacuum_vacuum_scale_factor')::float8 AS scale
  FROM pg_options_to_table(c.reloptions) v
) o
WHERE n.nspname = $1 AND c.relname = ANY ($2::text[])
ORDER BY c.relname
