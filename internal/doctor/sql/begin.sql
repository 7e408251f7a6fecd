-- The first statement of every check. No name is looked up elsewhere than in the
-- catalog, and no plan is a scan of a whole table where an index serves.
-- $1 statement timeout, $2 lock timeout, in milliseconds as text
-- locks: none
-- index: none
SELECT pg_catalog.set_config('search_path', 'pg_catalog', true),
       pg_catalog.set_config('statement_timeout', $1, true),
       pg_catalog.set_config('lock_timeout', $2, true),
       pg_catalog.set_config('enable_seqscan', 'off', true),
       pg_catalog.set_config('enable_bitmapscan', 'off', true),
       pg_catalog.set_config('enable_sort', 'off', true),
       pg_catalog.set_config('jit', 'off', true)
