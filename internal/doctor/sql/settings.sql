-- Settings as the sessions of a role begin with them, and their units. Those of the role
-- that asks are known; those of another are what is set for it, for the database or for
-- the server.
-- $1 names, $2 role
-- locks: none
-- index: none
WITH roles AS (
  SELECT r.oid AS role, r.rolname = current_user AS own FROM pg_roles r WHERE r.rolname IN ($2::name, current_user)
), given AS (
  SELECT r.own, split_part(c.line, '=', 1) AS name, substr(c.line, strpos(c.line, '=') + 1) AS value,
         row_number() OVER (PARTITION BY r.own, split_part(c.line, '=', 1) ORDER BY d.setrole = 0, d.setdatabase = 0) AS place
  FROM roles r
  JOIN pg_db_role_setting d ON d.setrole IN (0, r.role)
    AND d.setdatabase IN (0, (SELECT b.oid FROM pg_database b WHERE b.datname = current_database()))
  CROSS JOIN LATERAL unnest(d.setconfig) AS c(line)
)
SELECT s.name, coalesce(s.unit, ''), CASE
  WHEN $2::name = current_user THEN s.reset_val
  ELSE coalesce((SELECT g.value FROM given g WHERE NOT g.own AND g.place = 1 AND g.name = s.name),
    CASE WHEN EXISTS (SELECT FROM given g WHERE g.own AND g.name = s.name) THEN s.boot_val ELSE s.reset_val END) END
FROM pg_settings s WHERE s.name = ANY ($1::text[])
