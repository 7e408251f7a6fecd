-- The lock table that all sessions share: its nominal capacity, and what is in it.
-- locks: none
-- index: none
SELECT current_setting('max_locks_per_transaction')::bigint
         * (current_setting('max_connections')::bigint + current_setting('max_prepared_transactions')::bigint),
       (SELECT count(*) FROM pg_locks l WHERE NOT l.fastpath)
