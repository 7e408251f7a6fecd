-- The objects that a driver needs, in order: whether each is there, and which rights on
-- it the role lacks. Everything is looked up in the catalog by its name there.
-- $1 schema, $2 tables, $3 the version sequence, $4 the assertion function, $5 role
-- locks: none
-- index: none
WITH wanted (kind, name, place, rights) AS (
  SELECT 'schema', $1::text, 0::bigint, ARRAY['USAGE']
  UNION ALL
  SELECT 'table', u.name, u.place, ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE'] FROM unnest($2::text[]) WITH ORDINALITY AS u(name, place)
  UNION ALL
  SELECT 'sequence', $3::text, 10000, ARRAY['USAGE']
  UNION ALL
  SELECT 'function', $4::text, 10001, ARRAY['EXECUTE']
), present (kind, name, object) AS (
  SELECT 'schema', n.nspname::text, n.oid FROM pg_namespace n WHERE n.nspname = $1
  UNION ALL
  SELECT CASE c.relkind WHEN 'S' THEN 'sequence' ELSE 'table' END, c.relname::text, c.oid
  FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1 AND c.relkind IN ('r', 'p', 'S')
  UNION ALL
  SELECT 'function', p.proname::text, p.oid
  FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace WHERE n.nspname = $1 AND oidvectortypes(p.proargtypes) = 'boolean, text'
)
SELECT w.kind, w.name, p.object IS NOT NULL,
       ARRAY(SELECT needed FROM unnest(w.rights) AS needed WHERE p.object IS NOT NULL AND NOT CASE w.kind
         WHEN 'schema' THEN has_schema_privilege($5::name, p.object, needed)
         WHEN 'table' THEN has_table_privilege($5::name, p.object, needed)
         WHEN 'sequence' THEN has_sequence_privilege($5::name, p.object, needed)
         ELSE has_function_privilege($5::name, p.object, needed) END)
FROM wanted w LEFT JOIN present p ON p.kind = w.kind AND p.name = w.name
ORDER BY w.place
