-- Draws a block of record versions, and reads the clock that commit deadlines are in.
-- $1 how many
-- locks: none
-- index: none
--
-- The name is spelt with escapes: what a backslash means in any other literal depends
-- on the session.
SELECT pg_catalog.array_agg(pg_catalog.nextval(E'{versions}')), clock_timestamp() FROM generate_series(1, $1::int)
