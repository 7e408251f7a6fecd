-- One group of a commit, before the run's payload changes or the run is deleted:
-- the Created events that share the payload get a copy of their own. The logical
-- events do not change, so their versions stay. Events that the same commit writes
-- are left out: PostgreSQL applies only one of two changes of a row in one statement.
-- $1 environment, $2 encoded run ids, $3 ids of events that the commit writes itself
-- locks: the rows; the private run/sequence keys were locked by an earlier statement
-- index: runlane_run_events_native
{group} AS (
  UPDATE {table} r
  SET payload_from_run = false, record_document = jsonb_set(r.record_document, ARRAY['value', 'event', 'payload'], p.record_payload)
  FROM {runs} p
  WHERE p.environment_key = $1 AND p.run_id = ANY ($2::text[])
    AND r.environment_key = $1 AND r.run_id = p.run_id AND r.sequence = 1 AND r.sequence_index_native AND r.payload_from_run
    AND r.record_id <> ALL ($3::text[]) AND {after}
  RETURNING 1
)
