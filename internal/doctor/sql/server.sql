-- What the server says of itself.
-- locks: none
-- index: none
SELECT current_setting('server_version_num')::int, version(), current_setting('server_encoding'), pg_is_in_recovery()
