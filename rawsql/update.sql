-- One group of a commit: new documents and entries for records of one collection in one environment.
-- $1 environment, $2 ids, $3 versions, $4 documents, $5 microseconds after the commit, $6 fences, then the index pairs
-- locks: the rows
-- index: the primary key
{group}_rows AS MATERIALIZED (
  SELECT u.*, {filled} AS document
  FROM clock, unnest($2::text[], $3::bigint[], $4::text[], $5::bigint[], $6::bigint[]{arrays}) AS u(id, version, document_text, later, fence{names})
),
{group} AS (
  UPDATE {table} r
  SET record_version = u.version, record_document = u.document{assignments}
  FROM {group}_rows u, clock
  WHERE r.{partition} = $1 AND r.{id} = u.id AND r.record_version = u.fence AND {after}
  RETURNING 1
)
