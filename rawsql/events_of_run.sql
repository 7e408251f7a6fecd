-- Fragment of list_events.sql: events of one run, in the order of their sequence or of
-- their time. Times are compared as rows: single values would let the server walk
-- through the times of the whole environment instead.
-- $3 encoded run id, $4 event types (empty is all), $5 and $6 range of occurrence as text,
-- $7 and $8 sort value as text and record id to continue behind
-- locks: none
-- index: runlane_run_events_native
SELECT r.record_id, r.run_id, r.sequence, r.occurred_at
  FROM {events} r
  WHERE r.environment_key = $1 AND r.run_id = $3 AND r.sequence_index_native
    AND (pg_catalog.cardinality($4::text[]) = 0 OR r.event_type = ANY ($4::text[]))
    AND (r.occurred_at, r.record_id) > ($5::text::timestamptz, ''::text) AND (r.occurred_at, r.record_id) < ($6::text::timestamptz, ''::text)
    AND (r.{key}, r.record_id) {beyond} ($7::text::{key_type}, $8::text)
