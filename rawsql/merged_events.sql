-- Fragment: the keys of a page of a run's history, from both paths.
-- parameters: those of query_events.sql
-- locks: none
-- index: runlane_run_events_native and {index}
merged AS MATERIALIZED (
  SELECT both_paths.id, both_paths.sort FROM (
    (SELECT r.record_id AS id, {native_sort} AS sort
     FROM {table} r
     WHERE r.environment_key = $2 AND r.run_id = $8 AND r.sequence_index_native
       AND r.sequence >= $9::bigint AND r.sequence < $10::bigint
       AND (r.sequence, r.record_id) {beyond} ($11::bigint, $12::text)
     ORDER BY r.sequence {direction}, r.record_id {direction}
     LIMIT $7)
    UNION ALL
    (SELECT r.record_id AS id, r.{sort} AS sort
     FROM {table} r
     WHERE r.{index_partition} = $1 AND r.environment_key = $2
       AND r.{sort} >= (SELECT coalesce($3::text, {just_after_now}) FROM clock)
       AND r.{sort} < (SELECT coalesce($4::text, {just_after_now}) FROM clock)
       AND (r.{sort}, r.record_id) {beyond} ($5::text, $6::text)
     ORDER BY r.{sort} {direction}, r.record_id {direction}
     LIMIT $7)
  ) both_paths
  ORDER BY both_paths.sort {direction}, both_paths.id {direction}
  LIMIT $7
)
