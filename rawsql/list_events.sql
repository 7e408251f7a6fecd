-- A page of events for operators. The page is first bounded in the index; then
-- each run is looked up, for visibility and the payload that its Created event may
-- share; then the event itself, only if its run is visible. All in one snapshot.
-- A limit that is a parameter could be any to the server, so it plans for {most}: the size
-- of most pages, or of the largest.
-- $1 environment, $2 limit; {page} is one of the fragments events_of_run, events_by_time, or
-- events_by_type once for each type, and has the parameters from $3 on
-- locks: none
-- index: that of the fragment, then the primary keys
WITH page AS MATERIALIZED (
  SELECT most.record_id, most.run_id, most.sequence, most.occurred_at
  FROM (
  {page}
  ORDER BY {key} {direction}, record_id {direction}
  LIMIT {most}) most
  LIMIT $2
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
