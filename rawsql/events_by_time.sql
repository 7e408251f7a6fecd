-- Fragment of list_events.sql: events of an environment in the order of their time.
-- $3 and $4 time as text and record id to continue behind, $5 time as text at which the range ends
-- locks: none
-- index: runlane_run_events_occurred
SELECT r.record_id, r.run_id, r.sequence, r.occurred_at
  FROM {events} r
  WHERE r.environment_key = $1 AND r.occurred_at IS NOT NULL
    AND (r.occurred_at, r.record_id) {beyond} ($3::text::timestamptz, $4::text)
    AND (r.occurred_at, r.record_id) {before} ($5::text::timestamptz, ''::text)
