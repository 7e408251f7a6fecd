-- Whether the database is fit, in one row. Everything is looked up in the catalog: a
-- name that is resolved, by a cast or by to_regclass, fails without rights on its schema.
-- $1 schema, $2 tables, $3 the version sequence, $4 the assertion function
-- locks: none
-- index: none
WITH place AS MATERIALIZED (
  SELECT n.oid FROM pg_namespace n WHERE n.nspname = $1
), relation AS MATERIALIZED (
  SELECT c.oid, c.relname::text AS name, c.relkind = 'S' AS counts FROM pg_class c, place WHERE c.relnamespace = place.oid AND c.relkind IN ('r', 'p', 'S')
), assertion AS MATERIALIZED (
  SELECT p.oid FROM pg_proc p, place WHERE p.pronamespace = place.oid AND p.proname = $4 AND oidvectortypes(p.proargtypes) = 'boolean, text'
)
SELECT current_setting('server_version_num')::int AS server,
       current_setting('server_encoding') AS encoding,
       current_setting('default_transaction_isolation') AS isolation,
       version() AS product,
       current_user::text AS role,
       EXISTS (SELECT FROM place) AS schema_exists,
       EXISTS (SELECT FROM place WHERE has_schema_privilege(place.oid, 'USAGE')) AS schema_usable,
       ARRAY(SELECT u.name FROM pg_catalog.unnest($2::text[]) WITH ORDINALITY AS u(name, place)
             WHERE NOT EXISTS (SELECT FROM relation r WHERE r.name = u.name AND NOT r.counts) ORDER BY u.place) AS tables_missing,
       ARRAY(SELECT string_agg(needed.privilege, ', ' ORDER BY needed.place) || ' on ' || u.name
             FROM pg_catalog.unnest($2::text[]) WITH ORDINALITY AS u(name, place)
             JOIN relation r ON r.name = u.name AND NOT r.counts
             JOIN pg_catalog.unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE']) WITH ORDINALITY AS needed(privilege, place)
               ON NOT has_table_privilege(r.oid, needed.privilege)
             GROUP BY u.name, u.place ORDER BY u.place) AS rights_missing,
       EXISTS (SELECT FROM relation r WHERE r.name = $3 AND r.counts) AS sequence_exists,
       EXISTS (SELECT FROM relation r WHERE r.name = $3 AND r.counts AND has_sequence_privilege(r.oid, 'USAGE, UPDATE')) AS sequence_usable,
       EXISTS (SELECT FROM assertion) AS function_exists,
       EXISTS (SELECT FROM assertion WHERE has_function_privilege(assertion.oid, 'EXECUTE')) AS function_executable,
       clock_timestamp() AS clock,
       current_setting('max_locks_per_transaction')::int
         * (current_setting('max_connections')::int + current_setting('max_prepared_transactions')::int) AS locks
