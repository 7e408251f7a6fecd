-- Appends items to streams: allocates their positions and moves the heads. The
-- heads were locked by an earlier statement, so what this one reads of them is the
-- latest. The keys that it generates are locked by trying: another transaction may
-- depend on their absence.
-- for each stream: $1 environments and $2 ids of the heads, $3 environments and $4 streams in words, $5 versions of the heads, $6 numbers of items
-- for each item: $7 which stream, $8 its place there, both from 1, $9 versions, $10 data
-- $11 and $12 lock text before and behind a record's key, $13 the deadline
-- locks: the advisory locks of the generated keys, the rows
-- index: the primary keys
--
-- A head counts only if it is spelt exactly as this statement spells it.
WITH clock AS MATERIALIZED (
  SELECT c.at, {time_text} AS text FROM (SELECT clock_timestamp() AS at) c
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
    SELECT h.ctid AS place, h.record_id, h.record_document FROM {heads} h WHERE h.partition_key = s.head_partition AND h.record_id = s.id LIMIT 1
  ) r ON true
),
item AS MATERIALIZED (
  SELECT h.head_partition, h.id AS head_id, h.environment, h.stream, h.last + i.place AS position, {position_key} AS position_key, i.version, i.data
  FROM unnest($7::bigint[], $8::bigint[], $9::bigint[], $10::text[]) AS i(number, place, version, data)
  JOIN head h ON h.number = i.number AND h.last IS NOT NULL
),
locked AS MATERIALIZED (
  SELECT pg_try_advisory_xact_lock(pg_catalog.hashtextextended($11::text || i.head_partition || i.head_id || i.position_key || $12::text, 0)) AS taken
  FROM item i
),
inserted AS (
  INSERT INTO {records} (partition_key, record_id, record_version, record_document, {index_partition}, {sort})
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
  UPDATE {heads} r SET record_version = t.version, record_document = t.document
  FROM target t
  WHERE t.present AND r.ctid = t.place
  RETURNING 1
),
begun AS (
  INSERT INTO {heads} (partition_key, record_id, record_version, record_document)
  SELECT t.head_partition, t.id, t.version, t.document FROM target t WHERE NOT t.present
  ON CONFLICT (partition_key, record_id) DO NOTHING
  RETURNING 1
)
SELECT clock.at, h.last + 1 AS first,
  {assert}(clock.at < $13::text::timestamptz, 'deadline'),
  {assert}((SELECT count(*) FROM head u WHERE u.last IS NULL) = 0, 'head ' || (SELECT min(u.number)::text FROM head u WHERE u.last IS NULL)),
  {assert}((SELECT bool_and(l.taken) FROM locked l), 'busy'),
  {assert}((SELECT count(*) FROM inserted) = pg_catalog.cardinality($7::bigint[]), 'items'),
  {assert}((SELECT count(*) FROM moved) + (SELECT count(*) FROM begun) = pg_catalog.cardinality($1::text[]), 'heads')
FROM head h, clock
ORDER BY h.number
