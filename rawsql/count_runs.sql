-- How many runs there are of each status, each counted no further than a limit: in steps
-- of {batch} along the index, each behind the last run of the one before. For so few the
-- server walks through the index; for all at once it may scan the table. Of the filters it
-- has no opinion, lest it scans the table for what is rare.
-- $1 environment, $2 statuses, $3 and $4 range of creation as text, $5 limit, {filters} follow
-- locks: none
-- index: runlane_runs_status
SELECT s.status, (
  WITH RECURSIVE step AS (
    SELECT 0::bigint AS counted, {batch}::bigint AS found, $3::text::timestamptz AS at, ''::text COLLATE "C" AS id
    UNION ALL
    SELECT step.counted + next.found, next.found, next.at, next.id
    FROM step CROSS JOIN LATERAL (
      SELECT count(*) AS found, (pg_catalog.array_agg(b.created_at))[count(*)] AS at, (pg_catalog.array_agg(b.run_id))[count(*)]::text AS id
      FROM (
        SELECT batch.created_at, batch.run_id
        FROM (
          SELECT r.created_at, r.run_id FROM {runs} r
          WHERE r.environment_key = $1 AND r.status = s.status
            AND (r.created_at, r.run_id) > (step.at, step.id) AND (r.created_at, r.run_id) < ($4::text::timestamptz, ''::text)
            AND CASE WHEN {filters} THEN true ELSE false END
          ORDER BY r.created_at, r.run_id
          LIMIT {batch}) batch
        LIMIT $5::bigint - step.counted) b
    ) next
    WHERE step.found = {batch}::bigint AND step.counted < $5::bigint
  )
  SELECT max(step.counted) FROM step)
FROM pg_catalog.unnest($2::text[]) s (status)
