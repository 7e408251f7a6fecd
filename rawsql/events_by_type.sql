-- Fragment of list_events.sql: events of an environment with one type, in the order of
-- their time. Each type has its order and limit, so that the server merges several
-- and reads one row of each more than it returns. Times are compared as rows: single
-- values would let the server look for a rare type among all events.
-- $3 and $4 time as text and record id to continue behind, $5 time as text at which the range ends,
-- $6 types, of which this is number {number}
-- locks: none
-- index: runlane_run_events_type
SELECT t.record_id, t.run_id, t.sequence, t.occurred_at
  FROM (
    SELECT r.record_id, r.run_id, r.sequence, r.occurred_at
    FROM {events} r
    WHERE r.environment_key = $1 AND r.event_type = ($6::text[])[{number}]
      AND (r.occurred_at, r.record_id) {beyond} ($3::text::timestamptz, $4::text)
      AND (r.occurred_at, r.record_id) {before} ($5::text::timestamptz, ''::text)
    ORDER BY r.occurred_at {direction}, r.record_id {direction}
    LIMIT {most}) t
