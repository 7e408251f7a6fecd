-- The database's clock, when everything before it in the transaction is done.
-- locks: none
-- index: none
SELECT clock_timestamp()
