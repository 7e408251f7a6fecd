-- settings
SELECT set_config('lock_timeout', $1, true),
       set_config('statement_timeout', $2, true),
       set_config('idle_in_transaction_session_timeout', $3, true),
       set_config('tcp_keepalives_idle', '5', true),
       set_config('tcp_keepalives_interval', '5', true),
       set_config('tcp_keepalives_count', '3', true),
       "runlane"."runlane_assert_record_write"(current_setting('transaction_isolation') = 'read committed', 'isolation')

-- settings of a joined transaction
SELECT set_config('lock_timeout', $1, true),
       "runlane"."runlane_assert_record_write"(current_setting('transaction_isolation') = 'read committed', 'isolation')

-- try locks
WITH wanted AS MATERIALIZED (
  SELECT hash, bool_or(exclusive) AS exclusive, min(place) AS place
  FROM (
    SELECT hashtextextended(u.text, 0) AS hash, u.exclusive, u.place
    FROM unnest($1::text[], $2::boolean[]) WITH ORDINALITY AS u(text, exclusive, place)
  ) hashed
  GROUP BY hash
  ORDER BY hash
), tried AS MATERIALIZED (
  SELECT place, CASE WHEN exclusive THEN pg_try_advisory_xact_lock(hash) ELSE pg_try_advisory_xact_lock_shared(hash) END AS taken
  FROM wanted
)
SELECT "runlane"."runlane_assert_record_write"(bool_and(taken), 'busy ' || coalesce(min(place) FILTER (WHERE NOT taken), 0)) FROM tried

-- wait for locks
WITH wanted AS MATERIALIZED (
  SELECT hash, bool_or(exclusive) AS exclusive
  FROM (
    SELECT hashtextextended(u.text, 0) AS hash, u.exclusive
    FROM unnest($1::text[], $2::boolean[]) AS u(text, exclusive)
  ) hashed
  GROUP BY hash
  ORDER BY hash
), taken AS MATERIALIZED (
  SELECT CASE WHEN exclusive THEN pg_advisory_xact_lock(hash) ELSE pg_advisory_xact_lock_shared(hash) END
  FROM wanted
)
SELECT count(*) FROM taken

-- draw versions
SELECT array_agg(nextval('"runlane"."runlane_record_versions"')), clock_timestamp() FROM generate_series(1, $1::int)

-- clock
SELECT clock_timestamp()

-- notify
SELECT count(pg_notify($1, u.topic)) FROM unnest($2::text[]) AS u(topic)

-- append
WITH clock AS MATERIALIZED (
  SELECT c.at, to_char((c.at) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') AS text FROM (SELECT clock_timestamp() AS at) c
),
head AS MATERIALIZED (
  SELECT s.*, r.place, r.record_id IS NOT NULL AS present,
    CASE WHEN r.record_id IS NULL THEN 0
         WHEN jsonb_typeof(r.record_document #> ARRAY['value', 'position']) = 'number'
           AND r.record_document #>> ARRAY['value', 'position'] ~ '^(0|[1-9][0-9]{0,18})$'
           AND (r.record_document #>> ARRAY['value', 'position'])::numeric <= 9223372036854775807 - s.items
           AND r.record_document::text = jsonb_build_object('codec', 'observation_head', 'v', 1, 'value', jsonb_build_object(
             'environment', s.environment, 'stream', s.stream, 'position', r.record_document #> ARRAY['value', 'position']))::text
         THEN (r.record_document #>> ARRAY['value', 'position'])::bigint END AS last
  FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::bigint[], $6::bigint[]) WITH ORDINALITY
    AS s(head_partition, id, environment, stream, version, items, number)
  LEFT JOIN LATERAL (
    SELECT h.ctid AS place, h.record_id, h.record_document FROM "runlane"."runlane_record_observation_heads" h WHERE h.partition_key = s.head_partition AND h.record_id = s.id LIMIT 1
  ) r ON true
),
item AS MATERIALIZED (
  SELECT h.head_partition, h.id AS head_id, h.environment, h.stream, h.last + i.place AS position, ('#' || lpad(to_hex((h.last + i.place)::bigint # '-9223372036854775808'::bigint), 16, '0')) AS position_key, i.version, i.data
  FROM unnest($7::bigint[], $8::bigint[], $9::bigint[], $10::text[]) AS i(number, place, version, data)
  JOIN head h ON h.number = i.number AND h.last IS NOT NULL
),
locked AS MATERIALIZED (
  SELECT pg_try_advisory_xact_lock(hashtextextended($11::text || i.head_partition || i.head_id || i.position_key || $12::text, 0)) AS taken
  FROM item i
),
inserted AS (
  INSERT INTO "runlane"."runlane_record_observation_records" (partition_key, record_id, record_version, record_document, observations_by_position_partition, observations_by_position_sort)
  SELECT i.head_partition, i.head_id || i.position_key, i.version,
    jsonb_build_object('codec', 'observation', 'v', 1, 'value', jsonb_build_object(
      'environment', i.environment, 'stream', i.stream, 'position', i.position, 'at', clock.text, 'data', i.data::jsonb)),
    i.head_partition || i.head_id, i.position_key
  FROM item i, clock
  WHERE (SELECT bool_and(l.taken) FROM locked l)
  ON CONFLICT (partition_key, record_id) DO NOTHING
  RETURNING 1
),
target AS MATERIALIZED (
  SELECT h.*, jsonb_build_object('codec', 'observation_head', 'v', 1, 'value', jsonb_build_object(
    'environment', h.environment, 'stream', h.stream, 'position', h.last + h.items)) AS document
  FROM head h
  WHERE h.last IS NOT NULL
),
moved AS (
  UPDATE "runlane"."runlane_record_observation_heads" r SET record_version = t.version, record_document = t.document
  FROM target t
  WHERE t.present AND r.ctid = t.place
  RETURNING 1
),
begun AS (
  INSERT INTO "runlane"."runlane_record_observation_heads" (partition_key, record_id, record_version, record_document)
  SELECT t.head_partition, t.id, t.version, t.document FROM target t WHERE NOT t.present
  ON CONFLICT (partition_key, record_id) DO NOTHING
  RETURNING 1
)
SELECT clock.at, h.last + 1 AS first,
  "runlane"."runlane_assert_record_write"(clock.at < $13::text::timestamptz, 'deadline'),
  "runlane"."runlane_assert_record_write"((SELECT count(*) FROM head u WHERE u.last IS NULL) = 0, 'head ' || (SELECT min(u.number) FROM head u WHERE u.last IS NULL)),
  "runlane"."runlane_assert_record_write"((SELECT bool_and(l.taken) FROM locked l), 'busy'),
  "runlane"."runlane_assert_record_write"((SELECT count(*) FROM inserted) = cardinality($7::bigint[]), 'items'),
  "runlane"."runlane_assert_record_write"((SELECT count(*) FROM moved) + (SELECT count(*) FROM begun) = cardinality($1::text[]), 'heads')
FROM head h, clock
ORDER BY h.number

-- what was appended
SELECT r.record_version AS version, r.observations_by_position_sort AS sort, r.record_document #>> ARRAY['value', 'at'] AS at
FROM "runlane"."runlane_record_observation_records" r
WHERE r.observations_by_position_partition = $1 AND r.observations_by_position_sort < $2::text
ORDER BY r.observations_by_position_sort DESC, r.record_id DESC
LIMIT $3

-- has the commit ended
WITH process AS MATERIALIZED (
  SELECT a.pid, a.usename, a.backend_start FROM pg_catalog.pg_stat_activity a WHERE a.pid = $2::bigint AND pg_backend_pid() = $3::bigint
)
SELECT clock_timestamp() > $1::text::timestamptz OR (pg_backend_pid() = $3::bigint AND NOT EXISTS (SELECT FROM process)) AS ended,
  (SELECT bool_and(pg_terminate_backend(p.pid)) FROM process p WHERE p.usename = current_user AND p.backend_start < $4::text::timestamptz) AS told

-- check
SELECT current_setting('server_version_num')::int AS server,
       current_setting('server_encoding') AS encoding,
       current_setting('default_transaction_isolation') AS isolation,
       version() AS product,
       coalesce(has_schema_privilege(to_regnamespace(quote_ident($1)), 'USAGE'), false) AS schema_usable,
       to_regnamespace(quote_ident($1)) IS NOT NULL AS schema_exists,
       to_regclass($4) IS NOT NULL AS tables_exist,
       coalesce(has_table_privilege(to_regclass($4), 'SELECT, INSERT, UPDATE, DELETE'), false)
         AND coalesce(has_table_privilege(to_regclass($5), 'SELECT, INSERT, UPDATE, DELETE'), false) AS tables_writable,
       to_regproc($2) IS NOT NULL AS function_exists,
       coalesce(has_function_privilege(to_regproc($2)::oid, 'EXECUTE'), false) AS function_executable,
       coalesce(has_sequence_privilege(to_regclass($3), 'USAGE'), false) AS sequence_usable,
       clock_timestamp() AS clock,
       current_setting('max_locks_per_transaction')::int * (current_setting('max_connections')::int + current_setting('max_prepared_transactions')::int) AS locks

