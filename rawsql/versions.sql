-- Draws a block of record versions, and reads the clock that commit deadlines are in.
-- $1 how many
-- locks: none
-- index: none
SELECT array_agg(nextval('{versions}')), clock_timestamp() FROM generate_series(1, $1::int)
