-- One group of a shared commit: refuses the commits that write a record which no longer has the version that was read.
-- locks: none; the advisory locks of the keys were taken by an earlier statement
-- index: none; the rows were looked up before
{group}_refused AS MATERIALIZED (SELECT u.member FROM {group}_found u WHERE u.place IS NULL)
