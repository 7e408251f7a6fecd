-- The indexes of the schema that are not valid, and whether somebody is building them
-- (as far as the role may see).
-- $1 schema
-- locks: none
-- index: none
SELECT i.relname::text, t.relname::text, x.indisunique,
       EXISTS (SELECT FROM pg_stat_progress_create_index b WHERE b.index_relid = x.indexrelid AND b.datname = current_database())
FROM pg_index x
JOIN pg_class i ON i.oid = x.indexrelid
JOIN pg_class t ON t.oid = x.indrelid
JOIN pg_namespace n ON n.oid = t.relnamespace
WHERE n.nspname = $1 AND NOT (x.indisvalid AND x.indisready AND x.indislive)
ORDER BY i.relname
