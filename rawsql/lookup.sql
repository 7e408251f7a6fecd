-- One arm of a point read: records of one collection in one environment.
-- $1 environment, $2 ids
-- locks: none
-- index: the primary key
SELECT {ordinal}::int AS collection, r.{partition} AS partition, r.{id} AS id, r.record_version AS version, {document} AS document
FROM {table} r
WHERE r.{partition} = $1 AND r.{id} = ANY ($2::text[])
