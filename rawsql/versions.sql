-- Draws a block of record versions.
-- $1 how many
-- locks: none
-- index: none
SELECT array_agg(nextval('{versions}')) FROM generate_series(1, $1::int)
