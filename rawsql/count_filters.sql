-- Fragment: what counted runs must fulfil beside their status and creation time.
-- $1 tasks, $2 queues, $3 source types (empty is all), $4 source run, $5 schedule, $6 idempotency key,
-- $7 singleton key, $8 concurrency key ('' is all), and three ranges as text, which a run without that time is
-- in if the first of the three parameters says so: $9 to $11 updated, $12 to $14 due, $15 to $17 lease expiry
-- locks: none
-- index: none
(pg_catalog.cardinality($1::text[]) = 0 OR r.task = ANY ($1::text[]))
      AND (pg_catalog.cardinality($2::text[]) = 0 OR r.queue = ANY ($2::text[]))
      AND (pg_catalog.cardinality($3::text[]) = 0 OR r.source_type = ANY ($3::text[]))
      AND ($4::text = '' OR r.source_run_id = $4::text)
      AND ($5::text = '' OR r.schedule_id = $5::text)
      AND ($6::text = '' OR r.idempotency_key = $6::text)
      AND ($7::text = '' OR r.singleton_key = $7::text)
      AND ($8::text = '' OR r.concurrency_key = $8::text)
      AND ($9::boolean OR r.updated_at >= $10::text::timestamptz AND r.updated_at < $11::text::timestamptz)
      AND ($12::boolean OR r.due_at >= $13::text::timestamptz AND r.due_at < $14::text::timestamptz)
      AND ($15::boolean OR r.lease_expires_at >= $16::text::timestamptz AND r.lease_expires_at < $17::text::timestamptz)
