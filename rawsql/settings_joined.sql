-- The first statement behind the savepoint in a transaction that the application has open.
-- $1 lock timeout in milliseconds as text
-- locks: none
-- index: none
SELECT set_config('lock_timeout', $1, true),
       {assert}(current_setting('transaction_isolation') = 'read committed', 'isolation')
