-- One group of a commit, before the run's payload changes or the run is deleted:
-- the Created events that share the payload get a copy of their own. The logical
-- events do not change, so their versions stay. Events that the same commit writes
-- are left out: PostgreSQL applies only one of two changes of a row in one statement.
-- $1 environment, $2 encoded run ids, $3 ids of events that the commit writes itself
-- locks: the rows; the private run/sequence keys were locked by an earlier statement
-- index: runlane_run_events_native
{group}_found AS MATERIALIZED (
  SELECT event.place, p.record_payload
  FROM pg_catalog.unnest($2::text[]) AS u(id)
  CROSS JOIN LATERAL (SELECT r.record_payload FROM {runs} r WHERE r.environment_key = $1 AND r.run_id = u.id LIMIT 1) p
  CROSS JOIN LATERAL (
    SELECT r.ctid AS place FROM {table} r
    WHERE r.environment_key = $1 AND r.run_id = u.id AND r.sequence = 1 AND r.sequence_index_native AND r.payload_from_run
      AND r.record_id <> ALL ($3::text[])
    OFFSET 0
  ) event
),
{group} AS (
  UPDATE {table} r
  SET payload_from_run = false, record_document = pg_catalog.jsonb_set(r.record_document, ARRAY['value', 'event', 'payload'], u.record_payload)
  FROM {group}_found u
  WHERE r.ctid = u.place AND {after}
  RETURNING 1
)
