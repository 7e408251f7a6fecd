-- A page of events for operators. The page is first bounded in the index; then
-- each run is looked up, for visibility and the payload that its Created event may
-- share; then the event itself, only if its run is visible. All in one snapshot.
-- $1 environment, $2 encoded run id ('' is the whole environment), $3 event types (empty is all),
-- $4 and $5 range of occurrence as text, $6 and $7 sort value and record id to continue behind, $8 limit
-- locks: none
-- index: {index}
WITH page AS MATERIALIZED (
  SELECT r.record_id, r.run_id, r.sequence, r.occurred_at
  FROM {events} r
  WHERE r.environment_key = $1 AND {scope} AND r.{key} IS NOT NULL
    AND (pg_catalog.cardinality($3::text[]) = 0 OR r.event_type = ANY ($3::text[]))
    AND r.occurred_at >= $4::text::timestamptz AND r.occurred_at < $5::text::timestamptz
    AND (r.{key}, r.record_id) {beyond} ($6::text::{key_type}, $7::text)
  ORDER BY r.{key} {direction}, r.record_id {direction}
  LIMIT $8
)
SELECT page.record_id, page.sequence, page.occurred_at, event.version, event.document
FROM page
LEFT JOIN LATERAL (
  SELECT true AS visible, p.record_payload FROM {runs} p
  WHERE p.environment_key = $1 AND p.run_id = page.run_id AND p.status IS NOT NULL
  LIMIT 1
) parent ON true
LEFT JOIN LATERAL (
  SELECT e.record_version AS version,
    CASE WHEN NOT e.payload_from_run THEN e.record_document
         ELSE pg_catalog.jsonb_set(e.record_document, ARRAY['value', 'event', 'payload'], parent.record_payload) END AS document
  FROM {events} e
  WHERE parent.visible AND e.environment_key = $1 AND e.record_id = page.record_id
  LIMIT 1
) event ON true
ORDER BY page.{key} {direction}, page.record_id {direction}
