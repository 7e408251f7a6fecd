-- Fragment: how the statements of the driver are planned, until the transaction ends:
-- once for a session, by keys, whatever the statistics say. To plan a commit takes longer
-- than to run a small one, and PostgreSQL would plan it each time, since it takes an array
-- whose length it knows for cheaper than one of any length. A plan that is kept must
-- be right for any number of rows. All these statements look rows up by whole keys, so
-- nested loops over indexes are; a scan or a hash of a table that was small when
-- the plan was made is not.
-- locks: none
-- index: none
set_config('plan_cache_mode', 'force_generic_plan', true),
       set_config('enable_seqscan', 'off', true),
       set_config('enable_hashjoin', 'off', true),
       set_config('enable_mergejoin', 'off', true),
       set_config('jit', 'off', true)
