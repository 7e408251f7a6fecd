-- A page of the latest records of a stream: what an append of unknown outcome left.
-- $1 environment and stream, $2 sort value to go on before, $3 how many
-- locks: none
-- index: runlane_observations_by_position
SELECT r.record_version AS version, r.{sort} AS sort, r.record_document #>> ARRAY['value', 'at'] AS at
FROM {records} r
WHERE r.{index_partition} = $1 AND r.{sort} < $2::text
ORDER BY r.{sort} DESC, r.record_id DESC
LIMIT $3
