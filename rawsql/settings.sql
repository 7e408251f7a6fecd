-- The first statement of every transaction that locks or writes.
-- $1 lock timeout, $2 statement timeout, $3 idle-in-transaction timeout, in milliseconds as text
-- locks: none
-- index: none
--
-- The timeouts hold until the transaction ends. The isolation level is checked
-- and not assumed: under REPEATABLE READ the statements after a lock wait would
-- still see the snapshot from before it.
--
-- For {planner} see planner.sql.
--
-- No timeout of PostgreSQL runs between two statements of a pipeline. So a client
-- whose machine is gone would keep its locks for as long as the operating system
-- believes in the connection, which is hours. Here it is probed after 5 seconds, and
-- given up after 20. Elsewhere than on TCP these settings have no effect.
SELECT set_config('lock_timeout', $1, true),
       set_config('statement_timeout', $2, true),
       set_config('idle_in_transaction_session_timeout', $3, true),
       {planner},
       set_config('tcp_keepalives_idle', '5', true),
       set_config('tcp_keepalives_interval', '5', true),
       set_config('tcp_keepalives_count', '3', true),
       {assert}(current_setting('transaction_isolation') = 'read committed', 'isolation')
