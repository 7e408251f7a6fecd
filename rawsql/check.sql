-- Whether the database is fit, in one row.
-- $1 schema, $2 the assertion function, $3 the version sequence, $4 and $5 two tables, all but the first quoted
-- locks: none
-- index: none
SELECT current_setting('server_version_num')::int AS server,
       current_setting('server_encoding') AS encoding,
       current_setting('default_transaction_isolation') AS isolation,
       version() AS product,
       coalesce(has_schema_privilege(to_regnamespace(quote_ident($1)), 'USAGE'), false) AS schema_usable,
       to_regnamespace(quote_ident($1)) IS NOT NULL AS schema_exists,
       to_regclass($4) IS NOT NULL AS tables_exist,
       coalesce(has_table_privilege(to_regclass($4), 'SELECT, INSERT, UPDATE, DELETE'), false)
         AND coalesce(has_table_privilege(to_regclass($5), 'SELECT, INSERT, UPDATE, DELETE'), false) AS tables_writable,
       to_regproc($2) IS NOT NULL AS function_exists,
       coalesce(has_function_privilege(to_regproc($2)::oid, 'EXECUTE'), false) AS function_executable,
       coalesce(has_sequence_privilege(to_regclass($3), 'USAGE'), false) AS sequence_usable,
       clock_timestamp() AS clock,
       current_setting('max_locks_per_transaction')::int * (current_setting('max_connections')::int + current_setting('max_prepared_transactions')::int) AS locks
