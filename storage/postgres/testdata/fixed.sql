-- settings
SELECT set_config('lock_timeout', $1, true),
       set_config('statement_timeout', $2, true),
       set_config('idle_in_transaction_session_timeout', $3, true),
       set_config('plan_cache_mode', 'force_generic_plan', true),
       set_config('enable_seqscan', 'off', true),
       set_config('enable_hashjoin', 'off', true),
       set_config('enable_mergejoin', 'off', true),
       set_config('jit', 'off', true),
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
    SELECT pg_catalog.hashtextextended(u.text, 0) AS hash, u.exclusive, u.place
    FROM unnest($1::text[], $2::boolean[]) WITH ORDINALITY AS u(text, exclusive, place)
  ) hashed
  GROUP BY hash
  ORDER BY hash
), tried AS MATERIALIZED (
  SELECT place, CASE WHEN exclusive THEN pg_try_advisory_xact_lock(hash) ELSE pg_try_advisory_xact_lock_shared(hash) END AS taken
  FROM wanted
)
SELECT "runlane"."runlane_assert_record_write"(bool_and(taken), 'busy ' || coalesce(min(place) FILTER (WHERE NOT taken), 0)::text) FROM tried

-- wait for locks
WITH wanted AS MATERIALIZED (
  SELECT hash, bool_or(exclusive) AS exclusive
  FROM (
    SELECT pg_catalog.hashtextextended(u.text, 0) AS hash, u.exclusive
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
SELECT pg_catalog.array_agg(pg_catalog.nextval(E'"runlane"."runlane_record_versions"')), clock_timestamp() FROM generate_series(1, $1::int)

-- clock
SELECT clock_timestamp()

-- notify
SELECT count(pg_notify($1, u.topic)) FROM pg_catalog.unnest($2::text[]) AS u(topic)

-- append
WITH clock AS MATERIALIZED (
  SELECT c.at, to_char((c.at) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') AS text FROM (SELECT clock_timestamp() AS at) c
),
head AS MATERIALIZED (
  SELECT s.*, r.place, r.record_id IS NOT NULL AS present,
    CASE WHEN r.record_id IS NULL THEN 0
         WHEN jsonb_typeof(r.record_document #> ARRAY['value', 'position']) = 'number'
           AND r.record_document #>> ARRAY['value', 'position'] ~ '^(0|[1-9][0-9]{0,18})$'
           AND (r.record_document #>> ARRAY['value', 'position'])::numeric <= (9223372036854775807 - s.items)::numeric
           AND r.record_document::text = pg_catalog.jsonb_build_object('codec', 'observation_head', 'v', 1, 'value', pg_catalog.jsonb_build_object(
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
  SELECT pg_try_advisory_xact_lock(pg_catalog.hashtextextended($11::text || i.head_partition || i.head_id || i.position_key || $12::text, 0)) AS taken
  FROM item i
),
inserted AS (
  INSERT INTO "runlane"."runlane_record_observation_records" (partition_key, record_id, record_version, record_document, observations_by_position_partition, observations_by_position_sort)
  SELECT i.head_partition, i.head_id || i.position_key, i.version,
    pg_catalog.jsonb_build_object('codec', 'observation', 'v', 1, 'value', pg_catalog.jsonb_build_object(
      'environment', i.environment, 'stream', i.stream, 'position', i.position, 'at', clock.text, 'data', i.data::jsonb)),
    i.head_partition || i.head_id, i.position_key
  FROM item i, clock
  WHERE (SELECT bool_and(l.taken) FROM locked l)
  ON CONFLICT (partition_key, record_id) DO NOTHING
  RETURNING 1
),
target AS MATERIALIZED (
  SELECT h.*, pg_catalog.jsonb_build_object('codec', 'observation_head', 'v', 1, 'value', pg_catalog.jsonb_build_object(
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
  "runlane"."runlane_assert_record_write"((SELECT count(*) FROM head u WHERE u.last IS NULL) = 0, 'head ' || (SELECT min(u.number)::text FROM head u WHERE u.last IS NULL)),
  "runlane"."runlane_assert_record_write"((SELECT bool_and(l.taken) FROM locked l), 'busy'),
  "runlane"."runlane_assert_record_write"((SELECT count(*) FROM inserted) = pg_catalog.cardinality($7::bigint[]), 'items'),
  "runlane"."runlane_assert_record_write"((SELECT count(*) FROM moved) + (SELECT count(*) FROM begun) = pg_catalog.cardinality($1::text[]), 'heads')
FROM head h, clock
ORDER BY h.number

-- planner
SELECT set_config('plan_cache_mode', 'force_generic_plan', true),
       set_config('enable_seqscan', 'off', true),
       set_config('enable_hashjoin', 'off', true),
       set_config('enable_mergejoin', 'off', true),
       set_config('jit', 'off', true)

-- try the locks of several commits
WITH asked AS MATERIALIZED (
  SELECT pg_catalog.hashtextextended(u.text, 0) AS hash, u.exclusive, u.member, u.place
  FROM unnest($1::text[], $2::boolean[], $3::int[]) WITH ORDINALITY AS u(text, exclusive, member, place)
), wanted AS MATERIALIZED (
  SELECT hash, bool_or(exclusive) AS exclusive FROM asked GROUP BY hash ORDER BY hash
), tried AS MATERIALIZED (
  SELECT hash, CASE WHEN exclusive THEN pg_try_advisory_xact_lock(hash) ELSE pg_try_advisory_xact_lock_shared(hash) END AS taken
  FROM wanted
), busy AS MATERIALIZED (
  SELECT a.member, min(a.place) AS place FROM asked a JOIN tried t ON t.hash = a.hash WHERE NOT t.taken GROUP BY a.member
)
SELECT pg_catalog.array_agg(b.place ORDER BY b.member) AS places,
  set_config('runlane.busy', coalesce(string_agg(b.member::text, ',' ORDER BY b.member), ''), true) AS busy
FROM busy b

-- notify for several commits
SELECT count(pg_notify($1, u.topic))
FROM (
  SELECT DISTINCT s.topic FROM unnest($2::text[], $3::int[]) AS s(topic, member)
  WHERE s.member <> ALL (string_to_array(current_setting('runlane.refused'), ',')::int[])
) u

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
WITH place AS MATERIALIZED (
  SELECT n.oid FROM pg_namespace n WHERE n.nspname = $1
), relation AS MATERIALIZED (
  SELECT c.oid, c.relname::text AS name, c.relkind = 'S' AS counts FROM pg_class c, place WHERE c.relnamespace = place.oid AND c.relkind IN ('r', 'p', 'S')
), assertion AS MATERIALIZED (
  SELECT p.oid FROM pg_proc p, place WHERE p.pronamespace = place.oid AND p.proname = $4 AND oidvectortypes(p.proargtypes) = 'boolean, text'
)
SELECT current_setting('server_version_num')::int AS server,
       current_setting('server_encoding') AS encoding,
       current_setting('default_transaction_isolation') AS isolation,
       version() AS product,
       current_user::text AS role,
       EXISTS (SELECT FROM place) AS schema_exists,
       EXISTS (SELECT FROM place WHERE has_schema_privilege(place.oid, 'USAGE')) AS schema_usable,
       ARRAY(SELECT u.name FROM pg_catalog.unnest($2::text[]) WITH ORDINALITY AS u(name, place)
             WHERE NOT EXISTS (SELECT FROM relation r WHERE r.name = u.name AND NOT r.counts) ORDER BY u.place) AS tables_missing,
       ARRAY(SELECT string_agg(needed.privilege, ', ' ORDER BY needed.place) || ' on ' || u.name
             FROM pg_catalog.unnest($2::text[]) WITH ORDINALITY AS u(name, place)
             JOIN relation r ON r.name = u.name AND NOT r.counts
             JOIN pg_catalog.unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE']) WITH ORDINALITY AS needed(privilege, place)
               ON NOT has_table_privilege(r.oid, needed.privilege)
             GROUP BY u.name, u.place ORDER BY u.place) AS rights_missing,
       EXISTS (SELECT FROM relation r WHERE r.name = $3 AND r.counts) AS sequence_exists,
       EXISTS (SELECT FROM relation r WHERE r.name = $3 AND r.counts AND has_sequence_privilege(r.oid, 'USAGE, UPDATE')) AS sequence_usable,
       EXISTS (SELECT FROM assertion) AS function_exists,
       EXISTS (SELECT FROM assertion WHERE has_function_privilege(assertion.oid, 'EXECUTE')) AS function_executable,
       clock_timestamp() AS clock,
       current_setting('max_locks_per_transaction')::int
         * (current_setting('max_connections')::int + current_setting('max_prepared_transactions')::int) AS locks

