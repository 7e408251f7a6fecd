-- of the index alone
SELECT s.status, (
  WITH RECURSIVE step AS (
    SELECT 0::bigint AS counted, 100::bigint AS found, $3::text::timestamptz AS at, ''::text COLLATE "C" AS id
    UNION ALL
    SELECT step.counted + next.found, next.found, next.at, next.id
    FROM step CROSS JOIN LATERAL (
      SELECT count(*) AS found, (pg_catalog.array_agg(b.created_at))[count(*)] AS at, (pg_catalog.array_agg(b.run_id))[count(*)]::text AS id
      FROM (
        SELECT batch.created_at, batch.run_id
        FROM (
          SELECT r.created_at, r.run_id FROM "runlane"."runlane_runs" r
          WHERE r.environment_key = $1 AND r.status = s.status
            AND (r.created_at, r.run_id) > (step.at, step.id) AND (r.created_at, r.run_id) < ($4::text::timestamptz, ''::text)
            AND CASE WHEN true THEN true ELSE false END
          ORDER BY r.created_at, r.run_id
          LIMIT 100) batch
        LIMIT $5::bigint - step.counted) b
    ) next
    WHERE step.found = 100::bigint AND step.counted < $5::bigint
  )
  SELECT max(step.counted) FROM step)
FROM pg_catalog.unnest($2::text[]) s (status)

-- with filters
SELECT s.status, (
  WITH RECURSIVE step AS (
    SELECT 0::bigint AS counted, 100::bigint AS found, $3::text::timestamptz AS at, ''::text COLLATE "C" AS id
    UNION ALL
    SELECT step.counted + next.found, next.found, next.at, next.id
    FROM step CROSS JOIN LATERAL (
      SELECT count(*) AS found, (pg_catalog.array_agg(b.created_at))[count(*)] AS at, (pg_catalog.array_agg(b.run_id))[count(*)]::text AS id
      FROM (
        SELECT batch.created_at, batch.run_id
        FROM (
          SELECT r.created_at, r.run_id FROM "runlane"."runlane_runs" r
          WHERE r.environment_key = $1 AND r.status = s.status
            AND (r.created_at, r.run_id) > (step.at, step.id) AND (r.created_at, r.run_id) < ($4::text::timestamptz, ''::text)
            AND CASE WHEN (pg_catalog.cardinality($6::text[]) = 0 OR r.task = ANY ($6::text[]))
      AND (pg_catalog.cardinality($7::text[]) = 0 OR r.queue = ANY ($7::text[]))
      AND (pg_catalog.cardinality($8::text[]) = 0 OR r.source_type = ANY ($8::text[]))
      AND ($9::text = '' OR r.source_run_id = $9::text)
      AND ($10::text = '' OR r.schedule_id = $10::text)
      AND ($11::text = '' OR r.idempotency_key = $11::text)
      AND ($12::text = '' OR r.singleton_key = $12::text)
      AND ($13::text = '' OR r.concurrency_key = $13::text)
      AND ($14::boolean OR r.updated_at >= $15::text::timestamptz AND r.updated_at < $16::text::timestamptz)
      AND ($17::boolean OR r.due_at >= $18::text::timestamptz AND r.due_at < $19::text::timestamptz)
      AND ($20::boolean OR r.lease_expires_at >= $21::text::timestamptz AND r.lease_expires_at < $22::text::timestamptz) THEN true ELSE false END
          ORDER BY r.created_at, r.run_id
          LIMIT 100) batch
        LIMIT $5::bigint - step.counted) b
    ) next
    WHERE step.found = 100::bigint AND step.counted < $5::bigint
  )
  SELECT max(step.counted) FROM step)
FROM pg_catalog.unnest($2::text[]) s (status)

